r"""Weighted sums of a kernel over pairs of points, and their gradient from the same pass.

.. math:: S_i = \sum_{j \ne i} v_j k(x_i, z_j), \qquad
    \nabla_{x_i} \sum_i u_i S_i = 2 \sum_{j \ne i} (u_i v_j + v_i u_j) \, k'(r_{ij}^2) (x_i - z_j)

where the others z are any points, the x themselves among them or not; those that are not have u = 0.

Squared chords come from one matrix product of points that are moved to their mean. The nearest of every row is measured
by differences, and its force added by itself. Memory is O(n d), beside a block of pairs.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import pad

from unclump._precision import apart, as_sets, exact_products, largest_slope, narrow, product, push_aside, take_rows
from unclump.kernels import Kernel, kernel_by_name, name_of
from unclump.ops.blocks import block_entries, set_blocks
from unclump.ops.dispatch import has_native, register
from unclump.ops.native import kernel_sum as loops

_OPPOSITE = 3.9  # squared chords beyond it are those of near antipodes


def kernel_sum(
    x: Float[Tensor, "*sets n d"],
    kernel: Kernel,
    y: Float[Tensor, "*sets m d"] | None = None,
    *,
    itself: int | None = None,
    first: int = 0,
    right: Float[Tensor, "*sets m"] | None = None,
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
        first: The number of the first row of `y`, if it is part of a larger table: coinciding rows are pushed by it.
        right: The weights v of the others; None for ones.
        left: The weights u of the sums; None for v where the points are among the others, or ones.
        needs_grad: Whether to compute the gradient of :math:`\sum_i u_i S_i`, up to parts normal to the sphere.

    Example:
        >>> from unclump.ops.kernel_sum import kernel_sum
        >>> kernel_sum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), Riesz(s=2.0), needs_grad=False)[0]
        tensor([0.7500, 0.7500, 1.0000])
    """
    table = None if y is None else as_sets(y.detach())
    weights = (None if one is None else as_sets(one.detach().unsqueeze(-1))[..., 0] for one in (right, left))
    offset = (0 if y is None else y.shape[-2]) if itself is None else itself
    sums, gradient = _kernel_sum(as_sets(x.detach()), table, *weights, name_of(kernel), offset, first, needs_grad)
    return sums.view(x.shape[:-1]), gradient.view(x.shape) if needs_grad else None


def fused_mean_over_pairs(
    embeddings: Float[Tensor, "b n d"], kernel: Kernel, *, needs_grad: bool
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n d"] | None] | None:
    """The mean of the kernel over ordered pairs of the embeddings' directions, and the gradient by the embeddings.

    None where no compiled loop does it.
    """
    if not has_native(embeddings) or (code := loops.code_of(kernel, embeddings.dtype)) is None:
        return None
    return loops.mean_over_pairs(embeddings, code, needs_grad=needs_grad)


def _fake(
    x: Tensor, y: Tensor | None, right: Tensor | None, left: Tensor | None, kernel: str, itself: int,
    first: int, needs_grad: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return x.new_empty(x.shape[:2]), torch.empty_like(x) if needs_grad else x.new_empty(0)


@register(
    "kernel_sum(Tensor x, Tensor? y, Tensor? right, Tensor? left, str kernel, SymInt itself, SymInt first, "
    "bool needs_grad) -> (Tensor, Tensor)",
    _fake,
)
def _kernel_sum(
    x: Tensor, y: Tensor | None, right: Tensor | None, left: Tensor | None, kernel: str, itself: int,
    first: int, needs_grad: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    shape = len(x), x.shape[1], x.shape[1] if y is None else y.shape[1]
    if 0 in shape:  # a process may have no rows
        return torch.zeros_like(x[..., 0]), torch.zeros_like(x) if needs_grad else x.new_empty(0)
    if has_native(*(table for table in (x, y, right, left) if table is not None)):
        code = loops.code_of(kernel_by_name(kernel), x.dtype)
        if code is not None:
            sums, gradient = loops.kernel_sum(x, y, right, left, code, itself, first, needs_grad)
            return sums, x.new_empty(0) if gradient is None else gradient
    with exact_products(x.device):
        pairs = _Pairs(x, y, itself, first, right, left, kernel_by_name(kernel))
        if math.prod(shape) <= block_entries(x):
            everything = [slice(0, size) for size in shape]
            sums, gradient = pairs.block(everything[0], everything[1], everything[2], needs_grad)
        else:
            sums, gradient = x.new_zeros(x.shape[:2]), torch.zeros_like(x) if needs_grad else None
            for sets, rows, columns in set_blocks(*shape, block_entries(x)):
                part, force = pairs.block(sets, rows, columns, needs_grad)
                sums[sets, rows] += part
                if gradient is not None and force is not None:
                    gradient[sets, rows] += force
    return narrow(sums, x.dtype), x.new_empty(0) if gradient is None else narrow(gradient, x.dtype)


class _Pairs:
    """The points and the others, moved to the others' mean, ready to give sums and forces block by block."""

    def __init__(
        self, x: Tensor, y: Tensor | None, itself: int, first: int, right: Tensor | None, left: Tensor | None,
        kernel: Kernel,
    ) -> None:  # fmt: skip
        self.x, self.y, self.itself, self.first = x, x if y is None else y, itself, first
        self.right, self.kernel = right, kernel
        mean = self.y.mean(dim=1, keepdim=True)
        self.there = self.y - mean
        self.here = self.there if y is None else x - mean
        squares = vector_norm(self.there, dim=-1, keepdim=True).square_()
        # What the rounding of a product can make of coinciding points.
        self.floor = torch.finfo(x.dtype).eps * squares.mean(dim=1, keepdim=True)
        # The squared chord |a|^2 + |c|^2 - 2 <a, c> as one product of longer vectors; of exponentials the exponent.
        offset, slope = kernel.exponential or (0.0, 1.0)
        own = squares if y is None else vector_norm(self.here, dim=-1, keepdim=True).square_()
        self.rows = torch.cat([-2 * slope * self.here, slope * own + offset, torch.full_like(own, slope)], dim=2)
        self.columns = torch.cat([self.there, torch.ones_like(squares), squares], dim=2)
        self.factors = self._factors(left)

    def _factors(self, left: Tensor | None) -> list[tuple[Tensor | float, Tensor | None]]:
        """The weights of forces, half of u_i v_j + v_i u_j, as sums of products: a factor for rows, one for columns."""
        n, m, first = self.x.shape[1], self.y.shape[1], self.itself
        if not 0 <= first <= m - n:
            return [(0.5 if left is None else left / 2, self.right)]
        if self.right is None and left is None and n == m:
            return [(1.0, None)]
        right = self.x.new_ones(self.y.shape[:2]) if self.right is None else self.right
        own = right[:, first : first + n]
        around = (first, m - first - n)  # others before and after
        if left is None:
            return [(own / 2, right + pad(own, around))]
        return [(left / 2, right), (own / 2, pad(left, around))]

    def block(self, sets: slice, rows: slice, columns: slice, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
        """The sums of these rows over these columns, and the gradient by the rows."""
        block = product(self.rows[sets, rows], self.columns[sets, columns].mT)
        diagonal, opposite, scale = rows.start + self.itself - columns.start, None, 1.0
        if self.kernel.exponential is not None:  # the block holds exponents
            offset, scale = self.kernel.exponential
            _fill_diagonal(block, diagonal, -math.inf)
            near = block.argmax(dim=2, keepdim=True)
            vector, r2 = self._measure(sets, rows, near + columns.start if columns.start > 0 else near)
            value = slope = torch.exp(scale * r2 + offset)
            values = slopes = block.exp_().scatter_(2, near, value)
            _fill_diagonal(values, diagonal, 0.0)  # where a block holds nothing but a point itself
        else:
            _fill_diagonal(block, diagonal, math.inf)
            near = block.argmin(dim=2, keepdim=True)
            _fill_diagonal(block, diagonal, 2.0)  # any harmless value: no kernel is singular there
            torch.maximum(block, self.floor[sets], out=block)
            vector, r2 = self._measure(sets, rows, near + columns.start if columns.start > 0 else near)
            value, slope = self.kernel.value_and_derivative(r2)
            values, slopes = self.kernel.value_and_derivative(block) if needs_grad else (self.kernel(block), block)
            _fill_diagonal(values.scatter_(2, near, value), diagonal, 0.0)
            _fill_diagonal(slopes, diagonal, 0.0)
            if self.kernel.distance == "geodesic" and needs_grad:
                opposite = torch.where(block > _OPPOSITE, slopes, 0)
        sums = values.sum(dim=2) if self.right is None else (values @ self.right[sets, columns, None])[..., 0]
        if not needs_grad:
            return sums, None
        slopes.scatter_(2, near, 0.0)
        vector *= slope.clamp(-largest_slope(slope.dtype), largest_slope(slope.dtype))
        forces = [
            _force(
                slopes, self.here[sets, rows], self.there[sets, columns], vector, near, opposite, self.x[sets, rows],
                scale * (by_row if isinstance(by_row, float) else by_row[sets, rows, None]),
                None if by_column is None else by_column[sets, columns, None],
            )
            for by_row, by_column in self.factors
        ]  # fmt: skip
        return sums, forces[0] if len(forces) == 1 else forces[0].add_(forces[1])

    def _measure(self, sets: slice, rows: slice, near: Tensor) -> tuple[Tensor, Tensor]:
        """The differences between points and the nearest of each, and the squared chords.

        Rows that coincide are taken to be `apart`, and pushed by different amounts: a whole clump comes apart at once.
        """
        x = self.x[sets, rows]
        vector = x - take_rows(self.y[sets], near[..., 0])
        chord = vector_norm(vector, dim=-1, keepdim=True)
        coincide = chord <= torch.finfo(x.dtype).eps
        chord = torch.where(coincide, apart(x.dtype), chord)
        numbers = torch.arange(rows.start, rows.stop, device=x.device).unsqueeze(-1) + self.itself
        push = (_phase(numbers + self.first) - _phase(near + self.first)).to(x.dtype)
        push_aside(vector, x, torch.where(coincide, apart(x.dtype) * push, 0))
        return vector, chord.square_()


def _force(
    slopes: Tensor, here: Tensor, there: Tensor, vector: Tensor, near: Tensor, opposite: Tensor | None, x: Tensor,
    by_row: Tensor | float, by_column: Tensor | None,
) -> Tensor:  # fmt: skip
    r"""The force :math:`4 a_i \sum_j b_j k'_{ij} (x_i - y_j)` on every row; without factors they are one.

    Args:
        slopes: The derivatives k', or a multiple of them, zero for the nearest of every row.
        here: The points, moved to the mean.
        there: The others, moved to the mean.
        vector: Slope times difference of the nearest of every row.
        near: Which it is.
        opposite: The slopes of near antipodes, where the part of x - y that is normal to the sphere would drown the
            rest: -x - y has another one.
        x: The points.
        by_row: The factors a.
        by_column: The factors b.
    """
    along = slopes.sum(dim=2, keepdim=True) if by_column is None else slopes @ by_column
    force = product(slopes, there if by_column is None else by_column * there).neg_()
    force.addcmul_(along, here)
    if opposite is not None:
        normal = opposite.sum(dim=2, keepdim=True) if by_column is None else opposite @ by_column
        force.addcmul_(normal, x, value=-2)
    force = force.add_(vector) if by_column is None else force.addcmul_(by_column.gather(1, near), vector)
    return force.mul_(4 * by_row)


def _fill_diagonal(block: Tensor, offset: int, value: float) -> None:
    """Where a point meets itself; nowhere if the diagonal lies outside of the block."""
    if -block.shape[1] < offset < block.shape[2]:
        block.diagonal(offset, dim1=1, dim2=2).fill_(value)


def _phase(numbers: Tensor) -> Tensor:
    """A number in [0, 1) for every row number, far from those of the next: multiples of the golden ratio."""
    return (numbers * 40503 & 0xFFFF) / 65536
