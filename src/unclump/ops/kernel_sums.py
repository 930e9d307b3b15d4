r"""Sums of a kernel over all pairs of a table, block by block, with their exact gradient from the same pass."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._once import once_differentiable
from unclump.geometry.sphere import project
from unclump.kernels import Kernel
from unclump.ops import native
from unclump.ops.pairs import (
    Block,
    apart,
    block_size,
    bounded,
    escape,
    narrow,
    squared_chord_block,
    upper_triangle,
    widen,
)

_OPPOSITE = 3.9  # squared chords beyond it are those of near antipodes
_GRADIENTS = 2**28  # bytes that the threads' own gradients may take in all


def kernel_sum(
    x: Float[Tensor, "n d"], kernel: Kernel, *, weight: Float[Tensor, " n"] | None = None, block: int | None = None
) -> Float[Tensor, ""]:
    r"""The sum of the kernel over ordered pairs of different points, :math:`\sum_{i \ne j} w_i w_j k(x_i, x_j)`.

    The weights are constants, and one where none are given.

    Example:
        >>> from unclump.ops.kernel_sums import kernel_sum
        >>> kernel_sum(torch.eye(3), Riesz(s=2.0))  # six pairs at distance sqrt(2)
        tensor(3.)
    """
    return _kernel_sum(x, kernel, weight, block or block_size(x))


def mean_over_pairs(
    embeddings: Float[Tensor, "n d"], *, kernel: Kernel, wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """The mean of the kernel over ordered pairs of the embeddings' directions; float32 on the CPU.

    Where it is wanted, with the gradient by the embeddings.
    """
    if (known := _of_kernel(kernel)) is not None:
        from unclump.ops.native import pairs as loops

        mean, gradient = loops.mean_over_pairs(embeddings, known, wanted=wanted, most=_most_threads(embeddings, wanted))
        return embeddings.new_full((), mean), gradient
    with torch.set_grad_enabled(wanted):
        x = embeddings.detach().requires_grad_(wanted)
        total = kernel_sum(project(x), kernel) / (len(x) * (len(x) - 1))
    return total.detach(), torch.autograd.grad(total, x)[0] if wanted else None


def kernel_matrix(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, "n n"]:
    """The dense matrix of the kernel in double precision, for objectives that need all of it at once."""
    return _kernel_matrix(x, kernel)


class Pairs:
    """The points in double precision, ready to give blocks of squared chords and to collect forces between pairs.

    Points of lower precision are unit only to its rounding, which near antipodes would be the better part of an angle:
    in double precision they are made so again.
    """

    def __init__(self, x: Tensor) -> None:
        self.exact = x.dtype is torch.float64  # no wider type is left: near pairs need their differences
        self.wide = x if self.exact else project(widen(x))
        self.coincident = torch.finfo(x.dtype).eps ** 2
        self.apart = apart(x.dtype)
        self.gradient = torch.zeros_like(self.wide)
        self.pushes = self.wide.new_zeros(len(x))

    def block(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """Squared chords, and which of them belong to coinciding rows."""
        a, b = self.wide[rows], self.wide[columns]
        if self.exact:
            r2 = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square().clamp_max(4)
        else:
            r2 = squared_chord_block(a, b)
        if rows == columns:
            r2.fill_diagonal_(2)  # any harmless value: no kernel is singular there
        coincide = r2 <= self.coincident
        return torch.where(coincide, self.apart**2, r2), coincide

    def add_forces(self, weights: Tensor, r2: Tensor, coincide: Tensor, rows: slice, columns: slice) -> None:
        r"""Add the gradient of :math:`\sum_{i < j} w_{ij} r_{ij}^2` in this block, the weights being constants."""
        pull, push = torch.where(coincide, 0, weights), torch.where(coincide, weights, 0)
        # Near antipodes the part that is normal to the sphere would drown the rest: it is left out there.
        along = pull if self.exact else torch.where(r2 > _OPPOSITE, -pull, pull)
        self._add(pull, along, push, rows, columns, -1)
        if rows != columns:
            self._add(pull.mT, along.mT, push.mT, columns, rows, 1)

    def _add(self, pull: Tensor, along: Tensor, push: Tensor, rows: slice, columns: slice, side: int) -> None:
        pulled = along.sum(dim=1, keepdim=True) * self.wide[rows] - pull @ self.wide[columns]
        self.gradient[rows] += 2 * pulled
        if rows == columns:  # the earlier row of a pair is pushed back, the later one forth
            self.pushes[rows] += 2 * (push.tril().sum(dim=1) - push.triu().sum(dim=1))
        else:
            self.pushes[rows] += 2 * side * push.sum(dim=1)

    def collected(self, dtype: torch.dtype) -> Tensor:
        """The whole gradient."""
        pushed = self.apart * self.pushes.unsqueeze(-1) * escape(self.wide)
        return narrow(self.gradient + pushed, dtype)


class _KernelSum(torch.autograd.Function):
    """Value and gradient in one pass; what is kept for the backward pass is the gradient, not the matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Kernel, weight: Tensor | None, block: int) -> Tensor:
        blocks = upper_triangle(len(x), block)
        total, gradient = sum_and_gradient(x, kernel, blocks, weight, wanted=ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient)
        ctx.inputs = (x,)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad_output * gradient, None, None, None


def sum_and_gradient(
    x: Tensor, kernel: Kernel, blocks: Iterable[Block], weight: Tensor | None = None, *, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The sum of the kernel over the pairs in these blocks, in both orders; and where it is wanted its gradient.

    The term of a pair is multiplied with the weights of both points, which are constants.
    """
    if weight is None and x.dtype is torch.float32 and native.usable(x) and (known := _of_kernel(kernel)) is not None:
        from unclump.ops.native import pairs as loops

        both, gradient = loops.kernel_sum(x, blocks, known, wanted=wanted, most=_most_threads(x, wanted))
        return x.new_full((), both), gradient
    pairs = Pairs(x)
    total = pairs.wide.new_zeros(())
    for rows, columns in blocks:
        r2, coincide = pairs.block(rows, columns)
        values = kernel(r2) if weight is None else kernel(r2) * (weight[rows, None] * weight[columns])
        if rows == columns:
            values.fill_diagonal_(0)
        total += values.sum() * (1 if rows == columns else 2)
        if wanted:
            slopes = bounded(kernel.derivative(r2))
            if rows == columns:
                slopes.fill_diagonal_(0)
            if weight is not None:
                slopes = slopes * (weight[rows, None] * weight[columns])
            pairs.add_forces(2 * slopes, r2, coincide, rows, columns)  # both orders of every pair
    return narrow(total, x.dtype), pairs.collected(x.dtype) if wanted else None


def _most_threads(x: Tensor, wanted: bool) -> int:
    """Where it is wanted, each of them has a gradient in double precision."""
    return max(1, _GRADIENTS // (8 * max(1, x.numel()))) if wanted else torch.get_num_threads()


@lru_cache(maxsize=256)
def _of_kernel(kernel: Kernel) -> Any:
    """The kernel for the fused loops, or None where it is too steep for single precision."""
    from unclump.ops.native import far, pairs

    found = far.fit(kernel, kernel.derivative)
    return found and pairs.OfKernel(found, kernel, lambda r2: bounded(kernel.derivative(r2)), apart(torch.float32))


class _KernelMatrix(torch.autograd.Function):
    """The dense matrix, with the kernel's own derivative, which is finite where that of its expression is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Kernel) -> Tensor:
        everything = slice(0, len(x))
        r2, coincide = Pairs(x).block(everything, everything)
        ctx.inputs = (x,)
        ctx.save_for_backward(x, r2, coincide, bounded(kernel.derivative(r2)).fill_diagonal_(0))
        on_diagonal = torch.eye(len(x), dtype=torch.bool, device=x.device)
        return kernel(torch.where(on_diagonal, 0, r2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        x, r2, coincide, slopes = ctx.saved_tensors
        pairs, everything = Pairs(x), slice(0, len(x))
        pairs.add_forces((grad_output + grad_output.mT) * slopes, r2, coincide, everything, everything)
        return pairs.collected(x.dtype), None


_kernel_sum: Callable[[Tensor, Kernel, Tensor | None, int], Tensor] = _KernelSum.apply
_kernel_matrix: Callable[[Tensor, Kernel], Tensor] = _KernelMatrix.apply
