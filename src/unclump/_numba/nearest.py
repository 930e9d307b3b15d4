r"""Nearest neighbours by products in float32.

Inner products come from BLAS, block by block. One pass over a block keeps the two smallest squared chords of every
point; where they differ by more than the rounding of float32 the nearest is known, and elsewhere those that rounding
cannot tell apart are measured again, by differences of coordinates in double precision.
"""

from collections.abc import Iterator, Sequence
from functools import partial, reduce

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Int32, Int64
from torch import Tensor

from unclump._numba import deal, share
from unclump._numba.compiler import compiled
from unclump._numba.pairs import Blocks, squared_chord

_ROUNDING = np.float32(4e-6)  # of a squared chord in float32: generous, for thousands of dimensions
_A_THREAD = 2**18  # pairs that are worth a thread
_LANES = 16  # minima that are kept side by side, for vector instructions
_INFINITY = np.float32(np.inf)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]


def nearest(x: Float[Tensor, "n d"], blocks: Iterator[tuple[slice, slice]], size: int) -> Int32[np.ndarray, " n"]:
    """`unclump.pairs.nearest`: equal to the exact one, the first of several that are equally near."""
    chords, n = Blocks(x.float(), size), len(x)

    def two_nearest(blocks: Sequence[tuple[slice, slice]]) -> tuple[Chords, Chords, Numbers]:
        low, next_low, index = np.full(n, np.inf, np.float32), np.full(n, np.inf, np.float32), np.zeros(n, np.int32)
        for rows, columns in blocks:
            block = chords.squared_chords(rows, columns).numpy()
            if rows == columns:
                _leave_out_diagonal(block)  # no point is its own neighbour
            _keep_columns(block, rows.start, low[columns], next_low[columns], index[columns])
            if rows != columns:
                _keep_rows(block, columns.start, low[rows], next_low[rows], index[rows])
        return low, next_low, index

    low, next_low, index = reduce(_nearer, deal(two_nearest, blocks))
    unsure = _unsure(low, next_low)
    for start in range(0, len(unsure), size):
        some = unsure[start : start + size]
        smallest, limits = np.full(len(some), np.inf), low[some] + _ROUNDING
        for column in range(0, n, size):
            if n <= size:  # the block that holds everything is still there
                block, places = chords.buffer(n, n).numpy(), some
            else:
                block, places = chords.squared_chords(some, slice(column, column + size)).numpy(), np.arange(len(some))
            among = x.detach().contiguous().numpy(), some, column, limits, smallest, index
            share(partial(_measure_again, block, places, *among), len(some), at_least=1 + _A_THREAD // size)
    return index


def _nearer(one: tuple[Chords, Chords, Numbers], two: tuple[Chords, Chords, Numbers]) -> tuple[Chords, Chords, Numbers]:
    """The two nearest of all, from the two nearest of both."""
    low, next_low = np.minimum(one[0], two[0]), np.minimum(one[1], two[1])
    return low, np.minimum(next_low, np.maximum(one[0], two[0])), np.where(two[0] < one[0], two[2], one[2])


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"], block: int) -> Int32[np.ndarray, " m"]:
    """`unclump.pairs.nearest_to` of float32: the largest inner product, block by block of the points."""
    m, away = len(samples), -samples.mT
    low, next_low, index = np.full(m, np.inf, np.float32), np.empty(m, np.float32), np.zeros(m, np.int32)
    for start in range(0, len(x), block):
        points = x[start : start + block]
        _keep_columns((points @ away).numpy(), start, low, next_low, index)
    return index


# Indices run over whole ranges, and all is read before it is decided what to write: only so are the loops vectorised.
# Eight chords are reduced to the lower two before these meet the two that are kept, whose loads and stores would
# otherwise be most of the work. So it is the first of the eight that is noted, and the one meant is found afterwards.


@compiled
def _leave_out_diagonal(block: Points) -> None:
    for a in range(len(block)):
        block[a, a] = np.inf


@compiled
def _unsure(low: Chords, next_low: Chords) -> Int64[np.ndarray, " k"]:
    """The points whose two nearest rounding cannot tell apart; where there is NaN, none is sure."""
    return np.flatnonzero(~(next_low - low > _ROUNDING))


@compiled
def _lower_of_two(a: float, b: float) -> tuple[float, float]:
    nearer = a < b
    return a if nearer else b, b if nearer else a


@compiled
def _lowest_two(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """Of two ascending pairs."""
    low, beaten = _lower_of_two(a, c)
    second = b if b < d else d
    return low, beaten if beaten < second else second


@compiled
def _pair(a: float, b: float) -> tuple[float, float]:
    """In ascending order; NaN is nobody's neighbour."""
    low, high = _lower_of_two(a if a < _INFINITY else _INFINITY, b if b < _INFINITY else _INFINITY)
    return low, high


@compiled
def _lowest_two_of_eight(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float
) -> tuple[float, float]:
    early, late = _lowest_two(*_pair(a, b), *_pair(c, d)), _lowest_two(*_pair(e, f), *_pair(g, h))
    lowest: tuple[float, float] = _lowest_two(*early, *late)
    return lowest


@compiled
def _keep_columns(block: Points, row: int, low: Chords, next_low: Chords, index: Numbers) -> None:
    """Keep the two smallest squared chords of every column's point, and where the smallest is."""
    eights = len(block) // 8 * 8
    for a in range(0, eights, 8):
        here = np.int32(row + a)
        for b in range(block.shape[1]):
            c0, c1, c2, c3 = block[a, b], block[a + 1, b], block[a + 2, b], block[a + 3, b]
            c4, c5, c6, c7 = block[a + 4, b], block[a + 5, b], block[a + 6, b], block[a + 7, b]
            smallest, second, place = low[b], next_low[b], index[b]
            r2, next_r2 = _lowest_two_of_eight(c0, c1, c2, c3, c4, c5, c6, c7)
            index[b] = here if r2 < smallest else place
            low[b], next_low[b] = _lowest_two(smallest, second, r2, next_r2)
    for b in range(block.shape[1]):
        first = index[b] - row
        for a in range(first, first + 8) if 0 <= first < eights else range(0):
            if block[a, b] == low[b]:
                index[b] = row + a
                break
    for a in range(eights, len(block)):
        for b in range(block.shape[1]):
            if block[a, b] < low[b]:
                index[b] = row + a
            low[b], next_low[b] = _lowest_two(low[b], next_low[b], *_pair(block[a, b], _INFINITY))


@compiled
def _keep_rows(block: Points, column: int, low: Chords, next_low: Chords, index: Numbers) -> None:
    """The same of every row's point: a pair of minima for each lane, and then those of the lanes."""
    columns = block.shape[1]
    lane, next_lane, places = np.empty(_LANES, np.float32), np.empty(_LANES, np.float32), np.empty(_LANES, np.int32)
    turns = columns // (8 * _LANES)
    for a in range(len(block)):
        lane[:], next_lane[:], places[:] = np.inf, np.inf, 0
        for turn in range(turns):
            start = 8 * _LANES * turn
            for k in range(_LANES):
                b = start + k
                c0, c1, c2, c3 = block[a, b], block[a, b + _LANES], block[a, b + 2 * _LANES], block[a, b + 3 * _LANES]
                b += 4 * _LANES
                c4, c5, c6, c7 = block[a, b], block[a, b + _LANES], block[a, b + 2 * _LANES], block[a, b + 3 * _LANES]
                smallest, second, place = lane[k], next_lane[k], places[k]
                r2, next_r2 = _lowest_two_of_eight(c0, c1, c2, c3, c4, c5, c6, c7)
                places[k] = np.int32(start) if r2 < smallest else place
                lane[k], next_lane[k] = _lowest_two(smallest, second, r2, next_r2)
        best = -1
        for k in range(_LANES):
            if lane[k] < low[a]:
                best = k
            low[a], next_low[a] = _lowest_two(low[a], next_low[a], lane[k], next_lane[k])
        if best >= 0:
            b = places[best] + best
            while block[a, b] != low[a]:
                b += _LANES
            index[a] = column + b
        for b in range(8 * _LANES * turns, columns):
            if block[a, b] < low[a]:
                index[a] = column + b
            low[a], next_low[a] = _lowest_two(low[a], next_low[a], *_pair(block[a, b], _INFINITY))


@compiled
def _measure_again(
    block: Float32[np.ndarray, "_ b"],
    places: Int[np.ndarray, " a"],
    x: Float[np.ndarray, "n d"],
    rows: Int[np.ndarray, " a"],
    column: int,
    limits: Chords,
    smallest: Float64[np.ndarray, " a"],
    index: Numbers,
    start: int,
    stop: int,
) -> None:
    """Keep the nearest by exact measure of those within the limits; nothing is nearer than a twin."""
    for a in range(start, stop):
        i, place = rows[a], places[a]
        for b in range(block.shape[1]):
            if smallest[a] == 0:
                break
            if block[place, b] <= limits[a] and column + b != i:
                r2 = squared_chord(x, i, x, column + b)
                if r2 < smallest[a]:
                    smallest[a], index[i] = r2, column + b
