"""The table of a model: where it is, and which of its rows take part."""

import math

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor, nn

from unclump.distributed.ranks import Gather, Shards, rows_here


def named_table(model: nn.Module, name: str) -> tuple[Tensor, int | None]:
    """The table of that name, a parameter or the module that holds it as its weight; and the number of its padding row.

    Example:
        >>> from unclump.integrations._tables import named_table
        >>> model = torch.nn.ModuleDict({"tokens": torch.nn.Embedding(9, 4, padding_idx=0)})
        >>> table, padding = named_table(model, "tokens")  # or "tokens.weight"
        >>> table.shape, padding
        (torch.Size([9, 4]), 0)
    """
    modules, (owner, _, last) = dict(model.named_modules()), name.rpartition(".")
    holder, attribute = (modules[name], "weight") if name in modules else (modules.get(owner), last)
    table = getattr(holder, attribute, None)
    if not isinstance(table, Tensor) or table.ndim != 2:
        tables = [found for found, parameter in model.named_parameters() if parameter.ndim == 2]
        raise ValueError(
            f"expected the name of a table, a parameter of two dimensions, got {name!r}; "
            f"{type(model).__name__} has {', '.join(map(repr, tables)) or 'none'}"
        )
    return table, getattr(holder, "padding_idx", None)


def local_rows(table: Tensor) -> tuple[Tensor, Gather]:
    """The rows of a table that are here, and for those of a `DTensor` the group that has the rest; or False."""
    if not hasattr(table, "device_mesh"):
        return table, False
    rows, group, _ = rows_here(table, Shards())
    return rows, group


def numbers_here(table: Tensor, padding: int | None) -> Int[Tensor, " k"]:
    """Which of the rows that are here take part: all but the padding, which has no direction and is not to move."""
    rows, group = local_rows(table)
    numbers = torch.arange(len(rows), device=rows.device)
    if padding is None:
        return numbers
    before = 0
    if group is not False:  # as Shard(0) deals rows out
        before = min(dist.get_rank(group) * math.ceil(len(table) / dist.get_world_size(group)), len(table))
    return numbers[numbers + before != padding % len(table)]
