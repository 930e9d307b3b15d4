"""Validation of files: every error is a one-line FileError, and text from the file is sanitised."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from unclump._text import FileError, describe_error, escape_unprintable, reword, sanitise

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_EXPECTED = "expected a floating-point table of shape (n, d)"
_MAX_LISTED = 8  # arrays named in a message
_NAME_KEYS = ("names", "name", "words", "word", "tokens", "token", "vocab", "labels", "label", "keys", "key", "text")
ROW_NUMBER_KEYS = {"id", "index", "key", "idx", "row"}
_TRUSTED_SIZE = 2**28  # bytes; smaller archives are not checked
_MAX_RATIO = 100  # embeddings compress by a factor of 2, strings by 20, a decompression bomb by 1000


@contextmanager
def prefix_errors(path: Path) -> Iterator[None]:
    """Turn errors raised inside into a FileError that begins with the path."""
    try:
        yield
    except FileError as error:
        raise FileError(escape_unprintable(f"{path}: {error}")) from error.__cause__
    except MemoryError:
        raise FileError(escape_unprintable(f"{path}: needs more memory than is available")) from None
    except OSError as error:
        raise FileError(escape_unprintable(f"{path}: {describe_error(error)}")) from error


@contextmanager
def wrap_errors(message: str, errors: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Turn the `errors` that a parser raises on an untrusted file into a FileError with this message."""
    try:
        yield
    except (FileError, OSError, MemoryError):
        raise
    except errors as error:
        raise FileError(f"{message}: {describe_error(error)}") from error


def check_regular(path: Path) -> None:
    """Raise for a pipe or a device, which may never end and must not be replaced."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FileError("is not a regular file")


def check_folder(path: Path) -> None:
    """Raise if nothing can be written in the folder of a path."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileError("its folder does not exist; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError("its folder is not writable")


def check_file_target(path: Path) -> None:
    """Raise if no file can be written there; which files may be replaced is for the caller to say."""
    check_folder(path)
    if path.is_dir():
        raise FileError("is a folder; name a file in it")
    if path.exists():
        check_regular(path)
        if not os.access(path, os.W_OK):
            raise FileError("is write-protected")


@dataclass(frozen=True)
class Entry:
    """The shape and dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: str  # such as "float32"

    @property
    def is_table(self) -> bool:
        return len(self.shape) == 2 and self.dtype in {str(dtype).removeprefix("torch.") for dtype in FLOATS}


def some_tensor() -> str:
    """How to choose among several tables, in a message."""
    return reword("tensor=...", "--tensor")


def this_tensor(name: str) -> str:
    """How a table is chosen by its name, in a message."""
    return reword(f"tensor='{sanitise(name)}'", f"--tensor '{sanitise(name)}'")


def choose_table(entries: Mapping[str, Entry], key: str | None) -> str:
    """Validate the requested key, or return the key of the only table."""
    tables = [name for name, entry in entries.items() if entry.is_table]
    if key is not None and key not in entries:
        raise FileError(f"holds no '{sanitise(key)}'; it holds {list_entries(entries, first=tables)}")
    if key is not None and key not in tables:
        raise FileError(f"{_EXPECTED}, got {list_entries({key: entries[key]})}{how_to_convert(entries[key])}")
    if key is not None or len(tables) == 1:
        return key if key is not None else tables[0]
    if tables:
        listed = list_entries({name: entries[name] for name in tables})
        raise FileError(f"holds several tables; pick one with {some_tensor()}: {listed}")
    raise FileError(f"holds no floating-point table of shape (n, d); it holds {list_entries(entries)}")


def check_entry(entry: Entry) -> None:
    """Raise unless the only array of a file is a table."""
    if not entry.is_table:
        raise FileError(f"{_EXPECTED}, got {entry.dtype} {entry.shape}{how_to_convert(entry)}")


def how_to_convert(entry: Entry) -> str:
    """The end of a message: how to make a table of an array that is none, if that is clear."""
    if len(entry.shape) != 2:
        return "; save one row per point"
    return "; save it as float32" if re.fullmatch(r"u?int\d+|bool", entry.dtype) else ""


def list_entries(entries: Mapping[str, Entry], *, first: Sequence[str] = ()) -> str:
    """Describe the arrays of a file in one line."""
    keys = list(dict.fromkeys([*first, *entries]))
    parts = [f"'{sanitise(key)}' {entries[key].dtype} {entries[key].shape}" for key in keys[:_MAX_LISTED]]
    return ", ".join(parts) + (f" and {len(keys) - _MAX_LISTED} more" if len(keys) > _MAX_LISTED else "") or "no arrays"


def choose_names(keys: Sequence[str]) -> str | None:
    """Pick the array or column of row names: the only one, or one with a typical name such as "words"."""
    return keys[0] if len(keys) == 1 else next((key for key in _NAME_KEYS if key in keys), None)


def note_on_columns(left_out: Sequence[str]) -> list[str]:
    """Say which columns of numbers were not read as coordinates, if any."""
    listed = ", ".join(f"'{sanitise(name)}'" for name in left_out[:_MAX_LISTED])
    more = f" and {len(left_out) - _MAX_LISTED} more" if len(left_out) > _MAX_LISTED else ""
    return [f"columns of numbers that were not read as coordinates: {listed}{more}"] if left_out else []


def check_names(names: Sequence[str]) -> None:
    """Raise if a name is no text: half of a surrogate pair that stands for no byte, as JSON can hold."""
    for row, name in enumerate(names):
        try:
            name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise FileError(f"the name of row {row}, '{sanitise(name)}', is not valid Unicode; rename it") from None


def check_shape(n: int, d: int) -> None:
    """Raise unless there is a row, as a single query is, in at least two dimensions."""
    if n < 1 or d < 2:
        raise FileError(f"expected at least 1 row of at least 2 numbers, got {n} x {d}")


def check_no_tensor(tensor: str | None) -> None:
    """Raise if a tensor is requested from a format that holds a single table."""
    if tensor is not None:
        raise FileError(f"holds a single table; leave out {this_tensor(tensor)}")


def check_ratio(size: int, compressed_size: int) -> None:
    """Raise for a decompression bomb before memory is allocated."""
    if size > _TRUSTED_SIZE and size > _MAX_RATIO * compressed_size:
        raise FileError(f"would decompress {compressed_size} bytes into {size}; no embeddings compress that well")


def missing_package(package: str, extra: str = "files") -> FileError:
    """Create the error that names the extra to install."""
    return FileError(f"needs the package {package}; install it with: pip install 'unclump[{extra}]'")
