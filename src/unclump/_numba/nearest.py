r"""Nearest neighbours by products in float32, and distances to them with their gradient.

Inner products come from BLAS, block by block. One pass over a block keeps the two smallest squared chords of every
point; where they differ by more than the rounding of float32 the nearest is known, and elsewhere those that rounding
cannot tell apart are measured again, by differences of coordinates in double precision.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int, Int32, Int64
from torch import Tensor

from unclump._numba import deal, share
from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.pairs import Blocks, squared_chord
from unclump._numba.rows import project, project_rows_backward

_ROUNDING = np.float32(4e-6)  # of a squared chord in float32: generous, for thousands of dimensions
_A_THREAD = 2**18  # pairs that are worth a thread
_LANES = 16  # minima that are kept side by side, for vector instructions
_TWO, _INFINITY = np.float32(2), np.float32(np.inf)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]


def nearest(x: Float[Tensor, "n d"], blocks: Iterator[tuple[slice, slice]], size: int) -> Int[Tensor, " n"]:
    """`unclump.pairs.nearest`: equal to the exact one, the first of several that are equally near."""
    return torch.from_numpy(_nearest(x, blocks, size)).long()


def _nearest(x: Float[Tensor, "n d"], blocks: Iterator[tuple[slice, slice]], size: int) -> Int32[np.ndarray, " n"]:
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


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"], block: int) -> Int[Tensor, " m"]:
    """`unclump.pairs.nearest_to` of float32: the largest inner product, block by block of the points."""
    return torch.from_numpy(_nearest_to(samples, x, block)).long()


def _nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"], block: int) -> Int32[np.ndarray, " m"]:
    m, away = len(samples), -samples.mT
    low, next_low, index = np.full(m, np.inf, np.float32), np.empty(m, np.float32), np.zeros(m, np.int32)
    for start in range(0, len(x), block):
        points = x[start : start + block]
        _keep_columns((points @ away).numpy(), start, low, next_low, index)
    return index


def mean_of_nearest(
    embeddings: Float32[Tensor, "n d"],
    blocks: Iterator[tuple[slice, slice]],
    size: int,
    *,
    kind: str,
    logarithm: bool,
    apart: float,
    wanted: bool,
) -> tuple[Float32[Tensor, ""], Float32[Tensor, "n d"] | None]:
    """Minus the mean distance of the embeddings' directions to the nearest other one, or minus that of its logarithm.

    The gradient, where it is wanted, is that by the embeddings.
    """
    x, inverse_norms = project(embeddings)
    index, gradient = _nearest(x, blocks, size), torch.zeros_like(x if wanted else x[:0])
    arrays = *_arrays(x, inverse_norms), index, kind == "geodesic", kind == "squared", logarithm, apart
    return x.new_tensor(_mean_of_nearest(*arrays, gradient.numpy())), gradient if wanted else None


def mean_square_to_nearest(
    embeddings: Float32[Tensor, "n d"], samples: Float32[Tensor, "m d"], block: int, *, wanted: bool
) -> tuple[Float32[Tensor, ""], Float32[Tensor, "n d"] | None]:
    """Half the mean squared angle between the samples and the nearest of the embeddings' directions; its gradient."""
    x, inverse_norms = project(embeddings)
    index, gradient = _nearest_to(samples, x, block), torch.zeros_like(x if wanted else x[:0])
    value = _mean_square_to_nearest(*_arrays(samples, x, inverse_norms), index, gradient.numpy())
    return x.new_tensor(value), gradient if wanted else None


def distances(samples: Tensor, x: Tensor, index: Tensor, kind: str, apart: float) -> Tensor:
    """Distances of the samples to the points with these numbers: "chordal", "geodesic" or "squared".

    Coinciding ones are taken to be `apart`; samples are the points themselves where it is not zero.
    """
    result = samples.new_empty(len(samples))
    _distances(*_arrays(samples, x, index), kind == "geodesic", apart, result.numpy())
    return result.square() if kind == "squared" else result


def distances_backward(
    samples: Tensor, x: Tensor, index: Tensor, kind: str, apart: float, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the weighted sum of `distances` by samples and points."""
    by_samples, by_points = torch.zeros_like(samples), torch.zeros_like(x)
    arrays = *_arrays(samples, x, index), kind == "geodesic", kind == "squared", apart
    _distances_backward(*arrays, *_arrays(weights, by_samples, by_points))
    return by_samples, by_points


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


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
def _lowest_two_of_eight(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float
) -> tuple[float, float]:
    early = _lowest_two(*_lower_of_two(a, b), *_lower_of_two(c, d))
    late = _lowest_two(*_lower_of_two(e, f), *_lower_of_two(g, h))
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
            low[b], next_low[b] = _lowest_two(low[b], next_low[b], block[a, b], _INFINITY)


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
            low[a], next_low[a] = _lowest_two(low[a], next_low[a], block[a, b], _INFINITY)


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


@compiled_in_any_order
def _squares(samples: Points, i: int, x: Points, k: int) -> tuple[Any, Any]:
    """The squared lengths of the difference and of the sum."""
    r2, s2 = np.float32(0), np.float32(0)
    for j in range(x.shape[1]):
        difference, total = samples[i, j] - x[k, j], samples[i, j] + x[k, j]
        r2 += difference * difference
        s2 += total * total
    return r2, s2


@compiled
def _distances(samples: Points, x: Points, index: Numbers, geodesic: bool, apart: float, result: Chords) -> None:
    for i in range(len(samples)):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = math.sqrt(r2) if r2 > 0 else apart
        result[i] = 2 * math.atan2(chord, math.sqrt(s2)) if geodesic else chord


@compiled
def _distances_backward(
    samples: Points, x: Points, index: Numbers, geodesic: bool, squared: bool, apart: float,
    weights: Chords, by_samples: Points, by_points: Points,
) -> None:  # fmt: skip
    for i in range(len(samples)):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = math.sqrt(r2) if r2 > 0 else apart
        around, along = _slopes(chord, s2, weights[i], geodesic, squared)
        _add_both(samples, i, x, index[i], 0.0 if r2 > 0 else apart, around, along, by_samples, by_points)


@compiled
def _mean_of_nearest(
    x: Points, inverse_norms: Chords, index: Numbers, geodesic: bool, squared: bool, logarithm: bool, apart: float,
    gradient: Points,
) -> float:  # fmt: skip
    n, total = len(x), 0.0
    for i in range(n):
        r2, s2 = _squares(x, i, x, index[i])
        chord = math.sqrt(r2) if r2 > 0 else apart
        distance = 2 * math.atan2(chord, math.sqrt(s2)) if geodesic else chord * chord if squared else chord
        total -= math.log(distance) if logarithm else distance
        if len(gradient) > 0:
            weight = -1 / (n * distance) if logarithm else -1 / n
            around, along = _slopes(chord, s2, weight, geodesic, squared)
            _add_both(x, i, x, index[i], 0.0 if r2 > 0 else apart, around, along, gradient, gradient)
    project_rows_backward(x, inverse_norms, gradient, gradient, 0, len(gradient))
    return total / n


@compiled
def _mean_square_to_nearest(
    samples: Points, x: Points, inverse_norms: Chords, index: Numbers, gradient: Points
) -> float:
    m, total = len(samples), 0.0
    for i in range(m):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = math.sqrt(r2)
        angle = 2 * math.atan2(chord, math.sqrt(s2))
        total += angle * angle / 2
        if len(gradient) > 0:
            around, along = _slopes(chord, s2, angle / m, True, False)
            _add(samples, i, x, index[i], np.float32(-around), np.float32(along), gradient, index[i])
    project_rows_backward(x, inverse_norms, gradient, gradient, 0, len(gradient))
    return total / m


@compiled
def _slopes(chord: float, s2: float, weight: float, geodesic: bool, squared: bool) -> tuple[float, float]:
    """The gradient by a point of its weighted distance to another, along their difference and along their sum."""
    if squared:
        return 2 * weight, 0.0
    inverse = 1 / chord if chord > 0 else 0.0
    if not geodesic:
        return weight * inverse, 0.0
    turn = 2 * weight / (chord * chord + s2)
    return turn * math.sqrt(s2) * inverse, -turn * chord / math.sqrt(s2) if s2 > 0 else 0.0


@compiled
def _add_both(
    samples: Points, i: int, x: Points, k: int, apart: float, around: float, along: float,
    by_samples: Points, by_points: Points,
) -> None:  # fmt: skip
    """Add the gradients by a sample and by its point; those that coincide are taken `apart`, where it is not zero."""
    if apart == 0:
        _add(samples, i, x, k, np.float32(around), np.float32(along), by_samples, i)
        _add(samples, i, x, k, np.float32(-around), np.float32(along), by_points, k)
    else:
        side = (apart if i > k else -apart) * around
        _add_apart(x, i, np.float32(side), np.float32(along), by_samples, i)
        _add_apart(x, i, np.float32(-side), np.float32(along), by_points, k)


@compiled
def _add(samples: Points, i: int, x: Points, k: int, around: float, along: float, gradient: Points, row: int) -> None:
    for j in range(x.shape[1]):
        difference, total = samples[i, j] - x[k, j], samples[i, j] + x[k, j]
        gradient[row, j] += around * difference + along * total


@compiled
def _add_apart(x: Points, i: int, around: float, along: float, gradient: Points, row: int) -> None:
    """As `unclump.pairs.escape`: towards the axis most nearly orthogonal to the point."""
    axis = 0
    for j in range(x.shape[1]):
        if abs(x[i, j]) < abs(x[i, axis]):
            axis = j
    scale = around / np.float32(math.sqrt(1 - x[i, axis] * x[i, axis]))
    for j in range(x.shape[1]):
        difference = (np.float32(1) if j == axis else np.float32(0)) - x[i, axis] * x[i, j]
        gradient[row, j] += scale * difference + along * _TWO * x[i, j]
