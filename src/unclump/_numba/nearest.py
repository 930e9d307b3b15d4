r"""Nearest neighbours by products in float32.

One pass over a block of products keeps the two smallest squared chords of every point; where they differ by more than
the rounding of float32 the nearest is known, and elsewhere those that rounding cannot tell apart are measured again, by
differences of coordinates in double precision.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Int32, Int64
from torch import Tensor

from unclump._numba import threads
from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.forces import squared_chord
from unclump._numba.product import BLOCK, WIDTH, pack, padded, products, small_blocks
from unclump._numba.team import team

_ROUNDING = np.float32(4e-6)  # of a squared chord in float32: generous, for thousands of dimensions
_LANES = 16  # minima that are kept side by side, for vector instructions
_TWO, _INFINITY = np.float32(2), np.float32(np.inf)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]
EachChords = Float32[np.ndarray, "t n"]
EachNumbers = Int[np.ndarray, "t n"]


def nearest(x: Float[Tensor, "n d"], blocks: Iterable[tuple[slice, slice]]) -> Int32[np.ndarray, " n"]:
    """`unclump.pairs.nearest`: equal to the exact one, the first of several that are equally near."""
    given, places = x.detach().contiguous().numpy(), small_blocks(blocks)
    found: Int32[np.ndarray, " n"] = _nearest_by_team(given, places, threads(len(places), at_least=1))
    return found


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"]) -> Int32[np.ndarray, " m"]:
    """`unclump.pairs.nearest_to` of float32: the largest inner product."""
    tables = samples.contiguous().numpy(), x.contiguous().numpy()
    found: Int32[np.ndarray, " m"] = nearest_to_each(*tables, threads(len(samples), at_least=WIDTH))
    return found


@compiled
def _nearest_by_team(
    given: Float[np.ndarray, "n d"], places: Int[np.ndarray, "k 4"], threads: int
) -> Int32[np.ndarray, " n"]:
    n, d = given.shape
    x, squares = np.zeros((padded(n), d), np.float32), np.zeros(padded(n), np.float32)
    _lay_out(given, x, squares)
    found: Int32[np.ndarray, " n"] = nearest_of(given, x, squares, places, threads)
    return found


@compiled
def nearest_of(
    given: Float[np.ndarray, "n d"], x: Points, squares: Chords, places: Int[np.ndarray, "k 4"], threads: int
) -> Int32[np.ndarray, " n"]:
    """The nearest of all points that are given, which in single precision and padded are x, with their squares."""
    n, members = len(given), min(threads, len(places))
    low, next_low = np.empty((members, n), np.float32), np.empty((members, n), np.float32)
    index = np.empty((members, n), np.int32)
    team(_two_nearest, (x, squares, places, low, next_low, index), members, members)
    unsure = _unsure(low, next_low, index)
    team(_search_again, (given, x, squares, unsure, low[0], index[0]), len(unsure), min(threads, len(unsure)))
    found: Int32[np.ndarray, " n"] = index[0]
    return found


@compiled
def nearest_to_each(samples: Points, x: Points, threads: int) -> Int32[np.ndarray, " m"]:
    """Samples are dealt out by sixteen."""
    index = np.zeros(len(samples), np.int32)
    team(_nearest_to, (samples, x, index), -(-len(samples) // WIDTH), threads)
    return index


@compiled_in_any_order
def _lay_out(given: Float[np.ndarray, "n d"], x: Points, squares: Chords) -> None:
    for i in range(len(given)):
        squared = 0.0
        for j in range(x.shape[1]):
            x[i, j] = given[i, j]
            squared += np.float64(x[i, j]) * np.float64(x[i, j])
        squares[i] = squared


@compiled
def _two_nearest(
    x: Points, squares: Chords, places: Int[np.ndarray, "k 4"],
    lows: EachChords, next_lows: EachChords, indices: EachNumbers, start: int, stop: int,
) -> None:  # fmt: skip
    """The two smallest squared chords of all points in every so manieth block, and whose the smallest is."""
    block, panels = np.empty((BLOCK, BLOCK), np.float32), np.empty((BLOCK // WIDTH, x.shape[1], WIDTH), np.float32)
    for member in range(start, stop):
        low, next_low, index = lows[member], next_lows[member], indices[member]
        low[:], next_low[:], index[:] = np.inf, np.inf, 0
        packed = -1
        for k in range(member, len(places), len(lows)):
            early, early_stop, late, late_stop = places[k]
            rows, columns, diagonal = late_stop - late, early_stop - early, early == late
            if early != packed:
                pack(x, early, columns, panels)
                packed = early
            products(x, late, rows, panels, columns, diagonal, block)
            _to_chords(block, rows, columns, diagonal, squares[late:], squares[early:])
            part = block[:rows]
            _keep_columns(part, columns, late, low[early:], next_low[early:], index[early:])
            _keep_rows(part, columns, early, low[late:], next_low[late:], index[late:])


@compiled
def _to_chords(
    block: Points, rows: int, columns: int, diagonal: bool, late_squares: Chords, early_squares: Chords
) -> None:
    """Squared chords for products; on the diagonal each pair once, and no point is its own neighbour."""
    for j in range(rows):
        stop = j if diagonal else columns
        for i in range(stop):
            block[j, i] = late_squares[j] + early_squares[i] - _TWO * block[j, i]
        for i in range(stop, columns):
            block[j, i] = np.inf


@compiled
def _unsure(low: EachChords, next_low: EachChords, index: EachNumbers) -> Int64[np.ndarray, " k"]:
    """Bring the threads' nearest together; the points whose two nearest rounding cannot tell apart.

    Where there is NaN, none is sure.
    """
    for member in range(1, len(low)):
        for i in range(low.shape[1]):
            nearer = low[member, i] < low[0, i]
            index[0, i] = index[member, i] if nearer else index[0, i]
            low[0, i], next_low[0, i] = _lowest_two(low[0, i], next_low[0, i], low[member, i], next_low[member, i])
    return np.flatnonzero(~(next_low[0] - low[0] > _ROUNDING))


@compiled
def _search_again(
    given: Float[np.ndarray, "n d"], x: Points, squares: Chords, unsure: Numbers, low: Chords, index: Numbers,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Keep the nearest by exact measure of those that rounding cannot tell apart."""
    n, d = given.shape
    some, smallest = np.zeros((padded(BLOCK), d), np.float32), np.empty(BLOCK)
    block, panels = np.empty((BLOCK, BLOCK), np.float32), np.empty((BLOCK // WIDTH, d, WIDTH), np.float32)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        for a in range(count):
            some[a], smallest[a] = x[unsure[first + a]], np.inf
        for column in range(0, n, BLOCK):
            columns = min(BLOCK, n - column)
            pack(x, column, columns, panels)
            products(some, 0, count, panels, columns, False, block)
            for a in range(count):
                _measure_again(given, squares, unsure[first + a], column, columns, block[a], low, smallest, a, index)


@compiled
def _measure_again(
    given: Float[np.ndarray, "n d"], squares: Chords, i: int, column: int, columns: int, products: Chords,
    low: Chords, smallest: Float64[np.ndarray, " a"], a: int, index: Numbers,
) -> None:  # fmt: skip
    """Of one point and a block of others; nothing is nearer than a twin."""
    for b in range(columns if smallest[a] > 0 else 0):
        k = column + b
        if squares[i] + squares[k] - _TWO * products[b] <= low[i] + _ROUNDING and k != i:
            r2 = squared_chord(given, i, given, k)
            if r2 < smallest[a]:
                smallest[a], index[i] = r2, k


@compiled
def _nearest_to(samples: Points, x: Points, index: Numbers, start: int, stop: int) -> None:
    """The last points are copied to where rows of zeros follow."""
    n, d = x.shape
    block, panels = np.empty((BLOCK, BLOCK), np.float32), np.zeros((BLOCK // WIDTH, d, WIDTH), np.float32)
    low, next_low = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    last, end, some = (
        (n - 1) // BLOCK * BLOCK,
        min(stop * WIDTH, len(samples)),
        np.zeros((padded(BLOCK), d), np.float32),
    )
    some[: n - last] = x[last:]
    for first in range(start * WIDTH, end, BLOCK):
        columns = min(BLOCK, end - first)
        pack(samples, first, columns, panels)
        panels *= -1  # the largest product is the lowest then
        low[:], next_low[:] = np.inf, np.inf
        for row in range(0, n, BLOCK):
            rows = min(BLOCK, n - row)
            if row == last:
                products(some, 0, rows, panels, columns, False, block)
            else:
                products(x, row, rows, panels, columns, False, block)
            _keep_columns(block[:rows], columns, row, low, next_low, index[first:])


# Indices run over whole ranges, and all is read before it is decided what to write: only so are the loops vectorised.
# Eight chords are reduced to the lower two before these meet the two that are kept, whose loads and stores would
# otherwise be most of the work. So it is the first of the eight that is noted, and the one meant is found afterwards.


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
def _keep_columns(block: Points, columns: int, row: int, low: Chords, next_low: Chords, index: Numbers) -> None:
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
            low[b], next_low[b] = _lowest_two(smallest, second, r2, next_r2)
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
            low[b], next_low[b] = _lowest_two(low[b], next_low[b], *_pair(block[a, b], _INFINITY))


@compiled
def _keep_rows(block: Points, columns: int, column: int, low: Chords, next_low: Chords, index: Numbers) -> None:
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
                lane[k], next_lane[k] = _lowest_two(smallest, second, r2, next_r2)
        best, nearer = -1, False
        for k in range(_LANES):
            nearer |= lane[k] < next_low[a]
        for k in range(_LANES if nearer else 0):
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
