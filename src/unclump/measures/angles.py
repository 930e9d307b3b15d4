"""Measures of dispersion: exact, streamed over blocks of pairs, without gradient.

They read the data: rows with NaN, infinities or nothing but zeros are refused by number. Rows need not be unit; they
are projected onto the sphere in double precision. Angles are in radians.

Points are torch tensors or NumPy arrays. One table of shape (n, d) gives a float; shape (..., n, d) is separate sets,
and gives a float64 tensor of shape (...), on the device of the points. `nearest_angles` is always a tensor, of shape
(..., n); `summary` takes one table.

With ``gather=True``, a process group or `Shards` the rows are those of one table that is spread over ranks: every rank
gets the measure of the whole, and of `nearest_angles` those of its own rows.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import pad

from unclump._checks import check_choice, check_count, check_table
from unclump._precision import as_sets, take_rows
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Alone, Gather
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import angle, angle_of
from unclump.kernels import Riesz
from unclump.measures.rows import (
    BLOCK,
    PerSet,
    Points,
    directions_on_ranks,
    map_sets,
    per_set,
    squared_chord_block,
)
from unclump.measures.summary_table import Summary
from unclump.ops import faiss_search
from unclump.ops.blocks import blocks, upper_triangle
from unclump.ops.dispatch import has_native
from unclump.ops.kernel_sum import kernel_sum
from unclump.ops.native.chords import collect_chords, count_chords
from unclump.ops.nearest import nearest

_MINUS_ANGLE = Riesz(-1.0, "geodesic")
_KEPT = 4_000_000  # how many pairwise angles the median may hold at once
_BINS = 2**16  # and into how many bins it sorts them otherwise
_ALL = 0.0, 8.0  # where squared chords are
_SAMPLED = 2048  # rows whose angles say about where the median is


def nearest_angles(x: Points, *, neighbours: str = "exact", gather: Gather = False) -> Float[Tensor, "*sets n"]:
    """The angle between every point and its nearest other point.

    Args:
        x: Points, n >= 2.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed: the
            angles of points whose nearest was missed are those to another near one.
        gather: See above; then the neighbours are exact.

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
        raise ValueError("expected neighbours='exact' with gather, got 'faiss', which looks through one table only")
    else:
        tables = sets.view(-1, *sets.shape[-2:])
        near = torch.stack([table[faiss_search.nearest(table)[0]] for table in tables]).view_as(sets)
    return angle(sets, near).view(x.shape[:-1])


def min_angle(x: Points, *, neighbours: str = "exact", gather: Gather = False) -> PerSet:
    """The smallest angle between two points: what the Tammes problem maximises.

    Args:
        x: Points, n >= 2.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed: an
            upper bound.
        gather: See above.

    Example:
        >>> min_angle(torch.eye(3)) == torch.pi / 2
        True
    """
    x, ranks = directions_on_ranks(x, gather)
    angles = pad(_nearest_angles(x, ranks, neighbours), (0, 1), value=math.inf)  # a rank may have no rows
    return per_set(ranks.minimum(angles.amin(dim=-1)))


def mean_angle(x: Points, *, gather: Gather = False) -> PerSet:
    """The mean angle over all pairs. Independent uniform points have pi/2.

    Example:
        >>> round(mean_angle(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])) / torch.pi, 6)  # 1, 1/2, 1/2
        0.666667
    """
    x, ranks = directions_on_ranks(x, gather)
    return map_sets(lambda table: _mean_angle(table, ranks), x)


def _mean_angle(x: Tensor, ranks: Alone) -> float:
    total = -kernel_sum(x, _MINUS_ANGLE, needs_grad=False)[0].sum()
    for _, (y,) in ranks.ring(x):
        total -= kernel_sum(x, _MINUS_ANGLE, y, needs_grad=False)[0].sum()
    return float(ranks.sum(total)) / (ranks.total * (ranks.total - 1))


def median_angle(x: Points, *, gather: Gather = False) -> PerSet:
    """The median angle over all pairs, exact, without the matrix of them.

    A pass counts the pairs in fine bins, the next sorts the bin that holds the median. Of an even number of pairs the
    middle two are averaged.

    Example:
        >>> round(median_angle(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])), 6)  # of 90, 90 and 180 degrees
        1.570796
    """
    x, ranks = directions_on_ranks(x, gather)
    return map_sets(lambda table: _median_angle(table, ranks), x)


def _median_angle(x: Tensor, ranks: Alone) -> float:
    last, bracket = math.comb(ranks.total, 2) - 1, _around_median(x, ranks)
    middle = _select(x, ranks, last // 2, *bracket)[: 1 + last % 2]
    if len(middle) < 1 + last % 2:  # the upper of the middle two lies in another bin
        middle = torch.cat([middle, _select(x, ranks, last // 2 + 1, *bracket)[:1]])
    return angle_of(middle).mean().item()


def _around_median(x: Tensor, ranks: Alone) -> tuple[float, float]:
    """Where squared chords near the median begin, by those of some rows, and over what width; powers of two."""
    if ranks.size > 1 or len(x) < 2 * _SAMPLED:
        return _ALL
    sample = x[torch.arange(_SAMPLED, device=x.device) * len(x) // _SAMPLED]
    ordered = torch.cat(list(pair_chords(sample, Alone([_SAMPLED])))).sort().values
    low, high = (ordered[int(share * len(ordered))].item() for share in (0.48, 0.52))
    width = 2.0 ** math.ceil(math.log2(max(high - low, 2**-40)))
    low = math.floor(low / width * _BINS) * width / _BINS
    return (low, width) if low >= width else _ALL  # so that differences from `low` are exact


def spherical_variance(x: Points, *, gather: Gather = False) -> PerSet:
    r"""One minus the length of the mean of the points: 0 where they coincide, 1 where they balance.

    .. math:: \operatorname{svar}(x) = 1 - \lVert \mu \rVert, \quad \mu = \frac1n \sum_{i=1}^n x_i

    Example:
        >>> spherical_variance(torch.eye(4))
        0.5
    """
    return per_set(_spherical_variance(*directions_on_ranks(x, gather, at_least=1)))


def _spherical_variance(x: Tensor, ranks: Alone) -> Tensor:
    length: Tensor = vector_norm(ranks.sum(x.sum(dim=-2)) / ranks.total, dim=-1)
    return 1 - length


def covering_radius(
    x: Points,
    *,
    samples: int = 10_000,
    generator: torch.Generator | None = None,
    gather: Gather = False,
) -> PerSet:
    """The largest angle from a place on the sphere to its nearest point, of `samples` random places.

    A lower bound of the true radius, which rises towards it with the number of samples. All sets are measured from the
    same places.

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
        places = ranks.agree(uniform(count, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device))
        if x.shape[-2] > 0:
            index, _ = nearest(places.expand(*sets.shape[:-2], -1, -1), sets)
            here = angle(places, take_rows(sets, index.squeeze(-1)))  # (..., count)
        else:
            here = places.new_full((count,), math.inf)
        farthest = torch.maximum(farthest, ranks.minimum(here).amax(dim=-1))
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
    """The min(n, d) singular values, largest first; of a table that is spread over ranks d of them."""
    if ranks is not None and ranks.size > 1:
        gram = ranks.sum(x.mT @ x)
    else:
        gram = x.mT @ x if x.shape[-2] >= x.shape[-1] else x @ x.mT
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp_min(0).sqrt().flip(-1)


def rank_of(singular: Float[Tensor, "*sets m"]) -> Float[Tensor, "*sets"]:
    """The effective rank, of singular values; zero where all of them are."""
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
    """All measures of one table; the result prints itself as a table.

    Args:
        x: Points, n >= 2.
        samples: How many random places the covering radius looks at.
        generator: For those places.
        gather: See above.

    Example:
        >>> found = summary(torch.eye(3), generator=torch.Generator().manual_seed(0))
        >>> print(str(found).splitlines()[1])
        smallest angle                     90.0000°
    """
    check_count("samples", samples)
    x, ranks = directions_on_ranks(x, gather)
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
        mean_angle=_mean_angle(x, ranks),
        spherical_variance=_spherical_variance(x, ranks).item(),
        effective_rank=rank_of(singular_values(x, ranks)).item(),
        covering_radius=_covering_radius(x, ranks, samples, generator).item(),
        covering_samples=samples,
    )


def pair_chords(x: Float[Tensor, "n d"], ranks: Alone) -> Iterator[Float[Tensor, " k"]]:
    """The squared chords of all pairs, each once, a block at a time; those between ranks on the later one."""
    for rows, columns in upper_triangle(len(x), BLOCK):
        r2 = squared_chord_block(x[rows], x[columns])
        if rows == columns:
            yield r2[torch.ones_like(r2, dtype=torch.bool).triu(1)]
        else:
            yield r2.flatten()
    for origin, (y,) in ranks.ring(x):
        for rows, columns in blocks(len(x), len(y), BLOCK**2) if origin < ranks.rank else ():
            yield squared_chord_block(x[rows], y[columns]).flatten()


def _select(x: Float[Tensor, "n d"], ranks: Alone, rank: int, low: float, width: float) -> Float[Tensor, " k"]:
    """Of all pairs' squared chords the one of that rank, from 0, and at least one of those after it in its bin.

    A pass counts values in bins, the next looks only into the bin that holds the rank. All widths are powers of two, so
    that no value is rounded into another bin. The first bins are those of values from `low` on; if the rank is not
    there, of all.
    """
    while width > 2**-60:  # finer than any two different squared chords that double precision tells apart
        up_to = ranks.sum(_count_chords(x, ranks, low, width)).cumsum(0)
        if not up_to[0] <= rank < up_to[-1]:
            low, width = _ALL
            continue
        chosen = int(torch.searchsorted(up_to, rank, right=True)) - 1
        place, count = rank - int(up_to[chosen]), int(up_to[chosen + 1] - up_to[chosen])
        low, width = low + chosen * width / _BINS, width / _BINS
        if count <= _KEPT and ranks.size == 1:
            return _collect_chords(x, ranks, low, width, count).sort().values[place:]
    return torch.full((min(count - place, 2),), low, dtype=torch.float64)  # equal pairs may be as many as there are


def _count_chords(x: Float[Tensor, "n d"], ranks: Alone, low: float, width: float) -> Int[Tensor, " bins_and_one"]:
    """How many squared chords are below `low`, and in each of the bins from there on."""
    if ranks.size == 1 and has_native(x):
        return count_chords(x, low, width, _BINS)
    counts, below = torch.zeros(_BINS, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    for values in pair_chords(x, ranks):
        below += (values < low).sum().cpu()
        inside = values[(values >= low) & (values - low < width)]
        counts += torch.bincount(((inside - low) * (_BINS / width)).long(), minlength=_BINS).cpu()
    return torch.cat([below, counts])


def _collect_chords(
    x: Float[Tensor, "n d"], ranks: Alone, low: float, width: float, count: int
) -> Float[Tensor, " count"]:
    """The squared chords in a range that holds so many."""
    if has_native(x):
        return collect_chords(x, low, width, count)
    # One buffer: thousands of small tensors among the blocks would keep the allocator from reusing their space.
    kept, filled = torch.empty(count, dtype=torch.float64), 0
    for values in pair_chords(x, ranks):
        inside = values[(values >= low) & (values - low < width)]
        kept[filled : filled + len(inside)] = inside
        filled += len(inside)
    return kept
