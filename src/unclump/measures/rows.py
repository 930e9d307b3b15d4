"""Tables that are read: looked at for rows without a direction, projected, and summed over pairs."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_rows, check_table
from unclump._precision import widen
from unclump.distributed.ranks import Alone, Gather, Ranks, check_gather, rows_here
from unclump.ops.blocks import upper_triangle
from unclump.ops.project import project

# Entries of a block that is projected at a time: whole tables of temporaries would take longer to get than to fill.
_BLOCK = 2**18
BLOCK = 512  # rows and columns of a block of pairs in double precision
_NEAR = 1e-6  # squared chords from a matrix product are off by 1e-15


def directions(x: Tensor, *, at_least: int = 2) -> Tensor:
    """The door: points of any norm but zero, as double-precision points on the sphere."""
    check_table(x, at_least=at_least)
    check_rows(x)
    x = x.detach()
    if x.device.type != "cpu":
        return project(widen(x))
    unit, some = torch.empty_like(x, dtype=torch.float64), max(1, _BLOCK // x.shape[1])
    for start in range(0, len(x), some):
        unit[start : start + some] = project(widen(x[start : start + some]))
    return unit


def directions_on_ranks(x: Tensor, gather: Gather, *, at_least: int = 2) -> tuple[Tensor, Alone]:
    """The same of a table that may be spread over ranks, and these: so many rows must there be on all together."""
    if gather is False:
        x = directions(x, at_least=at_least)
        return x, Alone([len(x)])
    check_gather(gather)
    local, group, _ = rows_here(x, gather)
    x = directions(local, at_least=0)
    ranks = Alone([len(x)]) if group is None else Ranks(x, group)
    if ranks.total < at_least:
        raise ValueError(f"expected n >= {at_least} points, got {ranks.total} on {ranks.size} ranks; pass more rows")
    return x, ranks


def mean_over_pairs(x: Float[Tensor, "n d"], function: Callable[[Tensor], Tensor]) -> float:
    """The mean of a function of the squared chord over all pairs of different points."""
    n = len(x)
    return float(sums_over_others(x, function).sum()) / (n * (n - 1))


def sums_over_others(
    x: Float[Tensor, "n d"], *functions: Callable[[Tensor], Tensor], block: int | None = None
) -> Float[Tensor, "f n"]:
    """For every function of the squared chord and every point, the sum over all other points, a block at a time."""
    totals = x.new_zeros(len(functions), len(x))
    for rows, columns in upper_triangle(len(x), block or BLOCK):
        r2 = squared_chords(x[rows], x[columns], same=rows == columns)
        for total, function in zip(totals, functions, strict=True):
            values = function(r2)
            if rows == columns:
                total[rows] += values.fill_diagonal_(0).sum(dim=1)
            else:
                total[rows] += values.sum(dim=1)
                total[columns] += values.sum(dim=0)
    return totals


def squared_chord_block(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Squared chords between two sets of double-precision points, by one matrix product."""
    norms = a.square().sum(dim=-1, keepdim=True) + b.square().sum(dim=-1)
    return torch.addmm(norms, a, b.mT, alpha=-2).clamp(0, 4)


def squared_chords(a: Tensor, b: Tensor, *, same: bool) -> Tensor:
    """By a matrix product, or by differences where a pair is so near that the product does not resolve it."""
    r2 = squared_chord_block(a, b)
    if same:
        r2.fill_diagonal_(2)  # no point is its own neighbour
    if r2.min() < _NEAR:
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square().clamp_max(4)
    return r2
