"""The two lowest entries of every column of a block, or of every row, and where the lowest is."""

import numpy as np
from jaxtyping import Float32, Int

from unclump.ops.native.compiler import compiled

_LANES = 16  # minima that are kept side by side, for vector instructions
_INFINITY = np.float32(np.inf)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]

# Indices run over whole ranges, and all is read before it is decided what to write: only so are the loops vectorised.
# Eight chords are reduced to the lower two before these meet the two that are kept, whose loads and stores would
# otherwise be most of the work. So it is the first of the eight that is noted, and the one meant is found afterwards.


@compiled
def _lower_of_two(a: float, b: float) -> tuple[float, float]:
    nearer = a < b
    return a if nearer else b, b if nearer else a


@compiled
def lowest_two(a: float, b: float, c: float, d: float) -> tuple[float, float]:
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
    early, late = lowest_two(*_pair(a, b), *_pair(c, d)), lowest_two(*_pair(e, f), *_pair(g, h))
    lowest: tuple[float, float] = lowest_two(*early, *late)
    return lowest


@compiled
def keep_columns(block: Points, columns: int, row: int, low: Chords, next_low: Chords, index: Numbers) -> None:
    """Keep the two smallest squared chords of every column's point, and where the smallest is."""
    eights = len(block) // 8 * 8
    for a in range(0, eights, 8):
        here = np.int32(row + a)
        for b in range(columns):
            c0, c1, c2, c3 = block[a, b], block[a + 1, b], block[a + 2, b], block[a + 3, b]
            c4, c5, c6, c7 = block[a + 4, b], block[a + 5, b], block[a + 6, b], block[a + 7, b]
            smallest, second, place = low[b], next_low[b], index[b]
            r2, next_r2 = _lowest_two_of_eight(c0, c1, c2, c3, c4, c5, c6, c7)
            index[b] = here if r2 < smallest else place
            low[b], next_low[b] = lowest_two(smallest, second, r2, next_r2)
    for b in range(columns):
        first = index[b] - row
        for a in range(first, first + 8) if 0 <= first < eights else range(0):
            if block[a, b] == low[b]:
                index[b] = row + a
                break
    for a in range(eights, len(block)):
        for b in range(columns):
            if block[a, b] < low[b]:
                index[b] = row + a
            low[b], next_low[b] = lowest_two(low[b], next_low[b], *_pair(block[a, b], _INFINITY))


@compiled
def keep_rows(block: Points, columns: int, column: int, low: Chords, next_low: Chords, index: Numbers) -> None:
    """The same of every row's point: a pair of minima for each lane, and then those of the lanes."""
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
                lane[k], next_lane[k] = lowest_two(smallest, second, r2, next_r2)
        best, nearer = -1, False
        for k in range(_LANES):
            nearer |= lane[k] < next_low[a]
        for k in range(_LANES if nearer else 0):
            if lane[k] < low[a]:
                best = k
            low[a], next_low[a] = lowest_two(low[a], next_low[a], lane[k], next_lane[k])
        if best >= 0:
            b = places[best] + best
            while block[a, b] != low[a]:
                b += _LANES
            index[a] = column + b
        for b in range(8 * _LANES * turns, columns):
            if block[a, b] < low[a]:
                index[a] = column + b
            low[a], next_low[a] = lowest_two(low[a], next_low[a], *_pair(block[a, b], _INFINITY))
