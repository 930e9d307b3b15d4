"""The optimiser state of points: its entries, and validation of a saved state."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from unclump.optim.groups import Group, parameter_names


@dataclass(frozen=True)
class Entry:
    """A table of state: one row or one number per point, sharded like the points."""

    name: str
    is_column: bool = False
    dtype: torch.dtype | None = None
    """None for the dtype of the points, or float32 if they are in half precision."""
    option: str | None = None
    """The option of the group that requires this table; None if it always exists."""

    def first(self, x: Tensor) -> Tensor | None:
        """The initial value, before the first step; None if it depends on an option."""
        return self.zeros(x) if self.option is None else None

    def zeros(self, x: Tensor) -> Tensor:
        """Zeros for the points `x`."""
        dtype = self.dtype_for(x)
        if self.is_column:
            return torch.zeros_like(x[..., :1], dtype=dtype, memory_format=torch.contiguous_format)
        return torch.zeros_like(x, dtype=dtype)

    def dtype_for(self, x: Tensor) -> torch.dtype:
        """Its dtype for the points `x`."""
        return self.dtype or torch.promote_types(x.dtype, torch.float32)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Its shape for the points `x`."""
        return (*x.shape[:-1], 1) if self.is_column else tuple(x.shape)


def complete_groups(state_dict: Group, groups: list[Group]) -> Group:
    """Copy a saved state, and add options that its groups lack from the groups of the optimiser.

    Without the copy, two optimisers would write to the same state.
    """
    state_dict = deepcopy(state_dict)
    if len(state_dict["param_groups"]) == len(groups):  # otherwise torch raises
        state_dict["param_groups"] = [
            {**{name: value for name, value in group.items() if name not in ("params", "param_names")}, **saved}
            for group, saved in zip(groups, state_dict["param_groups"], strict=True)
        ]
    return state_dict


def check_state(
    state_dict: Group, groups: list[Group], entries: Sequence[Entry], euclidean_entries: Sequence[str], optimizer: str
) -> None:
    """Raise if a saved state lacks an entry, such as that of another optimiser, or has one of the wrong shape.

    Args:
        state_dict: The state, with completed groups.
        groups: The groups of the optimiser that will load it.
        entries: The entries required for points.
        euclidean_entries: The entries required for parameters in groups with `sphere=False`.
        optimizer: The name of the optimiser.
    """
    names = parameter_names(groups)
    for group, saved in zip(groups, state_dict["param_groups"], strict=False):
        sphere = saved.get("sphere", True)
        needed = [entry.name for entry in entries if entry.option is None] if sphere else list(euclidean_entries)
        for x, number in zip(group["params"], saved["params"], strict=False):
            state = state_dict["state"].get(number)
            if state is None:
                continue
            missing = [name for name in needed if name not in state]
            if missing:
                kind = "points on the sphere" if sphere else "a group with sphere=False"
                raise ValueError(
                    f"expected the state of {optimizer} for {kind}, with {', '.join(needed)}, "
                    f"got {', '.join(state)} for {names[x]}: {', '.join(missing)} is missing, "
                    "as in the state of another optimiser; "
                    "load the model without it, and start this optimiser from scratch"
                )
            for entry in entries if sphere else ():
                table = state.get(entry.name)
                if isinstance(table, Tensor) and tuple(table.shape) != entry.shape(x):
                    raise ValueError(
                        f"expected {entry.name} of shape {entry.shape(x)} in the state of {names[x]}, got "
                        f"{tuple(table.shape)}; load the state that {optimizer} saved for this model"
                    )


def restore_state(state: Group, x: Tensor, entries: Sequence[Entry]) -> Group:
    """Move a saved state to the device of its parameter, with the dtypes of the entries, contiguous."""
    dtypes = {entry.name: entry.dtype_for(x) for entry in entries}
    return {
        name: value.to(x.device, dtypes.get(name, value.dtype)).contiguous() if isinstance(value, Tensor) else value
        for name, value in state.items()
    }
