"""Projection of the rows of parameters onto the sphere, and detection of rows without a direction."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import has_direction, zeros_message
from unclump._precision import full_precision
from unclump.ops.project import project
from unclump.ops.row_update import as_rows, block_height, group_alike, local_part, rows_of, write_rows


def put_on_sphere(tables: Sequence[Tensor]) -> None:
    """Project the rows of tables of shape (..., d) that are off the sphere by more than rounding, in place.

    The others are bitwise unchanged; so are rows without a direction: zeros, NaN and infinity. Does not synchronise.
    """
    tables = [local_part(table) for table in tables]
    for indices in group_alike(tables):
        group = [tables[i] for i in indices]
        rows = rows_of(group)
        block = block_height(rows)
        for start in range(0, len(rows), block):
            rows[start : start + block] = _on_sphere(rows[start : start + block])
        write_rows(rows, group)


def _on_sphere(rows: Tensor) -> Tensor:
    norm = vector_norm(full_precision(rows), dim=-1, keepdim=True)
    rounding = torch.finfo(rows.dtype).eps + 16 * torch.finfo(norm.dtype).eps  # of the entries and of their sum
    size = vector_norm(rows, torch.inf, dim=-1, keepdim=True)  # finite even if the norm overflows
    is_off = ((norm - 1).abs() > rounding) & (size < torch.inf)
    return torch.where(is_off, project(rows).to(rows.dtype), rows)


def find_zeros(tables: Sequence[Tensor], names: Sequence[str]) -> list[str]:
    """The warnings about tables with rows of zeros; raise on NaN and infinity, naming the table and rows.

    This reads the data, with one synchronisation for all tables.
    """
    tables = [local_part(table) for table in tables]
    sizes = [vector_norm(rows_of([tables[i] for i in indices]), torch.inf, dim=-1) for indices in group_alike(tables)]
    flags = [((size > 0) & (size < torch.inf)).all() for size in sizes]
    if not flags or all(torch.stack([flag.to(flags[0].device) for flag in flags]).tolist()):
        return []
    directed = [has_direction(as_rows(table), what=name) for table, name in zip(tables, names, strict=True)]
    return [zeros_message(name, ~mask) for name, mask in zip(names, directed, strict=True) if not mask.all()]
