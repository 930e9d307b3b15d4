"""Objectives whose value and gradient come from one pass of fused loops, the projection onto the sphere among them.

A batch of a few hundred rows takes the loops less time than torch takes to build and walk a graph of ten operations.
Here the graph has one, whose way back is a product.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.geometry.sphere import project
from unclump.ops import native

Fused = Callable[..., tuple[Tensor, Tensor | None]]
Plain = Callable[[Tensor], Tensor]


def possible(embeddings: Tensor) -> bool:
    """Whether there are loops for these embeddings; they need not have passed the door."""
    return isinstance(embeddings, Tensor) and embeddings.dtype is torch.float32 and native.usable(embeddings)


def in_one_pass(embeddings: Float[Tensor, "n d"], fused: Fused, plain: Plain) -> Float[Tensor, ""]:
    """A function of embeddings in float32 on the CPU.

    Args:
        embeddings: Of any norm.
        fused: `fused(embeddings, wanted=True)` returns the value and, where it is wanted, its gradient; by loops, or in
            double precision, which autocast leaves alone.
        plain: The same value of the embeddings' directions by operations of torch, for second derivatives.
    """
    wanted = embeddings.requires_grad and torch.is_grad_enabled()
    return _in_one_pass(embeddings, fused, plain, wanted)


class _InOnePass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, fused: Fused, plain: Plain, wanted: bool) -> Tensor:
        value, gradient = fused(embeddings, wanted=wanted)
        ctx.save_for_backward(embeddings, gradient)
        ctx.plain = plain
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        embeddings, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            value = ctx.plain(project(embeddings))
            return torch.autograd.grad(value, embeddings, grad_output, create_graph=True)[0], None, None, None
        return grad_output * gradient, None, None, None


_in_one_pass: Callable[[Tensor, Fused, Plain, bool], Tensor] = _InOnePass.apply
