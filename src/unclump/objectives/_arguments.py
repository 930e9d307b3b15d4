"""The arguments of an objective, and the validation of those other than the embeddings."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unclump._checks import check_choice, check_points, check_same_dimension
from unclump.distributed.ranks import Alone, Gather, Ranks, rows_here


class Inputs(NamedTuple):
    """The tensors of a call."""

    embeddings: Tensor
    against: Tensor | None = None
    weight: Tensor | None = None
    draw: Any = None


@dataclass(eq=False)
class Call:
    """What else an evaluation depends on."""

    objective: Any  # an `Objective`, whose file imports this one
    ranks: Alone
    reduction: str
    needs_grad: bool
    scale: float
    """Of the gradient."""
    has_points: bool
    """Whether there are enough of them, on all ranks."""
    is_binary: bool
    """Whether weights, if any, are a mask."""
    has_definition: bool
    """Whether it can be differentiated twice."""


def check_reduction(objective: nn.Module, reduction: str, *, has_terms: bool) -> None:
    """Raise unless the objective supports the reduction."""
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if not has_terms:
        raise ValueError(
            f"expected reduction='mean', got {reduction!r}: {type(objective).__name__} is not a mean over points; "
            "MaxMin, KoLeo, Energy, MMD and Sliced have a term for each point"
        )


def checked_weight(objective: nn.Module, weight: Tensor, x: Tensor, *, supports_weights: bool) -> Tensor:
    """Convert weights to the dtype of the points; negative ones become NaN, since raising would synchronise a GPU."""
    if not isinstance(weight, Tensor) or weight.shape != x.shape[:-1]:
        got = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        expected = ", ".join(map(str, x.shape[:-1])) + ("," if x.ndim == 2 else "")
        raise ValueError(f"expected weight as a tensor of shape ({expected}), one number per row, got {got}")
    weight = weight.detach().to(x.device)
    if weight.dtype == torch.bool:
        return weight.to(x.dtype)
    if not supports_weights:
        raise TypeError(
            f"expected weight as a boolean mask, got {weight.dtype}: {type(objective).__name__} supports masks only; "
            "pass weight > 0, or choose MaxMin, KoLeo, Energy, Uniformity, MMD, Sliced, SSW or Polarization"
        )
    return torch.where(weight >= 0, weight.to(x.dtype), torch.nan)


def checked_queue(against: Tensor, x: Tensor) -> Tensor:
    """Convert the fixed points to the dtype of the embeddings: one table for all sets, or one for each."""
    check_points(against, at_least=0)
    check_same_dimension(x, against, "against")
    queues, sets = against.shape[:-2], x.shape[:-2]
    if len(queues) > len(sets) or any(a not in (1, b) for a, b in zip(reversed(queues), reversed(sets), strict=False)):
        raise ValueError(
            f"expected against of shape (m, {x.shape[-1]}), or one such table for every set of the embeddings of shape "
            f"{tuple(x.shape)}, got {tuple(against.shape)}"
        )
    return against.detach().to(x)


def ranks_of_call(
    objective: nn.Module, x: Tensor, against: Tensor | None, weight: Tensor | None, group: Any, *, sets: tuple[int, ...]
) -> Ranks:
    """The ranks of the group, which must all make the same call; `sets` is the shape of the batch that contains `x`."""
    if x.ndim > 2:
        raise ValueError(f"expected one table of shape (n, d) with gather, got {tuple(x.shape)}; loop over the sets")
    return Ranks(
        x,
        group,
        objective,
        "no queue" if against is None else f"a queue of {against.shape[-2]} rows",
        "no weights" if weight is None else "weights",
        "a gradient" if x.requires_grad and torch.is_grad_enabled() else "no gradient",
        *([f"sets {sets}"] if sets else []),
    )


def is_sets_of_ranks(x: Tensor, gather: Gather) -> bool:
    """Whether `x` has several sets whose points are on many ranks."""
    has_sets = isinstance(x, Tensor) and x.ndim > 2 and x.shape[:-2].numel() > 0 and not hasattr(x, "device_mesh")
    return has_sets and rows_here(x, gather)[1] is not None


def split_sets(inputs: Inputs) -> Iterator[Inputs]:
    """The sets of embeddings one by one, each with its queue and weights."""
    embeddings, against, weight, draw = inputs
    sets = embeddings.shape[:-2]
    for index in itertools.product(*map(range, sets)):
        queue = against
        if isinstance(against, Tensor) and against.ndim > 2:
            queue = against.expand(*sets, -1, -1)[index]
        yield Inputs(embeddings[index], queue, None if weight is None else weight[index], draw)
