"""Measures of dispersion: exact, streamed over blocks of pairs, without gradient.

They read the data: rows that contain NaN or infinity, or are all zero, raise an error that lists their numbers. Rows
need not have unit norm; they are projected onto the sphere in double precision. Angles are in radians.

Points are torch tensors or NumPy arrays. One table of shape (n, d) gives a float; shape (..., n, d) is a batch of
separate sets, and gives a float64 tensor of shape (...), on the device of the points. `nearest_angles` always returns a
tensor, of shape (..., n); `summary` takes one table.

With ``gather=True``, a process group or `Shards`, the rows are part of one table that is distributed over ranks. Every
rank gets the measure of the whole table; `nearest_angles` returns the angles of the rank's own rows.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import pad

from unclump._arrays import as_tensor
from unclump._checks import check_choice, check_count, check_table
from unclump._precision import as_sets, full_dtype, take_rows, widen
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Alone, Gather
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import angle, angle_of
from unclump.kernels import Riesz
from unclump.measures.pair_chords import SAMPLED_PAIRS, median_chords, sample_chords
from unclump.measures.rows import BLOCK, PerSet, Points, directions_on_ranks, map_sets, per_set, sum_of_directions
from unclump.measures.summary_table import Summary
from unclump.ops import faiss_search
from unclump.ops.kernel_sum import kernel_sum
from unclump.ops.nearest import nearest

_MINUS_ANGLE = Riesz(-1.0, "geodesic")
_NEAR = 1e-3  # squared chords below it are far less precise in float32 than others


def nearest_angles(x: Points, *, neighbours: str = "exact", gather: Gather = False) -> Float[Tensor, "*sets n"]:
    """The angle between every point and its nearest other point.

    Args:
        x: Points, n >= 2.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed. If
            the search misses the nearest neighbour of a point, its angle is that to another near point.
        gather: True, a process group or `Shards`: the rows of all ranks are one table. Returns the angles of this
            rank's own rows, and requires exact neighbours.

    Example:
        >>> nearest_angles(torch.eye(3)) / torch.pi
        tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    x, ranks = directions_on_ranks(x, gather)
    return _nearest_angles(x, ranks, neighbours)


def _nearest_angles(x: Tensor, ranks: Alone, neighbours: str) -> Tensor:
    check_choice("neighbours", neighbours, faiss_search.NEIGHBOURS)
    sets = as_sets(x)
    if neighbours == "exact":
        near = nearest_among(sets, ranks)[0]
    elif ranks.size > 1:
        raise ValueError("expected neighbours='exact' with gather, got 'faiss', which searches one local table only")
    else:
        tables = sets.view(-1, *sets.shape[-2:])
        near = torch.stack([table[faiss_search.nearest(table)[0]] for table in tables]).view_as(sets)
    return angle(sets, near).view(x.shape[:-1])


def min_angle(x: Points, *, neighbours: str = "exact", gather: Gather = False) -> PerSet:
    """The smallest angle between two points, which the Tammes problem maximises.

    Args:
        x: Points, n >= 2.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed; the
            result is then an upper bound.
        gather: True, a process group or `Shards`: the rows of all ranks are one table.

    Example:
        >>> min_angle(torch.eye(3)) == torch.pi / 2
        True
    """
    x, ranks = directions_on_ranks(x, gather)
    angles = pad(_nearest_angles(x, ranks, neighbours), (0, 1), value=math.inf)  # a rank may have no rows
    return per_set(ranks.minimum(angles.amin(dim=-1)))


def mean_angle(x: Points, *, gather: Gather = False) -> PerSet:
    """The mean angle over all pairs; pi/2 for independent uniform points.

    Computed in double precision, but for large tables of float32 points none of which are near each other: these are
    computed in float32, which is faster, to a relative error of about 1e-7.

    Example:
        >>> round(mean_angle(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])) / torch.pi, 6)  # 1, 1/2, 1/2
        0.666667
    """
    rows, ranks = directions_on_ranks(x := as_tensor(x), gather)
    return map_sets(lambda table: _mean_angle(table, ranks, x.dtype), rows)


def _mean_angle(x: Float[Tensor, "n d"], ranks: Alone, dtype: torch.dtype) -> float:
    """The mean angle of points in double precision that were given in `dtype`."""
    if full_dtype(dtype) == torch.float32 and _is_spread(x, ranks):
        x = x.float()
    total = -widen(kernel_sum(x, _MINUS_ANGLE, needs_grad=False)[0]).sum()
    for _, (y,) in ranks.ring(x):
        total -= widen(kernel_sum(x, _MINUS_ANGLE, y, needs_grad=False)[0]).sum()
    return float(ranks.sum(total)) / (ranks.total * (ranks.total - 1))


def _is_spread(x: Float[Tensor, "n d"], ranks: Alone) -> bool:
    """Whether none of a large sample of pairs is so near that float32 would measure it worse than others."""
    is_large = ranks.size == 1 and math.comb(len(x), 2) > SAMPLED_PAIRS
    return is_large and bool(sample_chords(x).min() > _NEAR)


def median_angle(x: Points, *, gather: Gather = False) -> PerSet:
    """The exact median angle over all pairs, in at most about 100 MB beside the points.

    A sample of pairs locates the median; one pass over all pairs collects and sorts those near it. If they are too
    many, passes first count pairs in ever finer bins. For an even number of pairs, the middle two angles are averaged.

    Example:
        >>> round(median_angle(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])), 6)  # of 90, 90 and 180 degrees
        1.570796
    """
    x, ranks = directions_on_ranks(x, gather)
    return map_sets(lambda table: _median_angle(table, ranks), x)


def _median_angle(x: Tensor, ranks: Alone) -> float:
    return angle_of(median_chords(x, ranks)).mean().item()


def spherical_variance(x: Points, *, gather: Gather = False) -> PerSet:
    r"""One minus the length of the mean of the points: 0 if all coincide, 1 if they cancel out.

    .. math:: \operatorname{svar}(x) = 1 - \lVert \mu \rVert, \quad \mu = \frac1n \sum_{i=1}^n x_i

    A measure, without a gradient. The objective is `SphericalVariance`, minus this value.

    Example:
        >>> spherical_variance(torch.eye(4))
        0.5
    """
    return per_set(_variance_of_sum(*sum_of_directions(x, gather, at_least=1)))


def _variance_of_sum(total: Float[Tensor, "*sets d"], n: int) -> Float[Tensor, "*sets"]:
    length: Tensor = vector_norm(total / n, dim=-1)
    return 1 - length


def covering_radius(
    x: Points,
    *,
    samples: int = 10_000,
    generator: torch.Generator | None = None,
    gather: Gather = False,
) -> PerSet:
    """The largest angle from any of `samples` random locations on the sphere to its nearest point.

    It is a lower bound on the true covering radius, which it approaches as the number of samples grows. All sets are
    measured from the same locations.

    Example:
        >>> poles = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
        >>> round(covering_radius(poles, generator=torch.Generator().manual_seed(0)), 3)  # the equator: pi / 2
        1.571
    """
    check_count("samples", samples)
    return per_set(_covering_radius(*directions_on_ranks(x, gather, at_least=1), samples, generator))


def _covering_radius(x: Tensor, ranks: Alone, samples: int, generator: torch.Generator | None) -> Tensor:
    sets = as_sets(x)
    farthest = x.new_zeros(sets.shape[:-2])
    for start in range(0, samples, BLOCK):
        count = min(BLOCK, samples - start)
        locations = ranks.agree(uniform(count, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device))
        if x.shape[-2] > 0:
            index, _ = nearest(locations.expand(*sets.shape[:-2], -1, -1), sets)
            distances = angle(locations, take_rows(sets, index.squeeze(-1)))  # (..., count)
        else:
            distances = locations.new_full((count,), math.inf)
        farthest = torch.maximum(farthest, ranks.minimum(distances).amax(dim=-1))
    return farthest.view(x.shape[:-2])


def effective_rank(x: Points, *, gather: Gather = False) -> PerSet:
    r"""How many dimensions the points use: the exponential of the entropy of their normalised singular values.

    .. math:: \exp\Big(-\sum_i p_i \log p_i\Big), \quad p_i = \sigma_i / \sum_j \sigma_j

    References:
        Roy and Vetterli. The effective rank: a measure of effective dimensionality. EUSIPCO 2007.

    Example:
        >>> round(effective_rank(torch.eye(5)), 6)
        5.0
    """
    x, ranks = directions_on_ranks(x, gather, at_least=1)
    return per_set(rank_of(singular_values(x, ranks)))


def singular_values(x: Float[Tensor, "*sets n d"], ranks: Alone | None = None) -> Float[Tensor, "*sets m"]:
    """The min(n, d) singular values, largest first; always d of them for a table distributed over ranks."""
    if ranks is not None and ranks.size > 1:
        gram = ranks.sum(x.mT @ x)
    else:
        gram = x.mT @ x if x.shape[-2] >= x.shape[-1] else x @ x.mT
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp_min(0).sqrt().flip(-1)


def rank_of(singular: Float[Tensor, "*sets m"]) -> Float[Tensor, "*sets"]:
    """The effective rank, from the singular values; zero if all of them are zero."""
    total = singular.sum(dim=-1, keepdim=True)
    entropy = torch.special.entr(singular / torch.where(total > 0, total, 1)).sum(dim=-1)
    return torch.where(total[..., 0] > 0, entropy.exp(), 0)


def summary(
    x: Points,
    *,
    samples: int = 10_000,
    generator: torch.Generator | None = None,
    gather: Gather = False,
) -> Summary:
    """Compute all measures of one table; the result prints as a table.

    Args:
        x: Points, n >= 2.
        samples: The number of random locations from which the covering radius is measured.
        generator: Draws these locations.
        gather: True, a process group or `Shards`: the rows of all ranks are one table.

    Example:
        >>> measures = summary(torch.eye(3), generator=torch.Generator().manual_seed(0))
        >>> print(str(measures).splitlines()[1])
        smallest angle                     90.0000°
    """
    check_count("samples", samples)
    rows, (x, ranks) = as_tensor(x), directions_on_ranks(x, gather)
    if gather is False:
        check_table(x, at_least=2)
    near = ranks.rows(_nearest_angles(x, ranks, "exact"))
    return Summary(
        n=ranks.total,
        d=x.shape[1],
        min_angle=near.min().item(),
        median_nearest_angle=float(np.median(near.cpu())),
        mean_nearest_angle=near.mean().item(),
        median_angle=_median_angle(x, ranks),
        mean_angle=_mean_angle(x, ranks, rows.dtype),
        spherical_variance=_variance_of_sum(ranks.sum(x.sum(dim=-2)), ranks.total).item(),
        effective_rank=rank_of(singular_values(x, ranks)).item(),
        covering_radius=_covering_radius(x, ranks, samples, generator).item(),
        covering_samples=samples,
    )
