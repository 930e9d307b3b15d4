"""CSV and TSV: columns of numbers, with an optional first column of names and an optional first line of headings.

The first line holds headings if no cell after the first is a number, or if the cells count 0, 1, 2, ... as in pandas.
The first column holds names if its first value is not a number, or if its heading is empty or one such as "word".
CSV is quoted as in RFC 4180; TSV is not quoted, so that a quotation mark can be a name.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from unclump._text import FileError, describe_error, sanitise
from unclump.tables.files._numbers import format_rows, is_number, parse_rows
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_no_tensor, check_shape
from unclump.tables.files.text import MAX_LINE

DELIMITERS = {"csv": ",", "tsv": "\t"}
_NAME_HEADINGS = {"", "name", "word", "token", "key", "label", "id", "index"}


@dataclass(frozen=True)
class Layout:
    """The headings, if any, and whether the first column holds names."""

    headings: tuple[str, ...] | None
    has_names: bool


def read(path: Path, tensor: str | None) -> Table:
    """Read the file twice: once to count the rows, once to parse them."""
    check_no_tensor(tensor)
    format_name = format_of(path)
    layout = _detect_layout(path)
    start, skip = int(layout.headings is not None), int(layout.has_names)
    n, d = 0, 0
    for line, cells in islice(_records(path), start, None):
        d = d or len(cells) - skip
        if len(cells) - skip != d:
            raise FileError(f"line {line}: expected {d + skip} cells, as in the previous lines, got {len(cells)}")
        n += 1
    check_shape(n, d)
    names: list[str] = []

    def rows() -> Iterator[tuple[int, bytes]]:
        names.clear()
        for line, cells in islice(_records(path), start, None):
            names.extend(cells[:skip])
            yield line, ",".join(cells[skip:]).encode("utf-8", "surrogateescape")

    points = parse_rows(rows, n, d, ",")
    return Table(points, names if layout.has_names else None, make_source(path, format_name, points, layout=layout))


def format_of(path: Path) -> str:
    """Return the name of the format, which is the suffix."""
    return path.suffix.lower().removeprefix(".")


def _detect_layout(path: Path) -> Layout:
    """Detect headings and names from the first two lines."""
    head = [cells for _, cells in islice(_records(path), 2)]
    if not head:
        raise FileError("is empty")
    first, second = head[0], head[-1]
    if len(first) == 1:
        raise FileError(f"line 1: expected several cells, separated by {DELIMITERS[format_of(path)]!r}, got one")
    has_number = any(_is_number(cell) for cell in first[1:])
    is_range = first[1:] == [str(i) for i in range(len(first) - 1)] or first == [str(i) for i in range(len(first))]
    if not has_number or is_range:
        is_name_heading = first[0].strip().lower() in _NAME_HEADINGS
        return Layout(tuple(first), is_name_heading or not _is_number(second[0]))
    return Layout(None, not _is_number(first[0]))


def _is_number(cell: str) -> bool:
    return is_number(cell.encode("utf-8", "surrogateescape"))


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records as lists of cells, with the number of the line on which they end."""
    is_csv = format_of(path) == "csv"
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="" if is_csv else "\n") as file:
        lines = iter(lambda: file.readline(MAX_LINE), "")
        if is_csv:
            yield from _csv_records(csv.reader(lines, strict=True))
        else:
            for number, line in enumerate(lines, start=1):
                if line.strip("\r\n"):
                    yield number, line.rstrip("\r\n").split("\t")


def _csv_records(reader: Any) -> Iterator[tuple[int, list[str]]]:
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        raise FileError(f"line {reader.line_num}: {describe_error(error)}") from error


def check(table: Table, format_name: str) -> None:
    """Raise if the format cannot hold the table."""
    for row, name in enumerate(table.names or ()):
        if format_name == "tsv" and any(c in name for c in "\t\r\n"):
            raise FileError(f"TSV cannot hold the tab or line break in row {row}, '{sanitise(name)}'; use .csv")


def write(file: BinaryIO, table: Table, format_name: str) -> None:
    """Write with the headings that were read; the headings of a new file are `name, x0, x1, ...`."""
    delimiter = DELIMITERS[format_name]
    source = table.source_in_format(format_name)
    layout = None if source is None else source.layout_as(Layout)
    names = table.names_to_write(source, had_names=layout is not None and layout.has_names)
    headings = _headings(layout, table.points.shape[1], with_names=names is not None)
    if headings is not None:
        file.write(_format_line(headings, delimiter))
    for row, numbers in enumerate(format_rows(table.points)):
        file.write(_format_line(numbers if names is None else [names[row], *numbers], delimiter))


def _headings(layout: Layout | None, d: int, *, with_names: bool) -> list[str] | None:
    if layout is None:
        return ["name"] * with_names + [f"x{i}" for i in range(d)]
    if layout.headings is None:
        return None
    return ["name"] * (with_names and not layout.has_names) + list(
        layout.headings[layout.has_names and not with_names :]
    )


def _format_line(cells: list[str], delimiter: str) -> bytes:
    if delimiter == ",":
        cells = [_quote(cell) if any(mark in cell for mark in ',"\r\n') else cell for cell in cells]
    return (delimiter.join(cells) + "\n").encode("utf-8", "surrogateescape")


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'
