r"""Repair of clumps: separate rows that are equal or nearly equal, and leave all others bitwise unchanged."""

import math
from dataclasses import dataclass
from typing import Generic

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump._arrays import Table, as_tensor, as_type_of
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
_MARGIN = 1.05  # rows are pushed slightly farther apart than required, so that the rounds terminate


@dataclass(frozen=True, eq=False, repr=False)
class Separated(Generic[Table]):
    """The result of `separate_duplicates`."""

    points: Table
    """The table; rows that were not in a clump are bitwise unchanged."""
    rows: Int[Tensor, " m"]
    """The numbers of the rows that moved, ascending."""
    within: float
    """The angle, in radians, up to which rows counted as duplicates."""

    def __repr__(self) -> str:
        n, d = self.points.shape
        return f"Separated({n} x {d}; {len(self.rows)} rows had another within {math.degrees(self.within):.4g} degrees)"


def separate_duplicates(
    x: Table,
    *,
    within: float | None = None,
    frozen: Rows | None = None,
    max_move: float | None = None,
    generator: torch.Generator | None = None,
) -> Separated[Table]:
    r"""Separate rows that are equal or nearly equal, from each other and from all other rows.

    A row is clumped if another lies within the angle `within`. Clumped rows are repeatedly pushed away from all rows
    that are nearer than twice that angle, along the great circles between them, until there are none; all other rows
    stay. Exact duplicates have no such circle: they start in random directions.

    Args:
        x: Points of shape (n, d), a tensor or a NumPy array of any floating-point dtype, with rows of any norm. Rows of
            zeros, such as padding, are left unchanged, and a warning lists them.
        within: The angle in radians up to which two rows count as duplicates; 0 for rows of exactly the same direction.
            None is `duplicate_angle(n, d)`, far less than the angles between uniform points.
        frozen: A mask of shape (n,), or row numbers, of rows that stay even if they are clumped.
        max_move: The largest angle, in radians, by which a row may move.
        generator: Draws the random directions.

    Returns:
        The table, with its type, dtype and the norm of every row, and the numbers of the rows that moved. After
        rounding to this dtype, no row that moved has another within `within`.

    Raises:
        ValueError: There is no room to separate them: the angle is too large for the number of rows and dimensions or
            for `max_move`, or too small for the precision of the dtype.

    Example:
        >>> table = torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
        >>> separated = separate_duplicates(table, generator=torch.Generator().manual_seed(0))
        >>> separated.rows, separated.points[2]
        (tensor([0, 1]), tensor([0., 2., 0.]))
        >>> math.degrees(uc.min_angle(separated.points)) > 2
        True
    """
    whole = as_tensor(x)
    check_table(whole, at_least=2)
    directed = DirectedRows(whole)
    original = directed.rows
    start = directions(original)
    n, d = start.shape
    # On the circle, `duplicate_angle` may be less than a rounding error.
    default_within = max(duplicate_angle(n, d), 4 * torch.finfo(original.dtype).eps)
    within = default_within if within is None else within
    _check_choices(within, max_move, generator)
    moving = moving_rows(frozen, whole)
    if moving is not None:
        moving = directed.of(moving)
    clumped = angle(start, start[nearest(start)[0][:, 0]]) <= within
    rows = (clumped if moving is None else clumped & moving).nonzero()[:, 0]
    points = original.clone(memory_format=torch.contiguous_format)
    if len(rows) > 0:
        apart = 2 * max(within, default_within)
        separated = _separate(start, rows, apart, max_move, generator)
        points[rows] = settle(separated, original[rows], keep_norms=True, max_move=max_move)
        _check_separated(points, rows, within, apart)
    return Separated(as_type_of(directed.put_back(points), x), directed.numbers(rows), within)


def _separate(
    start: Float[Tensor, "n d"],
    rows: Int[Tensor, " m"],
    apart: float,
    max_move: float | None,
    generator: torch.Generator | None,
) -> Float[Tensor, "m d"]:
    """Push the rows until each is `apart` from all others, or for at most `_ROUNDS` rounds; return their directions."""
    table = start.clone()
    shake = torch.randn(len(rows), start.shape[1], generator=generator, dtype=torch.float64).to(start.device)
    table[rows] = exp(start[rows], apart / 100 * project(tangent(start[rows], shake)))
    free = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    free[rows] = True
    neighbours_at, others = start[rows], _fixed_rows_nearby(start, rows, free, 2 * apart)
    for _ in range(_ROUNDS):
        if angle(neighbours_at, table[rows]).max() > apart:  # beyond this the list of others may be incomplete
            neighbours_at, others = table[rows], _fixed_rows_nearby(table, rows, free, 2 * apart)
        pushes, nearest_chord = _displacements(table, rows, torch.cat([rows, others]), _MARGIN * apart)
        if nearest_chord >= 2 * math.sin(min(apart, math.pi) / 2):
            break
        table[rows] = project(table[rows] + pushes)
        if max_move is not None:
            bring_back(table, start, rows, max_move)
    return table[rows]


def _fixed_rows_nearby(
    table: Float[Tensor, "n d"], rows: Int[Tensor, " m"], free: Bool[Tensor, " n"], radius: float
) -> Int[Tensor, " k"]:
    """The fixed rows within this angle of any row that moves."""
    staying = (~free).nonzero()[:, 0]
    close = []
    for some in torch.split(staying, _BLOCK[1]):
        largest = torch.stack([(table[some] @ table[own].mT).amax(dim=1) for own in torch.split(rows, _BLOCK[0])])
        close.append(some[largest.amax(dim=0) > math.cos(min(radius, math.pi))])
    return torch.cat(close) if close else staying


def _displacements(
    table: Float[Tensor, "n d"], rows: Int[Tensor, " m"], others: Int[Tensor, " k"], apart: float
) -> tuple[Float[Tensor, "m d"], float]:
    """The displacement of each row, averaged over all rows that are too near; and the smallest chord to any of them.

    If both rows of a pair move, each covers half the distance; if one is fixed, the other covers all of it. `others`
    begins with the rows that move, in order.
    """
    pushes, smallest = torch.zeros_like(table[rows]), math.inf
    target_chord = 2 * math.sin(min(apart, math.pi) / 2)
    for first in range(0, len(rows), _BLOCK[0]):
        own = slice(first, first + _BLOCK[0])
        own_points = table[rows[own]]
        near = own_points.new_zeros(len(own_points), 1)
        for begin in range(0, len(others), _BLOCK[1]):
            columns = torch.arange(begin, min(begin + _BLOCK[1], len(others)), device=rows.device)
            other_points = table[others[columns]]
            chords = torch.cdist(own_points, other_points, compute_mode="donot_use_mm_for_euclid_dist")
            chords[rows[own].unsqueeze(1) == others[columns]] = math.inf
            smallest = min(smallest, chords.min().item())
            if smallest < target_chord:
                share = torch.where(columns < len(rows), 0.5, 1.0)
                missing = share * torch.where((chords > 0) & (chords < target_chord), target_chord / chords - 1, 0)
                pushes[own] += missing.sum(dim=1, keepdim=True) * own_points - missing @ other_points
                near += (missing > 0).sum(dim=1, keepdim=True)
        pushes[own] /= near.clamp_min(1)
    return pushes, smallest


def _check_separated(points: Tensor, rows: Tensor, within: float, apart: float) -> None:
    """Raise if rows are still clumped after rounding."""
    table = directions(points)
    free = torch.zeros(len(table), dtype=torch.bool, device=table.device)
    free[rows] = True
    candidates = torch.cat([rows, _fixed_rows_nearby(table, rows, free, 2 * apart)])
    if len(candidates) == 1:  # no other row is nearby
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
