"""JSON lines: an object on every line with a list of numbers and perhaps a name, or a list alone; read, not written."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._numbers import has_many_digits, is_in_range
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import Entry, check_shape, choose_names, choose_table, wrap_errors
from unclump.tables.files.text import lines

FORMAT = "jsonl"
_LIST = "list"  # the key of lists that are not in an object


def read(path: Path, tensor: str | None) -> Table:
    """Read the file twice: once to count the rows, once to parse them.

    Numbers are float32 if each is one exactly, or has at most nine digits; otherwise all are float64.
    """
    n = sum(1 for _ in lines(path))
    _, first = next(_records(path), (1, {}))
    entries = {
        key: Entry((n, len(value)) if isinstance(value, list) else (n,), _dtype(value)) for key, value in first.items()
    }
    key = choose_table(entries, tensor)
    names_key = choose_names([key for key, value in first.items() if isinstance(value, str)])
    check_shape(*entries[key].shape)
    points, names = _read_rows(path, np.empty(entries[key].shape, np.float32), key, names_key)
    if points is None:
        points, names = _read_rows(path, np.empty(entries[key].shape, np.float64), key, names_key)
    assert points is not None
    table = torch.from_numpy(points)
    return Table(table, None if names_key is None else names, make_source(path, FORMAT, table, tensor=key))


def _read_rows(path: Path, points: np.ndarray, key: str, names_key: str | None) -> tuple[np.ndarray | None, list[str]]:
    """Fill the array; None instead of it if a number needs more than its dtype."""
    names: list[str] = []
    for row, (line, record) in enumerate(_records(path)):
        value: Any = record.get(key)
        if not _is_numbers(value) or len(value) != points.shape[1]:
            got = str(len(value)) if _is_numbers(value) else f"'{sanitise(json.dumps(value))}'"
            raise FileError(f"line {line}: expected {points.shape[1]} numbers in '{sanitise(key)}', got {got}")
        with wrap_errors(f"line {line}: a number is out of range", (OverflowError,)):
            numbers = np.array(value, np.float64)
        with np.errstate(over="ignore", under="ignore"):
            points[row] = numbers
        if points.dtype == np.float32 and not _is_float32(numbers, points[row]):
            return None, []
        if names_key is not None:
            name = record.get(names_key, "")
            names.append(name if isinstance(name, str) else json.dumps(name))
    return points, names


def _is_float32(numbers: np.ndarray, rounded: np.ndarray) -> bool:
    if np.array_equal(numbers, rounded, equal_nan=True):
        return True
    return is_in_range(numbers, rounded) and not has_many_digits(",".join(map(repr, numbers.tolist())).encode())


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, object); a list alone is an object with one entry."""
    for number, line in lines(path):
        with wrap_errors(f"line {number} is not valid JSON"):
            record = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        if not isinstance(record, dict | list):
            raise FileError(f"line {number}: expected an object or a list, got '{sanitise(json.dumps(record))}'")
        yield number, record if isinstance(record, dict) else {_LIST: record}


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and set(map(type, value)) <= {int, float}


def _dtype(value: Any) -> str:
    if _is_numbers(value):
        return "float64"
    return "list" if isinstance(value, list) else type(value).__name__
