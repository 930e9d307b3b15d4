"""Parquet: a column of lists, or many columns of numbers, read in batches and written by row groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._columns import (
    BATCH,
    choose_columns,
    choose_names_column,
    columns_left_out,
    is_list,
    pyarrow,
    read_columns,
)
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._thrift import column_sizes
from unclump.tables.files._validation import check_ratio, note_on_columns, wrap_errors

FORMAT = "parquet"
_GROUP = 2**24  # numbers of a row group of a new file


@dataclass(frozen=True)
class Layout:
    """The columns of the table, the column of names, and all others."""

    columns: tuple[str, ...]
    names_column: str | None
    others: tuple[str, ...]


def read(path: Path, tensor: str | None) -> Table:
    """Read only the columns of the table and of the names."""
    pa = pyarrow()
    size = path.stat().st_size
    with wrap_errors("is not a valid Parquet file", (ValueError, TypeError, AttributeError, pa.ArrowException)):
        with pa.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = choose_columns(schema, file.metadata.num_rows, tensor)
            names_column = choose_names_column(schema)
        selected = [*columns, *([] if names_column is None else [names_column])]
        _check_sizes(path, selected, size)
        # Repeated names stay indices into a dictionary, as they are in the file.
        with pa.parquet.ParquetFile(path, read_dictionary=selected[len(columns) :]) as file:
            batches = file.iter_batches(BATCH, columns=selected, use_threads=False)
            points, names = read_columns(batches, file.metadata.num_rows, columns, names_column, size)
    layout = Layout(columns, names_column, tuple(name for name in schema.names if name not in selected))
    notes = note_on_columns(columns_left_out(schema, columns))
    return Table(points, names, make_source(path, FORMAT, points, tensor=tensor, layout=layout, notes=notes))


def _check_sizes(path: Path, columns: Sequence[str], size: int) -> None:
    """Raise if the columns would decompress to much more than the file holds."""
    selected = set(columns)
    total = 0
    for name, decompressed in column_sizes(path):
        parts = name.split(".")  # of a list its name and those of what is inside
        if any(".".join(parts[:count]) in selected for count in range(1, len(parts) + 1)):
            total += decompressed
    check_ratio(total, size)


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
    pa = pyarrow()
    source = table.source_in_format(FORMAT)
    if source is None:
        _write_new(file, table)
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
                columns = _new_columns(group, schema, layout, table.rows_to_write(rows), row_names)
                new = pa.table([columns[name] for name in schema.names], schema=schema)
                writer.write_table(new, row_group_size=len(new))


def _write_new(file: BinaryIO, table: Table) -> None:
    """Write the table and its names, if it has any, a row group at a time."""
    pa = pyarrow()
    number = pa.from_numpy_dtype(str(table.points.dtype).removeprefix("torch."))
    name, lists = [] if table.names is None else [pa.field("name", pa.string())], pa.list_(number)
    schema = pa.schema([*name, pa.field("points", lists)])
    step = max(1, _GROUP // table.points.shape[1])
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, len(table.points), step):
            rows = slice(start, start + step)
            names = [] if table.names is None else [_names_column(table.names[rows], pa.string())]
            writer.write_table(pa.table([*names, _list_column(table.rows_to_write(rows), lists)], schema=schema))


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
    pa = pyarrow()
    number = pa.from_numpy_dtype(str(points.dtype).removeprefix("torch."))
    for name in layout.columns:
        field = old.field(name)
        kind = _list_type(field.type, number, points.shape[1]) if is_list(field.type) else number
        old = old.set(old.get_field_index(name), field.with_type(kind))
    if layout.names_column is not None and not with_names:
        return old.remove(old.get_field_index(layout.names_column))
    return old if layout.names_column is not None or not with_names else old.append(pa.field("name", pa.string()))


def _list_type(old: Any, number: Any, d: int) -> Any:
    if old.value_type == number:
        return old
    pa = pyarrow()
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
    if is_list(schema.field(layout.columns[0]).type):
        columns[layout.columns[0]] = _list_column(points, schema.field(layout.columns[0]).type)
    else:
        numbers = points.detach().cpu().mT.contiguous().numpy()
        columns |= {name: pyarrow().array(column) for name, column in zip(layout.columns, numbers, strict=True)}
    return columns


def _names_column(names: Sequence[str], kind: Any) -> Any:
    pa = pyarrow()
    try:
        return pa.array(names, pa.string()).cast(kind)
    except UnicodeEncodeError:
        raise FileError("Parquet holds only Unicode, and a name contains other bytes; write .txt instead") from None


def _list_column(points: torch.Tensor, kind: Any) -> Any:
    """Convert a table to a column of lists of the given type."""
    pa = pyarrow()
    values = pa.array(points.detach().cpu().contiguous().flatten().numpy())
    return pa.FixedSizeListArray.from_arrays(values, points.shape[1]).cast(kind)
