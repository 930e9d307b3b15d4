"""Parquet: a column of lists, or many columns of numbers, read in batches and written by row groups."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import (
    Entry,
    check_ratio,
    check_shape,
    choose_names,
    list_entries,
    missing_package,
    wrap_errors,
)

FORMAT = "parquet"
_BATCH = 8192  # rows read at once


@dataclass(frozen=True)
class Layout:
    """The columns of the table, the column of names, and all others."""

    columns: tuple[str, ...]
    names_column: str | None
    others: tuple[str, ...]


def _pyarrow() -> Any:
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise missing_package("pyarrow") from None
    return pyarrow


def read(path: Path, tensor: str | None) -> Table:
    """Read only the columns of the table and of the names."""
    pa = _pyarrow()
    broken = (ValueError, pa.ArrowException)
    with wrap_errors("is not a valid Parquet file", broken), pa.parquet.ParquetFile(path, memory_map=True) as file:
        schema = file.schema_arrow
        columns = _choose_columns(schema, file.metadata.num_rows, tensor)
        strings = [field.name for field in schema if _is_string(field.type)]
        names_column = choose_names(strings)
        points = _read_points(file, columns, path.stat().st_size)
        names = None
        if names_column is not None:
            column = file.read(columns=[names_column], use_threads=False).column(0)
            names = [name or "" for name in column.to_pylist()]
    others = tuple(name for name in schema.names if name not in {*columns, names_column})
    layout = Layout(columns, names_column, others)
    return Table(points, names, make_source(path, FORMAT, points, tensor=tensor, layout=layout))


def _is_string(kind: Any) -> bool:
    types = _pyarrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    types = _pyarrow().types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _choose_columns(schema: Any, rows: int, requested: str | None) -> tuple[str, ...]:
    """Choose a column of lists, or columns of numbers; `requested` is its name, or the prefix of their names."""
    if len(set(schema.names)) < len(schema.names):
        raise FileError("holds two columns of the same name")
    lists = [field.name for field in schema if _is_list(field.type)]
    numbers = [field.name for field in schema if _pyarrow().types.is_floating(field.type)]
    if requested is not None:
        lists = [name for name in lists if name == requested]
        numbers = [name for name in numbers if re.fullmatch(re.escape(requested) + r"\d+", name)]
    if len(lists) == 1:
        return (lists[0],)
    entries = {field.name: Entry((rows,), str(field.type)) for field in schema}
    if lists:
        choices = list_entries({k: entries[k] for k in lists})
        raise FileError(f"holds several tables; pick one with tensor=...: {choices}")
    if len(numbers) < 2:
        missing = "columns of numbers or column of lists" if requested is None else f"column '{sanitise(requested)}'"
        raise FileError(f"holds no {missing} in floating point; it holds {list_entries(entries)}")
    if len({schema.field(name).type for name in numbers}) > 1:
        raise FileError(
            f"mixes types: {list_entries({k: entries[k] for k in numbers})}; pick with tensor='x' for x0, x1, ..."
        )
    return tuple(numbers)


def _read_points(file: Any, columns: Sequence[str], size: int) -> torch.Tensor:
    rows, filled = file.metadata.num_rows, 0
    check_shape(rows, 2)
    check_ratio(rows * len(columns) * 2, size)  # before a single row is read
    points: np.ndarray | None = None
    for batch in file.iter_batches(_BATCH, columns=list(columns), use_threads=False):
        block = _to_block(batch, columns, filled)
        if points is None:
            check_shape(*block.shape)
            check_ratio(rows * block.shape[1] * block.itemsize, size)
            points = np.empty((rows, block.shape[1]), block.dtype)  # pages are allocated as they fill
        if block.shape[1] != points.shape[1]:
            raise FileError(f"row {filled}: expected {points.shape[1]} numbers, got {block.shape[1]}")
        points[filled : filled + len(block)] = block
        filled += len(block)
    if points is None or filled != rows:
        raise FileError(f"declares {rows} rows, holds {filled}")
    return torch.from_numpy(points)


def _to_block(batch: Any, columns: Sequence[str], first: int) -> np.ndarray:
    """Convert a batch, whose first row is row `first` of the table, to an array."""
    pa = _pyarrow()
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        if array.null_count:
            row = first + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise FileError(f"row {row}: expected numbers in '{sanitise(name)}', got null")
    if not _is_list(arrays[0].type):
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


def check(table: Table) -> None:
    """Raise if rows were added but the file has other columns, which lack values for them."""
    source = table.source_in_format(FORMAT)
    others = () if source is None else source.layout_as(Layout).others
    if source is not None and others and len(table.points) != source.rows:
        raise FileError(
            f"column '{sanitise(others[0])}' of {sanitise(source.path)} has no values for the new rows; "
            "write to a format that holds only the table, such as .npy or .txt"
        )


def write(file: BinaryIO, table: Table) -> None:
    """Write a new file, or the one that was read with the table and its names replaced."""
    pa = _pyarrow()
    source = table.source_in_format(FORMAT)
    if source is None:
        strings = {} if table.names is None else {"name": _names_column(table.names, pa.string())}
        pa.parquet.write_table(pa.table({**strings, "points": _list_column(table.points, None)}), file)
        return
    source.check_unchanged()
    layout = source.layout_as(Layout)
    names = table.names_to_write(source, had_names=layout.names_column is not None)
    broken = (ValueError, pa.ArrowException)
    with (
        wrap_errors(f"{sanitise(source.path)} cannot be copied", broken),
        pa.parquet.ParquetFile(source.path, memory_map=True) as old,
    ):
        compression = old.metadata.row_group(0).column(0).compression
        schema = _new_schema(old.schema_arrow, layout, table.points, with_names=names is not None)
        with pa.parquet.ParquetWriter(file, schema, compression=compression) as writer:
            for group, rows in _row_groups(old, len(table.points) == source.rows, len(table.points)):
                row_names = None if names is None else names[rows]
                columns = _new_columns(group, schema, layout, table.points[rows], row_names)
                new = pa.table([columns[name] for name in schema.names], schema=schema)
                writer.write_table(new, row_group_size=len(new))


def _row_groups(old: Any, has_same_rows: bool, rows: int) -> Iterator[tuple[Any, slice]]:
    """Yield the row groups of the old file with their rows; if rows were added, a single empty group."""
    if not has_same_rows:
        yield old.schema_arrow.empty_table(), slice(0, rows)
        return
    start = 0
    for index in range(old.num_row_groups):
        group = old.read_row_group(index, use_threads=False)
        yield group, slice(start, start + len(group))
        start += len(group)


def _new_schema(old: Any, layout: Layout, points: torch.Tensor, *, with_names: bool) -> Any:
    """Adapt the old schema to the dtype of the points, and add or remove the column of names as needed."""
    pa = _pyarrow()
    number = pa.from_numpy_dtype(str(points.dtype).removeprefix("torch."))
    for name in layout.columns:
        field = old.field(name)
        kind = _list_type(field.type, number, points.shape[1]) if _is_list(field.type) else number
        old = old.set(old.get_field_index(name), field.with_type(kind))
    if layout.names_column is not None and not with_names:
        return old.remove(old.get_field_index(layout.names_column))
    return old if layout.names_column is not None or not with_names else old.append(pa.field("name", pa.string()))


def _list_type(old: Any, number: Any, d: int) -> Any:
    if old.value_type == number:
        return old
    pa = _pyarrow()
    if pa.types.is_fixed_size_list(old):
        return pa.list_(number, d)
    return pa.large_list(number) if pa.types.is_large_list(old) else pa.list_(number)


def _new_columns(
    group: Any, schema: Any, layout: Layout, points: torch.Tensor, names: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of a row group, with the numbers and names replaced."""
    columns = {name: group.column(name) for name in layout.others}
    if names is not None:
        key = layout.names_column or "name"
        columns[key] = _names_column(names, schema.field(key).type)
        if layout.names_column and [name or "" for name in group.column(key).to_pylist()] == list(names):
            columns[key] = group.column(key)  # with its nulls
    if _is_list(schema.field(layout.columns[0]).type):
        columns[layout.columns[0]] = _list_column(points, schema.field(layout.columns[0]).type)
    else:
        numbers = points.detach().cpu().mT.contiguous().numpy()
        columns |= {name: _pyarrow().array(column) for name, column in zip(layout.columns, numbers, strict=True)}
    return columns


def _names_column(names: Sequence[str], kind: Any) -> Any:
    pa = _pyarrow()
    try:
        return pa.array(names, pa.string()).cast(kind)
    except UnicodeEncodeError:
        raise FileError("Parquet holds only Unicode, and a name contains other bytes; write .txt instead") from None


def _list_column(points: torch.Tensor, kind: Any) -> Any:
    """Convert a table to a column of lists of the given type."""
    pa = _pyarrow()
    values = pa.array(points.detach().cpu().contiguous().flatten().numpy())
    n, d = points.shape
    if kind is not None and pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if kind is not None and pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(np.arange(n + 1, dtype=np.int64) * d, values).cast(kind)
    lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * d, values)
    return lists if kind is None else lists.cast(kind)
