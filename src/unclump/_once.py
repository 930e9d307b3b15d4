"""Gradients in closed form, which have no derivative of their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Refuse(torch.autograd.Function):
    """A gradient as it is, which depends on the sources, and raises on double backward."""

    @staticmethod
    def forward(gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise RuntimeError(
            "expected a first derivative, got a second, of a gradient in closed form that is not differentiated again; "
            "the page on choosing an objective says which have second derivatives"
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], gradient: Tensor, *sources: Tensor
    ) -> tuple[Tensor, int | None]:
        return refuse_second_derivative(gradient, *sources), in_dims[0]


refuse_second_derivative: Callable[..., Tensor] = _Refuse.apply
"""The gradient, the first argument, of the others: torch would silently take it for a constant of them."""
