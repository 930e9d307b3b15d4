"""The rows of a table that a process measures: all of them, or its share where several processes run the command."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from unclump.cli._processes import Processes
from unclump.cli._tables import load_shards
from unclump.tables.files import FileError, Table, describe_rows, read_row_lines


@dataclass(frozen=True)
class Share:
    """Rows of a table.

    Attributes:
        table: What was read; None where there are more processes than shards.
        points: The rows of this process.
        names: Their names, or None.
        total: The number of rows of all processes.
        here: Which of all rows they are.
    """

    table: Table | None
    points: Float[Tensor, "n d"]
    names: Sequence[str] | None
    total: int
    here: slice


def read_share(args: argparse.Namespace, processes: Processes) -> Share:
    """Read the shards of this process; of a single file, which all of them map, a part."""
    files = args.files if len(args.files) == 1 else args.files[processes.share(len(args.files))]
    if processes.size == 1:
        whole = load_shards(files, args.tensor, args.names)
        return Share(whole, whole.points, whole.names, len(whole.points), slice(None))
    table = processes.all_or_none(lambda: load_shards(files, args.tensor, None, at_least=0) if files else None)
    points, names = _rows_of(table, args, processes)
    counts = processes.each(len(points))
    here = slice(sum(counts[: processes.rank]), sum(counts[: processes.rank + 1]))
    if args.names is not None:
        names = processes.all_or_none(lambda: read_row_lines(args.names, sum(counts), "names"))[here]
    return Share(table, points, names, sum(counts), here)


def _rows_of(
    table: Table | None, args: argparse.Namespace, processes: Processes
) -> tuple[Float[Tensor, "n d"], Sequence[str] | None]:
    """The rows of this process and their names; raise, on all of them, if their tables differ in kind."""
    found = processes.each(None if table is None else (describe_rows(table), table.points[:0].clone()))
    kinds = {rank: kind for rank, kind in enumerate(found) if kind is not None}
    first, (expected, no_points) = next(iter(kinds.items()))
    for rank, (kind, _) in kinds.items():
        if kind != expected:
            raise FileError(f"expected {expected}, as in the shards of process {first}, got {kind} in those of {rank}")
    if table is None:
        return no_points, None
    if len(args.files) > 1:
        return table.points, table.names
    part = processes.share(len(table.points))
    return table.points[part], None if table.names is None else table.names[part]
