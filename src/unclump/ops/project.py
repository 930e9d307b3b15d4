r"""Rows onto the sphere, and the gradient back.

.. math:: y = x / \lVert x \rVert, \qquad \nabla_x = (\nabla_y - \langle y, \nabla_y \rangle y) / \lVert x \rVert
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_floats
from unclump._precision import full_precision
from unclump.geometry.sphere import tangent, unit
from unclump.ops.dispatch import has_native, has_triton, register
from unclump.ops.native import projection


def project(x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The nearest point of the sphere, :math:`x / \lVert x \rVert`.

    No norm vanishes or overflows, from the smallest number to the largest. A row of zeros has no direction: it stays
    zero, and its gradient is zero. Half precision comes back as float32.

    Example:
        >>> project(torch.tensor([[3.0, 4.0], [0.0, 2e-30], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 1.0000],
                [0.0000, 0.0000]])
    """
    check_floats(x)
    if torch.compiler.is_compiling():  # compilers know no functions of ours with a derivative in forward mode
        return unit(x)
    return _project(full_precision(x))[0]


def largest_entries(x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape 1"]:
    """The largest absolute entry of every row, without a table of absolute values."""
    return torch.maximum(x.amax(dim=-1, keepdim=True), x.amin(dim=-1, keepdim=True).neg_())


def _fake_unit_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty((*x.shape[:-1], 1))


@register("unit_rows(Tensor x) -> (Tensor, Tensor)", _fake_unit_rows)
def unit_rows(x: Float[Tensor, "*shape d"]) -> tuple[Float[Tensor, "*shape d"], Float[Tensor, "*shape 1"]]:
    """The rows on the sphere, and one over their norms: the largest number where that overflows, zero for zeros."""
    if has_native(x):
        return projection.project(x)
    if has_triton(x, width=x.shape[-1]):
        from unclump.ops.triton import projection as kernels

        return kernels.project(x)
    # Divided by their largest entry, rows have norms between one and the root of d; by infinity, those of zeros.
    scale = torch.threshold_(largest_entries(x), 0.0, math.inf)
    y = x / scale
    norm = vector_norm(y, dim=-1, keepdim=True).clamp_min_(1)
    y /= norm
    return y, norm.reciprocal_().div_(scale).clamp_max_(torch.finfo(x.dtype).max)


@register(
    "unit_rows_backward(Tensor y, Tensor inverse_norms, Tensor grad) -> Tensor", lambda y, *_: torch.empty_like(y)
)
def unit_rows_backward(
    y: Float[Tensor, "*shape d"], inverse_norms: Float[Tensor, "*shape 1"], grad: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape d"]:
    """The gradient by the rows of the gradient by their directions."""
    if has_native(y, inverse_norms, grad):
        return projection.project_back(y, inverse_norms, grad)
    if has_triton(y, inverse_norms, grad, width=y.shape[-1]):
        from unclump.ops.triton import projection as kernels

        return kernels.project_back(y, inverse_norms, grad)
    return tangent(y, grad).mul_(inverse_norms)


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return unit_rows(x)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, *output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> Tensor:
        x, y, inverse_norms = ctx.saved_tensors
        if torch.is_grad_enabled() and (x.requires_grad or grad_output.requires_grad):
            y = unit(x)  # a second derivative: the same formula, by operations that have one
            norms = (x * y).sum(dim=-1, keepdim=True)
            return tangent(y, grad_output) / torch.where(norms > 0, norms, torch.inf)
        return unit_rows_backward(y, inverse_norms, grad_output)  # type: ignore[no-any-return]

    @staticmethod
    def jvp(ctx: Any, direction: Tensor) -> tuple[Tensor, None]:
        y, inverse_norms = ctx.saved_tensors
        return tangent(y, direction) * inverse_norms, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _project(x.movedim(in_dims[0], 0)), (0, 0)


_project: Callable[[Tensor], tuple[Tensor, Tensor]] = _Project.apply
