r"""Sums of a kernel over blocks of pairs in float32; near pairs are measured exactly.

The squared chord :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32 is off by about
2e-7, wherever the points are. So it serves for pairs that are far apart, and to say which ones are not: those are
measured again, by the differences of their coordinates in double precision, and their kernel is asked for itself.

A block has the later points of its pairs for rows and the earlier ones for columns.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int
from torch import Tensor

from unclump._numba import threads
from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.forces import add_near_forces_by_team, squared_chord_of_directions
from unclump._numba.product import (
    BLOCK, WIDTH, Chunks, chunks, columns_times, pack, padded, products, small_blocks, times_rows,
)  # fmt: skip
from unclump._numba.team import team

# Squared chords below it, or as near to 4, are measured again: at antipodes angles are as sensitive as at twins.
NEAR = 0.1
_COINCIDENT = float(np.finfo(np.float32).eps) ** 2  # squared chords that are within the precision
_LISTED = 4 * BLOCK**2  # near pairs that a thread may list before their kernel is asked for
_LARGEST = float(np.finfo(np.float32).max)

# Integers would widen the whole expression.
_ZERO, _TWO, _THREE, _INFINITY = np.float32(0), np.float32(2), np.float32(3), np.float32(np.inf)

Points = Float32[np.ndarray, "n d"]
Matrix = Float32[np.ndarray, "a b"]
Lengths = Float64[np.ndarray, " n"]
Numbers = Int[np.ndarray, "t k"]
Gradients = Float64[np.ndarray, "t n d"]
OfNear = Callable[[Float64[Tensor, " k"]], Float64[Tensor, " k"]]


def kernel_sum(
    x: Float32[Tensor, "n d"],
    blocks: Iterable[tuple[slice, slice]],
    table: Float32[Tensor, "k 4"],
    *,
    value: OfNear,
    slope: OfNear,
    apart: float,
    wanted: bool,
    most_threads: int,
) -> tuple[float, Float32[Tensor, "n d"] | None]:
    """The sum of a kernel over the pairs of these blocks, each in both orders; and if it is wanted, its gradient.

    Args:
        x: Points on the sphere.
        blocks: The earlier and the later points of the pairs; the same points, or others.
        table: The kernel of far pairs, as cubics of the squared chord.
        value: The kernel of near pairs.
        slope: Its derivative by the squared chord.
        apart: How far apart pairs are taken to be that are nearer than the precision.
        wanted: Whether the gradient is.
        most_threads: Each has a gradient of its own.
    """
    (n, d), places = x.shape, small_blocks(blocks)
    members = min(threads(len(places), at_least=1), most_threads)
    points, laid_out = np.zeros((padded(n), d), np.float32), np.zeros((chunks(d), padded(n), WIDTH), np.float32)
    squares, inverse_norms = np.zeros(padded(n), np.float32), np.empty(n)
    _lay_out(x.detach().contiguous().numpy(), points, laid_out, squares, inverse_norms)
    totals, gradients = np.zeros(members), np.zeros((members, n if wanted else 0, d))
    next_block, listed = np.arange(members), np.zeros(members, np.int64)
    first, second = np.empty((2, members, _LISTED), np.int64)
    r2, weights, coincide = np.empty((members, _LISTED)), np.empty((members, _LISTED)), np.empty((members, _LISTED), bool)
    near = first, second, r2, coincide
    while True:
        state = next_block, listed, totals, gradients, *near
        _far_by_team(points, laid_out, squares, inverse_norms, places, table.numpy(), apart, *state)
        for member in np.flatnonzero(listed):
            exact = torch.from_numpy(r2[member, : listed[member]])
            totals[member] += value(exact).sum().item()
            if wanted:
                weights[member, : listed[member]] = slope(exact).numpy()
        if wanted and listed.any():
            add_near_forces_by_team(points, inverse_norms, listed, *near, weights, apart, gradients)
        if next_block.min() >= len(places):
            break
    return 2 * float(totals.sum()), torch.from_numpy(_collected(gradients)) if wanted else None


def hermite(values: Float64[Tensor, " m"], slopes: Float64[Tensor, " m"], step: float) -> Float32[Tensor, "k 4"]:
    """The cubics between equally spaced nodes that have these values and slopes, by the fraction of the step."""
    low, rise = values[:-1], values.diff()
    first, last = step * slopes[:-1], step * slopes[1:]
    return torch.stack([low, first, 3 * rise - 2 * first - last, first + last - 2 * rise], dim=1).float()


@compiled_in_any_order
def _lay_out(
    x: Points, points: Points, laid_out: Chunks, squares: Float32[np.ndarray, " m"], inverse_norms: Lengths
) -> None:
    width = laid_out.shape[2]
    for i in range(len(x)):
        squared = 0.0
        for j in range(x.shape[1]):
            points[i, j] = x[i, j]
            laid_out[j // width, i, j % width] = x[i, j]
            squared += np.float64(x[i, j]) * np.float64(x[i, j])
        squares[i] = squared
        inverse_norms[i] = 1 / math.sqrt(squared) if squared > 0 else 0.0


@compiled
def _far_by_team(
    x: Points, laid_out: Chunks, squares: Float32[np.ndarray, " m"], inverse_norms: Lengths,
    places: Int[np.ndarray, "k 4"], table: Float32[np.ndarray, "k 4"], apart: float,
    next_block: Int[np.ndarray, " t"], listed: Int[np.ndarray, " t"], totals: Lengths, gradients: Gradients,
    first: Numbers, second: Numbers, r2: Float64[np.ndarray, "t k"], coincide: Bool[np.ndarray, "t k"],
) -> None:  # fmt: skip
    given = (x, laid_out, squares, inverse_norms, places, table, apart,
             next_block, listed, totals, gradients, first, second, r2, coincide)  # fmt: skip
    team(_far, given, len(totals), len(totals))


@compiled
def _far(
    x: Points, laid_out: Chunks, squares: Float32[np.ndarray, " m"], inverse_norms: Lengths,
    places: Int[np.ndarray, "k 4"], table: Float32[np.ndarray, "k 4"], apart: float,
    next_block: Int[np.ndarray, " t"], listed: Int[np.ndarray, " t"], totals: Lengths, gradients: Gradients,
    first: Numbers, second: Numbers, r2: Float64[np.ndarray, "t k"], coincide: Bool[np.ndarray, "t k"],
    start: int, stop: int,
) -> None:  # fmt: skip
    """Go over every so manieth block, until all are done or the list of near pairs may not hold those of another."""
    d, members = x.shape[1], len(totals)
    block, panels = np.zeros((BLOCK, BLOCK), np.float32), np.empty((BLOCK // WIDTH, d, WIDTH), np.float32)
    product = np.empty((BLOCK, len(laid_out) * WIDTH), np.float32)
    nodes, cubics = np.empty(BLOCK, np.int32), np.empty((BLOCK, 4), np.float32)
    by_late, by_early = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for member in range(start, stop):
        count, packed = 0, -1
        while next_block[member] < len(places) and count + BLOCK * BLOCK <= r2.shape[1]:
            early, early_stop, late, late_stop = places[next_block[member]]
            rows, columns, diagonal = late_stop - late, early_stop - early, early == late
            if early != packed:
                pack(x, early, columns, panels)
                packed = early
            products(x, late, rows, panels, columns, diagonal, block)
            totals[member] += _evaluate(
                block, rows, columns, diagonal, squares[late:], squares[early:], table, nodes, cubics, by_late, by_early
            )
            for j in range(rows):
                if by_late[j] == np.inf:
                    by_late[j] = 0
                    for i in range(j if diagonal else columns):
                        if block[j, i] == np.inf:
                            exact = squared_chord_of_directions(x, inverse_norms, early + i, late + j)
                            first[member, count], second[member, count] = early + i, late + j
                            coincide[member, count] = exact <= _COINCIDENT
                            r2[member, count] = apart * apart if coincide[member, count] else exact
                            block[j, i] = 0
                            count += 1
                        by_late[j] += block[j, i]
            if gradients.shape[1] > 0:
                times_rows(block, rows, laid_out, early, columns, diagonal, product)
                _add_gradient(by_late, x, late, rows, product, gradients, member)
                columns_times(block, columns, laid_out, late, rows, diagonal, product)
                _add_gradient(by_early, x, early, columns, product, gradients, member)
            next_block[member] += members
        listed[member] = count


@compiled_in_any_order
def _evaluate(
    block: Matrix, rows: int, columns: int, diagonal: bool,
    late_squares: Float32[np.ndarray, " l"], early_squares: Float32[np.ndarray, " e"],
    table: Float32[np.ndarray, "k 4"], nodes: Int[np.ndarray, " b"], cubics: Float32[np.ndarray, "b 4"],
    by_late: Float32[np.ndarray, " b"], by_early: Float32[np.ndarray, " b"],
) -> float:  # fmt: skip
    """Replace products by slopes, and near ones by infinity; the sum of the values, and of the slopes both ways.

    The sum of a row's slopes is infinite where a near one is among them. On the diagonal, all above it becomes zero as
    far as products may read. Each row takes three loops: looking the cubics up is no work for vector instructions, all
    before and after it is.
    """
    reach, total = np.float32(2 - NEAR), 0.0
    per_step, last = np.float32(table.shape[0] / (4 - 2 * NEAR)), np.int32(table.shape[0] - 1)
    by_early[:columns] = 0
    for j in range(rows):
        own, stop = late_squares[j] - _TWO, j if diagonal else columns
        for i in range(stop):
            aside = own + early_squares[i] - _TWO * block[j, i]  # of the middle, 2
            block[j, i] = aside
            place = (aside + reach) * per_step
            nodes[i] = min(np.int32(place if abs(aside) < reach else _ZERO), last)
        for i in range(stop):
            node = np.uint32(nodes[i])
            c0, c1, c2, c3 = table[node, 0], table[node, 1], table[node, 2], table[node, 3]
            cubics[i, 0], cubics[i, 1], cubics[i, 2], cubics[i, 3] = c0, c1, c2, c3
        values, slopes, far_ones = _ZERO, _ZERO, _ZERO
        for i in range(stop):
            aside = block[j, i]
            far = abs(aside) < reach  # NaN is not far, and is measured again
            t = (aside + reach) * per_step - np.float32(nodes[i])
            c0, c1, c2, c3 = cubics[i, 0], cubics[i, 1], cubics[i, 2], cubics[i, 3]
            value = c0 + t * (c1 + t * (c2 + t * c3))
            slope = per_step * (c1 + t * (_TWO * c2 + t * (_THREE * c3)))
            values += value if far else _ZERO
            slopes += slope if far else _ZERO
            by_early[i] += slope if far else _ZERO
            block[j, i] = slope if far else _INFINITY
            far_ones += np.float32(far)
        total += np.float64(values)
        by_late[j] = slopes if far_ones == np.float32(stop) else _INFINITY
        for i in range(j, min(j + 4, BLOCK)) if diagonal else range(0):
            block[j, i] = 0
    return total


@compiled
def _add_gradient(
    totals: Float32[np.ndarray, " b"], x: Points, start: int, count: int, product: Matrix, gradients: Gradients,
    member: int,
) -> None:  # fmt: skip
    r"""Add :math:`\sum_j w_{ij} (x_i - x_j)` to the points."""
    for i in range(count):
        for j in range(x.shape[1]):
            gradients[member, start + i, j] += np.float64(totals[i] * x[start + i, j] - product[i, j])


@compiled
def _collected(gradients: Gradients) -> Float32[np.ndarray, "n d"]:
    """The sum of the threads' gradients, of both points and both orders. What is too large is the largest number."""
    members, n, d = gradients.shape
    result = np.empty((n, d), np.float32)
    for i in range(n):
        for j in range(d):
            total = 0.0
            for member in range(members):
                total += gradients[member, i, j]
            result[i, j] = min(max(4 * total, -_LARGEST), _LARGEST)
    return result
