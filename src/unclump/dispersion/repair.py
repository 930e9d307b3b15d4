r"""Repair of clumps: rows that are the same, or nearly so, come apart, and no other row changes by a bit."""

import math
from dataclasses import dataclass
from typing import Generic

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump._arrays import Table, as_tensor, like
from unclump._checks import check_generator, check_number, check_positive, check_table
from unclump.dispersion.directed import DirectedRows
from unclump.dispersion.moves import Rows, bring_back, moving_rows, settle
from unclump.geometry.sphere import angle, exp, tangent
from unclump.geometry.uniform_law import duplicate_angle
from unclump.measures.rows import directions
from unclump.ops.nearest import nearest
from unclump.ops.project import project

_BLOCK = 512, 8192  # rows and columns of the largest matrix of distances
_ROUNDS = 300
_BEYOND = 1.05  # rows are pushed a little farther apart than asked, so that the rounds come to an end


@dataclass(frozen=True, eq=False)
class Separated(Generic[Table]):
    """What `separate_duplicates` returns."""

    points: Table
    """The table; rows that were in no clump are the same to the bit."""
    rows: Int[Tensor, " m"]
    """The numbers of the rows that moved, ascending."""
    within: float
    """The angle, in radians, up to which rows were taken for duplicates."""


def separate_duplicates(
    x: Table,
    *,
    within: float | None = None,
    frozen: Rows | None = None,
    max_move: float | None = None,
    generator: torch.Generator | None = None,
) -> Separated[Table]:
    r"""Separate rows that are equal or nearly equal, from each other and from all other rows.

    A row is clumped where another lies within the angle `within`. Clumped rows are pushed away from all rows that are
    nearer than twice that angle, along the great circles between them, round after round, until none is; all others
    stay. Exact duplicates have no such circle: they set out in random directions.

    Args:
        x: Points of shape (n, d), a tensor or a NumPy array of any floating-point dtype, rows of any norm. Rows of
            zeros, as padding is, stay as they are, and are listed in a warning.
        within: The angle in radians up to which two rows count as duplicates; 0 is exact duplicates of direction. None
            is `duplicate_angle(n, d)`, which uniform points do not come near to.
        frozen: A mask of shape (n,), or row numbers, that stay even where they are clumped.
        max_move: An angle in radians that no row moves beyond.
        generator: For the random directions.

    Returns:
        The table in its kind and dtype, every row with the norm it had, and the numbers of the rows that moved. After
        rounding to this dtype no row that moved has another within `within`.

    Raises:
        ValueError: There is no room to part them: the angle is too large for so many rows in so few dimensions, for
            `max_move`, or too small for the dtype to tell.

    Example:
        >>> table = torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
        >>> found = separate_duplicates(table, generator=torch.Generator().manual_seed(0))
        >>> found.rows, found.points[2]
        (tensor([0, 1]), tensor([0., 2., 0.]))
        >>> math.degrees(uc.min_angle(found.points)) > 2
        True
    """
    whole = as_tensor(x)
    check_table(whole, at_least=2)
    directed = DirectedRows(whole)
    given = directed.rows
    start = directions(given)
    n, d = start.shape
    usual = max(duplicate_angle(n, d), 4 * torch.finfo(given.dtype).eps)  # on the circle it may be below rounding
    within = usual if within is None else within
    _check_choices(within, max_move, generator)
    moving = moving_rows(frozen, whole)
    if moving is not None:
        moving = directed.of(moving)
    clumped = angle(start, start[nearest(start)[0][:, 0]]) <= within
    rows = (clumped if moving is None else clumped & moving).nonzero()[:, 0]
    points = given.clone(memory_format=torch.contiguous_format)
    if len(rows) > 0:
        wanted = 2 * max(within, usual)
        parted = _part(start, rows, wanted, max_move, generator)
        points[rows] = settle(parted, given[rows], keep_norms=True, max_move=max_move)
        _check_parted(points, rows, within, wanted)
    return Separated(like(directed.put_back(points), x), directed.numbers(rows), within)


def _part(
    start: Float[Tensor, "n d"],
    rows: Int[Tensor, " m"],
    apart: float,
    max_move: float | None,
    generator: torch.Generator | None,
) -> Float[Tensor, "m d"]:
    """The directions of the rows when each is `apart` from all others, or when the rounds are over."""
    table = start.clone()
    shake = torch.randn(len(rows), start.shape[1], generator=generator, dtype=torch.float64).to(start.device)
    table[rows] = exp(start[rows], apart / 100 * project(tangent(start[rows], shake)))
    free = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    free[rows] = True
    looked, others = start[rows], _others(start, rows, free, 2 * apart)
    for _ in range(_ROUNDS):
        if angle(looked, table[rows]).max() > apart:  # as far as the list of others can be trusted
            looked, others = table[rows], _others(table, rows, free, 2 * apart)
        pushes, nearest_chord = _pushes(table, rows, torch.cat([rows, others]), _BEYOND * apart)
        if nearest_chord >= 2 * math.sin(min(apart, math.pi) / 2):
            break
        table[rows] = project(table[rows] + pushes)
        if max_move is not None:
            bring_back(table, start, rows, max_move)
    return table[rows]


def _others(
    table: Float[Tensor, "n d"], rows: Int[Tensor, " m"], free: Bool[Tensor, " n"], radius: float
) -> Int[Tensor, " k"]:
    """The rows that stay, and are within this angle of any that moves."""
    staying = (~free).nonzero()[:, 0]
    close = []
    for some in torch.split(staying, _BLOCK[1]):
        largest = torch.stack([(table[some] @ table[own].mT).amax(dim=1) for own in torch.split(rows, _BLOCK[0])])
        close.append(some[largest.amax(dim=0) > math.cos(min(radius, math.pi))])
    return torch.cat(close) if close else staying


def _pushes(
    table: Float[Tensor, "n d"], rows: Int[Tensor, " m"], others: Int[Tensor, " k"], apart: float
) -> tuple[Float[Tensor, "m d"], float]:
    """How far each row should go, by the mean over all that are too near; and the smallest chord to any of them.

    A pair that both move shares the way; from a row that stays the other goes all of it. The rows that move come first
    among the others, in their order.
    """
    pushes, smallest = torch.zeros_like(table[rows]), math.inf
    wanted = 2 * math.sin(min(apart, math.pi) / 2)
    for first in range(0, len(rows), _BLOCK[0]):
        own = slice(first, first + _BLOCK[0])
        here = table[rows[own]]
        near = here.new_zeros(len(here), 1)
        for begin in range(0, len(others), _BLOCK[1]):
            columns = torch.arange(begin, min(begin + _BLOCK[1], len(others)), device=rows.device)
            there = table[others[columns]]
            chords = torch.cdist(here, there, compute_mode="donot_use_mm_for_euclid_dist")
            chords[rows[own].unsqueeze(1) == others[columns]] = math.inf
            smallest = min(smallest, chords.min().item())
            if smallest < wanted:
                share = torch.where(columns < len(rows), 0.5, 1.0)
                lack = share * torch.where((chords > 0) & (chords < wanted), wanted / chords - 1, 0)
                pushes[own] += lack.sum(dim=1, keepdim=True) * here - lack @ there
                near += (lack > 0).sum(dim=1, keepdim=True)
        pushes[own] /= near.clamp_min(1)
    return pushes, smallest


def _check_parted(points: Tensor, rows: Tensor, within: float, apart: float) -> None:
    """Refuse a result, as rounded, in which clumped rows are still clumped."""
    table = directions(points)
    free = torch.zeros(len(table), dtype=torch.bool, device=table.device)
    free[rows] = True
    candidates = torch.cat([rows, _others(table, rows, free, 2 * apart)])
    if len(candidates) == 1:  # alone by now
        return
    around = table[candidates]
    near = angle(around, around[nearest(around)[0][:, 0]])[: len(rows)]
    left = int((near <= within).sum())
    if left:
        raise ValueError(
            f"expected room to part {len(rows)} rows by more than {math.degrees(within):.3g} degrees, got {left} that "
            f"are still nearer in {str(points.dtype).removeprefix('torch.')}; choose another angle or larger moves"
        )


def _check_choices(within: float, max_move: float | None, generator: torch.Generator | None) -> None:
    check_number("within", within)
    if not 0 <= within < math.pi:
        raise ValueError(f"expected within from 0 to below pi radians, got {within!r}")
    if max_move is not None:
        check_positive("max_move", max_move)
    check_generator(generator)
