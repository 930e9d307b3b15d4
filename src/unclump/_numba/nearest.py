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
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor

from unclump._numba import deal, share
from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.pairs import Blocks, squared_chord

_ROUNDING = np.float32(4e-6)  # of a squared chord in float32: generous, for thousands of dimensions
_A_THREAD = 2**18  # pairs that are worth a thread
_LANES = 32  # minima that are kept side by side, for vector instructions
_TWO = np.float32(2)

Points = Float32[np.ndarray, "n d"]
Chords = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]


def nearest(x: Float[Tensor, "n d"], blocks: Iterator[tuple[slice, slice]], size: int) -> Int[Tensor, " n"]:
    """`unclump.pairs.nearest`: equal to the exact one, the first of several that are equally near."""
    chords, n = Blocks(x.float(), size), len(x)

    def two_nearest(blocks: Sequence[tuple[slice, slice]]) -> tuple[Chords, Chords, Numbers]:
        own = chords.for_a_thread()
        low, next_low, index = np.full(n, np.inf, np.float32), np.full(n, np.inf, np.float32), np.zeros(n, np.int32)
        for rows, columns in blocks:
            block = own.squared_chords(rows, columns).numpy()
            if rows == columns:
                np.fill_diagonal(block, np.inf)  # no point is its own neighbour
            _keep_columns(block, rows.start, low[columns], next_low[columns], index[columns])
            if rows != columns:
                lanes = block.reshape(len(block), -1, math.gcd(block.shape[1], _LANES))
                _keep_rows(lanes, columns.start, low[rows], next_low[rows], index[rows])
        return low, next_low, index

    low, next_low, index = reduce(_nearer, deal(two_nearest, blocks))
    unsure = np.flatnonzero(~(next_low - low > _ROUNDING))
    for start in range(0, len(unsure), size):
        some = unsure[start : start + size]
        smallest = np.full(len(some), np.inf)
        for column in range(0, n, size):
            block = chords.squared_chords(some, slice(column, column + size)).numpy()
            among = x.detach().contiguous().numpy(), some, column, low[some] + _ROUNDING, smallest, index
            share(partial(_measure_again, block, *among), len(some), at_least=1 + _A_THREAD // size)
    return torch.from_numpy(index).long()


def _nearer(one: tuple[Chords, Chords, Numbers], two: tuple[Chords, Chords, Numbers]) -> tuple[Chords, Chords, Numbers]:
    """The two nearest of all, from the two nearest of both."""
    low, next_low = np.minimum(one[0], two[0]), np.minimum(one[1], two[1])
    return low, np.minimum(next_low, np.maximum(one[0], two[0])), np.where(two[0] < one[0], two[2], one[2])


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"], block: int) -> Int[Tensor, " m"]:
    """`unclump.pairs.nearest_to` of float32: the largest inner product, block by block of the points."""
    m, away = len(samples), -samples.mT
    low, next_low, index = np.full(m, np.inf, np.float32), np.empty(m, np.float32), np.zeros(m, np.int32)
    for start in range(0, len(x), block):
        points = x[start : start + block]
        _keep_columns((points @ away).numpy(), start, low, next_low, index)
    return torch.from_numpy(index).long()


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
    by_samples, by_points = torch.empty_like(samples), torch.zeros_like(x)
    arrays = *_arrays(samples, x, index), kind == "geodesic", kind == "squared", apart
    _distances_backward(*arrays, *_arrays(weights, by_samples, by_points))
    return by_samples, by_points


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


# Indices run over whole ranges, and all is read before it is decided what to write: only so are the loops vectorised.


@compiled
def _keep_columns(block: Points, row: int, low: Chords, next_low: Chords, index: Numbers) -> None:
    """Keep the two smallest squared chords of every column's point, and where the smallest is."""
    for a in range(block.shape[0]):
        here = np.int32(row + a)
        for b in range(block.shape[1]):
            r2, smallest, second, place = block[a, b], low[b], next_low[b], index[b]
            nearer = r2 < smallest
            beaten = smallest if nearer else r2
            low[b] = r2 if nearer else smallest
            index[b] = here if nearer else place
            next_low[b] = beaten if beaten < second else second


@compiled
def _keep_rows(
    block: Float32[np.ndarray, "a turns lanes"], column: int, low: Chords, next_low: Chords, index: Numbers
) -> None:
    """The same of every row's point: one pair of minima for each lane, and then those of the lanes."""
    lanes = block.shape[2]
    lane, next_lane, places = np.empty(lanes, np.float32), np.empty(lanes, np.float32), np.empty(lanes, np.int32)
    for a in range(block.shape[0]):
        lane[:], next_lane[:], places[:] = np.inf, np.inf, 0
        for turn in range(block.shape[1]):
            here = np.int32(turn)
            for k in range(block.shape[2]):
                r2, smallest, second, place = block[a, turn, k], lane[k], next_lane[k], places[k]
                nearer = r2 < smallest
                beaten = smallest if nearer else r2
                lane[k] = r2 if nearer else smallest
                places[k] = here if nearer else place
                next_lane[k] = beaten if beaten < second else second
        for k in range(lanes):
            if lane[k] < low[a]:
                next_low[a], low[a], index[a] = low[a], lane[k], column + places[k] * lanes + k
            elif lane[k] < next_low[a]:
                next_low[a] = lane[k]
            next_low[a] = min(next_low[a], next_lane[k])


@compiled
def _measure_again(
    block: Float32[np.ndarray, "a b"],
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
        i = rows[a]
        for b in range(block.shape[1]):
            if smallest[a] == 0:
                break
            if block[a, b] <= limits[a] and column + b != i:
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
        k = index[i]
        r2, s2 = _squares(samples, i, x, k)
        chord, around, along = math.sqrt(r2) if r2 > 0 else apart, 0.0, 0.0  # along difference and sum
        if squared:
            around = 2.0
        elif chord > 0:
            around = 1 / chord
        if geodesic:
            turn = 2 * weights[i] / (chord * chord + s2)
            around, along = turn * math.sqrt(s2) * around, -turn * chord / math.sqrt(s2) if s2 > 0 else 0.0
        else:
            around *= weights[i]
        if r2 > 0 or apart == 0:
            _add(samples, i, x, k, np.float32(around), np.float32(along), by_samples, by_points)
        else:
            side = (1.0 if i > k else -1.0) * apart * around
            _push_apart(samples, i, k, np.float32(side), np.float32(along), by_samples, by_points)


@compiled
def _add(
    samples: Points, i: int, x: Points, k: int, around: float, along: float, by_samples: Points, by_points: Points
) -> None:
    for j in range(x.shape[1]):
        difference, total = around * (samples[i, j] - x[k, j]), along * (samples[i, j] + x[k, j])
        by_samples[i, j] = total + difference
        by_points[k, j] += total - difference


@compiled
def _push_apart(x: Points, i: int, k: int, around: float, along: float, by_samples: Points, by_points: Points) -> None:
    """As `unclump.pairs.escape`: towards the axis most nearly orthogonal to the point."""
    axis = 0
    for j in range(x.shape[1]):
        if abs(x[i, j]) < abs(x[i, axis]):
            axis = j
    scale = around / np.float32(math.sqrt(1 - x[i, axis] * x[i, axis]))
    for j in range(x.shape[1]):
        difference = scale * ((np.float32(1) if j == axis else np.float32(0)) - x[i, axis] * x[i, j])
        total = along * _TWO * x[i, j]
        by_samples[i, j] = total + difference
        by_points[k, j] += total - difference
