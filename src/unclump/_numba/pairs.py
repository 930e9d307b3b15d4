r"""Blocks of pairs in float32: products by BLAS, then one pass over each block; near pairs are measured exactly.

The squared chord :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32 is off by about
2e-7, wherever the points are. So it serves for pairs that are far apart, and to say which ones are not: those are
measured again, by the differences of their coordinates in double precision.
"""

import math
import threading
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import Tensor

from unclump._numba.compiler import compiled, compiled_in_any_order

# Squared chords below it, or as near to 4, are measured again: at antipodes angles are as sensitive as at twins.
NEAR = 0.1
_COINCIDENT = float(np.finfo(np.float32).eps) ** 2  # squared chords that are within the precision

# Integers would widen the whole expression.
_ZERO, _TWO, _THREE, _INFINITY = np.float32(0), np.float32(2), np.float32(3), np.float32(np.inf)


_this_thread = threading.local()
_NONE = torch.empty(0)

Points = Float32[np.ndarray, "n d"]
Matrix = Float32[np.ndarray, "a b"]
Numbers = Int[np.ndarray, " k"]
Lengths = Float64[np.ndarray, " n"]


@dataclass
class Near:
    """The pairs of a block that were measured exactly, the earlier row first; those that coincide are taken apart."""

    first: Int64[Tensor, " k"]
    second: Int64[Tensor, " k"]
    r2: Float64[Tensor, " k"]
    coincide: Bool[Tensor, " k"]

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.first.numpy(), self.second.numpy(), self.r2.numpy(), self.coincide.numpy()


class Blocks:
    r"""Squared chords between float32 points, block by block, in a buffer of the thread that is used again.

    The products are those of :math:`(-2 x, \lVert x \rVert^2, 1)` and :math:`(y, 1, \lVert y \rVert^2)`.
    """

    def __init__(self, x: Float32[Tensor, "n d"], size: int, *, apart: float = 0.0) -> None:
        """Pairs nearer than the precision are taken to be `apart`, the later row one way and the earlier the other."""
        self.x, self._size, self._apart = x.detach().contiguous(), min(size, len(x)) ** 2, apart
        self._left, self._right = (x.new_empty(len(x), x.shape[1] + 2) for _ in range(2))
        self._inverse_norms = x.new_empty(len(x), dtype=torch.float64)
        _extend(self.x.numpy(), self._left.numpy(), self._right.numpy(), self._inverse_norms.numpy())

    def buffer(self, a: int, b: int) -> Float32[Tensor, "{a} {b}"]:
        """Where this thread's products go; it still holds the latest.

        It is kept from one call to the next: faulting a megabyte in anew takes as long as a small product.
        """
        if getattr(_this_thread, "buffer", _NONE).numel() < a * b:
            with torch.inference_mode(mode=False):  # such a tensor could not be written to outside of that mode
                _this_thread.buffer = self.x.new_empty(self._size)
        kept: Tensor = _this_thread.buffer
        return kept[: a * b].view(a, b)

    def squared_chords(self, rows: slice | Numbers, columns: slice) -> Float32[Tensor, "a b"]:
        a, b = self._left[rows], self._right[columns]
        return torch.mm(a, b.mT, out=self.buffer(len(a), len(b)))

    def slopes_and_near(
        self, rows: slice, columns: slice, table: Float32[Tensor, "2048 4"]
    ) -> tuple[float, Float32[Tensor, "a b"], Near]:
        """The sum of the far pairs' values, each pair once; their slopes, with zeros for all others; the near pairs."""
        block = self.squared_chords(rows, columns)
        values, has_near = np.zeros(len(block)), np.zeros(len(block), np.bool_)
        counts = np.zeros(len(block) + 1, np.int64)
        _evaluate(block.numpy(), table.numpy(), rows == columns, values, has_near, counts[1:])
        ends = counts.cumsum()
        count, types = int(ends[-1]), (torch.int64, torch.int64, torch.float64, torch.bool)
        near = Near(*(block.new_empty(count, dtype=kind) for kind in types))
        if has_near.any():
            places = self.x.numpy(), self._inverse_norms.numpy(), rows.start, columns.start, has_near, ends
            _near_pairs(block.numpy(), *places, *near.arrays(), self._apart)
        return float(values.sum()), block, near

    def add_gradient(self, slopes: Float32[Tensor, "a b"], rows: slice, columns: slice, gradient: Tensor) -> None:
        r"""Add :math:`\sum_j w_{ij} (x_i - x_j)` to the rows."""
        totals, product = slopes.sum(dim=1), slopes @ self.x[columns]
        _add_gradient(totals.numpy(), self.x[rows].numpy(), product.numpy(), gradient[rows].numpy())

    def add_forces(self, near: Near, weights: Float64[Tensor, " k"], gradient: Float64[Tensor, "n d"]) -> None:
        r"""Add half the gradient of :math:`\sum w \lVert x_i - x_j \rVert^2` over the near pairs, as unit points."""
        points = self.x.numpy(), self._inverse_norms.numpy()
        _add_forces(*points, *near.arrays(), weights.numpy(), self._apart, gradient.numpy())


def hermite(values: Float64[Tensor, " m"], slopes: Float64[Tensor, " m"], step: float) -> Float32[Tensor, "k 4"]:
    """The cubics between equally spaced nodes that have these values and slopes, by the fraction of the step."""
    low, rise = values[:-1], values.diff()
    first, last = step * slopes[:-1], step * slopes[1:]
    return torch.stack([low, first, 3 * rise - 2 * first - last, first + last - 2 * rise], dim=1).float()


@compiled_in_any_order
def _extend(x: Points, left: Points, right: Points, inverse_norms: Lengths) -> None:
    d = x.shape[1]
    for i in range(len(x)):
        squared = 0.0
        for j in range(x.shape[1]):
            left[i, j], right[i, j] = -_TWO * x[i, j], x[i, j]
            squared += np.float64(x[i, j]) * np.float64(x[i, j])
        left[i, d], right[i, d] = squared, 1
        left[i, d + 1], right[i, d + 1] = 1, squared
        inverse_norms[i] = 1 / math.sqrt(squared) if squared > 0 else 0.0


@compiled
def _add_gradient(
    totals: Float32[np.ndarray, " a"], x: Points, product: Points, gradient: Float64[np.ndarray, "a d"]
) -> None:
    for i in range(len(x)):
        for j in range(x.shape[1]):
            gradient[i, j] += np.float64(totals[i] * x[i, j] - product[i, j])


@compiled_in_any_order
def _evaluate(
    block: Matrix,
    table: Float32[np.ndarray, "k 4"],
    diagonal: bool,
    values: Float64[np.ndarray, " a"],
    has_near: Bool[np.ndarray, " a"],
    counts: Numbers,
) -> None:
    """Replace squared chords by slopes, and near ones by infinity; sum each row's values and count its near pairs.

    Each row takes three loops: looking the cubics up is no work for vector instructions, all before and after it is.
    """
    middle, reach = np.float32(2), np.float32(2 - NEAR)
    per_step, last = np.float32(table.shape[0] / (4 - 2 * NEAR)), np.int32(table.shape[0] - 1)
    columns = block.shape[1]
    nodes, cubics = np.empty(columns, np.int32), np.empty((columns, 4), np.float32)
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            aside = block[i, j] - middle
            far = abs(aside) < reach  # NaN is not far, and is measured again
            place = (aside + reach) * per_step
            nodes[j] = min(np.int32(place if far else _ZERO), last)
        for j in range(len(nodes)):
            node = np.uint32(nodes[j])
            c0, c1, c2, c3 = table[node, 0], table[node, 1], table[node, 2], table[node, 3]
            cubics[j, 0], cubics[j, 1], cubics[j, 2], cubics[j, 3] = c0, c1, c2, c3
        count, total = _ZERO, _ZERO
        before = np.int32(i) if diagonal else np.int32(-1)  # pairs come twice there; rounding may tell them apart
        for j in range(block.shape[1]):
            aside = block[i, j] - middle
            far = abs(aside) < reach
            t = (aside + reach) * per_step - np.float32(nodes[j])
            c0, c1, c2, c3 = cubics[j, 0], cubics[j, 1], cubics[j, 2], cubics[j, 3]
            value = c0 + t * (c1 + t * (c2 + t * c3))
            slope = per_step * (c1 + t * (_TWO * c2 + t * (_THREE * c3)))
            value = value if np.int32(j) > before else _ZERO
            value, slope = value if far else _ZERO, slope if far else _INFINITY
            total += value
            block[i, j] = slope
            count += np.float32(far)
        values[i], counts[i] = total, columns - np.int64(count)
        has_near[i] = counts[i] > (1 if diagonal else 0)
        if diagonal:  # where each point meets itself, and every pair comes twice
            block[i, i], counts[i] = 0, 0
            for j in range(i + 1, columns) if has_near[i] else range(0):
                counts[i] += block[i, j] == np.inf


@compiled
def _near_pairs(
    block: Matrix,
    x: Points,
    inverse_norms: Lengths,
    row_start: int,
    column_start: int,
    has_near: Bool[np.ndarray, " a"],
    ends: Numbers,
    first: Numbers,
    second: Numbers,
    exact: Float64[np.ndarray, " k"],
    coincide: Bool[np.ndarray, " k"],
    apart: float,
) -> None:
    """List the near pairs of each row, measured exactly, and leave zeros in their places.

    In a block on the diagonal a pair comes twice, and rounding may call it near in one place only: the earlier counts.
    """
    diagonal = row_start == column_start
    for i in range(block.shape[0]):
        k = ends[i]
        for j in range(block.shape[1]) if has_near[i] else range(0):
            if block[i, j] != np.inf:
                continue
            if diagonal and j < i:
                block[i, j] = block[j, i] if block[j, i] != np.inf else 0
                continue
            block[i, j] = 0
            if diagonal:
                block[j, i] = 0
            first[k], second[k] = row_start + i, column_start + j
            exact[k] = _squared_chord_of_directions(x, inverse_norms, first[k], second[k])
            coincide[k] = exact[k] <= _COINCIDENT
            if coincide[k]:
                exact[k] = apart * apart
            k += 1


@compiled_in_any_order
def squared_chord(x: Float[np.ndarray, "n d"], i: int, y: Float[np.ndarray, "m d"], k: int) -> float:
    """By differences in double precision; the order of a sum of squares does not matter."""
    total = 0.0
    for j in range(x.shape[1]):
        difference = np.float64(x[i, j]) - np.float64(y[k, j])
        total += difference * difference
    return total


@compiled_in_any_order
def _squared_chord_of_directions(x: Points, inverse_norms: Lengths, i: int, k: int) -> float:
    """Between the points as unit as double precision can make them, by their differences or, near antipodes, sums."""
    apart, together = 0.0, 0.0
    for j in range(x.shape[1]):
        a, b = inverse_norms[i] * np.float64(x[i, j]), inverse_norms[k] * np.float64(x[k, j])
        apart += (a - b) * (a - b)
        together += (a + b) * (a + b)
    return apart if apart <= together else 4 - together


@compiled
def _add_forces(
    x: Points,
    inverse_norms: Lengths,
    first: Numbers,
    second: Numbers,
    r2: Float64[np.ndarray, " k"],
    coincide: Bool[np.ndarray, " k"],
    weights: Float64[np.ndarray, " k"],
    apart: float,
    gradient: Float64[np.ndarray, "n d"],
) -> None:
    for k in range(len(first)):
        a, b = first[k], second[k]
        if coincide[k]:
            add_escape(x, a, -weights[k] * apart, gradient, a)
            add_escape(x, b, weights[k] * apart, gradient, b)
            continue
        # Towards an antipode the same force, without its part that is normal to the sphere, has small numbers.
        side = 1.0 if r2[k] < 2 else -1.0
        own, other = inverse_norms[a], side * inverse_norms[b]
        for j in range(x.shape[1]):
            force = weights[k] * (own * np.float64(x[a, j]) - other * np.float64(x[b, j]))
            gradient[a, j] += side * force
            gradient[b, j] -= force


@compiled
def add_escape(x: Points, i: int, weight: float, gradient: Float[np.ndarray, "n d"], row: int) -> None:
    """Add a multiple of `unclump.pairs.escape`: towards the axis most nearly orthogonal to the point."""
    axis, squared = 0, 0.0
    for j in range(x.shape[1]):
        squared += np.float64(x[i, j]) * np.float64(x[i, j])
        if abs(x[i, j]) < abs(x[i, axis]):
            axis = j
    across = np.float64(x[i, axis])
    scale = weight / math.sqrt(1 + across * across * (squared - 2))  # the length of axis - across * x, at any norm of x
    for j in range(x.shape[1]):
        gradient[row, j] -= scale * across * np.float64(x[i, j])
    gradient[row, axis] += scale
