"""What commands that read or write a table have in common: their options, their doors, their files of lines."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unclump._text import sanitise
from unclump.tables.files import FileError, Table, bad_rows, check_target, load
from unclump.tables.files._validation import check_regular, prefix_errors

_MOST_LISTED = 5
# Advice of the library, and what it is on the command line.
_ADVICE = {
    "pick one with tensor=...": "pick one with --tensor",
    "leave out tensor=": "leave out --tensor ",
    "allow it with in_place=True": "allow it with --in-place",
    "; write .npz, .txt, .csv or .parquet, or drop them: names=None": "; write .npz, .txt, .csv or .parquet",
    "; write .npz, or drop them: names=None": "; write .npz",
    "; add names, or write .npy": "; add --names FILE, or write .npy",
}


def add_input(command: argparse.ArgumentParser) -> None:
    """FILE, and how to read it."""
    command.add_argument("file", type=Path, metavar="FILE", help="a table, or the folder of a Hugging Face model")
    command.add_argument("--tensor", metavar="KEY", help="which table, where FILE holds several: key, tensor or column")
    command.add_argument("--names", type=Path, metavar="FILE", help="the rows' names, one a line")


def add_output(command: argparse.ArgumentParser) -> None:
    """OUT, and whether it may be FILE."""
    command.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to; the suffix tells the format")
    command.add_argument("--in-place", action="store_true", help="replace FILE, once the new one is complete")


def load_table(path: Path, chosen: argparse.Namespace) -> Table:
    """A table, read as was chosen, whatever rows it has."""
    with on_the_command_line():
        return load(path, tensor=chosen.tensor, names=chosen.names)


def read_table(chosen: argparse.Namespace) -> Table:
    """The table; rows without a direction are refused by number and name."""
    table = load_table(chosen.file, chosen)
    bad = bad_rows(table)
    if bad:
        listed = [
            f"row {row.row}" + ("" if row.name is None else f" '{sanitise(row.name)}'") + f" is {row.fault}"
            for row in bad[:_MOST_LISTED]
        ]
        more = f", and {len(bad) - _MOST_LISTED} more" if len(bad) > _MOST_LISTED else ""
        raise FileError(
            f"{sanitise(chosen.file)}: {', '.join(listed)}{more}: such a row has no direction; drop it or give it one"
        )
    return table


def output_of(chosen: argparse.Namespace) -> Path:
    """Where the result goes, as the user said."""
    output: Path | None = chosen.output
    if output is None:
        if not chosen.in_place:
            raise ValueError("expected where to write, got nothing; name a file with -o, or use --in-place")
        return Path(chosen.file)
    if chosen.in_place and not (output.exists() and os.path.samefile(output, chosen.file)):
        raise ValueError(f"expected -o or --in-place, got both, and {sanitise(output)} is not FILE; leave one out")
    return output


def check_output(output: Path, table: Table, *, in_place: bool) -> str:
    """Refuse what could not be written, before the work; the format that will be."""
    with on_the_command_line():
        return check_target(output, table, in_place=in_place)


@contextmanager
def on_the_command_line() -> Iterator[None]:
    """The library's refusals, with its advice in the words of the command line."""
    try:
        yield
    except FileError as error:
        text = str(error)
        for advice, here in _ADVICE.items():
            text = text.replace(advice, here)
        raise FileError(text) from error.__cause__


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, of any bytes; empty ones at its end do not count."""
    with prefix_errors(path):
        check_regular(path)
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
        if not content:
            raise FileError("is empty; it holds one a line")
    return [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in content.split(b"\n")]
