"""Reading and writing of tables, for all commands."""

import argparse
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from jaxtyping import Bool
from torch import Tensor
from tqdm import tqdm

from unclump._text import sanitise
from unclump.cli._stages import shows_progress
from unclump.tables.commands import Paths, better_path
from unclump.tables.files import BadRow, FileError, Table, bad_rows, load
from unclump.tables.rows import without
from unclump.tables.transform import Isotropy

_MAX_LISTED = 5


def load_table(path: Path, args: argparse.Namespace, *, at_least: int = 2) -> Table:
    """Load a table as the options say, including rows without a direction; raise if it has too few rows."""
    table = load(path, tensor=args.tensor, names=args.names)
    check_row_count(path, len(table.points), at_least)
    return table


def check_row_count(path: Path, rows: int, at_least: int = 2) -> None:
    """Raise if a table has too few rows."""
    if rows < at_least:
        raise FileError(f"{sanitise(path)}: expected at least {at_least} rows, got {rows}")


def read_table(args: argparse.Namespace, *, at_least: int = 2) -> tuple[Table, Bool[Tensor, " n"], list[str]]:
    """Load the table FILE; raise if rows are NaN or infinite, and list them by number and name.

    Args:
        args: The options of the command.
        at_least: How many rows must not be zero.

    Returns:
        The table, the mask of its rows that are not zero, and a note on those that are, as padding is, or none.
    """
    table = load_table(args.file, args, at_least=at_least)
    bad = bad_rows(table, progress=shows_progress(args))
    directed = without(len(table.points), [row.row for row in bad])
    # The note below replaces the library's warning about rows of zeros, and has their names.
    warnings.filterwarnings("ignore", message="the table has nothing but zeros")
    not_finite = [row for row in bad if row.fault != "zero"]
    if not_finite:
        raise FileError(
            f"{sanitise(args.file)}: {_list(not_finite)}: such rows have no direction; drop or replace them"
        )
    if int(directed.sum()) < at_least:
        raise FileError(
            f"{sanitise(args.file)}: expected at least {at_least} rows that are not zero, got {int(directed.sum())}"
        )
    notes = [f"{_list(bad)}: without a direction, as padding is; unchanged"] if bad else []
    return table, directed, [*notes_on(table), *notes]


def notes_on(table: Table) -> list[str]:
    """Remarks for the user on how the file was read."""
    return [] if table.source is None else list(table.source.notes)


def _list(rows: list[BadRow]) -> str:
    listed = [
        f"row {row.row}" + ("" if row.name is None else f" '{sanitise(row.name)}'") + f" is {row.fault}"
        for row in rows[:_MAX_LISTED]
    ]
    return ", ".join(listed) + (f", and {len(rows) - _MAX_LISTED} more" if len(rows) > _MAX_LISTED else "")


def paths_of(file: Path, table: Table, args: argparse.Namespace, output: Path | None = None) -> Paths:
    """The files of commands on the table, as the options say; without an output, one beside FILE."""
    assert table.source is not None
    return Paths(file, output or better_path(file, table.source.format), args.tensor, args.names)


def resolve_output(args: argparse.Namespace) -> Path:
    """Return the path to write to, from -o and --in-place."""
    output: Path | None = args.output
    if output is None:
        if not args.in_place:
            raise ValueError("expected an output file, got none; name a file with -o, or use --in-place")
        return Path(args.file)
    if args.in_place and not (output.exists() and os.path.samefile(output, args.file)):
        raise ValueError(f"expected -o or --in-place, got both, and {sanitise(output)} is not FILE; leave one out")
    return output


@contextmanager
def mapped(table: Table, isotropy: Isotropy, *, progress: bool) -> Iterator[Table]:
    """The table, with its rows mapped block by block as they are written, under a progress bar."""
    with tqdm(total=len(table.points), disable=not progress, unit="row", unit_scale=True) as bar:

        def convert(rows: Tensor) -> Tensor:
            bar.update(len(rows))
            return isotropy.transform(rows)

        yield replace(table, convert=convert)


def parse_number(text: str) -> int | None:
    """The number of a row or a query, or None if the text is none: plain digits, and no more than 64 bits hold."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
