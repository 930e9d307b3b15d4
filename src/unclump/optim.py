r"""Optimisers whose parameters are points on the sphere: plain `nn.Parameter`s, the last dimension being the sphere's.

A group with `sphere=False` is Euclidean, and updated by torch's own functions: one optimiser serves a model whose
embedding is on the sphere and whose other weights are not. `.grad` is never modified.

A row is put on the sphere when the optimiser first sees it, where it is not there already; this reads the data, once.
Half-precision parameters are updated in float32 and rounded when written: state is float32, the point is off the
sphere by the rounding (up to 2^-9 in bfloat16), and a step smaller than that is lost.

Gradients of an `nn.Embedding(sparse=True)` touch only the rows they name: state and step count are each row's own.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim.adam import adam
from torch.optim.optimizer import Optimizer, ParamsT
from torch.optim.sgd import sgd
from torch.utils.hooks import RemovableHandle

from unclump._checks import check_choice, check_number, check_rows
from unclump._updates import RETRACTIONS, adam_update, put_on_sphere, sgd_update, update_rows
from unclump.sphere import full_precision, project

Group = dict[str, Any]

# What a group may hold beside our options: torch's own entries, a label, and where a schedule resumes from.
_ALSO_IN_GROUPS = {"params", "param_names", "name", "initial_lr"}


class SphereSGD(Optimizer):
    r"""Riemannian gradient descent on the sphere, with momentum that is carried along each step.

    .. math:: b \leftarrow \mu b + (I - x x^\top) \nabla f(x), \quad x \leftarrow \exp_x(-\text{lr} \, b)

    and b follows x along the step's great circle.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them.
        lr: The step size.
        momentum: The factor :math:`\mu`; 0 for none.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        weight_decay: For groups with `sphere=False`.
        maximize: Climb instead of descend.

    Example:
        >>> from unclump.optim import SphereSGD
        >>> x = torch.nn.Parameter(torch.tensor([[1.0, 0.0]]))
        >>> optimizer = SphereSGD([x], lr=math.pi / 6)
        >>> (-x[:, 1]).sum().backward()
        >>> optimizer.step()
        >>> x.data
        tensor([[0.8660, 0.5000]])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        *,
        momentum: float = 0.0,
        retraction: str = "exp",
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "retraction": retraction,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "sphere": True,
            },
        )

    def add_param_group(self, param_group: Group) -> None:
        _check_options(param_group, self.defaults)
        _check_not_negative("momentum", param_group.get("momentum", self.defaults["momentum"]))
        super().add_param_group(param_group)
        _check_parameters(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = deepcopy(state_dict)  # torch would let two optimisers write into one state
        super().load_state_dict(state_dict)
        _restore_state(self, state_dict)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; a `closure` computes loss and gradients first."""
        loss = _evaluate(closure)
        for x in _first_seen(self):
            put_on_sphere(x)
            self.state[x]["momentum_buffer"] = None
        for group, parameters, gradients in _with_gradient(self):
            if not group["sphere"]:
                _euclidean_sgd(group, parameters, gradients, [self.state[x] for x in parameters])
                continue
            update = partial(
                sgd_update, lr=_signed_lr(group), momentum=group["momentum"], retraction=group["retraction"]
            )
            for x, grad in zip(parameters, gradients, strict=True):
                state = self.state[x]
                if state["momentum_buffer"] is None and group["momentum"] != 0:
                    state["momentum_buffer"] = torch.zeros_like(full_precision(x))
                update_rows(update, x, grad, state["momentum_buffer"])
        return loss


class SphereAdam(Optimizer):
    r"""Riemannian Adam on the sphere: step for step what geoopt's `RiemannianAdam` does on `SphereExact`.

    .. math::
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) \lVert g \rVert^2,
            \quad g = (I - x x^\top) \nabla f(x) \\
        x &\leftarrow \exp_x \big( -\text{lr} \, \hat m / (\sqrt{\hat v} + \epsilon) \big)

    with the bias-corrected :math:`\hat m` and :math:`\hat v` of Adam; then m is projected onto the new tangent space.
    The second moment is one number a row: coordinates move at one rate, and the choice of axes makes no difference.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them.
        lr: The step size: about the angle, in radians, that a row turns in a step.
        betas: The decay of the first and the second moment.
        eps: Added to the root of the second moment.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        lazy: Skip the rows whose gradient is zero: they neither move nor count the step. For minibatches of a large
            table. On a GPU, finding these rows makes the host wait.
        weight_decay: For groups with `sphere=False`.
        maximize: Climb instead of descend.

    Example:
        >>> from unclump.optim import SphereAdam
        >>> x = torch.nn.Parameter(uc.project(torch.randn(4, 3, generator=torch.Generator().manual_seed(0))))
        >>> optimizer = SphereAdam([x], lr=0.05)
        >>> for _ in range(300):
        ...     optimizer.zero_grad()
        ...     (1 / torch.pdist(x)).sum().backward()
        ...     optimizer.step()
        >>> torch.rad2deg(uc.angle(x[0], x[1:]).detach()).round()  # four points, a tetrahedron
        tensor([109., 109., 109.])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        retraction: str = "exp",
        lazy: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "retraction": retraction,
                "lazy": lazy,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "sphere": True,
            },
        )

    def add_param_group(self, param_group: Group) -> None:
        _check_options(param_group, self.defaults)
        _check_not_negative("eps", param_group.get("eps", self.defaults["eps"]))
        _check_betas(param_group.get("betas", self.defaults["betas"]))
        super().add_param_group(param_group)
        _check_parameters(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = deepcopy(state_dict)  # torch would let two optimisers write into one state
        super().load_state_dict(state_dict)
        _restore_state(self, state_dict)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; a `closure` computes loss and gradients first."""
        loss = _evaluate(closure)
        for x in _first_seen(self):
            put_on_sphere(x)
            exp_avg = torch.zeros_like(full_precision(x))
            column = (*x.shape[:-1], 1)
            self.state[x].update(
                exp_avg=exp_avg,
                exp_avg_sq=exp_avg.new_zeros(column),
                steps=exp_avg.new_zeros(column, dtype=torch.long),
            )
        for group, parameters, gradients in _with_gradient(self):
            if not group["sphere"]:
                _euclidean_adam(group, parameters, gradients, [self.state[x] for x in parameters])
                continue
            update = partial(
                adam_update,
                lr=_signed_lr(group),
                betas=group["betas"],
                eps=group["eps"],
                retraction=group["retraction"],
            )
            for x, grad in zip(parameters, gradients, strict=True):
                state = self.state[x]
                moments = state["exp_avg"], state["exp_avg_sq"], state["steps"]
                update_rows(update, x, grad, *moments, lazy=group["lazy"])
        return loss


def project_after_step(optimizer: Optimizer, params: Iterable[Tensor]) -> RemovableHandle:
    r"""The Euclidean baseline: any torch optimiser, its parameters put back on the sphere after each step.

    The step leaves the sphere, and the optimiser's moments know nothing of it: `SphereAdam` and `SphereSGD` are better
    behaved, and this is for comparison with them. A row that a step takes to the origin has no way back.

    Args:
        optimizer: Any torch optimiser, stepping as it always does.
        params: Those of its parameters, of shape (..., d), that are points; projected at once, too.

    Returns:
        A handle whose `remove()` ends it. As all hooks of torch, this one is not copied or pickled with the optimiser.

    Example:
        >>> from unclump.optim import project_after_step
        >>> x = torch.nn.Parameter(torch.tensor([[3.0, 0.0]]))
        >>> optimizer = torch.optim.SGD([x], lr=1.0)
        >>> handle = project_after_step(optimizer, [x])
        >>> (-x[:, 1]).sum().backward()
        >>> optimizer.step()
        >>> x.data
        tensor([[0.7071, 0.7071]])
    """
    points = list(params)

    @torch.no_grad()
    def back_to_sphere(*_: object) -> None:
        for x in points:
            x.copy_(project(x))

    for x in points:
        _check_point_parameter(x)
        check_rows(x.reshape(-1, x.shape[-1]))
    back_to_sphere()
    return optimizer.register_step_post_hook(back_to_sphere)


def sphere_parametrization(module: nn.Module, name: str = "weight") -> nn.Module:
    r"""Make a parameter of `module` the projection of a free one, for those who must keep their own optimiser.

    Reading `module.weight` gives unit rows; assigning to it stores their directions; the optimiser sees
    `module.parametrizations.weight.original`, whose norm grows as it learns, so that equal steps turn it less and less.

    Args:
        module: Changed in place. To save it use its `state_dict`, as for every parametrised module.
        name: Its parameter of shape (..., d).

    Returns:
        `module`.

    Example:
        >>> from unclump.optim import sphere_parametrization
        >>> layer = sphere_parametrization(torch.nn.Embedding(5, 3))
        >>> torch.allclose(layer.weight.norm(dim=-1), torch.ones(5))
        True
    """
    _check_point_parameter(getattr(module, name))
    return parametrize.register_parametrization(module, name, _Projection())


class _Projection(nn.Module):
    """Free rows to unit rows, in their own dtype, as torch's parametrisations must."""

    def forward(self, free: Tensor) -> Tensor:
        return project(free).to(free.dtype)

    def right_inverse(self, points: Tensor) -> Tensor:
        check_rows(points.reshape(-1, points.shape[-1]))
        return self.forward(points)


def _evaluate(closure: Callable[[], Any] | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _with_gradient(optimizer: Optimizer) -> Iterator[tuple[Group, list[Tensor], list[Tensor]]]:
    for group in optimizer.param_groups:
        pairs = [(x, x.grad) for x in group["params"] if x.grad is not None]
        yield group, [x for x, _ in pairs], [grad for _, grad in pairs]


def _first_seen(optimizer: Optimizer) -> Iterator[Tensor]:
    """The parameters on the sphere that have a gradient and no state yet."""
    for group, parameters, _ in _with_gradient(optimizer):
        yield from (x for x in parameters if group["sphere"] and not optimizer.state[x])


def _signed_lr(group: Group) -> float:
    """To climb is to descend with a negative step."""
    lr: float = group["lr"]
    return -lr if group["maximize"] else lr


def _euclidean_sgd(group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Group]) -> None:
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


def _euclidean_adam(group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[Group]) -> None:
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


def _restore_state(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Sphere groups get their state as it was saved: torch casts it, step counts too, to the parameter's dtype."""
    for group, saved in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        for x, number in zip(group["params"], saved["params"], strict=True):
            if group["sphere"] and number in state_dict["state"]:
                optimizer.state[x] = {
                    name: value.to(x.device) if isinstance(value, Tensor) else value
                    for name, value in state_dict["state"][number].items()
                }


def _check_options(param_group: Group, defaults: Group) -> None:
    """Refuse options that are unknown, which torch would silently ignore, out of range, or void on a sphere."""
    for name in param_group:
        check_choice("the options of a parameter group", name, (*defaults, *sorted(_ALSO_IN_GROUPS)))
    options = {**defaults, **param_group}
    _check_not_negative("lr", options["lr"])
    _check_not_negative("weight_decay", options["weight_decay"])
    check_choice("retraction", options["retraction"], RETRACTIONS)
    if options["sphere"] and options["weight_decay"] != 0:
        raise ValueError(
            f"expected weight_decay=0 on the sphere, got {options['weight_decay']!r}: it pulls a point towards the "
            "origin, which the projection onto the tangent space takes away; set it only in groups with sphere=False"
        )


def _check_parameters(optimizer: Optimizer) -> None:
    """Refuse the last group, and take it out again, unless its parameters can be points."""
    group = optimizer.param_groups[-1]
    try:
        for x in group["params"] if group["sphere"] else ():
            _check_point_parameter(x)
    except (TypeError, ValueError):
        optimizer.param_groups.pop()
        raise


def _check_point_parameter(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(f"expected a floating-point parameter, got {x.dtype}; convert with .float()")
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(
            f"expected a parameter of shape (..., d) with d >= 2, got {tuple(x.shape)}: "
            "put what is not a point into a group with sphere=False"
        )
    if x.ndim > 2 and not x.is_contiguous():
        raise ValueError(f"expected a contiguous parameter, got strides {x.stride()}; call .contiguous() first")


def _check_betas(betas: tuple[float, float]) -> None:
    for beta in betas:
        _check_not_negative("betas", beta)
        if beta >= 1:
            raise ValueError(f"expected betas in [0, 1), got {betas!r}")


def _check_not_negative(name: str, value: float) -> None:
    check_number(name, value)
    if not 0 <= value < float("inf"):
        raise ValueError(f"expected {name} >= 0 and finite, got {value!r}")
