"""Monitoring of a table in training: measures, histograms of angles, and whether the table has collapsed."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_count, check_number
from unclump.distributed.ranks import ranks_of
from unclump.integrations._tables import local_row_numbers, local_rows
from unclump.measures.angles import effective_rank, nearest_angles, spherical_variance

MEASURES = ("min_angle", "median_nearest_angle", "spherical_variance", "effective_rank", "rank_share")
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

    def __post_init__(self) -> None:
        check_count("every", self.every)
        if self.rows is not None:
            check_count("rows", self.rows, at_least=2)
        for name, bound in self.least.items():
            check_choice("a measure in least", name, MEASURES)
            check_number(f"least[{name!r}]", bound)
        check_choice("on_collapse", self.on_collapse, ("warn", "stop"))

    def measure(self, table: Float[Tensor, "n d"], padding: int | None) -> Snapshot:
        """Measure the table without its padding row and rows of zeros.

        Spherical variance and rank are those of all rows. Nearest angles are measured among at most `rows` evenly
        spaced rows: the smallest is then an upper bound.

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
        rank = effective_rank(valid, gather=group)
        measures = {
            "min_angle": nearest.min().item(),
            "median_nearest_angle": nearest.median().item(),
            "spherical_variance": spherical_variance(valid, gather=group),
            "effective_rank": rank,
            "rank_share": rank / min(ranks.total, valid.shape[1]),
        }
        below = [(name, measures[name], bound) for name, bound in self.least.items() if measures[name] < bound]
        faults += [f"{name} is {value:.3g}, below {bound:g}" for name, value, bound in below]
        return Snapshot(measures, nearest, "; ".join(faults) or None)


@dataclass
class CollapseAlarm:
    """Warns when a table collapses, once until it recovers, and decides whether to stop training."""

    on_collapse: str
    is_collapsed: bool = False

    def update(self, table: str, step: int, collapse: str | None) -> bool:
        """Take the state at a step; return whether to stop, which only a new collapse can cause."""
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
    """Return this rank's share of at most `rows` row numbers with equal steps, if it holds `local` of `total` rows."""
    count = local if rows is None or rows >= total else max(math.ceil(rows * local / total), min(local, 2))
    return torch.arange(count) * local // max(count, 1)
