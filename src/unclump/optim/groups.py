"""Parameter groups: their options, and the updates of those that are Euclidean."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from unclump._checks import check_choice, check_number
from unclump.ops.row_update import RETRACTIONS

Group = dict[str, Any]

# What a group may hold beside our options: torch's own entries, a label, and where a schedule resumes from.
_ALSO_IN_GROUPS = {"params", "param_names", "name", "initial_lr"}


def euclidean_sgd(group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Group]) -> None:
    """Torch's SGD, for groups with `sphere=False`."""
    buffers = [state.get("momentum_buffer") for state in states] if group["momentum"] != 0 else []
    sgd(
        parameters,
        gradients,
        buffers,
        has_sparse_grad=any(grad.is_sparse for grad in gradients),
        weight_decay=group["weight_decay"],
        momentum=group["momentum"],
        lr=group["lr"],
        dampening=0,
        nesterov=False,
        maximize=group["maximize"],
    )
    for state, buffer in zip(states, buffers, strict=False):
        state["momentum_buffer"] = buffer


def euclidean_adam(group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Group]) -> None:
    """Torch's Adam, for groups with `sphere=False`."""
    if any(grad.is_sparse for grad in gradients):
        raise ValueError(
            "expected dense gradients in a group with sphere=False, got sparse; use torch.optim.SparseAdam"
        )
    for x, state in zip(parameters, states, strict=True):
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(x), exp_avg_sq=torch.zeros_like(x))
    adam(
        parameters,
        gradients,
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        [state["step"] for state in states],
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
    )


def check_options(param_group: Group, defaults: Group) -> None:
    """Refuse options that are unknown, which torch would silently ignore, out of range, or void on a sphere."""
    for name in param_group:
        check_choice("the options of a parameter group", name, (*defaults, *sorted(_ALSO_IN_GROUPS)))
    options = {**defaults, **param_group}
    check_not_negative("lr", options["lr"])
    check_not_negative("weight_decay", options["weight_decay"])
    check_choice("retraction", options["retraction"], RETRACTIONS)
    if options["sphere"] and options["weight_decay"] != 0:
        raise ValueError(
            f"expected weight_decay=0 on the sphere, got {options['weight_decay']!r}: it pulls a point towards the "
            "origin, which the projection onto the tangent space takes away; set it only in groups with sphere=False"
        )


def check_point_parameter(x: Tensor) -> None:
    """Refuse a parameter whose rows cannot be points of a sphere."""
    if not x.is_floating_point():
        raise TypeError(f"expected a floating-point parameter, got {x.dtype}; convert with .float()")
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(
            f"expected a parameter of shape (..., d) with d >= 2, got {tuple(x.shape)}: "
            "put what is not a point into a group with sphere=False"
        )
    if x.ndim > 2 and not x.is_contiguous():
        raise ValueError(f"expected a contiguous parameter, got strides {x.stride()}; call .contiguous() first")


def check_betas(betas: tuple[float, float]) -> None:
    """Refuse decay rates outside of [0, 1)."""
    for beta in betas:
        check_not_negative("betas", beta)
        if beta >= 1:
            raise ValueError(f"expected betas in [0, 1), got {betas!r}")


def check_not_negative(name: str, value: float) -> None:
    """Refuse a number that is negative or not finite."""
    check_number(name, value)
    if not 0 <= value < float("inf"):
        raise ValueError(f"expected {name} >= 0 and finite, got {value!r}")
