"""The squared chords of all pairs, streamed in blocks, and their median, without the n x n matrix."""

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

_MAX_COLLECTED = 4_000_000  # squared chords held in memory at once; if there are more, they are counted in bins
_BINS = 2**16
_FULL_RANGE = 0.0, 8.0  # lower end and width of a range that contains all squared chords
_SAMPLED_ROWS = 2048  # their chords locate the median approximately


def pair_chords(x: Float[Tensor, "n d"], ranks: Alone) -> Iterator[Float[Tensor, " k"]]:
    """The squared chords of all pairs, each once, in blocks; the later of two ranks yields the pairs between them."""
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
    """The median of the squared chords of all pairs; for an even number of pairs, the middle two."""
    last, bracket = math.comb(ranks.total, 2) - 1, _bracket_median(x, ranks)
    middle = _select(x, ranks, last // 2, *bracket)[: 1 + last % 2]
    if len(middle) < 1 + last % 2:  # the upper of the middle two lies in another bin
        middle = torch.cat([middle, _select(x, ranks, last // 2 + 1, *bracket)[:1]])
    return middle


def _bracket_median(x: Tensor, ranks: Alone) -> tuple[float, float]:
    """Lower end and width (a power of two) of a range that likely contains the median, from a sample of rows."""
    if ranks.size > 1 or len(x) < 2 * _SAMPLED_ROWS:
        return _FULL_RANGE
    sample = x[torch.arange(_SAMPLED_ROWS, device=x.device) * len(x) // _SAMPLED_ROWS]
    ordered = torch.cat(list(pair_chords(sample, Alone([_SAMPLED_ROWS])))).sort().values
    low, high = (ordered[int(share * len(ordered))].item() for share in (0.48, 0.52))
    width = 2.0 ** math.ceil(math.log2(max(high - low, 2**-40)))
    low = math.floor(low / width * _BINS) * width / _BINS
    return (low, width) if low >= width else _FULL_RANGE  # low >= width makes differences from `low` exact


def _select(x: Float[Tensor, "n d"], ranks: Alone, rank: int, low: float, width: float) -> Float[Tensor, " k"]:
    """The squared chord of this rank among all pairs, counted from 0, followed by the next larger ones in its bin.

    Each pass counts values in bins, and the next one refines the bin that contains the rank. All widths are powers of
    two, so that rounding moves no value to another bin. The first pass covers the range from `low` to `low + width`; if
    the rank is not in it, the search restarts with the full range.
    """
    while width > 2**-60:  # below the spacing of squared chords in double precision
        cumulative = ranks.sum(_count_chords(x, ranks, low, width)).cumsum(0)
        if not cumulative[0] <= rank < cumulative[-1]:
            low, width = _FULL_RANGE
            continue
        chosen = int(torch.searchsorted(cumulative, rank, right=True)) - 1
        place, count = rank - int(cumulative[chosen]), int(cumulative[chosen + 1] - cumulative[chosen])
        low, width = low + chosen * width / _BINS, width / _BINS
        if count <= _MAX_COLLECTED and ranks.size == 1:
            return _collect_chords(x, ranks, low, width, count).sort().values[place:]
    return torch.full((min(count - place, 2),), low, dtype=torch.float64)  # too many equal values to collect


def _count_chords(x: Float[Tensor, "n d"], ranks: Alone, low: float, width: float) -> Int[Tensor, " bins_and_one"]:
    """The number of squared chords below `low`, and in each of the bins above it."""
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
    """The squared chords in a range that contains `count` of them."""
    if has_native(x):
        return collect_chords(x, low, width, count)
    # One buffer: thousands of small tensors between the blocks would fragment the allocator's memory.
    collected, filled = torch.empty(count, dtype=torch.float64), 0
    for values in pair_chords(x, ranks):
        inside = values[(values >= low) & (values - low < width)]
        collected[filled : filled + len(inside)] = inside
        filled += len(inside)
    return collected
