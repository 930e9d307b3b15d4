"""Rows of parameters onto the sphere, and the look at them that finds those without a direction."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import has_direction, zeros_message
from unclump._precision import full_precision
from unclump.ops.project import project
from unclump.ops.row_update import alike, as_rows, local_part, rows_of, write_rows


def put_on_sphere(tables: Sequence[Tensor]) -> None:
    """Project the rows of tables of shape (..., d) that are off the sphere by more than rounding, in place.

    The others keep every bit; so do rows without a direction: zeros, NaN and infinity. No value is read by the host.
    """
    tables = [local_part(table) for table in tables]
    for places in alike(tables):
        group = [tables[i] for i in places]
        rows = rows_of(group)
        norm = vector_norm(full_precision(rows), dim=-1, keepdim=True)
        rounding = torch.finfo(rows.dtype).eps + 16 * torch.finfo(norm.dtype).eps  # of the entries, and of their sum
        size = vector_norm(rows, torch.inf, dim=-1, keepdim=True)  # finite where the norm may overflow
        is_off = ((norm - 1).abs() > rounding) & (size < torch.inf)
        write_rows(torch.where(is_off, project(rows).to(rows.dtype), rows), group)


def find_zeros(tables: Sequence[Tensor], names: Sequence[str]) -> list[str]:
    """What to say of tables that have rows of zeros; those with NaN or infinity are refused, by name and row.

    This reads the data: one look for all tables.
    """
    tables = [local_part(table) for table in tables]
    sizes = [vector_norm(rows_of([tables[i] for i in places]), torch.inf, dim=-1) for places in alike(tables)]
    flags = [((size > 0) & (size < torch.inf)).all() for size in sizes]
    if not flags or all(torch.stack([flag.to(flags[0].device) for flag in flags]).tolist()):
        return []
    directed = [has_direction(as_rows(table), what=name) for table, name in zip(tables, names, strict=True)]
    return [zeros_message(name, ~mask) for name, mask in zip(names, directed, strict=True) if not mask.all()]
