"""Objectives under compilers and transforms of `torch.func`, and their second derivatives."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from unclump._once import refuse_second_derivative
from unclump.objectives._arguments import Call, Inputs
from unclump.objectives._base import as_one_batch, evaluate, gradient_of, pulled_back, save
from unclump.objectives._others import among
from unclump.objectives._pull import Pull


class _EvaluateInParts(torch.autograd.Function):
    """The node that a compiler or a transform takes apart; torch takes twice as long to make it as the plain one."""

    @staticmethod
    def forward(
        embeddings: Tensor, against: Tensor | None, weight: Tensor | None, draw: Any, call: Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        value, pull = evaluate(Inputs(embeddings, against, weight, draw), call)
        vectors, scale = (None, None) if pull is None else pull
        return value, value.new_empty(0) if vectors is None else vectors, value.new_empty(0) if scale is None else scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        call, vectors, scale = inputs[4], *output[1:]
        pull = Pull(vectors, scale if scale.numel() > 0 else None) if call.needs_grad else None
        save(ctx, Inputs(*inputs[:4]), call, pull)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        return (None if grad is None else gradient_of(ctx, grad)), None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], Any]:
        return _map_over_sets(info.batch_size, in_dims, inputs)


# Torch looks at the signature at every call: this saves it the making.
_EvaluateInParts.forward.__signature__ = signature(_EvaluateInParts.forward)  # type: ignore[attr-defined]
evaluate_in_parts: Callable[..., tuple[Tensor, Tensor, Tensor]] = _EvaluateInParts.apply
"""Maps embeddings, queue, weights, draw and the rest of a call to value, vectors and scale, which may be empty."""


def differentiable_gradient(ctx: Any, grad: Tensor, inputs: Inputs, pull: Pull) -> Tensor:
    """The gradient in a graph: by the objective's definition, or one that refuses to be differentiated again."""
    call: Call = ctx.call
    if not call.has_definition or call.ranks.size > 1:
        with torch.no_grad():
            gradient = pulled_back(ctx, grad, inputs, pull)
        return refuse_second_derivative(gradient, *ctx.sources, grad)

    def definition(embeddings: Tensor) -> Tensor:
        objective = call.objective
        x, queue, weights = as_one_batch(inputs._replace(embeddings=embeddings), objective)
        others = among(objective, x.detach(), queue, weights, call.ranks, is_binary=call.is_binary)[1]
        value, too_few = objective.definition(x, others, inputs.draw), others.too_few
        value = value * objective.count(others) if call.reduction == "sum" else value
        return (value if too_few is None else torch.where(too_few, 0, value)).reshape(grad.shape)

    pull_back = torch.func.vjp(definition, inputs.embeddings)[1]
    by_definition: Tensor = pull_back(grad)[0]
    return by_definition


def _map_over_sets(
    batch_size: int, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], Any]:
    """Evaluate a batch of calls: as separate sets of a single call, unless each has its own random draw.

    Args:
        batch_size: The number of calls.
        in_dims: The batch dimension of each input, or None.
        inputs: The inputs of `evaluate_in_parts`.
    """
    moved = [value if dim is None else value.movedim(dim, 0) for value, dim in zip(inputs, in_dims, strict=True)]
    if in_dims[3] is not None:  # every call has its own draw
        each = [
            evaluate_in_parts(*(v if dim is None else v[i] for v, dim in zip(moved, in_dims, strict=True)))
            for i in range(batch_size)
        ]
        return tuple(torch.stack(outputs) for outputs in zip(*each, strict=True)), (0, 0, 0)
    if in_dims[0] is None:
        moved[0] = moved[0].expand(batch_size, *moved[0].shape)
    if in_dims[1] is not None and moved[1].ndim < moved[0].ndim:  # every call has its own queue, shared by all its sets
        moved[1] = moved[1].unflatten(0, (batch_size, *(1,) * (moved[0].ndim - moved[1].ndim)))
    if in_dims[2] is None and moved[2] is not None:
        moved[2] = moved[2].expand(batch_size, *moved[2].shape)
    value, *pull = evaluate_in_parts(*moved)
    is_batched = [part.numel() > 0 for part in pull]
    if moved[0].ndim > 3:  # every call has several sets
        pull = [
            part.view(batch_size, -1, *part.shape[1:]) if batched else part
            for part, batched in zip(pull, is_batched, strict=True)
        ]
    return (value, *pull), (0, *(0 if batched else None for batched in is_batched))
