r"""Weighted sums of a kernel over pairs of points, and their gradient from the same pass.

.. math:: S_i = \sum_{j \ne i} v_j k(x_i, z_j), \qquad
    \nabla_{x_i} \sum_i u_i S_i = 2 \sum_{j \ne i} (u_i v_j + v_i u_j) \, k'(r_{ij}^2) (x_i - z_j)

where the others z are any points, the x themselves among them or not; those that are not have u = 0.

Squared chords come from one matrix product of points that are moved to their mean. The nearest of every row is measured
by differences, and its force added by itself. Memory is O(n d), beside a block of pairs.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import pad

from unclump._precision import (
    add_product,
    as_sets,
    exact_products,
    largest_slope,
    narrow,
    take_apart,
    take_rows,
)
from unclump.kernels import Kernel, kernel_by_name, name_of
from unclump.ops.blocks import block_entries, fill_diagonal, largest, largest_of_columns, set_blocks
from unclump.ops.dispatch import has_native, has_triton, register
from unclump.ops.native import kernel_sum as loops

_OPPOSITE = 3.9  # squared chords beyond it are those of near antipodes


def kernel_sum(
    x: Float[Tensor, "*sets n d"],
    kernel: Kernel,
    y: Float[Tensor, "*sets m d"] | None = None,
    *,
    itself: int | None = None,
    right: Float[Tensor, "*sets m"] | Bool[Tensor, "*sets m"] | None = None,
    left: Float[Tensor, "*sets n"] | None = None,
    needs_grad: bool = True,
) -> tuple[Float[Tensor, "*sets n"], Float[Tensor, "*sets n d"] | None]:
    r"""The sum of the kernel between every point and others, and the gradient of the sums' weighted sum.

    Args:
        x: Points on the sphere.
        kernel: Any.
        y: The others; None is `x` itself.
        itself: The row of `y` that is the first of `x`: pairs of a point with itself do not count, and those of two
            points that are both rows of `x` pull at both. It may lie before or beyond `y`, as the rows of another
            process do; None is beyond it, or the first where `y` is None.
        right: The weights v of the others; None for ones. With a mask instead, all points and others that are False
            for are left out: what is returned for such points is finite, and to be left out too. At least two points,
            or one and another, must remain.
        left: The weights u of the sums; None for v where the points are among the others, or ones.
        needs_grad: Whether to compute the gradient of :math:`\sum_i u_i S_i`, up to parts normal to the sphere.

    Example:
        >>> from unclump.ops.kernel_sum import kernel_sum
        >>> kernel_sum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), Riesz(s=2.0), needs_grad=False)[0]
        tensor([0.7500, 0.7500, 1.0000])
    """
    offset = (0 if y is None else y.shape[-2]) if itself is None else itself
    right, left = (None if weights is None else weights.detach().unsqueeze(-1) for weights in (right, left))
    if x.ndim <= 3:
        sums, gradient = _kernel_sum(x, y, right, left, name_of(kernel), offset, needs_grad)
        return sums.squeeze(-1), gradient if needs_grad else None
    tables = (None if table is None else as_sets(table) for table in (x, y, right, left))
    sums, gradient = _kernel_sum(*tables, name_of(kernel), offset, needs_grad)
    return sums.view(x.shape[:-1]), gradient.view(x.shape) if needs_grad else None


def fused_mean_over_pairs(
    embeddings: Float[Tensor, "*sets n d"], kernel: Kernel, *, needs_grad: bool
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"] | None] | None:
    """The mean of the kernel over ordered pairs of the embeddings' directions, and the gradient by the embeddings.

    None where no compiled loop does it, or a row has no direction.
    """
    if not has_native(embeddings) or (code := loops.code_of(kernel, embeddings.dtype)) is None:
        return None
    return loops.mean_over_pairs(embeddings, code, needs_grad=needs_grad)


def _fake(
    x: Tensor, y: Tensor | None, right: Tensor | None, left: Tensor | None, kernel: str, itself: int, needs_grad: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty((*x.shape[:-1], 1)), torch.empty_like(x) if needs_grad else x.new_empty(0)


@register(
    "kernel_sum(Tensor x, Tensor? y, Tensor? right, Tensor? left, str kernel, SymInt itself, bool needs_grad) "
    "-> (Tensor, Tensor)",
    _fake,
)
def _kernel_sum(
    x: Tensor, y: Tensor | None, right: Tensor | None, left: Tensor | None, kernel: str, itself: int, needs_grad: bool
) -> tuple[Tensor, Tensor]:
    shape = math.prod(x.shape[:-2]), x.shape[-2], x.shape[-2] if y is None else y.shape[-2]
    if 0 in shape:  # a process may have no rows
        return torch.zeros_like(x[..., :1]), torch.zeros_like(x) if needs_grad else x.new_empty(0)
    mask, is_whole = None, math.prod(shape) <= block_entries(x)
    if right is not None and right.dtype == torch.bool:
        is_bias = is_whole and left is None and kernel_by_name(kernel).vanishes_far
        if is_bias and not has_native(x) and not has_triton(x):
            mask, right = right, None  # an infinite squared chord leaves others out
        else:
            right = right.to(x.dtype)
    tables = [table for table in (x, y, right, left) if table is not None]
    if has_native(*tables):
        code = loops.code_of(kernel_by_name(kernel), x.dtype)
        if code is not None:
            sums, gradient = loops.kernel_sum(x, y, right, left, code, itself, needs_grad)
            return sums, x.new_empty(0) if gradient is None else gradient
    if has_triton(*tables):
        from unclump.ops.triton import kernel_sum as kernels

        code = kernels.code_of(kernel_by_name(kernel))
        if code is not None:
            sums, gradient = kernels.kernel_sum(x, y, right, left, code, itself, needs_grad)
            return sums, x.new_empty(0) if gradient is None else gradient
    with exact_products(x.device):
        pairs = _pairs(x, y, mask, right, left, kernel_by_name(kernel), itself)
        sums, gradient = pairs.sum(needs_grad) if is_whole else _streamed(pairs, shape, needs_grad)
    if pairs.kernel.may_overflow:
        sums, gradient = narrow(sums, x.dtype), None if gradient is None else narrow(gradient, x.dtype)
    return sums, x.new_empty(0) if gradient is None else gradient


def _streamed(pairs: "_Pairs", shape: tuple[int, int, int], needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """The sums and the gradient block by block."""
    x = pairs.x
    sums, gradient = torch.zeros_like(x[..., :1]), torch.zeros_like(x) if needs_grad else None
    for sets, *place in set_blocks(*shape, block_entries(x)):
        part, force = pairs.block(sets, *place).sum(needs_grad)
        here = (place[0],) if x.ndim == 2 else (sets, place[0])
        sums[here] += part
        if gradient is not None and force is not None:
            gradient[here] += force
    return sums, gradient


def _pairs(
    x: Tensor,
    y: Tensor | None,
    mask: Tensor | None,
    right: Tensor | None,
    left: Tensor | None,
    kernel: Kernel,
    itself: int,
) -> "_Pairs":
    """The points and the others, moved to the others' mean, with the weights of forces."""
    table = x if y is None else y
    mean = table.mean(dim=-2, keepdim=True)
    there = table - mean
    # The squared chord |a|^2 + |c|^2 - 2 <a, c> is minus twice a product of longer vectors, and a bias.
    columns = pad(there, (0, 1), value=-0.5)
    here, squares = there if y is None else x - mean, vector_norm(there, dim=-1, keepdim=True).square_()
    floor = None
    if not kernel.exponential:  # what the rounding of a product can make of coinciding points, also where all coincide
        eps = torch.finfo(x.dtype).eps
        floor = (eps * squares.mean(dim=-2, keepdim=True)).clamp_min_(eps**1.5)
    if mask is not None:  # infinitely far from all, where kernels with a bias for a mask vanish
        squares.masked_fill_(~mask, math.inf)
    own = squares if table is x else vector_norm(here, dim=-1, keepdim=True).square_()
    rows = torch.cat([here, own], dim=-1)
    factors = _factors(x, table, right, left, itself)
    return _Pairs(kernel, x, table, here, there, rows, columns, squares, floor, right, factors, itself)


def _factors(
    x: Tensor, table: Tensor, right: Tensor | None, left: Tensor | None, itself: int
) -> list[tuple[Tensor | float, Tensor | None]]:
    """The weights of forces, half of u_i v_j + v_i u_j, as sums of products: a factor for rows, one for columns."""
    n, m = x.shape[-2], table.shape[-2]
    if not 0 <= itself <= m - n:
        return [(0.5 if left is None else left / 2, right)]
    if left is None and n == m:
        return [(1.0 if right is None else right, right)]
    if left is None:
        halves = torch.full_like(table[..., :1], 0.5)
        halves[..., itself : itself + n, :].fill_(1)  # pairs of two points pull at both
        return [(1.0, halves) if right is None else (right[..., itself : itself + n, :], halves.mul_(right))]
    right = torch.ones_like(table[..., :1]) if right is None else right
    own = right[..., itself : itself + n, :]
    return [(left / 2, right), (own / 2, pad(left, (0, 0, itself, m - itself - n)))]


@dataclass(eq=False)
class _Pairs:
    """Points and others; a block of their pairs is the same of fewer."""

    kernel: Kernel
    x: Tensor
    y: Tensor
    here: Tensor
    """The points, moved to the others' mean."""
    there: Tensor
    rows: Tensor
    """Of which minus twice the product with `columns`, and the bias of each column, is the squared chord."""
    columns: Tensor
    bias: Tensor
    floor: Tensor | None
    right: Tensor | None
    factors: list[tuple[Tensor | float, Tensor | None]]
    itself: int

    def block(self, sets: slice, rows: slice, columns: slice) -> "_Pairs":
        """Some pairs of some sets."""

        def cut(table: Tensor, part: slice) -> Tensor:
            return table[part] if table.ndim == 2 else table[sets, part]

        def maybe(one: Tensor | float | None, part: slice) -> Any:
            return cut(one, part) if isinstance(one, Tensor) else one

        factors = [(maybe(by_row, rows), maybe(by_column, columns)) for by_row, by_column in self.factors]
        return _Pairs(
            self.kernel, cut(self.x, rows), cut(self.y, columns), cut(self.here, rows), cut(self.there, columns),
            cut(self.rows, rows), cut(self.columns, columns), cut(self.bias, columns), maybe(self.floor, slice(None)),
            maybe(self.right, columns), factors, rows.start + self.itself - columns.start,
        )  # fmt: skip

    def sum(self, needs_grad: bool) -> tuple[Float[Tensor, "*sets n 1"], Float[Tensor, "*sets n d"] | None]:
        """The sums of the rows over the columns, and the gradient by the rows. The nearest are added by themselves."""
        exponential = self.kernel.exponential
        offset, scale = exponential or (0.0, 1.0)
        bias = self.bias + offset / scale if offset != 0 else self.bias
        block = add_product(bias.mT, self.rows, self.columns.mT, beta=scale, alpha=-2 * scale)
        opposite = others = None
        if exponential is not None:  # the block holds exponents, and the slopes are multiples of the values
            fill_diagonal(block, self.itself, -math.inf)
            # A square of all pairs is symmetric, with its masks, and columns are searched faster than rows.
            near = (largest_of_columns(block) if self.y is self.x else largest(block, 1))[1]
            vector, r2 = self._measure(near)
            value = slope = torch.rsub(r2, offset, alpha=-scale).exp_()
            if block.shape[-1] == 1:  # where a block holds nothing but a point itself
                fill_diagonal(value, self.itself, 0.0)
            values = slopes = block.exp_().scatter_(-1, near, 0.0)
            others = _weighted_sum(values, self.right)
            sums = others + (value if self.right is None else value * self.right.gather(-2, near))
        else:
            fill_diagonal(block, self.itself, math.inf)
            near = largest(block, 1, smallest=True)[1]
            # Unless it is the only other, a point is infinitely far from itself, where some kernels vanish.
            is_excluded = self.kernel.vanishes_far and block.shape[-1] > 1
            if not is_excluded:
                fill_diagonal(block, self.itself, 2.0)  # any harmless value: no kernel is singular there
            assert self.floor is not None
            torch.maximum(block, self.floor, out=block)
            vector, r2 = self._measure(near)
            block.scatter_(-1, near, r2)
            values, slopes = self.kernel.value_and_derivative(block) if needs_grad else (self.kernel(block), block)
            if not is_excluded:
                for each in (values, slopes) if needs_grad else (values,):
                    fill_diagonal(each, self.itself, 0.0)
            if needs_grad:
                slope = slopes.gather(-1, near)
                slopes.scatter_(-1, near, 0.0)
            if self.kernel.distance == "geodesic" and needs_grad:
                opposite = torch.where(block > _OPPOSITE, slopes, 0)
            sums = _weighted_sum(values, self.right)
        if not needs_grad:
            return sums, None
        if self.kernel.may_overflow:
            slope = slope.clamp(-largest_slope(slope.dtype), largest_slope(slope.dtype))
        forces = []
        for by_row, by_column in self.factors:
            total = others if others is not None and by_column is self.right else _weighted_sum(slopes, by_column)
            forces.append(self._force(slopes, total, slope, vector, near, opposite, 4 * scale, by_row, by_column))
        return sums, forces[0] if len(forces) == 1 else forces[0].add_(forces[1])

    def _measure(self, near: Int[Tensor, "*sets n 1"]) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets n 1"]]:
        """The differences between points and the nearest of each, and the squared chords.

        Rows that coincide are taken to be `apart`, and pushed by different amounts: a clump comes apart in a few steps.
        """
        x, first = self.x, self.itself
        vector = x - take_rows(self.y, near.squeeze(-1))
        chord = vector_norm(vector, dim=-1, keepdim=True)
        numbers = torch.arange(first, first + x.shape[-2], device=x.device).unsqueeze(-1)
        take_apart(vector, x, chord, chord <= torch.finfo(x.dtype).eps, numbers - near)
        return vector, chord.square_()

    def _force(
        self, slopes: Tensor, total: Tensor, slope: Tensor, vector: Tensor, near: Tensor, opposite: Tensor | None,
        scale: float, by_row: Tensor | float, by_column: Tensor | None,
    ) -> Float[Tensor, "*sets n d"]:  # fmt: skip
        r"""The force :math:`s a_i \sum_j b_j k'_{ij} (x_i - y_j)` on every row; without factors they are one.

        Args:
            slopes: The derivatives k', zero for the nearest of every row.
            total: Their sums with the factors b.
            slope: That of the nearest.
            vector: Its difference.
            near: Which it is.
            opposite: The slopes of near antipodes, where the part of x - y that is normal to the sphere would drown the
                rest: -x - y has another one.
            scale: The factor s.
            by_row: The factors a.
            by_column: The factors b.
        """
        scale *= by_row if isinstance(by_row, float) else 1
        slope = slope * scale if by_column is None else slope * scale * by_column.gather(-2, near)
        force = (vector * slope).addcmul_(total, self.here, value=scale)
        if opposite is not None:
            force.addcmul_(_weighted_sum(opposite, by_column), self.x, value=-2 * scale)
        force = add_product(force, slopes, self.there if by_column is None else by_column * self.there, alpha=-scale)
        return force if isinstance(by_row, float) else force.mul_(by_row)


def _weighted_sum(block: Float[Tensor, "*sets n m"], weights: Float[Tensor, "*sets m 1"] | None) -> Tensor:
    """The sum of every row, as a column."""
    # The same product of the transposed, which for several sets takes torch a tenth of the time on a CPU.
    return block.sum(dim=-1, keepdim=True) if weights is None else (weights.mT @ block.mT).mT
