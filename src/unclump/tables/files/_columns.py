"""Tables stored as columns, as in Parquet and Arrow: a column of lists or many of numbers, and perhaps one of names."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._validation import (
    ROW_NUMBER_KEYS,
    Entry,
    check_ratio,
    check_shape,
    choose_names,
    list_entries,
    missing_package,
    some_tensor,
    this_tensor,
)

BATCH = 8192  # rows read at once


def pyarrow() -> Any:
    """The package, or the error that names its extra."""
    try:
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise missing_package("pyarrow") from None
    return pyarrow


def choose_names_column(schema: Any) -> str | None:
    """The column of row names, if there is one."""
    return choose_names([field.name for field in schema if _is_string(field.type)])


def read_columns(
    batches: Iterable[Any], rows: int, columns: Sequence[str], names_column: str | None, size: int
) -> tuple[torch.Tensor, list[str] | None]:
    """Read a table and its names from batches of rows; raise if they are much larger than the file of `size` bytes."""
    check_shape(rows, 2)
    check_ratio(rows * len(columns) * 2, size)  # before any row is read
    points: np.ndarray | None = None
    names = _Names(size)
    filled = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        batch.validate(full=True)  # offsets and indices in the file are used unchecked otherwise
        block = _to_block(batch, columns, filled)
        if points is None:
            check_shape(*block.shape)
            check_ratio(rows * block.shape[1] * block.itemsize, size)
            points = np.empty((rows, block.shape[1]), block.dtype)  # pages are allocated as they fill
        if block.shape[1] != points.shape[1]:
            raise FileError(f"row {filled}: expected {points.shape[1]} numbers, got {block.shape[1]}")
        if filled + len(block) > rows:
            raise FileError(f"declares {rows} rows, holds more")
        points[filled : filled + len(block)] = block
        filled += len(block)
        if names_column is not None:
            names.add(batch.column(batch.schema.get_field_index(names_column)))
    if points is None or filled != rows:
        raise FileError(f"declares {rows} rows, holds {filled}")
    return torch.from_numpy(points), names.names if names_column is not None else None


class _Names:
    """Row names; equal names share one string, since a file of kilobytes can expand to gigabytes of repeated names."""

    def __init__(self, size: int) -> None:
        self.names: list[str] = []
        self._known: dict[str, str] = {}
        self._size, self._characters = size, 0

    def add(self, column: Any) -> None:
        column = column if _is_dictionary(column) else column.dictionary_encode()
        words = [self._intern(word or "") for word in column.dictionary.to_pylist()]
        words.append("")  # of rows without a name, whose index is -1
        self.names.extend(words[index] for index in column.indices.fill_null(-1).to_pylist())

    def _intern(self, word: str) -> str:
        if word not in self._known:
            self._characters += len(word)
            check_ratio(self._characters, self._size)
            self._known[word] = word
        return self._known[word]


def _is_dictionary(column: Any) -> bool:
    return bool(pyarrow().types.is_dictionary(column.type))


def _is_string(kind: Any) -> bool:
    types = pyarrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    types = pyarrow().types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def choose_columns(schema: Any, rows: int, requested: str | None, *, argument: str = "") -> tuple[str, ...]:
    """Choose a column of lists, or columns of numbers; `requested` is its name, or the prefix of their names.

    `argument` shows in errors how `requested` is passed, with a placeholder for its value; by default, as to `load`.
    """
    if len(set(schema.names)) < len(schema.names):
        raise FileError("holds two columns of the same name")
    lists = [field.name for field in schema if is_list(field.type)]
    numbers = [field.name for field in schema if _is_coordinate(field)]
    if requested is not None:
        lists = [name for name in lists if name == requested]
        numbers = [name for name in numbers if re.fullmatch(re.escape(requested) + r"\d+", name)]
    if len(lists) == 1:
        return (lists[0],)
    entries = {field.name: Entry((rows,), str(field.type)) for field in schema}
    if lists:
        choices = list_entries({k: entries[k] for k in lists})
        raise FileError(f"holds several tables; pick one with {argument.format('...') or some_tensor()}: {choices}")
    if len(numbers) < 2:
        missing, advice = "columns of numbers or column of lists", "; convert coordinates to float32"
        if requested is not None:
            missing, advice = f"column '{sanitise(requested)}'", ""
        raise FileError(f"holds no {missing} in floating point; it holds {list_entries(entries)}{advice}")
    if len({schema.field(name).type for name in numbers}) > 1:
        mixed, example = list_entries({k: entries[k] for k in numbers}), argument.format("'x'") or this_tensor("x")
        raise FileError(f"mixes types: {mixed}; pick one with {example} for x0, x1, ...")
    return tuple(numbers)


def _is_coordinate(field: Any) -> bool:
    return pyarrow().types.is_floating(field.type) and field.name.lower() not in ROW_NUMBER_KEYS


def columns_left_out(schema: Any, columns: Sequence[str]) -> list[str]:
    """The columns of numbers that are not coordinates: integers, and columns named id, index and the like."""
    types = pyarrow().types
    numbers = [field.name for field in schema if types.is_integer(field.type) or types.is_floating(field.type)]
    return [name for name in numbers if name not in columns and not _is_coordinate(schema.field(name))]


def _to_block(batch: Any, columns: Sequence[str], first: int) -> np.ndarray:
    """Convert a batch, whose first row is row `first` of the table, to an array."""
    pa = pyarrow()
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        if array.null_count:
            row = first + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise FileError(f"row {row}: expected numbers in '{sanitise(name)}', got null")
    if not is_list(arrays[0].type):
        return np.stack([array.to_numpy(zero_copy_only=False) for array in arrays], axis=1)
    lengths = pa.compute.list_value_length(arrays[0]).to_numpy(zero_copy_only=False)
    uneven = np.flatnonzero(lengths != lengths[0])
    if len(uneven):
        raise FileError(f"row {first + int(uneven[0])}: expected {lengths[0]} numbers, got {lengths[uneven[0]]}")
    values = arrays[0].flatten()
    if values.null_count:
        position = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise FileError(f"row {first + position // int(lengths[0])}: expected numbers, got a null among them")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False).reshape(len(lengths), int(lengths[0]))
    return numbers
