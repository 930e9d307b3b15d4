"""Comparison of a table before and after a change."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._precision import full_dtype
from unclump.geometry.sphere import angle
from unclump.measures.angles import nearest_angles, spherical_variance
from unclump.measures.overlap import neighbour_overlap, share_kept
from unclump.ops.project import project
from unclump.tables.plan import make_plan
from unclump.tables.rows import Rows
from unclump.tables.sampled_search import nearest_in_table

_MAX_ROWS = 60_000  # in larger tables, only the neighbours of a sample are searched for
_SAMPLED_ROWS = 10_000
_BLOCK = 2**18  # entries converted to double precision at a time
_AT_BOUND = 0.99  # of the bound: rounding to the dtype may rotate a row slightly less
NEIGHBOURS = 10
OVERLAP_ROWS = 2000


@dataclass(frozen=True)
class State:
    """Measures of a table, angles in degrees; and the neighbours of sampled rows, if the table is large."""

    smallest: float
    median_nearest: float
    variance: float
    neighbours: Int[Tensor, "m k"] | None = None


@dataclass(frozen=True)
class Change:
    """How far rows moved between two tables; angles in degrees."""

    largest_move: float
    mean_move: float
    overlap: float
    at_bound: int | None = None  # rows that moved as far as allowed


def sample_rows(n: int, d: int) -> Int[Tensor, " m"] | None:
    """A fixed random sample of the rows of a large table; None for a table that is measured whole."""
    if n <= _MAX_ROWS:
        return None
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[: min(_SAMPLED_ROWS, make_plan(n, d).searched)]


def measure_state(x: Float[Tensor, "n d"], *, progress: bool = False) -> State:
    """Measure a table; for a large one, search for the neighbours of sampled rows in one pass, with a progress bar."""
    rows, neighbours, variance = sample_rows(*x.shape), None, spherical_variance(x)
    if rows is None:
        nearest = nearest_angles(x)
    else:
        table, all_rows, k = Rows(x), torch.arange(len(x)), min(NEIGHBOURS, len(x) - 1)
        neighbours = nearest_in_table(table, all_rows, rows, k=k, dtype=full_dtype(x.dtype), progress=progress)
        nearest = angle(table.directions(rows), table.directions(neighbours[:, 0]))
    return State(math.degrees(nearest.min()), math.degrees(nearest.quantile(0.5)), variance, neighbours)


def measure_change(
    x: Float[Tensor, "n d"], y: Float[Tensor, "n d"], before: State, after: State, max_move: float | None = None
) -> Change:
    """Measure the moves from `x` to `y`, of rows that could rotate by at most `max_move` degrees."""
    size = max(1, _BLOCK // x.shape[1])
    blocks = zip(torch.split(x, size), torch.split(y, size), strict=True)
    moves = torch.cat([angle(project(old.double()), project(new.double())) for old, new in blocks])
    if before.neighbours is None or after.neighbours is None:
        draw = torch.Generator().manual_seed(0)
        overlap = neighbour_overlap(x, y, neighbours=NEIGHBOURS, samples=OVERLAP_ROWS, generator=draw)
    else:
        overlap = share_kept(before.neighbours, after.neighbours)
    at_bound = None if max_move is None else int((moves >= _AT_BOUND * math.radians(max_move)).sum())
    return Change(math.degrees(moves.max()), math.degrees(moves.mean()), overlap, at_bound)


def comparison_to_dict(before: State, after: State, change: Change) -> dict[str, Any]:
    """The measures before and after, for a program; angles in degrees."""
    states = {
        name: {
            "smallest_angle_degrees": state.smallest,
            "median_nearest_angle_degrees": state.median_nearest,
            "spherical_variance": state.variance,
        }
        for name, state in (("before", before), ("after", after))
    }
    moves = {"largest_degrees": change.largest_move, "mean_degrees": change.mean_move}
    moves |= {} if change.at_bound is None else {"rows_at_bound": change.at_bound}
    return {**states, "moves": moves, f"overlap@{NEIGHBOURS}": change.overlap}


def format_comparison(before: State, after: State, change: Change, rows: int) -> str:
    """Format the measures before and after as a table."""
    searched, compared = rows, min(rows, OVERLAP_ROWS)
    if before.neighbours is not None:
        searched = compared = len(before.neighbours)
    angle_sample, overlap_sample = (f" ({m} of {rows} rows)" if m < rows else "" for m in (searched, compared))
    lines = [
        ("", "before", "after"),
        (f"smallest angle{angle_sample}", f"{before.smallest:.4f}°", f"{after.smallest:.4f}°"),
        (f"median nearest angle{angle_sample}", f"{before.median_nearest:.4f}°", f"{after.median_nearest:.4f}°"),
        ("spherical variance", f"{before.variance:.4f}", f"{after.variance:.4f}"),
        ("largest move", "", f"{change.largest_move:.4f}°"),
        ("mean move", "", f"{change.mean_move:.4f}°"),
        *([] if change.at_bound is None else [(f"rows at the bound on moves, of {rows}", "", str(change.at_bound))]),
        (f"overlap@{NEIGHBOURS}{overlap_sample}", "", f"{change.overlap:.4f}"),
    ]
    width = max(len(name) for name, _, _ in lines)
    return "\n".join(f"{name:<{width}}  {old:>10}  {new:>10}" for name, old, new in lines)
