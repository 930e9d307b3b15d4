r"""Blocks of pairs in float32: products by BLAS, then one pass over each block; near pairs are measured exactly.

The squared chord :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32 is off by about
2e-7, wherever the points are. So it serves for pairs that are far apart, and to say which ones are not: those are
measured again, by the differences of their coordinates in double precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int, Int64
from torch import Tensor

from unclump._numba import share
from unclump._numba.compiler import compiled, compiled_in_any_order

Block = tuple[slice, slice]

# Squared chords below it, or as near to 4, are measured again: at antipodes angles are as sensitive as at twins.
NEAR = 0.1

_ROUNDING = 4e-6  # of a squared chord in float32: generous, for thousands of dimensions
_TWO, _THREE = np.float32(2), np.float32(3)  # integers would widen the whole expression
_A_THREAD = 2**16  # pairs that are worth a thread


@dataclass
class Near:
    """The pairs of a block that were measured exactly, the earlier row first."""

    first: Int64[Tensor, " k"]
    second: Int64[Tensor, " k"]
    r2: Float64[Tensor, " k"]


class Blocks:
    """Squared chords between float32 points, block by block, in a buffer that is used again."""

    def __init__(self, x: Float32[Tensor, "n d"], size: int) -> None:
        self.x = x.detach().contiguous()
        self.norms = self.x.double().square().sum(dim=-1).float()
        self._buffer = x.new_empty(min(size, len(x)) ** 2)

    def product(self, rows: slice, columns: slice) -> Float32[Tensor, "a b"]:
        a, b = self.x[rows], self.x[columns]
        return torch.mm(a, b.mT, out=self._buffer[: len(a) * len(b)].view(len(a), len(b)))

    def slopes_and_near(
        self, rows: slice, columns: slice, table: Float32[Tensor, "2048 4"]
    ) -> tuple[float, Float32[Tensor, "a b"], Near]:
        """The sum of the far pairs' values, their slopes, with zeros for all others; and the near pairs."""
        block = self.product(rows, columns)
        values, counts = np.zeros(len(block)), np.zeros(len(block) + 1, np.int64)
        arrays = block.numpy(), self.norms[rows].numpy(), self.norms[columns].numpy(), table.numpy()
        share(partial(_evaluate, *arrays, rows == columns, values, counts[1:]), len(block), at_least=_rows(block))
        ends = counts.cumsum()
        near = Near(*(block.new_empty(int(ends[-1]), dtype=t) for t in (torch.int64, torch.int64, torch.float64)))
        if len(near.r2) > 0:
            lists = near.first.numpy(), near.second.numpy(), near.r2.numpy()
            places = self.x.numpy(), rows.start, columns.start, ends
            share(partial(_near_pairs, block.numpy(), *places, *lists), len(block), at_least=8)
        return float(values.sum()), block, near


def hermite(values: Float64[Tensor, " m"], slopes: Float64[Tensor, " m"], step: float) -> Float32[Tensor, "k 4"]:
    """The cubics between equally spaced nodes that have these values and slopes, by the fraction of the step."""
    low, rise = values[:-1], values.diff()
    first, last = step * slopes[:-1], step * slopes[1:]
    return torch.stack([low, first, 3 * rise - 2 * first - last, first + last - 2 * rise], dim=1).float()


def _rows(block: Tensor) -> int:
    """How many rows of a block are worth a thread."""
    return max(1, _A_THREAD // block.shape[1])


def add_forces(
    x: Float32[Tensor, "n d"], near: Near, weights: Float64[Tensor, " k"], gradient: Float64[Tensor, "n d"]
) -> None:
    r"""Add half the gradient of :math:`\sum w \lVert x_i - x_j \rVert^2` over the near pairs, by their differences."""
    _add_forces(x.numpy(), near.first.numpy(), near.second.numpy(), weights.numpy(), gradient.numpy())


def nearest(x: Float32[Tensor, "n d"], blocks: Iterator[Block], size: int) -> Int64[Tensor, " n"]:
    """`unclump.pairs.nearest` of float32: equal to the exact one, the first of several that are equally near."""
    chords = Blocks(x, size)
    index = torch.zeros(len(x), dtype=torch.long)
    found = chords.x.numpy(), chords.norms.numpy(), np.full(len(x), np.inf), index.numpy()
    for rows, columns in blocks:
        block = chords.product(rows, columns)
        there = block.numpy(), rows.start, columns.start
        share(partial(_nearer_in_rows, *found, *there), len(block), at_least=_rows(block))
        if rows != columns:
            share(partial(_nearer_in_columns, *found, *there), block.shape[1], at_least=_rows(block))
    return index


def nearest_to(samples: Float32[Tensor, "m d"], x: Float32[Tensor, "n d"], block: int) -> Int64[Tensor, " m"]:
    """`unclump.pairs.nearest_to` of float32: the largest inner product, block by block of the points."""
    largest, index = np.full(len(samples), -np.inf, np.float32), torch.zeros(len(samples), dtype=torch.long)
    for start in range(0, len(x), block):
        products = samples @ x[start : start + block].mT
        loop = partial(_largest, products.numpy(), start, largest, index.numpy())
        share(loop, len(samples), at_least=_rows(products))
    return index


Points = Float32[np.ndarray, "n d"]
Matrix = Float32[np.ndarray, "a b"]
Norms = Float32[np.ndarray, " a"]
Numbers = Int[np.ndarray, " k"]


@compiled_in_any_order
def _evaluate(
    block: Matrix,
    a2: Norms,
    b2: Norms,
    table: Float32[np.ndarray, "k 4"],
    diagonal: bool,
    values: Float64[np.ndarray, " a"],
    counts: Numbers,
    start: int,
    stop: int,
) -> None:
    """Replace inner products by slopes, and near ones by infinity; sum each row's values and count its near pairs."""
    low, high = np.float32(NEAR), np.float32(4 - NEAR)
    per_step, last = np.float32(len(table) / (4 - 2 * NEAR)), np.int32(len(table) - 1)
    for i in range(start, stop):
        row, norm, count, total = block[i], a2[i], np.int32(0), 0.0
        for j in range(len(row)):
            r2 = norm + b2[j] - _TWO * row[j]
            near = not (r2 >= low and r2 <= high)  # NaN counts as near, and is measured again
            place = np.float32(0) if near else (r2 - low) * per_step
            node = min(np.int32(place), last)
            t = place - np.float32(node)
            c0, c1, c2, c3 = table[node, 0], table[node, 1], table[node, 2], table[node, 3]
            value = c0 + t * (c1 + t * (c2 + t * c3))
            slope = per_step * (c1 + t * (_TWO * c2 + t * (_THREE * c3)))
            total += 0.0 if near else np.float64(value)
            row[j] = np.float32(np.inf) if near else slope
            count += np.int32(near)
        values[i], counts[i] = total, count
        if diagonal:  # where each point meets itself, and every pair comes twice
            row[i], counts[i] = 0, 0
            for j in range(i + 1, len(row)) if count > 1 else range(0):
                counts[i] += row[j] == np.inf


@compiled
def _near_pairs(
    block: Matrix,
    x: Points,
    row_start: int,
    column_start: int,
    ends: Numbers,
    first: Numbers,
    second: Numbers,
    exact: Float64[np.ndarray, " k"],
    start: int,
    stop: int,
) -> None:
    """List the near pairs of each row, measured exactly, and leave zeros in their places."""
    for i in range(start, stop):
        k = ends[i]
        for j in range(block.shape[1]):
            if block[i, j] == np.inf:
                block[i, j] = 0
                if row_start != column_start or i < j:
                    first[k], second[k] = row_start + i, column_start + j
                    exact[k] = min(_squared_chord(x[first[k]], x[second[k]]), 4.0)
                    k += 1


@compiled_in_any_order
def _squared_chord(x: Points, y: Points) -> float:
    """By differences in double precision; the order of a sum of squares does not matter."""
    total = 0.0
    for j in range(len(x)):
        difference = np.float64(x[j]) - np.float64(y[j])
        total += difference * difference
    return total


@compiled
def _add_forces(
    x: Points, first: Numbers, second: Numbers, weights: Float64[np.ndarray, " k"], gradient: Float64[np.ndarray, "n d"]
) -> None:
    for k in range(len(first)):
        a, b = first[k], second[k]
        for j in range(x.shape[1]):
            force = weights[k] * (np.float64(x[a, j]) - np.float64(x[b, j]))
            gradient[a, j] += force
            gradient[b, j] -= force


@compiled
def _nearer_in_rows(
    x: Points,
    norms: Norms,
    smallest: Float64[np.ndarray, " n"],
    index: Numbers,
    product: Matrix,
    row_start: int,
    column_start: int,
    start: int,
    stop: int,
) -> None:
    others = norms[column_start : column_start + product.shape[1]]
    for a in range(start, stop):
        i, row = row_start + a, product[a]
        if row_start == column_start:
            row[a] = -np.inf  # no point is its own neighbour
        limit = np.float32(smallest[i] + _ROUNDING) - norms[i]
        hits = np.int32(0)  # counted first, by vector instructions: there are few
        for b in range(len(row)):
            hits += np.int32(others[b] - _TWO * row[b] < limit)
        for b in range(len(row)) if hits > 0 else range(0):
            j = column_start + b
            if others[b] - _TWO * row[b] < limit:
                exact = _squared_chord(x[i], x[j])
                if exact < smallest[i]:
                    smallest[i], index[i] = exact, j
                    limit = np.float32(exact + _ROUNDING) - norms[i]


@compiled
def _nearer_in_columns(
    x: Points,
    norms: Norms,
    smallest: Float64[np.ndarray, " n"],
    index: Numbers,
    product: Matrix,
    row_start: int,
    column_start: int,
    start: int,
    stop: int,
) -> None:
    limits = np.empty(stop - start, np.float32)  # of the columns of this thread, less their norms
    for b in range(start, stop):
        limits[b - start] = np.float32(smallest[column_start + b] + _ROUNDING) - norms[column_start + b]
    for a in range(product.shape[0]):
        i, row, norm = row_start + a, product[a, start:stop], norms[row_start + a]
        hits = np.int32(0)
        for b in range(len(row)):
            hits += np.int32(norm - _TWO * row[b] < limits[b])
        for b in range(len(row)) if hits > 0 else range(0):
            j = column_start + start + b
            if norm - _TWO * row[b] < limits[b]:
                exact = _squared_chord(x[i], x[j])
                if exact < smallest[j]:
                    smallest[j], index[j] = exact, i
                    limits[b] = np.float32(exact + _ROUNDING) - norms[j]


@compiled
def _largest(products: Matrix, offset: int, largest: Norms, index: Numbers, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(products.shape[1]):
            if products[i, j] > largest[i]:
                largest[i], index[i] = products[i, j], offset + j
