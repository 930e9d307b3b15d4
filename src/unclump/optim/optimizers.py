r"""Optimisers whose parameters are points on the sphere: plain `nn.Parameter` objects with points as their rows.

A group with `sphere=False` is Euclidean, and updated by torch's own functions: one optimiser serves a model whose
embedding is on the sphere and whose other weights are not. `.grad` is never modified.

A row is put on the sphere when the optimiser first sees it, where it is not there already; this reads the data, once.
Half-precision parameters are updated in float32 and rounded when written: state is float32, the point is off the
sphere by the rounding (up to 2^-9 in bfloat16), and a step smaller than that is lost.

Gradients of an `nn.Embedding(sparse=True)` touch only the rows they name: state and step count are each row's own.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from unclump._precision import full_precision
from unclump.ops.row_update import adam_update, put_on_sphere, sgd_update, update_rows
from unclump.optim.groups import (
    Group,
    check_betas,
    check_not_negative,
    check_options,
    check_point_parameter,
    euclidean_adam,
    euclidean_sgd,
)


class SphereOptimizer(Optimizer):
    """What both optimisers are, but for three things: checks of their own options, first state, and updates."""

    def _check(self, options: Group) -> None:
        """Refuse what only this optimiser can judge, among the options of a group."""
        raise NotImplementedError

    def _first_state(self, x: Tensor) -> Group:
        """The state of points that have not moved yet."""
        raise NotImplementedError

    def _update_points(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Move parameters on the sphere."""
        raise NotImplementedError

    def _update_others(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Move parameters of a group that is Euclidean, as torch does."""
        raise NotImplementedError

    def add_param_group(self, param_group: Group) -> None:
        check_options(param_group, self.defaults)
        self._check({**self.defaults, **param_group})
        super().add_param_group(param_group)
        try:
            for x in self.param_groups[-1]["params"] if self.param_groups[-1]["sphere"] else ():
                check_point_parameter(x)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: Group) -> None:
        """As torch does it, but that sphere groups get their state as it was saved.

        Torch casts it, step counts too, to the parameter's dtype; and it would let two optimisers write into one state.
        """
        state_dict = deepcopy(state_dict)
        super().load_state_dict(state_dict)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for x, number in zip(group["params"], saved["params"], strict=True):
                if group["sphere"] and number in state_dict["state"]:
                    self.state[x] = {
                        name: value.to(x.device) if isinstance(value, Tensor) else value
                        for name, value in state_dict["state"][number].items()
                    }

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; a `closure` computes loss and gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = [(group, [x for x in group["params"] if x.grad is not None]) for group in self.param_groups]
        new = [x for group, parameters in groups if group["sphere"] for x in parameters if not self.state[x]]
        if new:  # all of them are checked before anything moves
            put_on_sphere(new)
            for x in new:
                self.state[x] = self._first_state(x)
        for group, parameters in groups:
            update = self._update_points if group["sphere"] else self._update_others
            update(group, parameters, [x.grad for x in parameters])
        return loss


class SphereSGD(SphereOptimizer):
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
        >>> from unclump.optim.optimizers import SphereSGD
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

    def _check(self, options: Group) -> None:
        check_not_negative("momentum", options["momentum"])

    def _first_state(self, x: Tensor) -> Group:
        return {"momentum_buffer": None}

    def _update_points(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        update = partial(
            sgd_update,
            lr=-group["lr"] if group["maximize"] else group["lr"],
            momentum=group["momentum"],
            retraction=group["retraction"],
        )
        for x in parameters:
            state = self.state[x]
            if state["momentum_buffer"] is None and group["momentum"] != 0:
                state["momentum_buffer"] = torch.zeros_like(full_precision(x))
        update_rows(update, parameters, gradients, [(self.state[x]["momentum_buffer"],) for x in parameters])

    def _update_others(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        euclidean_sgd(group, parameters, gradients, [self.state[x] for x in parameters])


class SphereAdam(SphereOptimizer):
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
        >>> from unclump.optim.optimizers import SphereAdam
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

    def _check(self, options: Group) -> None:
        check_not_negative("eps", options["eps"])
        check_betas(options["betas"])

    def _first_state(self, x: Tensor) -> Group:
        exp_avg = torch.zeros_like(full_precision(x))
        column = (*x.shape[:-1], 1)
        return {
            "exp_avg": exp_avg,
            "exp_avg_sq": exp_avg.new_zeros(column),
            "steps": exp_avg.new_zeros(column, dtype=torch.long),
        }

    def _update_points(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        choices = {name: group[name] for name in ("betas", "eps", "retraction")}
        update = partial(adam_update, lr=-group["lr"] if group["maximize"] else group["lr"], **choices)
        names = "exp_avg", "exp_avg_sq", "steps"
        states = [tuple(self.state[x][name] for name in names) for x in parameters]
        update_rows(update, parameters, gradients, states, lazy=group["lazy"])

    def _update_others(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        euclidean_adam(group, parameters, gradients, [self.state[x] for x in parameters])
