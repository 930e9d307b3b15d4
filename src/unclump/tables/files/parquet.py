"""Parquet: a column of lists, or many columns of numbers, read and written a row group at a time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from unclump._text import FileError, shown
from unclump.tables.files._refusals import Entry, check_shape, check_unpacked, choose_names, listed, missing, parsing
from unclump.tables.files._table import Table, source_of

FORMAT = "parquet"
_BATCH = 8192  # rows read at once


@dataclass(frozen=True)
class Layout:
    """The columns of the table, that of the names, and all others."""

    columns: tuple[str, ...]
    names_column: str | None
    others: tuple[str, ...]


def _pyarrow() -> Any:
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise missing("pyarrow") from None
    return pyarrow


def read(path: Path, tensor: str | None) -> Table:
    """Read the table's columns and that of the names; the others stay in the file."""
    pa = _pyarrow()
    broken = (ValueError, pa.ArrowException)
    with parsing("is not a whole Parquet file", broken), pa.parquet.ParquetFile(path, memory_map=True) as file:
        schema = file.schema_arrow
        columns = _choose(schema, file.metadata.num_rows, tensor)
        strings = [field.name for field in schema if _is_string(field.type)]
        names_column = choose_names(strings)
        points = _points(file, columns, path.stat().st_size)
        names = None
        if names_column is not None:
            column = file.read(columns=[names_column], use_threads=False).column(0)
            names = [name or "" for name in column.to_pylist()]
    others = tuple(name for name in schema.names if name not in {*columns, names_column})
    layout = Layout(columns, names_column, others)
    return Table(points, names, source_of(path, FORMAT, points, tensor=tensor, layout=layout))


def _is_string(kind: Any) -> bool:
    types = _pyarrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    types = _pyarrow().types
    some = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(some and types.is_floating(kind.value_type))


def _choose(schema: Any, rows: int, wanted: str | None) -> tuple[str, ...]:
    """A column of lists, or the columns of numbers; `wanted` is the name of one, or what comes before their number."""
    if len(set(schema.names)) < len(schema.names):
        raise FileError("holds two columns of the same name")
    lists = [field.name for field in schema if _is_list(field.type)]
    numbers = [field.name for field in schema if _pyarrow().types.is_floating(field.type)]
    if wanted is not None:
        lists = [name for name in lists if name == wanted]
        numbers = [name for name in numbers if re.fullmatch(re.escape(wanted) + r"\d+", name)]
    if len(lists) == 1:
        return (lists[0],)
    entries = {field.name: Entry((rows,), str(field.type)) for field in schema}
    if lists:
        raise FileError(f"holds several tables; pick one with tensor=...: {listed({k: entries[k] for k in lists})}")
    if len(numbers) < 2:
        wish = "no column of lists and no two columns of numbers" if wanted is None else f"no column '{shown(wanted)}'"
        raise FileError(f"holds {wish} in floating point; it holds {listed(entries)}")
    if len({schema.field(name).type for name in numbers}) > 1:
        raise FileError(
            f"mixes types: {listed({k: entries[k] for k in numbers})}; pick with tensor='x' for x0, x1, ..."
        )
    return tuple(numbers)


def _points(file: Any, columns: Sequence[str], size: int) -> torch.Tensor:
    rows, filled = file.metadata.num_rows, 0
    check_shape(rows, 2)
    check_unpacked(rows * len(columns) * 2, size)  # before a single row is read
    points: np.ndarray | None = None
    for batch in file.iter_batches(_BATCH, columns=list(columns), use_threads=False):
        block = _block(batch, columns, filled)
        if points is None:
            check_shape(*block.shape)
            check_unpacked(rows * block.shape[1] * block.itemsize, size)
            points = np.empty((rows, block.shape[1]), block.dtype)  # pages are taken as they fill
        if block.shape[1] != points.shape[1]:
            raise FileError(f"row {filled}: expected {points.shape[1]} numbers, got {block.shape[1]}")
        points[filled : filled + len(block)] = block
        filled += len(block)
    if points is None or filled != rows:
        raise FileError(f"promises {rows} rows, holds {filled}")
    return torch.from_numpy(points)


def _block(batch: Any, columns: Sequence[str], first: int) -> np.ndarray:
    """The rows of a batch, of which the first is row `first` of the table."""
    pa = _pyarrow()
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        if array.null_count:
            row = first + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise FileError(f"row {row}: expected numbers in '{shown(name)}', got nothing")
    if not _is_list(arrays[0].type):
        return np.stack([array.to_numpy(zero_copy_only=False) for array in arrays], axis=1)
    lengths = pa.compute.list_value_length(arrays[0]).to_numpy(zero_copy_only=False)
    uneven = np.flatnonzero(lengths != lengths[0])
    if len(uneven):
        raise FileError(f"row {first + int(uneven[0])}: expected {lengths[0]} numbers, got {lengths[uneven[0]]}")
    values = arrays[0].flatten()
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise FileError(f"row {first + place // int(lengths[0])}: expected numbers, got an empty place among them")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False).reshape(len(lengths), int(lengths[0]))
    return numbers


def check(table: Table) -> None:
    """Refuse rows for which other columns have no values."""
    source = table.kept(FORMAT)
    others = () if source is None else source.remembered(Layout).others
    if source is not None and others and len(table.points) != source.rows:
        raise FileError(
            f"column '{shown(others[0])}' of {shown(source.path)} has no values for the new rows; "
            "write to a format that holds the table alone, such as .npy or .txt"
        )


def write(file: BinaryIO, table: Table) -> None:
    """The file that was read, with the table and its names replaced and all else kept; or a new one."""
    pa = _pyarrow()
    source = table.kept(FORMAT)
    if source is None:
        strings = {} if table.names is None else {"name": _strings(table.names, pa.string())}
        pa.parquet.write_table(pa.table({**strings, "points": _lists(table.points, None)}), file)
        return
    source.check_unchanged()
    layout = source.remembered(Layout)
    names = table.names_for(source, had_names=layout.names_column is not None)
    broken = (ValueError, pa.ArrowException)
    with (
        parsing(f"{shown(source.path)} cannot be copied", broken),
        pa.parquet.ParquetFile(source.path, memory_map=True) as old,
    ):
        packing = old.metadata.row_group(0).column(0).compression
        schema = _schema(old.schema_arrow, layout, table.points, with_names=names is not None)
        with pa.parquet.ParquetWriter(file, schema, compression=packing) as writer:
            for part, rows in _groups(old, len(table.points) == source.rows, len(table.points)):
                arrays = _arrays(part, schema, layout, table.points[rows], None if names is None else names[rows])
                new = pa.table([arrays[name] for name in schema.names], schema=schema)
                writer.write_table(new, row_group_size=len(new))


def _groups(old: Any, same_rows: bool, rows: int) -> Iterator[tuple[Any, slice]]:
    """The row groups of the old file with the rows they hold; one that is empty where rows were added."""
    if not same_rows:
        yield old.schema_arrow.empty_table(), slice(0, rows)
        return
    start = 0
    for index in range(old.num_row_groups):
        part = old.read_row_group(index, use_threads=False)
        yield part, slice(start, start + len(part))
        start += len(part)


def _schema(old: Any, layout: Layout, points: torch.Tensor, *, with_names: bool) -> Any:
    """The old columns, with the points in their own dtype, and a column of names where there was none."""
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


def _arrays(
    part: Any, schema: Any, layout: Layout, points: torch.Tensor, names: Sequence[str] | None
) -> dict[str, Any]:
    """The columns of a row group, with other numbers and names."""
    arrays = {name: part.column(name) for name in layout.others}
    if names is not None:
        column = layout.names_column or "name"
        arrays[column] = _strings(names, schema.field(column).type)
        if layout.names_column and [name or "" for name in part.column(column).to_pylist()] == list(names):
            arrays[column] = part.column(column)  # with its empty places
    if _is_list(schema.field(layout.columns[0]).type):
        arrays[layout.columns[0]] = _lists(points, schema.field(layout.columns[0]).type)
    else:
        columns = points.detach().cpu().mT.contiguous().numpy()
        arrays |= {name: _pyarrow().array(column) for name, column in zip(layout.columns, columns, strict=True)}
    return arrays


def _strings(names: Sequence[str], kind: Any) -> Any:
    pa = _pyarrow()
    try:
        return pa.array(names, pa.string()).cast(kind)
    except UnicodeEncodeError:
        raise FileError("Parquet holds Unicode only, and a name holds other bytes; write .txt instead") from None


def _lists(points: torch.Tensor, kind: Any) -> Any:
    """A table as a column of lists, of the kind it was read from."""
    pa = _pyarrow()
    values = pa.array(points.detach().cpu().contiguous().flatten().numpy())
    n, d = points.shape
    if kind is not None and pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if kind is not None and pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(np.arange(n + 1, dtype=np.int64) * d, values).cast(kind)
    lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * d, values)
    return lists if kind is None else lists.cast(kind)
