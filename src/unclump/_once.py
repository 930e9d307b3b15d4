"""Gradients computed in closed form, which cannot be differentiated again."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _RaiseOnDoubleBackward(torch.autograd.Function):
    """Identity on a gradient that depends on the sources; raises on double backward."""

    @staticmethod
    def forward(gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Save nothing: backward always raises."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise RuntimeError(
            "expected a first derivative, got a second: this gradient is computed in closed form and cannot be "
            "differentiated again; the page on choosing an objective lists those with second derivatives"
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], gradient: Tensor, *sources: Tensor
    ) -> tuple[Tensor, int | None]:
        return refuse_second_derivative(gradient, *sources), in_dims[0]


refuse_second_derivative: Callable[..., Tensor] = _RaiseOnDoubleBackward.apply
"""Return the first argument, a gradient that depends on the others; otherwise torch would treat it as a constant."""
