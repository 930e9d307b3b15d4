"""The rows of a table with their names and frequencies, gathered from all ranks that share it."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from unclump._checks import check_table
from unclump.distributed.ranks import Gather, Ranks, rows_here
from unclump.tables.rows import Rows

_ARRAYS = (Tensor, np.ndarray)


def are_parts(points: Any) -> bool:
    """Whether points are a list of tensors or arrays: consecutive parts of one table."""
    return isinstance(points, list | tuple) and len(points) > 0 and all(isinstance(p, _ARRAYS) for p in points)


def gather_rows(
    parts: Sequence[Tensor], gather: Gather, exact: bool, sample: int | None, generator: torch.Generator
) -> Rows:
    """The rows of this process, in one part or several, and the ranks that share the table."""
    here = [rows_here(part, gather) for part in parts]
    parts, group = [part.detach().cpu() for part, _, _ in here], here[0][1]
    for part in parts:
        check_table(part, at_least=2 if group is None and len(parts) == 1 else 0)
    kinds = list(dict.fromkeys((part.shape[1], part.dtype) for part in parts))
    if len(kinds) > 1:
        raise ValueError(f"expected parts of one dimension and dtype, got {kinds[0]} and {kinds[1]}")
    rows = Rows(parts)
    if group is not None:
        state = zlib.crc32(generator.get_state().numpy().tobytes())  # all ranks must draw the same sample
        size = parts[0].new_zeros(1, rows.d).expand(rows.count, rows.d)  # the shape of all parts, without copying them
        rows = Rows(parts, Ranks(size, group, "health", exact, sample, state))
    if len(rows) < 2:
        where = "in all parts" if group is None else "on all ranks"
        raise ValueError(f"expected at least 2 rows {where} together, got {len(rows)}")
    return rows


def gather_names(names: Sequence[str] | None, rows: Rows) -> Sequence[str] | None:
    """The names of all rows; None if some rows have none."""
    count = None if names is None else len(names)
    if any(rows.ranks.any(count not in (None, rows.count))):
        raise ValueError(f"expected {rows.count} names, one for each row, got {count}")
    if rows.ranks.size == 1:
        return names
    parts = [part for part in rows.ranks.objects(None if names is None else list(names)) if part]
    return [name for part in parts for name in part] if sum(map(len, parts)) == len(rows) else None


def gather_frequencies(
    frequencies: Float[Tensor, " n"] | Float[np.ndarray, " n"] | None, rows: Rows
) -> Float64[Tensor, " m"] | None:
    """The frequencies of all rows; None if no rank has any."""
    if not any(rows.ranks.any(frequencies is not None)):
        return None
    n = rows.count
    values = torch.empty(0) if frequencies is None else torch.as_tensor(frequencies)
    is_valid = values.shape == (n,) and bool(values.isfinite().all())
    if any(rows.ranks.any(not is_valid)):
        raise ValueError(f"expected {n} finite frequencies, one for each row, got shape {tuple(values.shape)}")
    return rows.ranks.rows(values.double())
