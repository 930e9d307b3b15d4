"""Backward passes that have no derivative of their own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """Mark the backward pass of an `autograd.Function` that saves its inputs: to go through it again is an error.

    Torch's decorator of this name takes the result for a constant when the gradient that comes in is one, as that of a
    loss is: a second derivative would silently lack a part.
    """

    @wraps(backward)
    def wrapper(ctx: Any, *grad_outputs: Tensor) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grad_outputs)
        if not torch.is_grad_enabled():
            return found
        inputs = [saved for saved in ctx.saved_tensors if saved is not None and saved.requires_grad]
        gradients = found if isinstance(found, tuple) else (found,)
        return tuple(None if gradient is None else _refuse(gradient, *inputs) for gradient in gradients)

    return wrapper


class _Refuse(torch.autograd.Function):
    """The gradient as it is, by the inputs; there is no way back."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise RuntimeError(
            "expected a first derivative, got a second: this gradient has a closed form that is not differentiated "
            "again; MaxMin, KoLeo and Lloyd have second derivatives"
        )


_refuse: Callable[..., Tensor] = _Refuse.apply


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


once: Callable[[Tensor], Tensor] = _Once.apply
"""A tensor as it is, for what has a first derivative by it and no second."""
