"""What a callback sees when it looks at a table: measures, nearest angles, and whether the table has collapsed."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_count, check_number
from unclump.distributed.ranks import ranks_of
from unclump.integrations._tables import local_rows, numbers_here
from unclump.measures.angles import effective_rank, nearest_angles, spherical_variance

MEASURES = ("min_angle", "median_nearest_angle", "spherical_variance", "effective_rank", "rank_share")
LEAST = {"spherical_variance": 0.1, "rank_share": 0.1}  # the latter is at least 1 / d: silent for d <= 10


@dataclass(frozen=True)
class Seen:
    """A table at one time."""

    measures: dict[str, float]
    """Angles in radians; empty where fewer than two rows have a direction."""
    nearest: Float[Tensor, " n"]
    """Of the rows that were looked at, the angle to the nearest other; of all ranks."""
    collapse: str | None
    """What is wrong, in words."""


@dataclass(frozen=True)
class Watch:
    """When to look, how closely, and what counts as collapse."""

    every: int = 100
    rows: int | None = 4096
    least: Mapping[str, float] = field(default_factory=lambda: LEAST)
    on_collapse: str = "warn"

    def __post_init__(self) -> None:
        check_count("every", self.every)
        if self.rows is not None:
            check_count("rows", self.rows, at_least=2)
        for name, bound in self.least.items():
            check_choice("a measure in least", name, MEASURES)
            check_number(f"least[{name!r}]", bound)
        check_choice("on_collapse", self.on_collapse, ("warn", "stop"))

    def look(self, table: Float[Tensor, "n d"], padding: int | None) -> Seen:
        """Measure the table; rows of zeros are left out, as is the padding.

        Spherical variance and rank are those of all rows. Nearest angles are those among at most `rows` of them, evenly
        chosen: the smallest is then an upper bound.

        Example:
            >>> from unclump.integrations._watch import Watch
            >>> seen = Watch(least={"min_angle": 2.0}).look(torch.eye(3), None)
            >>> seen.measures["spherical_variance"], seen.collapse
            (0.4226..., 'min_angle is 1.57, below 2')
        """
        here, group = local_rows(table.detach())
        here = here[numbers_here(table, padding)]
        finite = here.isfinite().all(dim=-1)
        whole = here[finite & here.any(dim=-1)]
        ranks = ranks_of(whole, group)
        broken = int(ranks.sum((~finite).sum()))
        faults = [f"{broken} rows are NaN or infinite"] if broken else []
        if ranks.total < 2:
            return Seen({}, whole.new_zeros(0), "; ".join(faults) or "fewer than two rows have a direction")
        chosen = whole[_evenly(len(whole), ranks.total, self.rows)]
        nearest = ranks_of(chosen, group).rows(nearest_angles(chosen, gather=group)).cpu()
        rank = effective_rank(whole, gather=group)
        found = {
            "min_angle": nearest.min().item(),
            "median_nearest_angle": nearest.median().item(),
            "spherical_variance": spherical_variance(whole, gather=group),
            "effective_rank": rank,
            "rank_share": rank / min(ranks.total, whole.shape[1]),
        }
        below = [(name, found[name], bound) for name, bound in self.least.items() if found[name] < bound]
        faults += [f"{name} is {value:.3g}, below {bound:g}" for name, value, bound in below]
        return Seen(found, nearest, "; ".join(faults) or None)


@dataclass
class Alarm:
    """Warns when a table collapses, once until it recovers, and says whether training is to stop."""

    on_collapse: str
    collapsed: bool = False

    def rings(self, table: str, step: int, collapse: str | None) -> bool:
        """Hear what was seen at a step; True to stop, which a collapse that was heard of before is no reason to."""
        begins = collapse is not None and not self.collapsed
        if begins:
            warnings.warn(f"{table} has collapsed at step {step}: {collapse}", stacklevel=2)
        self.collapsed = collapse is not None
        return begins and self.on_collapse == "stop"


def _evenly(count: int, total: int, rows: int | None) -> Tensor:
    """The numbers of at most so many rows, with equal steps; every rank takes its share."""
    wanted = count if rows is None or rows >= total else max(math.ceil(rows * count / total), min(count, 2))
    return torch.arange(wanted) * count // max(wanted, 1)
