"""The rows of a table that a process measures: all of them, or its share if several processes run the command."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from unclump.cli._processes import Processes
from unclump.cli._tables import check_row_count, notes_on
from unclump.tables.files import FileError, Table, describe_rows, read_row_lines, read_shards


@dataclass(frozen=True)
class Share:
    """Rows of a table.

    Attributes:
        tables: The shards of this process, perhaps none.
        parts: The rows of this process, as consecutive parts; memory-mapped if the format allows it.
        names: Their names, or None.
        total: The number of rows of all processes.
        here: Their numbers among all rows.
    """

    tables: list[Table]
    parts: list[Float[Tensor, "_ d"]]
    names: Sequence[str] | None
    total: int
    here: slice

    @property
    def notes(self) -> list[str]:
        """Remarks for the user on how the files were read, without repetition."""
        return list(dict.fromkeys(note for table in self.tables for note in notes_on(table)))


def read_share(args: argparse.Namespace, processes: Processes) -> Share:
    """Read the shards of this process, or its part of a single file, which all processes map."""
    files = args.files if len(args.files) == 1 else args.files[processes.share(len(args.files))]
    tables = processes.all_or_none(lambda: read_shards(files, tensor=args.tensor) if files else [])
    parts, names = _rows_of(tables, args, processes)
    counts = processes.gather(sum(map(len, parts)))
    if processes.size == 1:
        check_row_count(args.files[0], sum(counts))
    here = slice(sum(counts[: processes.rank]), sum(counts[: processes.rank + 1]))
    if args.names is not None:
        names = processes.all_or_none(lambda: read_row_lines(args.names, sum(counts), "names"))[here]
    return Share(tables, parts, names, sum(counts), here)


def _rows_of(
    tables: list[Table], args: argparse.Namespace, processes: Processes
) -> tuple[list[Float[Tensor, "_ d"]], Sequence[str] | None]:
    """The rows of this process and their names; all processes raise if their tables differ in kind."""
    found = processes.gather((describe_rows(tables[0]), tables[0].points[:0].clone()) if tables else None)
    kinds = {rank: kind for rank, kind in enumerate(found) if kind is not None}
    first, (expected, no_points) = next(iter(kinds.items()))
    for rank, (kind, _) in kinds.items():
        if kind != expected:
            raise FileError(f"expected {expected}, as in the shards of process {first}, got {kind} in those of {rank}")
    if not tables:
        return [no_points], None
    part = slice(None) if len(args.files) > 1 else processes.share(len(tables[0].points))
    names = None
    if tables[0].names is not None:
        every = tables[0].names if len(tables) == 1 else [name for table in tables for name in table.names or ()]
        names = every[part]
    return [table.points[part] for table in tables], names
