"""Monitoring of a table during training: measures, histograms of angles, and detection of collapse."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_count, check_number
from unclump.distributed.ranks import ranks_of
from unclump.integrations._tables import local_row_numbers, local_rows
from unclump.measures.angles import effective_rank, nearest_angles, spherical_variance
from unclump.measures.pairs import mean_cosine, uniformity
from unclump.measures.spectrum import alpha_req, isoscore, rankme

MEASURES = ("min_angle", "median_nearest_angle", "spherical_variance", "effective_rank", "rank_share")
"""The default measures."""
OF_ALL_ROWS: dict[str, Callable[..., float]] = {
    "spherical_variance": spherical_variance,
    "rankme": rankme,
    "alpha_req": alpha_req,
    "isoscore": isoscore,
    "mean_cosine": mean_cosine,
}
OF_SAMPLED_ROWS: dict[str, Callable[..., float]] = {"uniformity": uniformity}
ALL_MEASURES = (*dict.fromkeys([*MEASURES, *OF_ALL_ROWS, *OF_SAMPLED_ROWS]),)
RISING = ("alpha_req", "mean_cosine", "uniformity")
"""Measures that rise on collapse, so that a lower threshold cannot detect it."""
DEFAULT_LEAST = {"spherical_variance": 0.1, "rank_share": 0.1}  # rank_share >= 1 / d never triggers for d <= 10


@dataclass(frozen=True)
class Snapshot:
    """The measures of a table at one step."""

    measures: dict[str, float]
    """Angles in radians; empty if fewer than two rows have a direction."""
    nearest: Float[Tensor, " n"]
    """The nearest angles of the sampled rows, of all ranks."""
    collapse: str | None
    """Why the table counts as collapsed, or None."""


@dataclass(frozen=True)
class TableMonitor:
    """How often to measure a table, how many rows to sample, and what counts as collapse."""

    every: int = 100
    rows: int | None = 4096
    least: Mapping[str, float] = field(default_factory=lambda: DEFAULT_LEAST)
    on_collapse: str = "warn"
    measures: Sequence[str] = MEASURES

    def __post_init__(self) -> None:
        for name in self.measures:
            check_choice("a measure", name, ALL_MEASURES)
        check_count("every", self.every)
        if self.rows is not None:
            check_count("rows", self.rows, at_least=2)
        for name, bound in self.least.items():
            check_choice(
                "a measure in least",
                name,
                [measure_name for measure_name in ALL_MEASURES if measure_name not in RISING],
            )
            check_number(f"least[{name!r}]", bound)
        check_choice("on_collapse", self.on_collapse, ("warn", "stop"))

    def measure(self, table: Float[Tensor, "n d"], padding: int | None) -> Snapshot:
        """Measure the table without its padding row and rows of zeros.

        It computes the chosen measures and those in `least`. Nearest angles and uniformity are measured among at most
        `rows` evenly spaced rows, so that the smallest angle is an upper bound. All other measures use all rows.

        Example:
            >>> from unclump.integrations._monitor import TableMonitor
            >>> snapshot = TableMonitor(least={"min_angle": 2.0}).measure(torch.eye(3), None)
            >>> snapshot.measures["spherical_variance"], snapshot.collapse
            (0.4226..., 'min_angle is 1.57, below 2')
        """
        rows, group = local_rows(table.detach())
        rows = rows[local_row_numbers(table, padding)]
        is_finite = rows.isfinite().all(dim=-1)
        valid = rows[is_finite & rows.any(dim=-1)]
        ranks = ranks_of(valid, group)
        not_finite = int(ranks.sum((~is_finite).sum()))
        faults = [f"{not_finite} rows are NaN or infinite"] if not_finite else []
        if ranks.total < 2:
            return Snapshot({}, valid.new_zeros(0), "; ".join(faults) or "fewer than two rows have a direction")
        sample = valid[_evenly_spaced(len(valid), ranks.total, self.rows)]
        nearest = ranks_of(sample, group).rows(nearest_angles(sample, gather=group)).cpu()
        rank = cache(partial(effective_rank, valid, gather=group))
        measure_functions: dict[str, Callable[[], float]] = {
            "min_angle": lambda: nearest.min().item(),
            "median_nearest_angle": lambda: nearest.median().item(),
            "effective_rank": rank,
            "rank_share": lambda: rank() / min(ranks.total, valid.shape[1]),
            **{name: partial(measure, valid, gather=group) for name, measure in OF_ALL_ROWS.items()},
            **{name: partial(measure, sample, gather=group) for name, measure in OF_SAMPLED_ROWS.items()},
        }
        measures = {name: measure_functions[name]() for name in dict.fromkeys([*self.measures, *self.least])}
        below = [(name, measures[name], bound) for name, bound in self.least.items() if measures[name] < bound]
        faults += [f"{name} is {value:.3g}, below {bound:g}" for name, value, bound in below]
        return Snapshot(measures, nearest, "; ".join(faults) or None)


@dataclass
class CollapseAlarm:
    """Warns when a table collapses, once until it recovers, and decides whether to stop training."""

    on_collapse: str
    is_collapsed: bool = False

    def update(self, table: str, step: int, collapse: str | None) -> bool:
        """Record the state at a step; return whether to stop, which only a new collapse can cause."""
        is_new = collapse is not None and not self.is_collapsed
        if is_new:
            warnings.warn(f"{table} has collapsed at step {step}: {collapse}", stacklevel=2)
        self.is_collapsed = collapse is not None
        return is_new and self.on_collapse == "stop"


def send_histogram(writer: Any, name: str, values: Float[Tensor, " n"], step: int, *, step_name: str) -> None:
    """Log a histogram to a TensorBoard writer or a W&B run; other writers are ignored."""
    if len(values) == 0:
        return
    if hasattr(writer, "add_histogram"):
        writer.add_histogram(name, values, step)
    elif type(writer).__module__.startswith("wandb"):
        import wandb

        writer.log({name: wandb.Histogram(values.tolist()), step_name: step})


def _evenly_spaced(local: int, total: int, rows: int | None) -> Tensor:
    """Return this rank's share of at most `rows` evenly spaced row numbers, if it has `local` of `total` rows."""
    count = local if rows is None or rows >= total else max(math.ceil(rows * local / total), min(local, 2))
    return torch.arange(count) * local // max(count, 1)
