r"""Nearest neighbours by products in float32.

One pass over a block of products keeps the two smallest squared chords of every point; where they differ by more than
the rounding of float32 the nearest is known, and elsewhere those that rounding cannot tell apart are measured again, by
differences of coordinates in double precision.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Int32, Int64
from torch import Tensor

from unclump.ops.native import threads
from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.forces import squared_chord
from unclump.ops.native.minima import keep_columns, keep_rows, lowest_two
from unclump.ops.native.product import BLOCK, WIDTH, pack, padded, products, small_blocks
from unclump.ops.native.projection import squared_norm
from unclump.ops.native.team import team

_ROUNDING = np.float32(4e-6)  # of a squared chord in float32: generous, for thousands of dimensions
_TWO = np.float32(2)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]
EachChords = Float32[np.ndarray, "t n"]
EachNumbers = Int[np.ndarray, "t n"]


def nearest(x: Float[Tensor, "n d"], blocks: Iterable[tuple[slice, slice]]) -> Int32[np.ndarray, " n"]:
    """`unclump.ops.pairs.nearest`: equal to the exact one, the first of several that are equally near."""
    given, places = x.detach().contiguous().numpy(), small_blocks(blocks)
    found: Int32[np.ndarray, " n"] = _nearest_by_team(given, places, threads(len(places), at_least=1))
    return found


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"]) -> Int32[np.ndarray, " m"]:
    """`unclump.ops.pairs.nearest_to` of float32: the largest inner product."""
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
    n, members = len(given), max(1, min(threads, len(places)))
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
        for j in range(x.shape[1]):
            x[i, j] = given[i, j]
        squares[i] = squared_norm(x, i)


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
            keep_columns(part, columns, late, low[early:], next_low[early:], index[early:])
            keep_rows(part, columns, early, low[late:], next_low[late:], index[late:])


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
            low[0, i], next_low[0, i] = lowest_two(low[0, i], next_low[0, i], low[member, i], next_low[member, i])
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
            r2 = squared_chord(given, i, k)
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
            keep_columns(block[:rows], columns, row, low, next_low, index[first:])
