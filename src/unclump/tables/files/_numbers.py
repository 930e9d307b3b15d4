"""Numbers as text that round-trips bit for bit.

Text has no dtype. Numbers of up to nine significant digits are read as float32, which nine digits always determine; a
file with any number that has more digits, or is out of range for float32, is read as float64. Tables are written with
the fewest digits that round-trip, and a float64 table with all seventeen digits in its first row to mark it as such.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._table import Table
from unclump.tables.files._writing import blocks

_MAX_DIGITS = 9


class _NeedsFloat64Error(Exception):
    """A number that float32 cannot represent."""


Rows = Iterator[tuple[int, str, bytes]]  # the number of a line, the name of its row, and the text of its numbers


def parse_rows(rows: Callable[[], Rows], n: int, d: int, separator: str) -> tuple[torch.Tensor, list[str]]:
    """Parse an (n, d) table and the names of its rows; start again if it needs float64."""
    with suppress(_NeedsFloat64Error):
        return _parse_rows_as(rows(), np.empty((n, d), np.float32), separator)
    return _parse_rows_as(rows(), np.empty((n, d), np.float64), separator)


def _parse_rows_as(rows: Rows, points: np.ndarray, separator: str) -> tuple[torch.Tensor, list[str]]:
    is_float32, names = points.dtype == np.float32, []
    with warnings.catch_warnings(), np.errstate(over="ignore", under="ignore"):
        warnings.simplefilter("error")  # NumPy 1 warns where NumPy 2 raises
        for row, (line, name, text) in enumerate(rows):
            try:
                numbers = np.fromstring(text, sep=separator)
            except (ValueError, DeprecationWarning):
                numbers = np.empty(0)
            # Count the separators too: a cell with two numbers could hide an empty one.
            if len(numbers) != points.shape[1] or text.count(separator.encode()) != points.shape[1] - 1:
                raise FileError(f"line {line}: expected {points.shape[1]} numbers, got {_bad_field(text, separator)}")
            points[row] = numbers
            if is_float32 and (has_many_digits(text) or not is_in_range(numbers, points[row])):
                raise _NeedsFloat64Error
            names.append(name)
    return torch.from_numpy(points), names


def is_in_range(numbers: np.ndarray, rounded: np.ndarray) -> bool:
    """Whether rounding to float32 neither overflowed nor underflowed."""
    return bool(((rounded != 0) == (numbers != 0)).all() and (np.isinf(rounded) == np.isinf(numbers)).all())


def has_many_digits(text: bytes) -> bool:
    """Whether any number has more significant digits than float32 can represent."""
    digits = text.translate(_COMMAS_TO_SPACES, b".-+").split()
    if max(map(len, digits)) <= _MAX_DIGITS:  # the usual case, decided quickly
        return False
    return any(_significant_digits(number) > _MAX_DIGITS for number in digits)


_COMMAS_TO_SPACES = bytes.maketrans(b",E", b" e")


def _significant_digits(number: bytes) -> int:
    mantissa = number.partition(b"e")[0]
    return len(mantissa.lstrip(b"0") or mantissa)


def _bad_field(text: bytes, separator: str) -> str:
    """Quote the first field that is not a number, or else count the fields."""
    fields = text.split(separator.encode())
    for field in fields:
        if not is_number(field):
            return f"'{sanitise(field.decode('utf-8', 'surrogateescape'))}'"
    return str(len(fields))


def is_number(field: bytes) -> bool:
    """Whether a field is one number, without the underscores that only Python allows."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def format_rows(table: Table) -> Iterator[list[str]]:
    """Yield the numbers of each row with the fewest digits that round-trip bit for bit."""
    needs_marker = is_float64 = table.points.dtype is torch.float64
    for block in blocks(table):
        for row in (block if is_float64 else block.float()).numpy():
            if needs_marker:
                yield [f"{x:.16e}" for x in row.tolist()]
                needs_marker = not np.isfinite(row).any()
            else:
                yield _format_shortest(row)


def _format_shortest(row: np.ndarray) -> list[str]:
    if row.dtype == np.float64:
        return list(map(repr, row.tolist()))
    texts = list(map(str, row))
    # The shortest digits of a float32 round-trip through float64, except for a few tiny numbers, which get nine.
    parsed = np.fromstring(" ".join(texts), sep=" ").astype(np.float32)
    if not np.array_equal(parsed, row, equal_nan=True):
        texts = [f"{x:.9g}" for x in row.tolist()]
    return texts
