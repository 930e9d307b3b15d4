r"""Distance to even spacing on circles, with its gradient, in float32: two passes over the table and a sort a circle.

The first pass takes every point's coordinates and length; on each circle, angles, ranks by radix sort, and what follows
from them come one after the other while they are in the cache; the last pass writes the gradient.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int
from torch import Tensor

from unclump.ops.native import threads
from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.product import BLOCK, WIDTH, Chunks, chunks, columns_times, pack, padded, products
from unclump.ops.native.projection import one_over, squared_norm
from unclump.ops.native.radix import NUMBER, ascend
from unclump.ops.native.team import team

_A_THREAD = 2**10  # angles, or rows of a table, that are worth a thread


_PI, _HALF_PI = np.float32(math.pi), np.float32(math.pi / 2)
_ZERO, _ONE = np.float32(0), np.float32(1)

Table = Float32[np.ndarray, "n d"]
Coordinates = Float32[np.ndarray, "m n"]


def _arc_tangent() -> tuple[np.float32, ...]:
    """atan(t) / t on [0, 1] as a polynomial in t^2, right to 2e-8: its singularity, t^2 = -1, is far away."""
    nodes = np.polynomial.chebyshev.chebpts1(10) / 2 + 0.5
    root = np.sqrt(nodes)
    return tuple(np.polynomial.polynomial.polyfit(nodes, np.arctan(root) / root, 9).astype(np.float32))


_A0, _A1, _A2, _A3, _A4, _A5, _A6, _A7, _A8, _A9 = _arc_tangent()


def coordinates_of(x: Tensor, circles: Tensor) -> tuple[Tensor, Tensor]:
    """The inner products with both vectors of every circle, a row each; and one over the norm of every point."""
    x = x.detach().contiguous()
    n, vectors = len(x), circles.flatten(end_dim=1)
    inverse_norm, coordinates = x.new_empty(n), x.new_empty(len(vectors), n)
    arrays = x.numpy(), vectors.contiguous().numpy(), coordinates.numpy(), inverse_norm.numpy()
    if not circles.is_floating_point():
        _check_axes(vectors, x.shape[1])
    along = _along_vectors_by_team if circles.is_floating_point() else _along_axes_by_team
    along(*arrays, threads(n, at_least=_A_THREAD))
    return coordinates, inverse_norm


def even_spacing(x: Tensor, circles: Tensor, smallest: float) -> tuple[float, Tensor]:
    """The objective of `unclump.objectives.sliced`, and the coefficients of its gradient."""
    coordinates, inverse_norm = coordinates_of(x, circles)
    squares = np.empty(len(circles))
    there = coordinates.numpy(), inverse_norm.numpy(), smallest, squares
    _to_even_spacing_by_team(*there, threads(len(circles), at_least=max(1, _A_THREAD // len(x))))
    return float(squares.mean()) / 2, coordinates


def combine(coefficients: Tensor, circles: Tensor, d: int, factor: float) -> Tensor:
    """The vectors with these coefficients of both vectors of every circle, times the factor: the gradient."""
    gradient = torch.from_numpy(np.empty((coefficients.shape[1], d), np.float32))  # NumPy's are in large pages
    several = threads(len(gradient), at_least=_A_THREAD)
    vectors = circles.flatten(end_dim=1).contiguous()  # or the numbers of axes
    given = coefficients.numpy(), vectors.numpy(), gradient.numpy(), np.float32(factor)
    if circles.is_floating_point():
        _from_vectors_by_team(*given, several)
    else:
        _from_axes_by_team(*given, several)
    return gradient


def _check_axes(axes: Int[Tensor, " m"], d: int) -> None:
    """A loop would read whatever lies there."""
    least, largest = axes.min(), axes.max()
    if least < 0 or largest >= d:
        raise ValueError(
            f"expected axes from 0 to {d - 1}, got {least} to {largest}; draw them with axis_circles(..., {d})"
        )


@compiled
def _along_axes_by_team(
    x: Table, axes: Int[np.ndarray, " m"], found: Coordinates, inverse_norm: Float32[np.ndarray, " n"], threads: int
) -> None:
    team(_along_axes, (x, axes, found, inverse_norm), len(x), threads)


@compiled
def _along_vectors_by_team(
    x: Table, vectors: Table, found: Coordinates, inverse_norm: Float32[np.ndarray, " n"], threads: int
) -> None:
    team(_along_vectors, (x, vectors, found, inverse_norm), len(x), threads)


@compiled
def _from_axes_by_team(given: Coordinates, axes: Int[np.ndarray, " m"], x: Table, factor: float, threads: int) -> None:
    team(_from_axes, (given, axes, x, factor), len(x), threads)


@compiled
def _from_vectors_by_team(given: Coordinates, vectors: Table, x: Table, factor: float, threads: int) -> None:
    laid_out = np.zeros((chunks(x.shape[1]), len(vectors), WIDTH), np.float32)
    for m in range(len(vectors)):
        for j in range(x.shape[1]):
            laid_out[j // WIDTH, m, j % WIDTH] = factor * vectors[m, j]
    team(_from_vectors, (given, laid_out, x), len(x), threads)


@compiled
def _to_even_spacing_by_team(
    coordinates: Coordinates, inverse_norm: Float32[np.ndarray, " n"], smallest: float,
    squares: Float64[np.ndarray, " k"], threads: int,
) -> None:  # fmt: skip
    team(_to_even_spacing, (coordinates, inverse_norm, smallest, squares), len(squares), threads)


@compiled_in_any_order
def _squared(x: Table, i: int) -> Any:
    squared = _ZERO
    for j in range(x.shape[1]):
        squared += x[i, j] * x[i, j]
    return squared


@compiled_in_any_order
def _inverse_norm(squared: float, x: Table, i: int) -> Any:
    """One over the norm of a row, whose square in single precision serves if it is neither tiny nor huge."""
    if squared > np.float32(1e-30) and squared < np.float32(1e30):
        return _ONE / math.sqrt(squared)
    return np.float32(one_over(math.sqrt(squared_norm(x, i))))


@compiled_in_any_order
def _along_axes(
    x: Table,
    axes: Int[np.ndarray, " m"],
    found: Coordinates,
    inverse_norm: Float32[np.ndarray, " n"],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        inverse_norm[i] = _inverse_norm(_squared(x, i), x, i)
        for m in range(len(axes)):
            found[m, i] = x[i, axes[m]]


@compiled_in_any_order
def _along_vectors(
    x: Table,
    vectors: Table,
    found: Coordinates,
    inverse_norm: Float32[np.ndarray, " n"],
    start: int,
    stop: int,
) -> None:
    """Of one circle all sums at once; of many, products with tiles of sixteen vectors."""
    if len(vectors) == 2:
        for i in range(start, stop):
            squared, along, across = _ZERO, _ZERO, _ZERO
            for j in range(x.shape[1]):
                squared += x[i, j] * x[i, j]
                along += x[i, j] * vectors[0, j]
                across += x[i, j] * vectors[1, j]
            found[0, i], found[1, i], inverse_norm[i] = along, across, _inverse_norm(squared, x, i)
        return
    panels = np.empty((-(-len(vectors) // WIDTH), x.shape[1], WIDTH), np.float32)
    pack(vectors, 0, len(vectors), panels)
    block, last = np.empty((BLOCK, len(panels) * WIDTH), np.float32), np.zeros((padded(BLOCK), x.shape[1]), np.float32)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        if first + padded(count) <= len(x):
            products(x, first, count, panels, len(vectors), False, block)
        else:  # where rows of zeros must follow
            last[:count] = x[first : first + count]
            products(last, 0, count, panels, len(vectors), False, block)
        for i in range(count):
            inverse_norm[first + i] = _inverse_norm(_squared(x, first + i), x, first + i)
        for m in range(len(vectors)):
            for i in range(count):
                found[m, first + i] = block[i, m]


@compiled
def _from_axes(given: Coordinates, axes: Int[np.ndarray, " m"], x: Table, factor: float, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            x[i, j] = 0
        for m in range(len(axes)):
            x[i, axes[m]] += factor * given[m, i]


@compiled
def _from_vectors(given: Coordinates, vectors: Chunks, x: Table, start: int, stop: int) -> None:
    """Products with tiles of sixteen coordinates, written where they belong; at the edges, by way of a copy."""
    m, d = len(given), x.shape[1]
    last, copy = np.zeros((m, BLOCK), np.float32), np.empty((BLOCK, len(vectors) * WIDTH), np.float32)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        if count == BLOCK and d == copy.shape[1]:
            columns_times(given, first, count, vectors, 0, m, False, x, first)
        else:
            last[:, :count] = given[:, first : first + count]
            columns_times(last, 0, count, vectors, 0, m, False, copy, 0)
            x[first : first + count] = copy[:count, :d]


@compiled
def _to_even_spacing(
    coordinates: Coordinates,
    inverse_norm: Float32[np.ndarray, " n"],
    smallest: float,
    squares: Float64[np.ndarray, " k"],
    start: int,
    stop: int,
) -> None:
    """Sum the squared distances to even spacing on each circle; put the gradient's coefficients for coordinates."""
    n, count = coordinates.shape[1], np.float32(len(squares))
    angles, keys, spare = np.empty(n, np.float32), np.empty(n, np.uint64), np.empty(n, np.uint64)
    least, step = np.float32(smallest), np.float32(math.pi / n)
    for circle in range(start, stop):
        first, second = 2 * circle, 2 * circle + 1
        mean = np.float32(_angles(coordinates, first, angles) / n)
        keys, spare = ascend(angles.view(np.uint32), keys, spare)
        for rank in range(n):
            here = keys[rank] & NUMBER
            angles[here] -= mean + np.float32(2 * rank + 1 - n) * step  # the gap to its place
        squares[circle] = _coefficients(coordinates, first, second, inverse_norm, angles, least, count)


@compiled_in_any_order
def _angles(coordinates: Coordinates, circle: int, angles: Float32[np.ndarray, " n"]) -> float:
    """The arc tangents of the points on a circle, and their sum."""
    for i in range(coordinates.shape[1]):
        along, across = coordinates[circle, i], coordinates[circle + 1, i]
        a, b = abs(along), abs(across)
        steep = b > a
        low, high = (a, b) if steep else (b, a)
        t = low / (high if high > _ZERO else _ONE)
        u = t * t
        tail = _A4 + u * (_A5 + u * (_A6 + u * (_A7 + u * (_A8 + u * _A9))))
        angle = t * (_A0 + u * (_A1 + u * (_A2 + u * (_A3 + u * tail))))
        angle = _HALF_PI - angle if steep else angle
        angle = _PI - angle if along < _ZERO else angle
        angle = -angle if across < _ZERO else angle
        angles[i] = angle
    total = 0.0
    for i in range(len(angles)):  # not in the loop that writes them: see `compiled_in_any_order`
        total += np.float64(angles[i])
    return total


@compiled_in_any_order
def _coefficients(
    coordinates: Coordinates,
    first: int,
    second: int,
    inverse_norm: Float32[np.ndarray, " n"],
    gaps: Float32[np.ndarray, " n"],
    least: float,
    count: float,
) -> float:
    """Those of the gradient, in the place of the coordinates; the sum of the squared gaps."""
    total = 0.0
    for i in range(len(gaps)):
        along, across = coordinates[first, i] * inverse_norm[i], coordinates[second, i] * inverse_norm[i]
        radius = along * along + across * across
        turn = gaps[i] * inverse_norm[i] / ((least if radius < least else radius) * count)
        coordinates[first, i], coordinates[second, i] = -turn * across, turn * along
        total += np.float64(gaps[i]) * np.float64(gaps[i])
    return total
