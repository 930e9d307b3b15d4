"""Comparison of a table before and after a change."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.measures.angles import nearest_angles, spherical_variance
from unclump.measures.overlap import neighbour_overlap, search
from unclump.ops.project import project
from unclump.tables.plan import make_plan

_MAX_ROWS = 60_000  # in larger tables, nearest angles are those of a sample: as many rows as take seconds, at most
_SAMPLED_ROWS = 10_000
_AT_BOUND = 0.99  # of the bound: rounding to the dtype may turn a row a little less
NEIGHBOURS = 10
OVERLAP_ROWS = 2000


@dataclass(frozen=True)
class State:
    """Measures of a table; angles in degrees."""

    smallest: float
    median_nearest: float
    variance: float


@dataclass(frozen=True)
class Change:
    """How far rows moved between two tables; angles in degrees."""

    largest_move: float
    mean_move: float
    overlap: float
    at_bound: int | None = None  # rows that moved as far as they may


def measure_state(x: Float[Tensor, "n d"], *, progress: bool = False) -> State:
    """Measure a table; the angles of a large table are those of a fixed random sample of rows, under a bar."""
    if len(x) <= _MAX_ROWS:
        nearest = nearest_angles(x)
    else:
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: _sample_size(*x.shape)]
        found = search(project(x), rows, progress=progress)[:, 0]
        nearest = angle(*(project(x[index].double()) for index in (rows, found)))
    return State(math.degrees(nearest.min()), math.degrees(nearest.quantile(0.5)), spherical_variance(x))


def _sample_size(n: int, d: int) -> int:
    return n if n <= _MAX_ROWS else min(_SAMPLED_ROWS, make_plan(n, d).searched)


def measure_change(
    x: Float[Tensor, "n d"], y: Float[Tensor, "n d"], max_move: float | None = None, *, progress: bool = False
) -> Change:
    """Measure the moves from `x` to `y`, of rows that could turn by `max_move` degrees."""
    blocks = zip(torch.split(x, 2**14), torch.split(y, 2**14), strict=True)
    moves = torch.cat([angle(project(before.double()), project(after.double())) for before, after in blocks])
    draw = torch.Generator().manual_seed(0)
    overlap = neighbour_overlap(
        x, y, neighbours=NEIGHBOURS, samples=OVERLAP_ROWS, generator=draw, progress=progress and len(x) > _MAX_ROWS
    )
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


def format_comparison(before: State, after: State, change: Change, rows: int, dimensions: int) -> str:
    """Format the measures before and after as a table."""
    sampled = _sample_size(rows, dimensions)
    angle_sample = f" ({sampled} of {rows} rows)" if sampled < rows else ""
    overlap_sample = f" ({OVERLAP_ROWS} of {rows} rows)" if rows > OVERLAP_ROWS else ""
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
