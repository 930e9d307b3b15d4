"""Objectives under `torch.func.vmap`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def map_over_sets(
    evaluate: Callable[..., tuple[Tensor, Tensor, Tensor]],
    batch_size: int,
    in_dims: tuple[int | None, ...],
    inputs: tuple[Any, ...],
) -> tuple[tuple[Tensor, ...], Any]:
    """Evaluate a batch of calls: as separate sets of a single call, unless each has its own random draw.

    Args:
        evaluate: Maps embeddings, queue, weights, draw and the rest of a call to value, vectors and scale.
        batch_size: The number of calls.
        in_dims: The batch dimension of each input, or None.
        inputs: The inputs of `evaluate`.
    """
    moved = [value if dim is None else value.movedim(dim, 0) for value, dim in zip(inputs, in_dims, strict=True)]
    if in_dims[3] is not None:  # every call has its own draw
        each = [
            evaluate(*(v if dim is None else v[i] for v, dim in zip(moved, in_dims, strict=True)))
            for i in range(batch_size)
        ]
        return tuple(torch.stack(outputs) for outputs in zip(*each, strict=True)), (0, 0, 0)
    if in_dims[0] is None:
        moved[0] = moved[0].expand(batch_size, *moved[0].shape)
    if in_dims[1] is not None and moved[1].ndim < moved[0].ndim:  # every call has its own queue, shared by all its sets
        moved[1] = moved[1].unflatten(0, (batch_size, *(1,) * (moved[0].ndim - moved[1].ndim)))
    if in_dims[2] is None and moved[2] is not None:
        moved[2] = moved[2].expand(batch_size, *moved[2].shape)
    value, *pull = evaluate(*moved)
    is_batched = [part.numel() > 0 for part in pull]
    if moved[0].ndim > 3:  # every call has several sets
        pull = [
            part.view(batch_size, -1, *part.shape[1:]) if batched else part
            for part, batched in zip(pull, is_batched, strict=True)
        ]
    return (value, *pull), (0, *(0 if batched else None for batched in is_batched))
