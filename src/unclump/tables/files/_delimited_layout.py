"""The layout of CSV and TSV: which columns hold numbers, lists or names; and the records of a file."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from unclump._text import FileError, describe_error, sanitise
from unclump.tables.files._numbers import is_number
from unclump.tables.files._validation import check_shape, choose_names, some_tensor, this_tensor
from unclump.tables.files.text import MAX_LINE

DELIMITERS = {"csv": ",", "tsv": "\t"}
_NAME_HEADINGS = {"", "name", "word", "token", "key", "label", "id", "index"}
_FEWEST_COUNTING, _FEWEST_RISING = 3, 10  # lines
_LONGEST = 19  # digits of a row number
_COUNT_HEADINGS = {"idx", "row", "rank", "count", "counts", "freq", "frequency"}


@dataclass(frozen=True)
class Layout:
    """The headings, if any; the columns of numbers or lists, and that of names; the delimiter."""

    headings: tuple[str, ...] | None
    cells: int
    columns: tuple[int, ...]
    names_column: int | None
    is_list: bool
    delimiter: str
    numbers: tuple[int, ...] = ()  # all columns of numbers
    is_series: bool = False  # whether the columns are x0, x1, ...

    @property
    def numbers_left_out(self) -> list[str]:
        """The columns of numbers that are not coordinates, by heading, or by position from 1."""
        left_out = [] if self.is_list else [i for i in self.numbers if i not in {*self.columns, self.names_column}]
        return [f"column {i + 1}" if self.headings is None else self.headings[i] for i in left_out]

    @property
    def others(self) -> list[int]:
        """All other columns."""
        return [i for i in range(self.cells) if i not in {*self.columns, self.names_column}]


def format_of(path: Path) -> str:
    """Return the name of the format, which is the suffix."""
    return path.suffix.lower().removeprefix(".")


def detect_layout(path: Path, tensor: str | None) -> Layout:
    """Detect the delimiter, headings, names and numbers from the first two lines."""
    delimiter = DELIMITERS[format_of(path)] if not _has_semicolons(path) else ";"
    head = [cells for _, cells in islice(records(path, delimiter), 2)]
    if not head:
        raise FileError("is empty")
    first, second = head[0], head[-1]
    if len(first) == 1 and not _is_list(second[0]):
        raise FileError(f"line 1: expected several cells, separated by {delimiter!r}, got one")
    has_value = any(_is_number(cell, delimiter) or _is_list(cell) for cell in first[1:]) or _is_list(first[0])
    is_range = first[1:] == [str(i) for i in range(len(first) - 1)] or first == [str(i) for i in range(len(first))]
    if has_value and not is_range:
        return _layout_without_headings(first, delimiter, tensor)
    if len(head) == 1:
        check_shape(0, 0)
    if len(second) != len(first):
        raise FileError(f"line 2: expected {len(first)} cells, as in the previous lines, got {len(second)}")
    return _layout_with_headings(first, second, delimiter, tensor)


def _layout_without_headings(values: list[str], delimiter: str, tensor: str | None) -> Layout:
    if tensor is not None:
        raise FileError(f"has no line of headings; leave out {this_tensor(tensor)}")
    lists = [i for i, cell in enumerate(values) if _is_list(cell)]
    names_column = None if _is_number(values[0], delimiter) or lists == [0] else 0
    columns = lists[:1] if lists else [i for i in range(len(values)) if i != names_column]
    numbers = tuple(i for i, cell in enumerate(values) if _is_number(cell, delimiter))
    return Layout(None, len(values), tuple(columns), names_column, bool(lists), delimiter, numbers)


def _layout_with_headings(headings: list[str], values: list[str], delimiter: str, tensor: str | None) -> Layout:
    """Choose the column of lists, or the numbered columns x0, x1, ..., or else all that can be coordinates."""
    lists = [i for i, cell in enumerate(values) if _is_list(cell) and tensor in {None, headings[i]}]
    if len(lists) > 1:
        listed = ", ".join(f"'{sanitise(headings[i])}'" for i in lists[:8])
        raise FileError(f"holds several tables; pick one with {some_tensor()}: {listed}")
    is_text = [bool(cell) and not _is_number(cell, delimiter) and not _is_list(cell) for cell in values]
    texts = [i for i in range(len(values)) if is_text[i]]
    title = choose_names([headings[i].strip().lower() for i in texts])
    names_column = next((i for i in texts if headings[i].strip().lower() == title), None)
    if names_column is None and (is_text[0] or headings[0].strip().lower() in _NAME_HEADINGS) and lists != [0]:
        names_column = 0
    columns = lists or _number_columns(headings, [i for i in range(len(values)) if i != names_column], is_text, tensor)
    numbers = tuple(i for i, cell in enumerate(values) if _is_number(cell, delimiter))
    titles = [re.fullmatch(r"(.*?)\d+", headings[i].strip()) for i in columns]
    is_series = tensor is not None or (None not in titles and len({title[1] for title in titles if title}) == 1)
    return Layout(
        tuple(headings), len(headings), tuple(columns), names_column, bool(lists), delimiter, numbers, is_series
    )


def _number_columns(headings: list[str], candidates: list[int], is_text: list[bool], tensor: str | None) -> list[int]:
    series: dict[str, list[int]] = {}
    for i in candidates:
        match = None if is_text[i] else re.fullmatch(r"(.*?)\d+", headings[i].strip())
        if match is not None:
            series.setdefault(match[1], []).append(i)
    if tensor is not None:
        if tensor not in series:
            raise FileError(f"holds no column '{sanitise(tensor)}' of lists, nor columns {sanitise(tensor)}0, 1, ...")
        return series[tensor]
    long = [columns for columns in series.values() if len(columns) > 1]
    if len(long) > 1 and any(is_text[i] for i in candidates):
        listed = ", ".join(f"'{sanitise(prefix)}'" for prefix, columns in series.items() if len(columns) > 1)
        raise FileError(
            f"holds several tables; pick one with {some_tensor()}: {listed}, for columns with a number after it"
        )
    if len(long) == 1:
        return long[0]
    others = _NAME_HEADINGS | _COUNT_HEADINGS
    return [i for i in candidates if not is_text[i] and headings[i].strip().lower() not in others]


def _has_semicolons(path: Path) -> bool:
    """Whether a CSV is separated by semicolons: it has no commas, or only decimal ones."""
    if format_of(path) != "csv":
        return False
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        line = file.readline(MAX_LINE).rstrip("\r\n")
    cells = line.split(";")
    return len(cells) > 1 and ("," not in line or all(_is_number(cell, ";") for cell in cells[1:]))


def _is_number(cell: str, delimiter: str = ",") -> bool:
    cell = cell.replace(",", ".") if delimiter == ";" else cell
    return is_number(cell.encode("utf-8", "surrogateescape"))


def _is_list(cell: str) -> bool:
    """Whether a cell is a list of numbers, as JSON, Python or NumPy print it; its first number decides."""
    cell = cell.strip()
    return cell[:1] == "[" and cell[-1:] == "]" and _is_number(re.split(r"[\s,]", cell[1:-1].strip(), maxsplit=1)[0])


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records as lists of cells, with the number of the line on which they end."""
    is_csv = format_of(path) == "csv"
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="" if is_csv else "\n") as file:
        lines = iter(lambda: file.readline(MAX_LINE), "")
        if is_csv:
            yield from _csv_records(csv.reader(lines, strict=True, delimiter=delimiter))
        else:
            for number, line in enumerate(lines, start=1):
                if line.strip("\r\n"):
                    yield number, line.rstrip("\r\n").split("\t")


def _csv_records(reader: Any) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(MAX_LINE)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        raise FileError(f"line {reader.line_num}: {describe_error(error)}") from error
    finally:
        csv.field_size_limit(limit)


class RowNumbers:
    """Finds the columns that number the rows: whole numbers that rise in every line; a series x0, x1, ... has none.

    Three lines suffice if they count up from 0 or 1. Other numbers, such as those of rows selected from a larger table,
    must rise in ten lines; one column of random numbers in 3.6 million does.
    """

    def __init__(self, layout: Layout) -> None:
        numbers = () if layout.is_list or layout.is_series else layout.columns
        self._last: dict[int, int] = dict.fromkeys(numbers, -1)  # the last number of each column that rises
        self._counting = {first: set(numbers) for first in (0, 1)}  # the columns that count up from there
        self._rows = 0

    def add(self, cells: Sequence[str]) -> None:
        """Leave out the columns that do not rise in this line."""
        rising = {}
        for i, last in self._last.items():
            text = cells[i].strip()
            if text.isascii() and text.isdigit() and len(text) < _LONGEST and int(text) > last:
                rising[i] = int(text)
        for first, columns in self._counting.items():
            columns &= {i for i, number in rising.items() if number == first + self._rows}
        self._last = rising
        self._rows += 1

    @property
    def columns(self) -> set[int]:
        """The columns that number the rows."""
        if self._rows < _FEWEST_COUNTING:
            return set()
        return set.union(*self._counting.values()) if self._rows < _FEWEST_RISING else set(self._last)
