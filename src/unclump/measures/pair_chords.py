"""The squared chords of all pairs: block by block, and the middle ones of them, without the matrix."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.measures.rows import BLOCK, squared_chord_block
from unclump.ops.blocks import blocks, upper_triangle
from unclump.ops.dispatch import has_native
from unclump.ops.native.chords import collect_chords, count_chords

_KEPT = 4_000_000  # how many squared chords may be held at once
_BINS = 2**16  # into how many bins they are counted otherwise
_ALL = 0.0, 8.0  # where squared chords are
_SAMPLED = 2048  # rows whose chords say about where the median is


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


def median_chords(x: Float[Tensor, "n d"], ranks: Alone) -> Float[Tensor, " one_or_two"]:
    """The middle one of the squared chords of all pairs; of an even number of pairs, the middle two."""
    last, bracket = math.comb(ranks.total, 2) - 1, _around_median(x, ranks)
    middle = _select(x, ranks, last // 2, *bracket)[: 1 + last % 2]
    if len(middle) < 1 + last % 2:  # the upper of the middle two lies in another bin
        middle = torch.cat([middle, _select(x, ranks, last // 2 + 1, *bracket)[:1]])
    return middle


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
