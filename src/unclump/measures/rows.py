"""What measures share: validated and projected input, results per set, and sums over pairs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump._arrays import as_tensor
from unclump._checks import check_points, check_rows, check_table, has_direction
from unclump._precision import widen
from unclump.distributed.ranks import Alone, Gather, Ranks, check_gather, rows_here
from unclump.ops.blocks import upper_triangle
from unclump.ops.project import project

Points = Float[Tensor, "*sets n d"] | Float[np.ndarray, "*sets n d"]
PerSet = Any  # a float for one table of shape (n, d); a float64 tensor of shape (...) for separate sets

_BLOCK = 2**18  # entries projected at a time: allocating temporaries for a whole table would take longer than the work
BLOCK = 512  # rows and columns of a block of pairs in double precision
_NEAR = 1e-6  # squared chords from a matrix product are off by 1e-15


def directions(x: Points, *, at_least: int = 2) -> Float[Tensor, "n d"]:
    """Project one table of nonzero rows onto the sphere, in double precision."""
    x = as_tensor(x)
    check_table(x, at_least=at_least)
    return directions_of_sets(x, at_least=at_least)


def directions_of_sets(x: Points, *, at_least: int = 2) -> Float[Tensor, "*sets n d"]:
    """Project separate sets of nonzero rows onto the sphere, in double precision."""
    x = as_tensor(x)
    check_points(x, at_least=at_least)
    check_rows(x)
    x = x.detach()
    if x.device.type != "cpu":
        return project(widen(x))
    rows = x.reshape(-1, x.shape[-1])
    unit, step = torch.empty_like(rows, dtype=torch.float64), max(1, _BLOCK // x.shape[-1])
    for start in range(0, len(rows), step):
        unit[start : start + step] = project(widen(rows[start : start + step]))
    return unit.view(x.shape)


def directions_on_ranks(x: Points, gather: Gather, *, at_least: int = 2) -> tuple[Float[Tensor, "*sets n d"], Alone]:
    """Project sets, or one table distributed over ranks that has `at_least` rows in total; also return the ranks."""
    if gather is False:
        x = directions_of_sets(x, at_least=at_least)
        return x, Alone([x.shape[-2]])
    x, group = _local_table(x, gather)
    return (x := directions(x, at_least=0)), ranks_of_rows(x, group, at_least)


def raw_rows_on_ranks(x: Points, gather: Gather, *, at_least: int = 2) -> tuple[Float[Tensor, "*sets n d"], Alone]:
    """Return finite rows unchanged, in their own dtype, including zero rows; and the ranks, as above."""
    group = None
    if gather is False:
        check_points(x := as_tensor(x), at_least=at_least)
    else:
        x, group = _local_table(x, gather)
        check_table(x, at_least=0)
    has_direction(x)  # raises on NaN and infinity
    return x.detach(), ranks_of_rows(x, group, at_least)


def sum_of_directions(x: Points, gather: Gather, *, at_least: int = 2) -> tuple[Float[Tensor, "*sets d"], int]:
    """The sum of the directions of nonzero rows, over all ranks, and the number of rows; a block at a time."""
    rows, ranks = raw_rows_on_ranks(x, gather, at_least=at_least)
    check_rows(rows)
    step = max(1, _BLOCK * rows.shape[-2] // max(1, rows.numel()))
    sums = [project(widen(block)).sum(dim=-2) for block in torch.split(rows, step, dim=-2)]
    return ranks.sum(torch.stack(sums).sum(dim=0)), ranks.total


def _local_table(x: Points, gather: Gather) -> tuple[Tensor, Any]:
    """The rows of this rank, and the group of ranks that share the table."""
    check_gather(gather)
    local, group, _ = rows_here(as_tensor(x), gather)
    return local, group


def ranks_of_rows(x: Tensor, group: Any, at_least: int) -> Alone:
    """The ranks of a group, or None, that share a table; raise unless it has `at_least` rows in total."""
    ranks = Alone([x.shape[-2]]) if group is None else Ranks(x, group)
    if ranks.total < at_least:
        raise ValueError(f"expected n >= {at_least} points, got {ranks.total} on {ranks.size} ranks; pass more rows")
    return ranks


def per_set(values: Float[Tensor, "*sets"]) -> PerSet:
    """Return a tensor of values of separate sets unchanged, and the value of one table as a float."""
    return values.item() if values.ndim == 0 else values


def map_sets(measure: Callable[..., float], *tables: Float[Tensor, "..."]) -> PerSet:
    """Apply a measure to every set of the tables; with several tables, to their sets of the same index."""
    values = [measure(*one) for one in zip(*map(_flatten_sets, tables), strict=True)]
    empty = widen(tables[0].new_empty(0))
    return per_set(torch.tensor(values, dtype=empty.dtype, device=empty.device).view(tables[0].shape[:-2]))


def _flatten_sets(tables: Float[Tensor, "*sets n d"]) -> Float[Tensor, "b n d"]:
    return tables.reshape(math.prod(tables.shape[:-2]), *tables.shape[-2:])


def mean_over_pairs(x: Float[Tensor, "n d"], function: Callable[[Tensor], Tensor]) -> float:
    """The mean of a function of the squared chord over all pairs of different points."""
    n = len(x)
    return float(sums_over_others(x, function).sum()) / (n * (n - 1))


def sums_over_others(
    x: Float[Tensor, "n d"], *functions: Callable[[Tensor], Tensor], block: int | None = None
) -> Float[Tensor, "f n"]:
    """For every function of the squared chord and every point, its sum over all other points, computed in blocks."""
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
    """Squared chords by a matrix product, or by differences if a pair is too near for the product to resolve."""
    r2 = squared_chord_block(a, b)
    if same:
        r2.fill_diagonal_(2)  # a point does not count as its own neighbour
    if r2.min() < _NEAR:
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square().clamp_max(4)
    return r2
