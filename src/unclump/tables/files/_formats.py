"""The formats: which suffix or first bytes they have, how they are read and written, and what they can hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from unclump._text import FileError, reword
from unclump.tables.files import (
    archives,
    arrays,
    arrow,
    delimited,
    faiss_files,
    gzip_files,
    hdf5,
    huggingface,
    jsonl,
    parquet,
    safetensors_files,
    text,
    torch_files,
    word2vec,
)
from unclump.tables.files._delimited_layout import DELIMITERS
from unclump.tables.files._recognition import FALLBACK, describe, describe_format, sniff
from unclump.tables.files._table import Table
from unclump.tables.files._validation import FLOATS, check_names, check_regular

MODEL_FOLDER = huggingface.FORMAT
SHARDS = "several files"  # of one table: the format of what `read_tables` reads


@dataclass(frozen=True)
class Format:
    """How to read and write a format, and what it can hold."""

    read: Callable[[Path, str | None], Table]
    write: Callable[[BinaryIO, Table], None] | None  # None where a format is only read
    check: Callable[[Table], None] = lambda table: None
    names: str = "optional"  # or "none", or "required"
    dtypes: tuple[torch.dtype, ...] = FLOATS

    def check_can_hold(self, name: str, table: Table) -> None:
        """Raise if the format, whose name is `name`, cannot hold the table."""
        if table.points.dtype not in self.dtypes:
            supported = ", ".join(str(dtype).removeprefix("torch.") for dtype in self.dtypes)
            raise FileError(
                f"{name} holds {supported}, the points are {str(table.points.dtype).removeprefix('torch.')}; "
                "write .safetensors or .pt, or convert the points"
            )
        if self.names == "required" and table.names is None:
            how = reword("names", "--names FILE")
            raise FileError(f"{name} needs a name for each row, and the table has none; add {how}, or write .npy")
        if self.names == "none" and table.names is not None and not (table.source and table.source.names_path):
            how = reword(", or drop them: names=None", "")
            raise FileError(f"{name} cannot store names; write .npz, .txt, .csv or .parquet{how}")
        if self.names != "none":
            check_names(table.names or ())
        self.check(table)


_NUMPY = (torch.float16, torch.float32, torch.float64)
FORMATS = {
    "npy": Format(arrays.read, arrays.write, names="none", dtypes=_NUMPY),
    "npz": Format(archives.read, archives.write, archives.check, dtypes=_NUMPY),
    "torch": Format(torch_files.read, torch_files.write, torch_files.check),
    "safetensors": Format(safetensors_files.read, safetensors_files.write, safetensors_files.check, names="none"),
    "text": Format(text.read, text.write, text.check, names="required"),
    "word2vec": Format(word2vec.read, word2vec.write, word2vec.check, names="required", dtypes=(torch.float32,)),
    "parquet": Format(parquet.read, parquet.write, parquet.check, dtypes=_NUMPY),
    "arrow": Format(arrow.read, None),
    "jsonl": Format(jsonl.read, None),
    "hdf5": Format(hdf5.read, None),
    "faiss": Format(faiss_files.read, None),
    "gzip": Format(lambda path, tensor: gzip_files.read(path, tensor, read_path), None),
} | {
    key: Format(delimited.read, partial(delimited.write, format_name=key), partial(delimited.check, format_name=key))
    for key in DELIMITERS
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
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".faiss": "faiss",
    ".gz": "gzip",
}
_WRITABLE = {
    suffix: name
    for suffix, name in {**_SUFFIXES, ".txt": "text", ".vec": "text", ".bin": "word2vec"}.items()
    if FORMATS[name].write is not None
}


def read_path(path: Path, tensor: str | None) -> Table:
    """Read a folder, or a file in the format of its suffix, or else in that of its first bytes."""
    if path.is_dir():
        return arrow.read_dataset(path, tensor) if arrow.is_dataset(path) else huggingface.read(path, tensor)
    check_regular(path)
    if path.stat().st_size == 0:
        raise FileError("is empty")
    expected = _SUFFIXES.get(path.suffix.lower())
    format_name = expected or sniff(path)
    try:
        return FORMATS[format_name].read(path, tensor)
    except FileError as error:
        if format_name == FALLBACK and path.suffix.lower() not in _WRITABLE:
            raise FileError(f"{error}; it was read as text, since it is of no other known format") from error.__cause__
        seen = None if expected is None else describe(path)
        if seen is None or expected is None or seen == describe_format(expected):
            raise
        raise FileError(f"{error}; its first bytes are those of {seen}") from error.__cause__


def is_writable(format_name: str) -> bool:
    """Whether tables can be written in the format, and not only read."""
    return format_name == MODEL_FOLDER or (format_name in FORMATS and FORMATS[format_name].write is not None)


def format_to_write(path: Path, table: Table) -> str:
    """Return the source's format if the suffix is the same or unknown, otherwise the format of the suffix."""
    suffix, source = path.suffix.lower(), table.source
    is_ambiguous = suffix not in {**_SUFFIXES, **_WRITABLE}
    if source is not None and is_writable(source.format) and (is_ambiguous or suffix == source.path.suffix.lower()):
        return source.format
    if suffix not in _WRITABLE:
        fault = (
            "has the suffix of a format that is only read"
            if suffix in _SUFFIXES
            else "has an unknown suffix, so its format is unclear"
        )
        raise FileError(f"{fault}; use one of {', '.join(_WRITABLE)}")
    return _WRITABLE[suffix]
