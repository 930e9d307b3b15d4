"""CSV and TSV: numbers in columns, perhaps with a first column of names, perhaps with a first line of headings.

The first line is one of headings where every cell after the first is no number, or where they count 0, 1, 2, ... as
pandas does. The first column holds names where the first row has no number there, or its heading is empty or says so.
CSV quotes as RFC 4180 has it; TSV does not quote, so that a quotation mark can be a name.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from unclump._text import FileError, reason, shown
from unclump.tables.files._numbers import fill, is_number, written
from unclump.tables.files._refusals import check_no_tensor, check_shape
from unclump.tables.files._table import Table, source_of
from unclump.tables.files.text import LONGEST_LINE

DELIMITERS = {"csv": ",", "tsv": "\t"}
_NAME_HEADINGS = {"", "name", "word", "token", "key", "label", "id", "index"}


@dataclass(frozen=True)
class Layout:
    """The headings, if there are any, and whether the first column holds names."""

    headings: tuple[str, ...] | None
    has_names: bool


def read(path: Path, tensor: str | None) -> Table:
    """Twice through the file: to count the rows, and to read them."""
    check_no_tensor(tensor)
    form = form_of(path)
    layout = _layout(path)
    start, skip = int(layout.headings is not None), int(layout.has_names)
    n, d = 0, 0
    for line, cells in islice(_records(path), start, None):
        d = d or len(cells) - skip
        if len(cells) - skip != d:
            raise FileError(f"line {line}: expected {d + skip} cells, as in the lines before, got {len(cells)}")
        n += 1
    check_shape(n, d)
    names: list[str] = []

    def rows() -> Iterator[tuple[int, bytes]]:
        names.clear()
        for line, cells in islice(_records(path), start, None):
            names.extend(cells[:skip])
            yield line, ",".join(cells[skip:]).encode("utf-8", "surrogateescape")

    points = fill(rows, n, d, ",")
    return Table(points, names if layout.has_names else None, source_of(path, form, points, layout=layout))


def form_of(path: Path) -> str:
    """The name of the format: its suffix."""
    return path.suffix.lower().removeprefix(".")


def _layout(path: Path) -> Layout:
    """What the first two lines tell."""
    found = [cells for _, cells in islice(_records(path), 2)]
    if not found:
        raise FileError("is empty")
    first, second = found[0], found[-1]
    if len(first) == 1:
        raise FileError(f"line 1: expected several cells, separated by {DELIMITERS[form_of(path)]!r}, got one")
    numeric = [_is_number(cell) for cell in first[1:]]
    counted = first[1:] == [str(i) for i in range(len(first) - 1)] or first == [str(i) for i in range(len(first))]
    if not any(numeric) or counted:
        says_so = first[0].strip().lower() in _NAME_HEADINGS
        return Layout(tuple(first), says_so or not _is_number(second[0]))
    return Layout(None, not _is_number(first[0]))


def _is_number(cell: str) -> bool:
    return is_number(cell.encode("utf-8", "surrogateescape"))


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines as lists of cells, with the number of the line they end on."""
    quotes = form_of(path) == "csv"
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="" if quotes else "\n") as file:
        bounded = iter(lambda: file.readline(LONGEST_LINE), "")
        if quotes:
            yield from _quoted(csv.reader(bounded, strict=True))
        else:
            for number, line in enumerate(bounded, start=1):
                if line.strip("\r\n"):
                    yield number, line.rstrip("\r\n").split("\t")


def _quoted(reader: Any) -> Iterator[tuple[int, list[str]]]:
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        raise FileError(f"line {reader.line_num}: {reason(error)}") from error


def check(table: Table, form: str) -> None:
    """Refuse what the format cannot hold."""
    for row, name in enumerate(table.names or ()):
        if form == "tsv" and any(c in name for c in "\t\r\n"):
            raise FileError(f"TSV has no quotes for the tab or line break in row {row}, '{shown(name)}'; use .csv")


def write(file: BinaryIO, table: Table, form: str) -> None:
    """With the headings it was read with; a new file gets `name, x0, x1, ...`."""
    delimiter = DELIMITERS[form]
    source = table.kept(form)
    layout = None if source is None else source.remembered(Layout)
    names = table.names_for(source, had_names=layout is not None and layout.has_names)
    headings = _headings(layout, table.points.shape[1], with_names=names is not None)
    if headings is not None:
        file.write(_line(headings, delimiter))
    for row, numbers in enumerate(written(table.points)):
        file.write(_line(numbers if names is None else [names[row], *numbers], delimiter))


def _headings(layout: Layout | None, d: int, *, with_names: bool) -> list[str] | None:
    if layout is None:
        return ["name"] * with_names + [f"x{i}" for i in range(d)]
    if layout.headings is None:
        return None
    return ["name"] * (with_names and not layout.has_names) + list(
        layout.headings[layout.has_names and not with_names :]
    )


def _line(cells: list[str], delimiter: str) -> bytes:
    if delimiter == ",":
        cells = [_in_quotes(cell) if any(mark in cell for mark in ',"\r\n') else cell for cell in cells]
    return (delimiter.join(cells) + "\n").encode("utf-8", "surrogateescape")


def _in_quotes(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'
