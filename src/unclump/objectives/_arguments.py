"""The checks of what a call of an objective is given besides the embeddings."""

from typing import Any

import torch
from torch import Tensor, nn

from unclump._checks import check_choice, check_points, check_same_dimension
from unclump.distributed.ranks import Ranks


def check_reduction(objective: nn.Module, reduction: str, *, has_terms: bool) -> None:
    """Raise unless it is one that the objective has."""
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if not has_terms:
        raise ValueError(
            f"expected reduction='mean', got {reduction!r}: {type(objective).__name__} is no mean over points; "
            "MaxMin, KoLeo, Energy, MMD and Sliced have a term for each"
        )


def checked_weight(objective: nn.Module, weight: Tensor, x: Tensor, *, supports_weights: bool) -> Tensor:
    """Weights as numbers; negative ones as NaN, since to refuse them would make a GPU wait."""
    if not isinstance(weight, Tensor) or weight.shape != x.shape[:-1]:
        came = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        expected = ", ".join(map(str, x.shape[:-1])) + ("," if x.ndim == 2 else "")
        raise ValueError(f"expected weight as a tensor of shape ({expected}), one number a row, got {came}")
    weight = weight.detach().to(x.device)
    if weight.dtype == torch.bool:
        return weight.to(x.dtype)
    if not supports_weights:
        raise TypeError(
            f"expected weight as a boolean mask, got {weight.dtype}: in {type(objective).__name__} a point is there or "
            "not; pass weight > 0, or choose MaxMin, KoLeo, Energy, Uniformity, MMD, Sliced, SSW, Polarization"
        )
    return torch.where(weight >= 0, weight.to(x.dtype), torch.nan)


def checked_queue(against: Tensor, x: Tensor) -> Tensor:
    """The fixed points as numbers like the embeddings', one table for all sets or one for each."""
    check_points(against, at_least=0)
    check_same_dimension(x, against, "against")
    queues, sets = against.shape[:-2], x.shape[:-2]
    if len(queues) > len(sets) or any(a not in (1, b) for a, b in zip(reversed(queues), reversed(sets), strict=False)):
        raise ValueError(
            f"expected against of shape (m, {x.shape[-1]}), or one such table for every set of the embeddings of shape "
            f"{tuple(x.shape)}, got {tuple(against.shape)}"
        )
    return against.detach().to(x)


def ranks_of_call(objective: nn.Module, x: Tensor, against: Tensor | None, weight: Tensor | None, group: Any) -> Ranks:
    """The processes of the group, which must all make the same call."""
    if x.ndim > 2:
        raise ValueError(f"expected one table of shape (n, d) with gather, got {tuple(x.shape)}; loop over the sets")
    fixed = 0 if against is None else against.shape[-2]
    return Ranks(x, group, objective, fixed, weight is None, x.requires_grad and torch.is_grad_enabled())
