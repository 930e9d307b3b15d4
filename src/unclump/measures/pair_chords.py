"""The squared chords of all pairs, streamed in blocks, and their median, without the n x n matrix."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.measures.rows import BLOCK, squared_chord_block
from unclump.ops.blocks import blocks, upper_triangle
from unclump.ops.dispatch import has_native
from unclump.ops.native.chords import collect_chords, count_chords

_MAX_COLLECTED = 8_000_000  # squared chords held in memory at once; if there are more, they are counted in bins
_BINS = 2**16
_FULL_RANGE = 0.0, 8.0  # lower end and width: no squared chord is outside
SAMPLED_PAIRS = 2**23  # at most; their chords locate the median approximately
_SAMPLED_BLOCK = 128  # rows, at most
_MARGIN = 2.8  # standard errors of the sample's median to either side: a range misses in 1 of 200 tables


class _Range(NamedTuple):
    """A range of squared chords, and about how many of them are in it."""

    low: float
    width: float
    expected: float


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
    middle = _select(x, ranks, last // 2, bracket)[: 1 + last % 2]
    if len(middle) < 1 + last % 2:  # the upper of the middle two lies in another bin
        middle = torch.cat([middle, _select(x, ranks, last // 2 + 1, bracket)[:1]])
    return middle


def _bracket_median(x: Tensor, ranks: Alone) -> _Range:
    """A range that likely contains the median."""
    pairs = math.comb(ranks.total, 2)
    everything = _Range(*_FULL_RANGE, pairs)
    if ranks.size > 1 or pairs <= max(SAMPLED_PAIRS, _MAX_COLLECTED):
        return everything
    sample = sample_chords(x)
    margin = _MARGIN * math.sqrt(len(sample)) / 2
    ends = [int(len(sample) / 2 + sign * margin) for sign in (-1, 1)]
    sample.partition(ends)
    low, high = sample[ends].tolist()
    width, expected = max(high - low, 2**-40), pairs * 2 * margin / len(sample)
    if expected <= _MAX_COLLECTED:
        return _Range(low, width, expected)
    width = 2.0 ** math.ceil(math.log2(width))
    low = math.floor(low / width * _BINS) * width / _BINS
    is_exact = low >= width  # then differences from `low` are exact, as bins need
    return _Range(low, width, expected) if is_exact else everything


def sample_chords(x: Float[Tensor, "n d"]) -> Float[np.ndarray, " pairs"]:
    """Squared chords of pairs from all over the table.

    Rows in random order are paired with those of the next block. Every row is in equally many pairs: if some rows are
    far from all others, as in a table with clusters, the median of a sample of rows would be less certain.
    """
    n = len(x)
    size = max(1, min(_SAMPLED_BLOCK, SAMPLED_PAIRS // n))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0), device="cpu").to(x.device)
    groups = order[: n // size * size].view(-1, size)
    chords = torch.empty(len(groups), size, size, dtype=torch.float32, device="cpu")
    for target, rows, others in zip(chords, groups, groups.roll(1, 0), strict=True):
        target.copy_(squared_chord_block(x[rows], x[others]))
    return chords.flatten().numpy()


def _select(x: Float[Tensor, "n d"], ranks: Alone, rank: int, bracket: _Range) -> Float[Tensor, " k"]:
    """The squared chord of this rank among all pairs, counted from 0, followed by the next larger ones in its range.

    If the range is expected to have few squared chords, they are collected and sorted. Otherwise a pass counts values
    in bins of the range, and the next one refines the bin that contains the rank. The widths of bins are powers of two,
    so that rounding moves no value to another bin. If the rank is not in the range, the search restarts with the full
    range.
    """
    low, width, expected = bracket
    while True:
        if expected <= _MAX_COLLECTED and ranks.size == 1:
            below, chords = _collect_chords(x, ranks, low, width)
            if chords is not None and below <= rank < below + len(chords):
                chords.numpy().sort()  # in place, where torch would need three times the memory
                return chords[rank - below :]
            (low, width), expected = _FULL_RANGE, math.inf  # the sample misled
            continue
        if width <= 2**-60:  # below the spacing of squared chords in double precision
            break
        cumulative = ranks.sum(_count_chords(x, ranks, low, width)).cumsum(0)
        if not cumulative[0] <= rank < cumulative[-1]:
            low, width = _FULL_RANGE
            continue
        chosen = int(torch.searchsorted(cumulative, rank, right=True)) - 1
        place, expected = rank - int(cumulative[chosen]), int(cumulative[chosen + 1] - cumulative[chosen])
        low, width = low + chosen * width / _BINS, width / _BINS
    return torch.full((min(int(expected) - place, 2),), low, dtype=torch.float64)  # too many equal values to collect


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
    x: Float[Tensor, "n d"], ranks: Alone, low: float, width: float
) -> tuple[int, Float[Tensor, " chords"] | None]:
    """The number of squared chords below `low`, and those in the range, or None if they are too many."""
    room = min(_MAX_COLLECTED, math.comb(len(x), 2))
    if has_native(x):
        return collect_chords(x, low, width, room)
    # One buffer: thousands of small tensors between the blocks would fragment the allocator's memory.
    collected, below, filled = torch.empty(room, dtype=torch.float64, device="cpu"), 0, 0
    for values in pair_chords(x, ranks):
        below += int((values < low).sum())
        inside = values[(values >= low) & (values - low < width)]
        if filled + len(inside) > room:
            return below, None
        collected[filled : filled + len(inside)] = inside
        filled += len(inside)
    return below, collected[:filled]
