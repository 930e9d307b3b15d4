"""Access to the table of a model, and to its rows without padding."""

import math

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor, nn

from unclump.distributed.ranks import Gather, Shards, rows_here


def find_table(model: nn.Module, name: str) -> tuple[Tensor, int | None]:
    """Find a table by the name of its parameter, or of its module; return it and its `padding_idx`.

    Example:
        >>> from unclump.integrations._tables import find_table
        >>> model = torch.nn.ModuleDict({"tokens": torch.nn.Embedding(9, 4, padding_idx=0)})
        >>> table, padding = find_table(model, "tokens")  # or "tokens.weight"
        >>> table.shape, padding
        (torch.Size([9, 4]), 0)
    """
    modules, (owner, _, last) = dict(model.named_modules()), name.rpartition(".")
    holder, attribute = (modules[name], "weight") if name in modules else (modules.get(owner), last)
    table = getattr(holder, attribute, None)
    if not isinstance(table, Tensor) or table.ndim != 2:
        tables = [key for key, parameter in model.named_parameters() if parameter.ndim == 2]
        raise ValueError(
            f"expected the name of a table, a parameter with two dimensions, got {name!r}; "
            f"{type(model).__name__} has {', '.join(map(repr, tables)) or 'none'}"
        )
    return table, getattr(holder, "padding_idx", None)


def local_rows(table: Tensor) -> tuple[Tensor, Gather]:
    """Return the rows of a table on this rank, and the group that shards them if it is a `DTensor`, else False."""
    if not hasattr(table, "device_mesh"):
        return table, False
    rows, group, _ = rows_here(table, Shards())
    return rows, group


def local_row_numbers(table: Tensor, padding: int | None) -> Int[Tensor, " k"]:
    """Return the numbers of the local rows except the padding, which has no direction."""
    rows, group = local_rows(table)
    numbers = torch.arange(len(rows), device=rows.device)
    if padding is None:
        return numbers
    before = 0
    if group is not False:  # the first row of this rank under Shard(0)
        before = min(dist.get_rank(group) * math.ceil(len(table) / dist.get_world_size(group)), len(table))
    return numbers[numbers + before != padding % len(table)]
