"""Reading and writing tables of embeddings.

A file is not trusted: nothing in it is ever executed, and what its header promises is held against its size before
memory is taken. Whatever is refused raises `FileError`, with one line that says which file, why, and what to do.

Written files appear whole or not at all: they are written beside, brought to the disk, and then renamed.
"""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from unclump._atomic_write import replacing
from unclump._text import FileError, shown
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
from unclump.tables.files._refusals import FLOATS, about, check_regular, parsing
from unclump.tables.files._table import BadRow, Source, Table, bad_rows

__all__ = ["BadRow", "FileError", "Source", "Table", "bad_rows", "check_target", "load", "save", "was_read"]


@dataclass(frozen=True)
class _Format:
    """How a format is read and written, and what it holds."""

    read: Callable[[Path, str | None], Table]
    write: Callable[[BinaryIO, Table], None]
    check: Callable[[Table], None] = lambda table: None
    names: str = "some"  # or "none", or "all": every row needs one
    dtypes: tuple[torch.dtype, ...] = FLOATS


_NUMPY = (torch.float16, torch.float32, torch.float64)
_FORMATS = {
    "npy": _Format(arrays.read, arrays.write, names="none", dtypes=_NUMPY),
    "npz": _Format(archives.read, archives.write, archives.check, dtypes=_NUMPY),
    "torch": _Format(torch_files.read, torch_files.write, torch_files.check),
    "safetensors": _Format(safetensors_files.read, safetensors_files.write, safetensors_files.check, names="none"),
    "text": _Format(text.read, text.write, text.check, names="all"),
    "word2vec": _Format(word2vec.read, word2vec.write, word2vec.check, names="all", dtypes=(torch.float32,)),
    "parquet": _Format(parquet.read, parquet.write, parquet.check, dtypes=_NUMPY),
} | {
    form: _Format(delimited.read, partial(delimited.write, form=form), partial(delimited.check, form=form))
    for form in delimited.DELIMITERS
}
# Other suffixes may mean many things: what is read is told by its first bytes, what is written by what was read.
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
_WRITTEN = _SUFFIXES | {".txt": "text", ".vec": "text", ".bin": "word2vec"}
_FOLDER = huggingface.FORMAT


def load(
    path: str | os.PathLike[str], *, tensor: str | None = None, names: str | os.PathLike[str] | None = None
) -> Table:
    """Read a table of embeddings.

    `.npy`, `.npz`, `.pt`, `.safetensors`, `.parquet`, `.csv` and `.tsv` are told by their suffix; word2vec text and
    binary, GloVe with or without a first line, and files of other suffixes by their first bytes; a folder is a Hugging
    Face model. `.npy`, `.pt` and safetensors are mapped, not read. Text is float32, or float64 where a number has more
    than nine digits.

    Args:
        path: The file or folder.
        tensor: Which of several: the key of an `.npz` or `.pt`, the tensor of a safetensors file or model, the column
            of a Parquet file (or `"x"` for its columns x0, x1, ...).
        names: A file with the name of each row on a line, in place of those the file holds.

    Raises:
        FileError: One line: what was expected, what came, what to do.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/compass.txt"
        >>> save(path, Table(torch.eye(2), names=["east", "north"]))
        >>> load(path).names
        ['east', 'north']
    """
    path = Path(path)
    with about(path):
        if path.is_dir():
            table = huggingface.read(path, tensor)
        else:
            check_regular(path)
            table = _FORMATS[_SUFFIXES.get(path.suffix.lower()) or _sniff(path)].read(path, tensor)
    if names is None:
        return table
    listed = _read_names(Path(names), len(table.points), path)
    assert table.source is not None
    return replace(table, names=listed, source=replace(table.source, names_path=Path(names).absolute()))


def save(path: str | os.PathLike[str], table: Table, *, in_place: bool = False) -> None:
    """Write a table, whole or not at all.

    The suffix tells the format; another suffix than `load` knows means the format the table was read from. In that
    format everything else that the file held is kept: other arrays, tensors, columns, headings, the rest of a model.

    Args:
        path: Where to. A file that is there is replaced; one that the table was read from only with `in_place`.
        table: What `load` gave, perhaps `with_points(...)`, or a `Table` of your own.
        in_place: Allow to replace the file the table was read from.

    Raises:
        FileError: Nothing was written, and nothing changed.
    """
    path = Path(path)
    form = check_target(path, table, in_place=in_place)
    with about(path):
        if form == _FOLDER:
            huggingface.write(path, table)
            return
        with replacing(path) as file:
            _FORMATS[form].write(file, table)


def check_target(path: str | os.PathLike[str], table: Table, *, in_place: bool = False) -> str:
    """Refuse now what `save` would refuse after hours of work; returns the format that will be written."""
    path = Path(path)
    with about(path):
        form = _target_format(path, table)
        if not path.resolve().parent.is_dir():
            raise FileError("its folder does not exist; make it first")
        if not os.access(path.resolve().parent, os.W_OK):
            raise FileError("its folder cannot be written to")
        _check_not_read(path, table.source, in_place=in_place)
        if table.source is not None and table.source.dimensions != table.points.shape[1]:
            raise FileError(
                f"the table was read in {table.source.dimensions} dimensions and has {table.points.shape[1]} now; "
                "make a new one with Table(points, names)"
            )
        if form == _FOLDER:
            huggingface.check(table)
            return form
        if path.is_dir():
            raise FileError("is a folder; name a file in it")
        if path.exists():
            check_regular(path)
            if not os.access(path, os.W_OK):
                raise FileError("is write-protected")
        _check_holds(_FORMATS[form], form, table)
        _FORMATS[form].check(table)
    return form


def _target_format(path: Path, table: Table) -> str:
    """That of the suffix; that of the file the table was read from, where the suffix is the same or tells none."""
    suffix, source = path.suffix.lower(), table.source
    if source is not None and (suffix == source.path.suffix.lower() or suffix not in _WRITTEN):
        return source.format
    if suffix not in _WRITTEN:
        raise FileError(f"has no suffix that tells a format; use one of {', '.join(_WRITTEN)}")
    return _WRITTEN[suffix]


def _check_not_read(path: Path, source: Source | None, *, in_place: bool) -> None:
    """Refuse to write over what was read, under whatever name or link."""
    if source is None or not path.exists():
        return
    if _is_same(path, source.path):
        if not in_place:
            raise FileError("is what the table was read from; write elsewhere, or allow it with in_place=True")
    elif was_read(path, source):
        raise FileError("is a file that the table was read with; write elsewhere")
    elif path.is_dir() and source.format == _FOLDER:
        raise FileError("is a folder that exists; name a new one")


def was_read(path: Path, source: Source) -> bool:
    """Whether a file that is there is one of those that a table was read from, under whatever name or link."""
    files = (source.path, *source.files, source.names_path)
    return any(_is_same(path, file) for file in files if file is not None)


def _is_same(path: Path, other: Path) -> bool:
    return other.exists() and os.path.samefile(path, other)


def _check_holds(form: _Format, called: str, table: Table) -> None:
    if table.points.dtype not in form.dtypes:
        held = ", ".join(str(dtype).removeprefix("torch.") for dtype in form.dtypes)
        raise FileError(
            f"{called} holds {held}, the points are {str(table.points.dtype).removeprefix('torch.')}; "
            "write .safetensors or .pt, or convert the points"
        )
    if form.names == "all" and table.names is None:
        raise FileError(f"{called} needs a name for each row, and the table has none; give names, or write .npy")
    if form.names == "none" and table.names is not None and not (table.source and table.source.names_path):
        raise FileError(
            f"{called} has no place for names; write .npz, .txt, .csv or .parquet, or drop them: names=None"
        )


def _read_names(path: Path, rows: int, table: Path) -> list[str]:
    with about(path):
        check_regular(path)
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
        names = [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in content.split(b"\n")]
        if len(names) != rows:
            raise FileError(f"holds {len(names)} names, one a line, for the {rows} rows of {shown(table)}")
    return names


def _sniff(path: Path) -> str:
    """The format of a file, by its first bytes."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if not head:
        raise FileError("is empty")
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04"):
        with parsing("is not a whole archive"), zipfile.ZipFile(path) as archive:
            return "torch" if any(name.endswith("data.pkl") for name in archive.namelist()) else "npz"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[4:9] == b"\0\0\0\0{":
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"}:
        raise FileError(
            "is a pickle, which could run code when it is read; if you trust it, convert it with gensim: "
            f"KeyedVectors.load('{shown(path.name)}').save_word2vec_format('{shown(path.stem)}.bin', binary=True)"
        )
    for start, what in _REFUSED.items():
        if head.startswith(start):
            raise FileError(what)
    return "word2vec" if word2vec.looks_binary(head) else "text"


_REFUSED = {
    b"\x1f\x8b": "is packed with gzip; unpack it first",
    b"\xba\x16\x4f\x2f": "is a fastText model; use the .vec file beside it",
}
