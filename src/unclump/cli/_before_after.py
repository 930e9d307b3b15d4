"""How a table was, how it is, and how far its rows went."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.measures.angles import nearest_angles, spherical_variance
from unclump.measures.overlap import nearest_rows, neighbour_overlap
from unclump.ops.project import project

_ALL = 60_000  # rows of which each is compared with each; of larger tables _SOME are, with all
_SOME = 10_000
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
    """What happened to the rows between two tables; angles in degrees."""

    largest_move: float
    mean_move: float
    overlap: float


def state_of(x: Float[Tensor, "n d"]) -> State:
    """The measures; of a large table the angles are those of a choice of rows, always the same."""
    if len(x) <= _ALL:
        near = nearest_angles(x)
    else:
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:_SOME]
        near = angle(*(project(x[some].double()) for some in (rows, nearest_rows(x, rows, 1)[:, 0])))
    return State(math.degrees(near.min()), math.degrees(near.quantile(0.5)), spherical_variance(x))


def change_of(x: Float[Tensor, "n d"], y: Float[Tensor, "n d"]) -> Change:
    """From x to y."""
    blocks = zip(torch.split(x, 2**14), torch.split(y, 2**14), strict=True)
    moves = torch.cat([angle(project(before.double()), project(after.double())) for before, after in blocks])
    overlap = neighbour_overlap(
        x, y, neighbours=NEIGHBOURS, samples=OVERLAP_ROWS, generator=torch.Generator().manual_seed(0)
    )
    return Change(math.degrees(moves.max()), math.degrees(moves.mean()), overlap)


def before_after(before: State, after: State, change: Change, rows: int) -> str:
    """A table for a person."""
    of_some = f" ({_SOME} of {rows} rows)" if rows > _ALL else ""
    sampled = f" ({OVERLAP_ROWS} of {rows} rows)" if rows > OVERLAP_ROWS else ""
    lines = [
        ("", "before", "after"),
        (f"smallest angle{of_some}", f"{before.smallest:.4f}°", f"{after.smallest:.4f}°"),
        (f"median nearest angle{of_some}", f"{before.median_nearest:.4f}°", f"{after.median_nearest:.4f}°"),
        ("spherical variance", f"{before.variance:.4f}", f"{after.variance:.4f}"),
        ("largest move", "", f"{change.largest_move:.4f}°"),
        ("mean move", "", f"{change.mean_move:.4f}°"),
        (f"overlap@{NEIGHBOURS}{sampled}", "", f"{change.overlap:.4f}"),
    ]
    width = max(len(name) for name, _, _ in lines)
    return "\n".join(f"{name:<{width}}  {was:>10}  {is_now:>10}" for name, was, is_now in lines)
