"""Backward passes that have no derivative of their own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """Mark the backward pass of an `autograd.Function`, whose inputs are in `ctx.inputs`: to go it twice is an error.

    Torch's decorator of this name takes the result for a constant when the gradient that comes in is one, as that of a
    loss is: a second derivative would silently lack a part. The inputs are not saved for the way back, which needs
    none of their values: they may change.
    """

    @wraps(backward)
    def wrapper(ctx: Any, *grad_outputs: Tensor) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grad_outputs)
        if not torch.is_grad_enabled():
            return found
        sources = [one for one in (*ctx.inputs, *grad_outputs) if one.requires_grad]
        gradients = found if isinstance(found, tuple) else (found,)
        return tuple(None if gradient is None else _refuse(gradient, *sources) for gradient in gradients)

    return wrapper


class _Refuse(torch.autograd.Function):
    """A gradient as it is, which depends on the sources; there is no way back."""

    @staticmethod
    def forward(gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """There is nothing to keep."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise RuntimeError(
            "expected a first derivative, got a second, of a gradient in closed form that is not differentiated again; "
            "the page on choosing an objective says which have second derivatives"
        )


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.inputs = inputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


_refuse: Callable[..., Tensor] = _Refuse.apply
once: Callable[[Tensor], Tensor] = _Once.apply
"""A tensor as it is, for what has a first derivative by it and no second."""
