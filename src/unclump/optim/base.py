"""The base class of the optimisers: groups on and off the sphere, validation of points at the first step, the step."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, overload

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import Optimizer, ParamsT

from unclump.ops.put_on_sphere import find_zeros, put_on_sphere
from unclump.ops.row_update import update_named, update_rows
from unclump.optim.groups import Group, check_options, check_point_parameter, check_sparse_gradient, parameter_names
from unclump.optim.state import Entry, check_state, complete_groups, restore_state


class SphereOptimizer(Optimizer):
    """An optimiser of points on the sphere, and of Euclidean parameters alongside them.

    Attributes:
        rule: The update of points, a function of `unclump.ops.update_rules`.
        choices: The options that the rule takes, apart from the step size.
        entries: The state that the rule takes, in order.
        euclidean_update: Torch's update, for groups with `sphere=False`.
        euclidean_entries: The state that `euclidean_update` requires.
        takes_sparse_if_euclidean: Whether `euclidean_update` supports sparse gradients.
        check_choices: Raises if options are out of range.
        added_options: Options added in later versions, which saved groups may lack, with their defaults.
    """

    rule: ClassVar[Callable[..., Any]]
    choices: ClassVar[tuple[str, ...]]
    entries: ClassVar[tuple[Entry, ...]]
    euclidean_update: ClassVar[Callable[..., None]]
    euclidean_entries: ClassVar[tuple[str, ...]]
    takes_sparse_if_euclidean: ClassVar[bool]
    check_choices: ClassVar[Callable[..., None]]
    added_options: ClassVar[Group]

    _is_built = False

    def __init__(self, params: ParamsT, defaults: Group) -> None:
        super().__init__(params, {**defaults, "lr": _as_number(defaults["lr"]), "sphere": True})
        self._is_built = True
        self._put_on_sphere(self.param_groups)

    def __setstate__(self, state: Group) -> None:
        super().__setstate__(state)
        self._is_built = True
        for group in self.param_groups:
            for name, value in self.added_options.items():
                group.setdefault(name, value)

    def add_param_group(self, param_group: Group) -> None:
        if "lr" in param_group:
            param_group["lr"] = _as_number(param_group["lr"])
        check_options(param_group, self.defaults)
        self.check_choices({**self.defaults, **param_group})
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            names = parameter_names(self.param_groups)
            for x in added["params"] if added["sphere"] else ():
                if not is_lazy(x):
                    check_point_parameter(x, names[x])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise
        if self._is_built:  # the constructor projects only after all groups are added, since one of them may raise
            self._put_on_sphere([added])

    @torch.no_grad()
    def _put_on_sphere(self, groups: list[Group]) -> None:
        """Project parameters that are initialised and not frozen; `step` projects the others."""
        points = [x for group in groups if group["sphere"] for x in group["params"] if x.requires_grad]
        put_on_sphere([x for x in points if not is_lazy(x) and not x.is_meta])

    def load_state_dict(self, state_dict: Group) -> None:
        """Load a state like torch, but keep the dtypes of the state of sphere groups.

        Torch would cast all of it, even step counts, to the dtype of the parameter, and would share tensors with the
        loaded state. Raises before anything is loaded if the state lacks an entry, such as that of another optimiser.
        """
        state_dict = complete_groups(state_dict, self.param_groups)
        check_state(state_dict, self.param_groups, self.entries, self.euclidean_entries, type(self).__name__)
        super().load_state_dict(state_dict)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for x, number in zip(group["params"], saved["params"], strict=True):
                if group["sphere"] and number in state_dict["state"]:
                    self.state[x] = restore_state(state_dict["state"][number], x, self.entries)

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
        self._prepare(groups)
        for group, parameters in groups:
            gradients, states = [x.grad for x in parameters], [self.state[x] for x in parameters]
            if group["sphere"]:
                self._update_points(group, parameters, gradients, states)
            else:
                self.euclidean_update(group, parameters, gradients, states)
        return loss

    def _prepare(self, groups: list[tuple[Group, list[Tensor]]]) -> None:
        """Validate everything before anything moves; project new points onto the sphere, and create their state."""
        new = []
        for group, parameters in groups:
            is_sphere, sparse = group["sphere"], self.takes_sparse_if_euclidean
            for x in parameters:
                if x.grad is not None and x.grad.is_sparse:
                    check_sparse_gradient(x, x.grad, self.param_groups, sphere=is_sphere, if_euclidean=sparse)
            new += [x for x in parameters if is_sphere and not self.state[x]]
        if not new:
            return
        if not torch.compiler.is_compiling():  # compilers cannot read data
            names = parameter_names(self.param_groups)
            for x in new:
                check_point_parameter(x, names[x])
            for message in find_zeros(new, [names[x] for x in new]):
                warnings.warn(message, stacklevel=5)  # the caller of step, outside three wrappers of torch
        put_on_sphere(new)
        for x in new:
            self.state[x] = {entry.name: entry.first(x) for entry in self.entries}

    @torch.no_grad()
    def step_rows(self, x: Tensor, gradient: Tensor, rows: Tensor | None) -> None:
        """Step one parameter on the sphere, in all rows or only in `rows`, with this gradient instead of `x.grad`.

        Equivalent to `step` with a sparse gradient of these rows, but cheaper; hooks are not called.
        """
        group = next(group for group in self.param_groups if any(x is each for each in group["params"]))
        self._prepare([(group, [x])])
        update_named(self._rule(group), x, gradient, self._tables(group, x, self.state[x]), rows)

    def _update_points(
        self, group: Group, parameters: list[Tensor], gradients: list[Any], states: list[dict[str, Any]]
    ) -> None:
        tables = [self._tables(group, x, state) for x, state in zip(parameters, states, strict=True)]
        update_rows(self._rule(group), parameters, gradients, tables, lazy=group.get("lazy", False))

    def _tables(self, group: Group, x: Tensor, state: dict[str, Any]) -> tuple[Tensor | None, ...]:
        """The state that the rule takes, created on first use; None for entries whose option is off."""
        tables: list[Tensor | None] = []
        for entry in self.entries:
            is_used = entry.option is None or group[entry.option]
            if is_used and state.get(entry.name) is None:
                state[entry.name] = entry.zeros(x)
            tables.append(state[entry.name] if is_used else None)
        return tuple(tables)

    def _rule(self, group: Group) -> "partial[Any]":
        """The update rule, with the group's options."""
        lr = group["lr"].reshape(()) if isinstance(group["lr"], Tensor) else float(group["lr"])
        options = {name: group[name] for name in self.choices}
        return partial(self.rule, lr=-lr if group["maximize"] else lr, **options)


def _as_number(lr: Any) -> Any:
    """Convert a learning rate that is a NumPy array with one element to a number; return others unchanged."""
    return lr.item() if isinstance(lr, np.ndarray) and lr.size == 1 else lr
