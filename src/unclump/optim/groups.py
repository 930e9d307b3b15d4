"""Parameter groups: validation of their options and parameters, and the names of parameters in messages."""

import math
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.parameter import is_lazy

from unclump._checks import check_choice, check_number
from unclump.ops.row_update import local_part
from unclump.ops.update_rules import RETRACTIONS

Group = dict[str, Any]
LearningRate = float | Tensor | np.floating[Any] | npt.NDArray[Any]

_MISSPELT_SIMILARITY = 0.8  # unknown options at least this similar to a known one are reported


def check_options(param_group: Group, defaults: Group) -> None:
    """Raise if options are out of range or have no effect on the sphere; warn about those that may be misspelt.

    Other unknown options stay in the group, as in torch: schedulers and frameworks add their own.
    """
    for name in param_group.keys() - defaults.keys() - {"params"}:
        for match in get_close_matches(name, defaults, n=1, cutoff=_MISSPELT_SIMILARITY):
            warnings.warn(f"a parameter group has {name!r}, which is ignored; did you mean {match!r}?", stacklevel=4)
    options = {**defaults, **param_group}
    check_not_negative("lr", options["lr"])
    check_not_negative("weight_decay", options["weight_decay"])
    check_choice("retraction", options["retraction"], RETRACTIONS)
    if options["sphere"] and options["weight_decay"] != 0:
        raise ValueError(
            f"expected weight_decay=0 on the sphere, got {options['weight_decay']!r}: it pulls a point towards the "
            "origin, which the projection onto the tangent space removes; set it only in groups with sphere=False"
        )


def check_momentum(options: Group) -> None:
    """Raise if momentum or dampening are out of range, or Nesterov is used without momentum, as torch does."""
    check_not_negative("momentum", options["momentum"])
    check_not_negative("dampening", options["dampening"])
    if options["nesterov"] and (options["momentum"] == 0 or options["dampening"] != 0):
        raise ValueError(
            "expected momentum > 0 and dampening=0 with nesterov=True, got "
            f"momentum={options['momentum']!r} and dampening={options['dampening']!r}"
        )


def check_moments(options: Group) -> None:
    """Raise if decay rates are outside [0, 1), or eps is out of range."""
    check_not_negative("eps", options["eps"])
    for beta in options["betas"]:
        check_not_negative("betas", beta)
        if beta >= 1:
            raise ValueError(f"expected betas in [0, 1), got {options['betas']!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise if a number is negative or not finite; tensors and arrays with one element count as numbers."""
    is_array = isinstance(value, Tensor | np.ndarray | np.generic)
    number = value.item() if is_array and math.prod(value.shape) == 1 else value
    check_number(name, number)
    if not 0 <= number < math.inf:
        raise ValueError(f"expected {name} >= 0 and finite, got {value!r}")


def parameter_names(groups: Iterable[Group]) -> dict[Tensor, str]:
    """How messages refer to every parameter: by its name if `named_parameters` were passed, else by its position."""
    names = {}
    for number, group in enumerate(groups):
        for position, x in enumerate(group["params"]):
            name = repr(group["param_names"][position]) if "param_names" in group else f"{position} of group {number}"
            shape = "" if is_lazy(x) else f" of shape {tuple(x.shape)}"
            rank = f", on rank {x.device_mesh.get_rank()}" if hasattr(x, "device_mesh") else ""
            names[x] = f"parameter {name}{shape}{rank}"
    return names


def check_point_parameter(x: Tensor, name: str | None = None) -> None:
    """Raise if the rows of a parameter cannot be points on a sphere."""
    name = name or f"a parameter of shape {tuple(x.shape)}"
    remedy = "put biases, norms and anything else that is not points into a group with sphere=False"
    if not x.is_floating_point():
        raise TypeError(f"expected floating-point points, got {name} in {x.dtype}; convert with .float(), or {remedy}")
    if x.ndim < 2 or x.shape[-1] < 2:
        raise ValueError(f"expected points of shape (..., n, d) with d >= 2, got {name}; {remedy}")
    placements: Any = getattr(x, "placements", ())  # of a DTensor
    if not all(placement.is_shard(0) or placement.is_replicate() for placement in placements):
        raise ValueError(
            f"expected whole rows on every rank, got {name} with placements {placements}; redistribute it to [Shard(0)]"
        )
    if x.ndim > 2 and not local_part(x.detach()).is_contiguous():
        raise ValueError(f"expected contiguous points, got {name} with strides {x.stride()}; call .contiguous() first")


def check_sparse_gradient(
    x: Tensor, grad: Tensor, groups: Iterable[Group], *, sphere: bool, if_euclidean: bool
) -> None:
    """Raise if the update of a parameter does not support its sparse gradient."""
    if sphere and (x.ndim != 2 or grad.sparse_dim() != 1):
        raise ValueError(
            "expected a sparse gradient of whole rows, as nn.Embedding(sparse=True) gives, "
            f"got {grad.sparse_dim()} sparse dimensions for {parameter_names(groups)[x]}; pass a dense one"
        )
    if not sphere and not if_euclidean:
        raise ValueError(
            "expected dense gradients in a group with sphere=False, "
            f"got a sparse one for {parameter_names(groups)[x]}; use torch.optim.SparseAdam"
        )
