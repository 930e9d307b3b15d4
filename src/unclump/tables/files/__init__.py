"""Reading and writing tables of embeddings.

Files are not trusted: nothing in them is ever executed, and the sizes that a header declares are compared with the size
of the file before memory is allocated. Every error is a `FileError` with one line: which file, why, and what to do.

Writes are atomic: to a temporary file in the same folder, which is flushed to disk and then renamed.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from unclump._atomic_write import replace_file
from unclump._text import FileError, reword, sanitise
from unclump.tables.files import huggingface
from unclump.tables.files._formats import FORMATS, MODEL_FOLDER, SHARDS, format_to_write, is_writable, read_path
from unclump.tables.files._lines import read_lines, read_row_lines
from unclump.tables.files._table import BadRow, Source, Table, bad_rows, make_source
from unclump.tables.files._validation import check_file_target, check_folder, prefix_errors

__all__ = [
    "BadRow",
    "FileError",
    "Source",
    "Table",
    "bad_rows",
    "check_target",
    "describe_rows",
    "is_source_file",
    "load",
    "read_lines",
    "read_row_lines",
    "read_shards",
    "read_tables",
    "save",
]


def load(
    path: str | os.PathLike[str], *, tensor: str | None = None, names: str | os.PathLike[str] | None = None
) -> Table:
    """Read a table of embeddings.

    `.npy`, `.npz`, `.pt`, `.safetensors`, `.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv`, `.jsonl`, `.h5`, `.faiss`
    and `.gz` are recognised by their suffix; word2vec text and binary, GloVe with or without a header line, and files
    with other suffixes by their first bytes; a folder is read as a Hugging Face model or dataset. `.npy`, `.pt` and
    safetensors are memory-mapped: `table.points[start:stop]` reads no other rows. Text is read as float32, or as
    float64 if any number has more than nine digits. Arrow, JSON lines, HDF5, FAISS, gzip and datasets are only read.

    Args:
        path: The file or folder.
        tensor: Which table, if there are several: the key in an `.npz` or `.pt`, the tensor in a safetensors file or
            model, the dataset in HDF5, the column of a table (or `"x"` for its columns x0, x1, ...).
        names: A file with one row name per line, used instead of the names in the table's own file.

    Raises:
        FileError: One line: what was expected, what was found, what to do.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/compass.txt"
        >>> save(path, Table(torch.eye(2), names=["east", "north"]))
        >>> load(path).names
        ['east', 'north']
    """
    path = Path(path)
    with prefix_errors(path):
        table = read_path(path, tensor)
    return table if names is None else _with_names(table, Path(names))


def read_tables(
    paths: Sequence[str | os.PathLike[str]],
    *,
    tensor: str | None = None,
    names: str | os.PathLike[str] | None = None,
) -> Table:
    """Read the shards of one table: their rows, one file after the other, as one table.

    A single path is read as by `load`, memory-mapped where its format allows it; several are copied into memory.

    Args:
        paths: The files, which must agree in dimensions, dtype and whether rows have names.
        tensor: Which table, if the files hold several; see `load`.
        names: A file with one row name per line, of all shards together.

    Example:
        >>> import tempfile
        >>> paths = [tempfile.mkdtemp() + f"/part-{i}.npy" for i in range(2)]
        >>> for path in paths:
        ...     save(path, Table(torch.eye(3)))
        >>> read_tables(paths)
        Table(6 x 3 float32; from part-0.npy)
    """
    if len(paths) == 1:
        return load(paths[0], tensor=tensor, names=names)
    shards = read_shards(paths, tensor=tensor)
    first = shards[0]
    points = torch.cat([shard.points for shard in shards])
    notes = () if first.source is None else first.source.notes
    files = [file for shard in shards if shard.source is not None for file in shard.source.files]
    all_names = None if first.names is None else [name for shard in shards for name in shard.names or ()]
    table = Table(
        points, all_names, make_source(Path(paths[0]), SHARDS, points, tensor=tensor, files=files, notes=notes)
    )
    return table if names is None else _with_names(table, Path(names))


def read_shards(paths: Sequence[str | os.PathLike[str]], *, tensor: str | None = None) -> list[Table]:
    """Read the shards of one table, each by itself, memory-mapped where its format allows it; see `read_tables`.

    `unclump.health([shard.points for shard in shards])` measures them as one table, which is never in memory whole.
    """
    if not paths:
        raise FileError("expected at least one file, got none")
    shards = [load(path, tensor=tensor) for path in paths]
    expected = describe_rows(shards[0])
    for path, shard in zip(paths, shards, strict=True):
        if (kind := describe_rows(shard)) != expected:
            raise FileError(f"{sanitise(path)}: expected {expected}, as in {sanitise(paths[0])}, got {kind}")
    return shards


def describe_rows(table: Table) -> str:
    """What the shards of one table have in common."""
    has_names = "without names" if table.names is None else "with names"
    return f"rows of {table.points.shape[1]} {str(table.points.dtype).removeprefix('torch.')} numbers {has_names}"


def _with_names(table: Table, path: Path) -> Table:
    """The table with the names of a file, one per line, instead of its own."""
    names = read_row_lines(path, len(table.points), "names")
    assert table.source is not None
    return replace(table, names=names, source=replace(table.source, names_path=path.absolute()))


def save(path: str | os.PathLike[str], table: Table, *, in_place: bool = False) -> None:
    """Write a table atomically.

    The suffix determines the format; with an unknown suffix, the table is written in the format it was read from. In
    that format, everything else in the file is kept: other arrays, tensors, columns, headings, the rest of a model.

    Args:
        path: Where to write. An existing file is replaced; the file the table was read from only with `in_place`.
        table: The result of `load`, perhaps after `with_points(...)`, or a `Table` of your own.
        in_place: Allow replacing the file the table was read from.

    Raises:
        FileError: The table cannot be written; nothing was changed.
    """
    path = Path(path)
    format_name = check_target(path, table, in_place=in_place)
    with prefix_errors(path):
        if format_name == MODEL_FOLDER:
            huggingface.write(path, table)
            return
        write = FORMATS[format_name].write
        assert write is not None  # by check_target
        with replace_file(path) as file:
            write(file, table)


def check_target(path: str | os.PathLike[str], table: Table, *, in_place: bool = False) -> str:
    """Raise now what `save` would raise after hours of work; return the name of the format that will be written."""
    path = Path(path)
    if not isinstance(table, Table):
        kind = type(table).__name__
        raise TypeError(f"expected a Table, got {kind}; convert with unclump.as_table(...)")
    with prefix_errors(path):
        _check_not_source(path, table.source, in_place=in_place)
        format_name = format_to_write(path, table)
        check_folder(path)
        if table.source is not None and table.source.dimensions != table.points.shape[1]:
            raise FileError(
                f"the table was read in {table.source.dimensions} dimensions and has {table.points.shape[1]} now; "
                "create a new one with Table(points, names)"
            )
        if format_name == MODEL_FOLDER:
            huggingface.check(table, in_place=path.exists())
            return format_name
        check_file_target(path)
        FORMATS[format_name].check_can_hold(format_name, table)
    return format_name


def _check_not_source(path: Path, source: Source | None, *, in_place: bool) -> None:
    """Raise if writing would overwrite a file that was read, under any name or link."""
    if source is None or not path.exists():
        return
    if _is_same_file(path, source.path):
        if not is_writable(source.format):
            raise FileError("is what the table was read from, and can only be read; write elsewhere")
        if not in_place:
            how = reword("in_place=True", "--in-place")
            raise FileError(f"is what the table was read from; write elsewhere, or allow it with {how}")
    elif is_source_file(path, source):
        raise FileError("is one of the files the table was read from; write elsewhere")
    elif path.is_dir() and source.format == MODEL_FOLDER:
        raise FileError("is a folder that already exists; name a new one")


def is_source_file(path: Path, source: Source) -> bool:
    """Whether an existing file is one of those the table was read from, under any name or link."""
    files = (source.path, *source.files, source.names_path)
    return any(_is_same_file(path, file) for file in files if file is not None)


def _is_same_file(path: Path, other: Path) -> bool:
    return other.exists() and os.path.samefile(path, other)
