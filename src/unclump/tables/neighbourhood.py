"""Nearest angles, clumps and hubs of a table, from the neighbours of all rows or of a sample."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.measures.rows import directions
from unclump.tables.groups import Group, connect, groups_of_labels, renumber
from unclump.tables.neighbours import neighbours
from unclump.tables.rows import BLOCK, Rows
from unclump.tables.sampled_search import (
    Interval,
    estimate_hubness,
    estimate_largest_hub,
    mean_interval,
    median_interval,
)
from unclump.tables.sign_hashes import candidates
from unclump.tables.survey import Sample

_MAX_WIDTH = 4.0  # of the interval of hubness; estimates with a wider one are not reported
_MEASURED = 3  # nearest rows, found in single precision, whose angles are measured in double


@dataclass(frozen=True)
class Neighbourhood:
    """Measures of neighbours; each has the name of an attribute of `Health`.

    Attributes:
        nearest_angles: The angle of each row, or of each sampled row, to its nearest.
        min_angle: The smallest angle that was found.
        cone_angle: The mean angle to the mean.
        clumps: Groups of near duplicates, by number.
        occurrences: How often each row is among the k nearest of others; estimated if rows were sampled.
        hubness: The skewness of these numbers; None if the sample is too small for an estimate.
        largest_hub: The largest share of rows that have the same row, outside of any clump, among their k nearest.
        orphans: The fraction of rows that are not among the k nearest of any other; None for a sample.
        sampled: The numbers of the sampled rows, or None.
        intervals: 95 percent intervals of the sampled measures.
    """

    nearest_angles: Float64[Tensor, " m"]
    min_angle: float
    cone_angle: float
    clumps: tuple[Group, ...]
    occurrences: Float64[Tensor, " n"]
    hubness: float | None
    largest_hub: float
    orphans: float | None
    sampled: Int[Tensor, " m"] | None = None
    intervals: dict[str, Interval] = field(default_factory=dict)


def measure_all_rows(
    rows: Rows,
    numbers: Int[Tensor, " n"],
    mean: Float64[Tensor, " d"],
    *,
    k: int,
    within: float,
    device: torch.device | None,
    progress: bool,
) -> Neighbourhood:
    """Search for the neighbours of all rows with these numbers; every rank gathers all rows and searches its share."""
    n = len(numbers)
    x = directions(rows.between(0, n) if rows.ranks.size == 1 and n == len(rows) else rows.take(numbers))
    found = neighbours(x, k=k, within=within, ranks=rows.ranks, device=device, progress=progress)
    clumps = groups_of_labels(found.clump, found.nearest_angle)
    occurrences = torch.bincount(found.index.flatten(), minlength=n).double()
    outside = occurrences.clone()
    outside[[row for group in clumps for row in group.rows]] = 0
    return Neighbourhood(
        nearest_angles=found.nearest_angle,
        min_angle=found.nearest_angle.min().item(),
        cone_angle=_angles_to_mean(x, mean).mean().item(),
        clumps=tuple(renumber(clumps, numbers)),
        occurrences=occurrences,
        hubness=estimate_hubness(found.index, n)[0],
        largest_hub=outside.max().item() / n,
        orphans=(occurrences == 0).double().mean().item(),
    )


def estimate_from_sample(
    rows: Rows,
    numbers: Int[Tensor, " n"],
    mean: Float64[Tensor, " d"],
    sample: Sample,
    *,
    k: int,
    within: float,
    equal: Sequence[tuple[int, ...]],
) -> Neighbourhood:
    """Estimate from the neighbours of sampled rows; near duplicates are those found by hashes and in the sample."""
    n, m = len(numbers), len(sample.numbers)
    index = sample.neighbours[:, :k]
    x = rows.directions(sample.numbers)
    angles = rows.angles_to(x, index[:, :_MEASURED])
    nearest_angles, cone = angles.amin(dim=1), _angles_to_mean(x, mean)
    pairs, pair_angles = _near_pairs(rows, numbers, sample, angles, within)
    clumps = tuple(_join(pairs, pair_angles, equal))
    rows_in_clumps = torch.tensor([row for group in clumps for row in group.rows], dtype=torch.long)
    hubness, (low, high) = estimate_hubness(index, n)
    is_precise = high - low <= _MAX_WIDTH
    largest_hub, hub_interval = estimate_largest_hub(index, rows_in_clumps)
    intervals = {
        "median_nearest_angle": median_interval(nearest_angles, n),
        "mean_nearest_angle": mean_interval(nearest_angles, n),
        "cone_angle": mean_interval(cone, n),
        "largest_hub": hub_interval,
    } | ({"hubness": (low, high)} if is_precise else {})
    places = torch.searchsorted(numbers, index.flatten())
    return Neighbourhood(
        nearest_angles=nearest_angles,
        min_angle=min(nearest_angles.min().item(), *(group.angle for group in clumps), math.inf),
        cone_angle=cone.mean().item(),
        clumps=clumps,
        occurrences=torch.bincount(places, minlength=n).double() * (n / m),
        hubness=hubness if is_precise else None,
        largest_hub=largest_hub,
        orphans=None,
        sampled=sample.numbers,
        intervals=intervals,
    )


def _angles_to_mean(x: Float64[Tensor, "m d"], mean: Float64[Tensor, " d"]) -> Float64[Tensor, " m"]:
    length = torch.linalg.vector_norm(mean)
    return angle(x, mean / length) if length > 0 else torch.full((len(x),), math.pi / 2, dtype=torch.float64)


def _near_pairs(
    rows: Rows, numbers: Int[Tensor, " n"], sample: Sample, angles: Float64[Tensor, "m c"], within: float
) -> tuple[Int[Tensor, "pairs 2"], Float64[Tensor, " pairs"]]:
    """Pairs of near duplicates by number, and their angles, measured in double precision."""
    near = angles <= within
    near_rows = sample.numbers.unsqueeze(1).expand_as(near)[near]
    pairs, found = [torch.stack([near_rows, sample.neighbours[:, : angles.shape[1]][near]], dim=1)], [angles[near]]
    for some in torch.split(numbers[candidates(sample.hashes)], max(1, BLOCK // rows.d)):
        between = angle(*map(rows.directions, some.unbind(dim=1)))
        pairs.append(some[between <= within])
        found.append(between[between <= within])
    return torch.cat(pairs), torch.cat(found)


def _join(
    pairs: Int[Tensor, "pairs 2"], angles: Float64[Tensor, " pairs"], equal: Sequence[tuple[int, ...]]
) -> list[Group]:
    """Groups of rows that pairs, or equality, connect; with the smallest of their angles."""
    chains = [(group[0], row) for group in equal for row in group[1:]]
    pairs = torch.cat([pairs, torch.tensor(chains, dtype=torch.long).view(-1, 2)])
    angles = torch.cat([angles, torch.zeros(len(chains), dtype=torch.float64)])
    if len(pairs) == 0:
        return []
    rows, compact = (torch.from_numpy(part) for part in np.unique(pairs.numpy(), return_inverse=True))
    compact = compact.view(-1, 2)
    nearest = torch.full((len(rows),), math.inf, dtype=torch.float64)
    for side in compact.unbind(dim=1):
        nearest.scatter_reduce_(0, side, angles, "amin")
    return renumber(groups_of_labels(connect(compact.mT, len(rows)), nearest), rows)
