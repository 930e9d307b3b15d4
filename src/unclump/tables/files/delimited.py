"""CSV and TSV: columns of numbers or one column of lists, perhaps with names, other texts, and a line of headings.

The first line holds headings if no cell after the first is a number or a list, or if the cells count 0, 1, 2, ... as in
pandas. The first column holds names if its first value is not a number, or if its heading is empty or one such as
"word". The numbers are the columns x0, x1, ... if there is one such series, or else all columns of numbers but those
whose heading is that of a name, a row number or a count, or whose whole numbers rise from row to row. CSV is quoted as
in RFC 4180, with commas, or with semicolons and then perhaps decimal commas; TSV is not quoted, so that a quotation
mark can be a name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, sanitise
from unclump.tables.files._delimited_layout import DELIMITERS, Layout, RowNumbers, detect_layout, format_of, records
from unclump.tables.files._numbers import Rows, format_rows, parse_rows
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_shape, note_on_columns


def read(path: Path, tensor: str | None) -> Table:
    """Read the file twice: once to count the rows, once to parse them."""
    format_name = format_of(path)
    layout = detect_layout(path, tensor)
    start = int(layout.headings is not None)
    n, d = 0, 0
    counting = RowNumbers(layout)
    for line, cells in islice(records(path, layout.delimiter), start, None):
        if len(cells) != layout.cells:
            raise FileError(f"line {line}: expected {layout.cells} cells, as in the previous lines, got {len(cells)}")
        d = d or _numbers(cells, layout).count(",") + 1
        counting.add(cells)
        n += 1
    if counting.columns and d - len(counting.columns) >= 2:
        layout = replace(layout, columns=tuple(i for i in layout.columns if i not in counting.columns))
        d = len(layout.columns)
    check_shape(n, d)

    def rows() -> Rows:
        for line, cells in islice(records(path, layout.delimiter), start, None):
            name = "" if layout.names_column is None else cells[layout.names_column]
            yield line, name, _numbers(cells, layout).encode("utf-8", "surrogateescape")

    points, names = parse_rows(rows, n, d, ",")
    notes = note_on_columns(layout.numbers_left_out)
    source = make_source(path, format_name, points, tensor=tensor, layout=layout, notes=notes)
    return Table(points, None if layout.names_column is None else names, source)


def _numbers(cells: Sequence[str], layout: Layout) -> str:
    """The numbers of a row, between commas."""
    if layout.is_list:
        return re.sub(r"\s*,\s*|\s+", ",", cells[layout.columns[0]].strip()[1:-1].strip())
    numbers = [cells[i] for i in layout.columns]
    return ",".join([number.replace(",", ".") for number in numbers] if layout.delimiter == ";" else numbers)


def check(table: Table, format_name: str) -> None:
    """Raise if the format cannot hold the table, or other columns have no values for new rows."""
    for row, name in enumerate(table.names or ()):
        if format_name == "tsv" and any(c in name for c in "\t\r\n"):
            raise FileError(f"TSV cannot hold the tab or line break in row {row}, '{sanitise(name)}'; use .csv")
    source = table.source_in_format(format_name)
    if source is not None and source.layout_as(Layout).others and len(table.points) != source.rows:
        raise FileError(
            f"{sanitise(source.path)} has other columns, without values for the new rows; "
            "write to a format that holds only the table, such as .npy or .txt"
        )


def write(file: BinaryIO, table: Table, format_name: str) -> None:
    """Write all columns that were read, with the table's replaced; those of a new file are `name, x0, x1, ...`."""
    source = table.source_in_format(format_name)
    d = table.points.shape[1]
    new = Layout(tuple(f"x{i}" for i in range(d)), d, tuple(range(d)), None, False, DELIMITERS[format_name])
    layout = new if source is None else source.layout_as(Layout)
    names = table.names_to_write(source, had_names=layout.names_column is not None)
    if layout.headings is not None:
        headings = _with_name(list(layout.headings), None if names is None else "name", layout, keep=True)
        file.write(_format_line(headings, layout.delimiter))
    old: Iterator[list[str]] = iter(())
    if source is not None and layout.others:
        source.check_unchanged()
        start = int(layout.headings is not None)
        old = (cells for _, cells in islice(records(source.path, layout.delimiter), start, None))
    for row, numbers in enumerate(format_rows(table)):
        cells = next(old, [""] * layout.cells)
        for column, value in zip(
            layout.columns, [f"[{', '.join(numbers)}]"] if layout.is_list else numbers, strict=True
        ):
            cells[column] = value
        file.write(_format_line(_with_name(cells, None if names is None else names[row], layout), layout.delimiter))


def _with_name(cells: list[str], name: str | None, layout: Layout, *, keep: bool = False) -> list[str]:
    """The cells of a line with a name where names are, or before all others; without one, their column is left out."""
    column = layout.names_column
    if column is None:
        return cells if name is None else [name, *cells]
    if name is None:
        return cells[:column] + cells[column + 1 :]
    return cells if keep else [*cells[:column], name, *cells[column + 1 :]]


def _format_line(cells: list[str], delimiter: str) -> bytes:
    if delimiter != "\t":
        cells = [_quote(cell) if any(mark in cell for mark in f'{delimiter}"\r\n') else cell for cell in cells]
    return (delimiter.join(cells) + "\n").encode("utf-8", "surrogateescape")


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'
