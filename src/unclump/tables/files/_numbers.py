"""Numbers in text, such that what is written is read back to the last bit.

Text has no dtype. Numbers of up to nine significant digits are read as float32, which nine digits always tell apart; a
file with one number of more digits, or beyond the range of float32, is read as float64. So tables are written with the
fewest digits that come back, and a table in float64 with all seventeen in its first row, to be known by.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import torch

from unclump._text import FileError, shown
from unclump.tables.files._writing import blocks

_MOST_DIGITS = 9


class _WiderError(Exception):
    """A number that float32 cannot tell from its neighbours."""


def fill(rows: Callable[[], Iterator[tuple[int, bytes]]], n: int, d: int, separator: str) -> torch.Tensor:
    """The table in which every row gives its line number and d numbers in text; read anew if it needs float64."""
    with suppress(_WiderError):
        return _fill(rows(), np.empty((n, d), np.float32), separator)
    return _fill(rows(), np.empty((n, d), np.float64), separator)


def _fill(rows: Iterator[tuple[int, bytes]], points: np.ndarray, separator: str) -> torch.Tensor:
    narrow = points.dtype == np.float32
    with warnings.catch_warnings(), np.errstate(over="ignore", under="ignore"):
        warnings.simplefilter("error")  # NumPy 1 warns where NumPy 2 raises
        for row, (line, text) in enumerate(rows):
            try:
                numbers = np.fromstring(text, sep=separator)
            except (ValueError, DeprecationWarning):
                numbers = np.empty(0)
            # As many fields as numbers: a cell with two of them could hide one that is empty.
            if len(numbers) != points.shape[1] or text.count(separator.encode()) != points.shape[1] - 1:
                raise FileError(f"line {line}: expected {points.shape[1]} numbers, got {_culprit(text, separator)}")
            points[row] = numbers
            if narrow and (_is_wide(text) or not _fits(numbers, points[row])):
                raise _WiderError
    return torch.from_numpy(points)


def _fits(numbers: np.ndarray, narrow: np.ndarray) -> bool:
    """Whether float32 made no number infinite or zero that was not."""
    return bool(((narrow != 0) == (numbers != 0)).all() and (np.isinf(narrow) == np.isinf(numbers)).all())


def _is_wide(text: bytes) -> bool:
    """Whether any number has more significant digits than float32 can tell apart."""
    digits = text.translate(_SPACED, b".-+").split()
    if max(map(len, digits)) <= _MOST_DIGITS:  # nearly always, and quickly told
        return False
    return any(_significant(number) > _MOST_DIGITS for number in digits)


_SPACED = bytes.maketrans(b",E", b" e")


def _significant(number: bytes) -> int:
    mantissa = number.partition(b"e")[0]
    return len(mantissa.lstrip(b"0") or mantissa)


def _culprit(text: bytes, separator: str) -> str:
    """The first field that is no number, as a person would point at it."""
    fields = text.split(separator.encode())
    for field in fields:
        if not is_number(field):
            return f"'{shown(field.decode('utf-8', 'surrogateescape'))}'"
    return f"{len(fields)} of them"


def is_number(field: bytes) -> bool:
    """Whether a field of text is one number, in the spelling that all programs share."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def written(points: torch.Tensor) -> Iterator[list[str]]:
    """The numbers of every row with the fewest digits that are read back as the same bits."""
    to_mark = is_double = points.dtype is torch.float64
    for block in blocks(points):
        for row in (block if is_double else block.float()).numpy():
            if to_mark:
                yield [f"{x:.16e}" for x in row.tolist()]
                to_mark = not np.isfinite(row).any()
            else:
                yield _shortest(row)


def _shortest(row: np.ndarray) -> list[str]:
    if row.dtype == np.float64:
        return list(map(repr, row.tolist()))
    texts = list(map(str, row))
    # The shortest digits of a float32 come back through float64 but for a handful of tiny numbers: these get nine.
    back = np.fromstring(" ".join(texts), sep=" ").astype(np.float32)
    if not np.array_equal(back, row, equal_nan=True):
        texts = [f"{x:.9g}" for x in row.tolist()]
    return texts
