"""The rows of a table that several ranks share, with their names and frequencies; of one process, its own."""

import zlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from unclump._checks import check_table
from unclump.distributed.ranks import Gather, Ranks, rows_here
from unclump.tables.rows import Rows


def gather_rows(points: Tensor, gather: Gather, exact: bool, sample: int | None, generator: torch.Generator) -> Rows:
    """The rows of this process, and those that it shares the table with."""
    points, group, _ = rows_here(points, gather)
    check_table(points, at_least=2 if group is None else 0)
    points = points.detach().cpu()
    if group is None:
        return Rows(points)
    state = zlib.crc32(generator.get_state().numpy().tobytes())  # of the draws, which all must share
    ranks = Ranks(points, group, "health", exact, sample, state)
    if ranks.total < 2:
        raise ValueError(f"expected at least 2 rows on all ranks together, got {ranks.total}")
    return Rows(points, ranks)


def gather_names(names: Sequence[str] | None, rows: Rows) -> Sequence[str] | None:
    """The names of all rows, if there are any."""
    count = None if names is None else len(names)
    if any(rows.ranks.any(count not in (None, len(rows.local)))):
        raise ValueError(f"expected {len(rows.local)} names, one for each row, got {count}")
    if rows.ranks.size == 1:
        return names
    parts = [part for part in rows.ranks.objects(None if names is None else list(names)) if part]
    return [name for part in parts for name in part] if sum(map(len, parts)) == len(rows) else None


def gather_frequencies(
    frequencies: Float[Tensor, " n"] | Float[np.ndarray, " n"] | None, rows: Rows
) -> Float64[Tensor, " m"]:
    """The frequencies of all rows, or numbers that fall with the row where none are given."""
    if not any(rows.ranks.any(frequencies is not None)):
        return -torch.arange(len(rows), dtype=torch.float64)
    n = len(rows.local)
    values = torch.empty(0) if frequencies is None else torch.as_tensor(frequencies)
    is_valid = values.shape == (n,) and bool(values.isfinite().all())
    if any(rows.ranks.any(not is_valid)):
        raise ValueError(f"expected {n} finite frequencies, one for each row, got shape {tuple(values.shape)}")
    return rows.ranks.rows(values.double())
