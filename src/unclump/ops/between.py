r"""Pairs between two tables, and sums over pairs row by row: what queues, weights and rows of other processes need.

The engine of `pairs` goes over blocks of one table; here this table is two, one above the other, and the blocks are
those in which they meet.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._once import once_differentiable
from unclump.distributed.ranks import Alone
from unclump.kernels import Kernel
from unclump.ops.kernel_sums import Pairs, sum_and_gradient
from unclump.ops.pairs import Block, block_size, bounded, narrow, nearest, squared_chord_block, upper_triangle, widen


def rectangle(first: int, second: int, block: int) -> Iterator[Block]:
    """The blocks between the first so many rows of a table and the so many that follow them."""
    for row in range(0, first, block):
        for column in range(first, first + second, block):
            yield slice(row, min(row + block, first)), slice(column, min(column + block, first + second))


def kernel_sum_between(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m d"],
    kernel: Kernel,
    *,
    weight: Float[Tensor, " n"] | None = None,
    y_weight: Float[Tensor, " m"] | None = None,
    y_first: bool = True,
) -> Float[Tensor, ""]:
    r"""The sum of the kernel between two tables, :math:`\sum_{ij} w_i v_j k(x_i, y_j)`.

    Args:
        x: Points on the sphere.
        y: Others.
        kernel: Any.
        weight: Of the points, constants; None for ones.
        y_weight: Of the others.
        y_first: Of a point that coincides with another, which is the earlier row: it is pushed back, the later forth.

    Example:
        >>> from unclump.ops.between import kernel_sum_between
        >>> kernel_sum_between(torch.eye(3)[:2], -torch.eye(3)[:1], Riesz(s=2.0))  # 1/4 + 1/2
        tensor(0.7500)
    """
    if weight is not None or y_weight is not None:
        weight = x.new_ones(len(x)) if weight is None else weight
        y_weight = y.new_ones(len(y)) if y_weight is None else y_weight
    if y_first:
        return _sum_between(y, x, kernel, y_weight, weight)
    return _sum_between(x, y, kernel, weight, y_weight)


def kernel_sums(
    x: Float[Tensor, "n d"],
    kernel: Kernel,
    *,
    weight: Float[Tensor, " n"] | None = None,
    against: Float[Tensor, "m d"] | None = None,
) -> Float[Tensor, " n"]:
    r"""For every point the sum of the kernel over the others, :math:`\sum_{j \ne i} w_j k(x_i, x_j)`.

    Args:
        x: Points on the sphere.
        kernel: Any.
        weight: Constants; None for ones.
        against: More others, of weight one.

    Example:
        >>> from unclump.ops.between import kernel_sums
        >>> kernel_sums(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), Riesz(s=2.0))  # 1/4 + 1/2, ...
        tensor([0.7500, 0.7500, 1.0000])
    """
    weight = x.new_ones(len(x)) if weight is None else weight
    if against is None:
        return _sums(x, kernel, weight, 0)
    return _sums(torch.cat([against, x]), kernel, torch.cat([x.new_ones(len(against)), weight]), len(against))


def nearest_between(
    x: Float[Tensor, "n d"], y: Float[Tensor, "m d"], *, block: int | None = None
) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """The row number of the point of `y` nearest to every one of `x`, and the squared chord; without gradient.

    Unlike `nearest_to`, which is for samples, this tells points apart that are within a thousandth of a degree.
    """
    block = block or block_size(x)
    wide, others = widen(x.detach()), widen(y.detach())
    smallest, index = wide.new_full((len(x),), math.inf), torch.zeros(len(x), dtype=torch.long, device=x.device)
    for rows, columns in rectangle(len(x), len(y), block):
        here, some = wide[rows], others[columns.start - len(x) : columns.stop - len(x)]
        found = squared_chord_block(here, some).argmin(dim=1)
        r2 = (here - some[found]).square().sum(dim=-1)  # the product is off by 1e-15
        nearer = r2 < smallest[rows]
        smallest[rows] = torch.where(nearer, r2, smallest[rows])
        index[rows] = torch.where(nearer, found + columns.start - len(x), index[rows])
    return index, smallest


@dataclass(frozen=True)
class Nearest:
    """The nearest of every point among the others, the fixed ones and those of other ranks."""

    points: Float[Tensor, "n d"]
    """Where it is."""
    numbers: Int[Tensor, " n"]
    """Its row number, counted through all ranks; -1 where it is a fixed point."""
    side: Int[Tensor, " n"]
    """1 where it is an earlier row than the point itself, -1 where a later one."""


def nearest_among(x: Float[Tensor, "n d"], against: Float[Tensor, "m d"] | None, ranks: Alone) -> Nearest:
    """Every point's nearest, wherever it is; of several that are equally near, the first."""
    x = x.detach()
    own = torch.arange(len(x), device=x.device) + ranks.before
    points, numbers, smallest = torch.zeros_like(x), torch.full_like(own, -1), widen(x).new_full((len(x),), math.inf)
    if len(x) > 1:
        near = nearest(x)
        points, numbers = x[near], near + ranks.before
        smallest = (widen(x) - widen(points)).square().sum(dim=-1)
    elsewhere = chain([] if against is None else [(None, against)], ((rank, y) for rank, (y,) in ranks.ring(x)))
    for rank, y in elsewhere:
        index, r2 = nearest_between(x, y)
        there = torch.full_like(index, -1) if rank is None else index + sum(ranks.counts[:rank])
        nearer = (r2 < smallest) | ((r2 == smallest) & (there < numbers))
        points = torch.where(nearer.unsqueeze(-1), y[index], points)
        numbers, smallest = torch.where(nearer, there, numbers), torch.where(nearer, r2, smallest)
    return Nearest(points, numbers, torch.sign(own - numbers))


class _SumBetween(torch.autograd.Function):
    """As the sum over one table; both orders of a pair are one here."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, kernel: Kernel, a_weight: Tensor | None, b_weight: Tensor | None
    ) -> Tensor:
        table, size = torch.cat([a, b]), block_size(a)
        weight = None if a_weight is None or b_weight is None else torch.cat([a_weight, b_weight])
        blocks, ctx.first = rectangle(len(a), len(b), size), len(a)
        total, gradient = sum_and_gradient(table, kernel, blocks, weight, wanted=any(ctx.needs_input_grad))
        ctx.save_for_backward(gradient)
        ctx.inputs = a, b
        return total / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        half = grad_output / 2 * gradient
        return half[: ctx.first], half[ctx.first :], None, None, None


class _Sums(torch.autograd.Function):
    """Sums of all rows of a table beyond the first, which take part as others only; the way back measures anew."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, kernel: Kernel, weight: Tensor, first: int) -> Tensor:
        ctx.save_for_backward(table, weight)
        ctx.inputs, ctx.kernel, ctx.first = (table,), kernel, first
        pairs = Pairs(table)
        totals, weight = pairs.pushes.clone(), widen(weight)
        for rows, columns in _meetings(table, first):
            values = kernel(pairs.block(rows, columns)[0])
            if rows == columns:
                totals[rows] += values.fill_diagonal_(0) @ weight[rows]
            else:
                totals[rows] += values @ weight[columns]
                totals[columns] += weight[rows] @ values
        return narrow(totals[first:], table.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        table, weight = ctx.saved_tensors
        pairs, weight = Pairs(table), widen(weight)
        wanted = torch.cat([weight.new_zeros(ctx.first), widen(grad_output)])
        for rows, columns in _meetings(table, ctx.first):
            r2, coincide = pairs.block(rows, columns)
            slopes = bounded(ctx.kernel.derivative(r2))
            if rows == columns:
                slopes.fill_diagonal_(0)
            both = wanted[rows, None] * weight[columns] + weight[rows, None] * wanted[columns]
            pairs.add_forces(both * slopes, r2, coincide, rows, columns)
        return pairs.collected(table.dtype), None, None, None


def _meetings(table: Tensor, first: int) -> Iterator[Block]:
    """The blocks of all pairs but those within the first rows."""
    n, size = len(table), block_size(table)
    within = (tuple(slice(s.start + first, s.stop + first) for s in pair) for pair in upper_triangle(n - first, size))
    return chain(rectangle(first, n - first, size), ((rows, columns) for rows, columns in within))


_sum_between: Callable[[Tensor, Tensor, Kernel, Tensor | None, Tensor | None], Tensor] = _SumBetween.apply
_sums: Callable[[Tensor, Kernel, Tensor, int], Tensor] = _Sums.apply
