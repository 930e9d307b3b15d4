"""Updates of Euclidean groups, by torch's own functions."""

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from unclump.optim.groups import Group


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
        dampening=group["dampening"],
        nesterov=group["nesterov"],
        maximize=group["maximize"],
    )
    for state, buffer in zip(states, buffers, strict=False):
        state["momentum_buffer"] = buffer


def euclidean_adam(group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Group]) -> None:
    """Torch's Adam, for groups with `sphere=False`."""
    for x, state in zip(parameters, states, strict=True):
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(x), exp_avg_sq=torch.zeros_like(x))
        if group["amsgrad"] and "max_exp_avg_sq" not in state:
            state["max_exp_avg_sq"] = torch.zeros_like(x)
    adam(
        parameters,
        gradients,
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
        [state["step"] for state in states],
        amsgrad=group["amsgrad"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
    )
