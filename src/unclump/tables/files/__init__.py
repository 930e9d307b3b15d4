"""Reading and writing tables of embeddings.

Files are not trusted: nothing in them is ever executed, and the sizes that a header declares are compared with the size
of the file before memory is allocated. Every error is a `FileError` with one line: which file, why, and what to do.

Writes are atomic: to a temporary file in the same folder, which is flushed to disk and then renamed.
"""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from unclump._atomic_write import replace_file
from unclump._text import FileError, sanitise
from unclump.tables.files import (
    archives,
    arrays,
    delimited,
    huggingface,
    parquet,
    safetensors_files,
    text,
    torch_files,
    word2vec,
)
from unclump.tables.files._table import BadRow, Source, Table, bad_rows
from unclump.tables.files._validation import FLOATS, check_regular, prefix_errors, wrap_errors

__all__ = ["BadRow", "FileError", "Source", "Table", "bad_rows", "check_target", "is_source_file", "load", "save"]


@dataclass(frozen=True)
class _Format:
    """How to read and write a format, and what it can hold."""

    read: Callable[[Path, str | None], Table]
    write: Callable[[BinaryIO, Table], None]
    check: Callable[[Table], None] = lambda table: None
    names: str = "optional"  # or "none", or "required"
    dtypes: tuple[torch.dtype, ...] = FLOATS


_NUMPY = (torch.float16, torch.float32, torch.float64)
_FORMATS = {
    "npy": _Format(arrays.read, arrays.write, names="none", dtypes=_NUMPY),
    "npz": _Format(archives.read, archives.write, archives.check, dtypes=_NUMPY),
    "torch": _Format(torch_files.read, torch_files.write, torch_files.check),
    "safetensors": _Format(safetensors_files.read, safetensors_files.write, safetensors_files.check, names="none"),
    "text": _Format(text.read, text.write, text.check, names="required"),
    "word2vec": _Format(word2vec.read, word2vec.write, word2vec.check, names="required", dtypes=(torch.float32,)),
    "parquet": _Format(parquet.read, parquet.write, parquet.check, dtypes=_NUMPY),
} | {
    key: _Format(delimited.read, partial(delimited.write, format_name=key), partial(delimited.check, format_name=key))
    for key in delimited.DELIMITERS
}
# Other suffixes are ambiguous: files are then read by their first bytes, and written in the format that was read.
_SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".pt": "torch",
    ".pth": "torch",
    ".safetensors": "safetensors",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
}
_WRITABLE_SUFFIXES = _SUFFIXES | {".txt": "text", ".vec": "text", ".bin": "word2vec"}
_MODEL_FOLDER = huggingface.FORMAT


def load(
    path: str | os.PathLike[str], *, tensor: str | None = None, names: str | os.PathLike[str] | None = None
) -> Table:
    """Read a table of embeddings.

    `.npy`, `.npz`, `.pt`, `.safetensors`, `.parquet`, `.csv` and `.tsv` are recognised by their suffix; word2vec text
    and binary, GloVe with or without a header line, and files with other suffixes by their first bytes; a folder is
    read as a Hugging Face model. `.npy`, `.pt` and safetensors are memory-mapped. Text is read as float32, or as
    float64 if any number has more than nine digits.

    Args:
        path: The file or folder.
        tensor: Which table, if there are several: the key in an `.npz` or `.pt`, the tensor in a safetensors file or
            model, the column of a Parquet file (or `"x"` for its columns x0, x1, ...).
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
        if path.is_dir():
            table = huggingface.read(path, tensor)
        else:
            check_regular(path)
            table = _FORMATS[_SUFFIXES.get(path.suffix.lower()) or _sniff(path)].read(path, tensor)
    if names is None:
        return table
    row_names = _read_names(Path(names), len(table.points), path)
    assert table.source is not None
    return replace(table, names=row_names, source=replace(table.source, names_path=Path(names).absolute()))


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
        if format_name == _MODEL_FOLDER:
            huggingface.write(path, table)
            return
        with replace_file(path) as file:
            _FORMATS[format_name].write(file, table)


def check_target(path: str | os.PathLike[str], table: Table, *, in_place: bool = False) -> str:
    """Raise now what `save` would raise after hours of work; return the name of the format that will be written."""
    path = Path(path)
    with prefix_errors(path):
        format_name = _target_format(path, table)
        if not path.resolve().parent.is_dir():
            raise FileError("its folder does not exist; create it first")
        if not os.access(path.resolve().parent, os.W_OK):
            raise FileError("its folder is not writable")
        _check_not_source(path, table.source, in_place=in_place)
        if table.source is not None and table.source.dimensions != table.points.shape[1]:
            raise FileError(
                f"the table was read in {table.source.dimensions} dimensions and has {table.points.shape[1]} now; "
                "create a new one with Table(points, names)"
            )
        if format_name == _MODEL_FOLDER:
            huggingface.check(table)
            return format_name
        if path.is_dir():
            raise FileError("is a folder; name a file in it")
        if path.exists():
            check_regular(path)
            if not os.access(path, os.W_OK):
                raise FileError("is write-protected")
        _check_can_hold(format_name, table)
        _FORMATS[format_name].check(table)
    return format_name


def _target_format(path: Path, table: Table) -> str:
    """Return the source's format if the suffix is the same or unknown, otherwise the format of the suffix."""
    suffix, source = path.suffix.lower(), table.source
    if source is not None and (suffix == source.path.suffix.lower() or suffix not in _WRITABLE_SUFFIXES):
        return source.format
    if suffix not in _WRITABLE_SUFFIXES:
        raise FileError(f"has an unknown suffix, so its format is unclear; use one of {', '.join(_WRITABLE_SUFFIXES)}")
    return _WRITABLE_SUFFIXES[suffix]


def _check_not_source(path: Path, source: Source | None, *, in_place: bool) -> None:
    """Raise if writing would overwrite a file that was read, under any name or link."""
    if source is None or not path.exists():
        return
    if _is_same_file(path, source.path):
        if not in_place:
            raise FileError("is what the table was read from; write elsewhere, or allow it with in_place=True")
    elif is_source_file(path, source):
        raise FileError("is one of the files the table was read from; write elsewhere")
    elif path.is_dir() and source.format == _MODEL_FOLDER:
        raise FileError("is a folder that already exists; name a new one")


def is_source_file(path: Path, source: Source) -> bool:
    """Whether an existing file is one of those the table was read from, under any name or link."""
    files = (source.path, *source.files, source.names_path)
    return any(_is_same_file(path, file) for file in files if file is not None)


def _is_same_file(path: Path, other: Path) -> bool:
    return other.exists() and os.path.samefile(path, other)


def _check_can_hold(format_name: str, table: Table) -> None:
    target = _FORMATS[format_name]
    if table.points.dtype not in target.dtypes:
        supported = ", ".join(str(dtype).removeprefix("torch.") for dtype in target.dtypes)
        raise FileError(
            f"{format_name} holds {supported}, the points are {str(table.points.dtype).removeprefix('torch.')}; "
            "write .safetensors or .pt, or convert the points"
        )
    if target.names == "required" and table.names is None:
        raise FileError(f"{format_name} needs a name for each row, and the table has none; add names, or write .npy")
    if target.names == "none" and table.names is not None and not (table.source and table.source.names_path):
        raise FileError(
            f"{format_name} cannot store names; write .npz, .txt, .csv or .parquet, or drop them: names=None"
        )


def _read_names(path: Path, rows: int, table: Path) -> list[str]:
    with prefix_errors(path):
        check_regular(path)
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
        names = [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in content.split(b"\n")]
        if len(names) != rows:
            raise FileError(f"expected {rows} names, one per line, for the rows of {sanitise(table)}, got {len(names)}")
    return names


def _sniff(path: Path) -> str:
    """Detect the format of a file from its first bytes."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if not head:
        raise FileError("is empty")
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04"):
        with wrap_errors("is not a valid zip archive"), zipfile.ZipFile(path) as archive:
            return "torch" if any(name.endswith("data.pkl") for name in archive.namelist()) else "npz"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[4:9] == b"\0\0\0\0{":
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"}:
        raise FileError(
            "is a pickle, which could run code when it is loaded; if you trust it, convert it with gensim: "
            f"KeyedVectors.load('{sanitise(path.name)}').save_word2vec_format('{sanitise(path.stem)}.bin', binary=True)"
        )
    for magic, message in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise FileError(message)
    return "word2vec" if word2vec.looks_binary(head) else "text"


_UNSUPPORTED = {
    b"\x1f\x8b": "is compressed with gzip; decompress it first",
    b"\xba\x16\x4f\x2f": "is a fastText model; use the .vec file that comes with it",
}
