"""How a file is refused: one class of errors, one line each, and nothing from the file printed as it came."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from unclump._text import FileError, printable, reason, shown

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MOST_LISTED = 8  # arrays of a file in a message
_NAME_KEYS = ("names", "name", "words", "word", "tokens", "token", "vocab", "labels", "label", "keys", "key", "text")
_UNPACKED = 2**28  # bytes; below this no archive is worth a second look
_LARGEST_RATIO = 100  # embeddings pack to a half, strings to a twentieth; a bomb to a thousandth


@contextmanager
def about(path: Path) -> Iterator[None]:
    """The door: whatever is refused inside names the file it speaks of."""
    try:
        yield
    except FileError as error:
        raise FileError(printable(f"{path}: {error}")) from error.__cause__
    except MemoryError:
        raise FileError(printable(f"{path}: needs more memory than there is")) from None
    except OSError as error:
        raise FileError(printable(f"{path}: {reason(error)}")) from error


@contextmanager
def parsing(what: str, errors: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Whatever a parser raises over an untrusted file, or one of `errors`: the file is broken."""
    try:
        yield
    except (FileError, OSError, MemoryError):
        raise
    except errors as error:
        raise FileError(f"{what}: {reason(error)}") from error


def check_regular(path: Path) -> None:
    """Refuse what is no ordinary file: a pipe or a device would never end, or be replaced."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FileError("is not an ordinary file")


@dataclass(frozen=True)
class Entry:
    """An array in a file, not read yet."""

    shape: tuple[int, ...]
    dtype: str  # as a person reads it: "float32"

    @property
    def is_table(self) -> bool:
        return len(self.shape) == 2 and self.dtype in {str(dtype).removeprefix("torch.") for dtype in FLOATS}


def choose(entries: Mapping[str, Entry], wanted: str | None) -> str:
    """The key of the table: the one that is wanted, or the only one there is."""
    tables = [key for key, entry in entries.items() if entry.is_table]
    if wanted is not None and wanted not in entries:
        raise FileError(f"holds no '{shown(wanted)}'; it holds {listed(entries, first=tables)}")
    if wanted is not None and wanted not in tables:
        raise FileError(f"expected a floating-point table of shape (n, d), got {listed({wanted: entries[wanted]})}")
    if wanted is not None or len(tables) == 1:
        return wanted if wanted is not None else tables[0]
    if tables:
        raise FileError(
            f"holds several tables; pick one with tensor=...: {listed({key: entries[key] for key in tables})}"
        )
    raise FileError(f"holds no floating-point table of shape (n, d); it holds {listed(entries)}")


def listed(entries: Mapping[str, Entry], *, first: Sequence[str] = ()) -> str:
    """The arrays of a file in one line."""
    keys = list(dict.fromkeys([*first, *entries]))
    parts = [f"'{shown(key)}' {entries[key].dtype} {entries[key].shape}" for key in keys[:_MOST_LISTED]]
    return ", ".join(parts) + (f" and {len(keys) - _MOST_LISTED} more" if len(keys) > _MOST_LISTED else "") or "nothing"


def choose_names(keys: Sequence[str]) -> str | None:
    """Of several columns of strings the one that is called like names; of one, that one."""
    return keys[0] if len(keys) == 1 else next((key for key in _NAME_KEYS if key in keys), None)


def check_shape(n: int, d: int) -> None:
    """Refuse a table with nothing to keep apart."""
    if n < 2 or d < 2:
        raise FileError(f"expected at least 2 rows of at least 2 numbers, got {n} x {d}")


def check_no_tensor(tensor: str | None) -> None:
    """Refuse a choice where there is nothing to choose."""
    if tensor is not None:
        raise FileError(f"holds one table only; leave out tensor='{shown(tensor)}'")


def check_unpacked(unpacked: int, packed: int) -> None:
    """Refuse a decompression bomb before it takes memory."""
    if unpacked > _UNPACKED and unpacked > _LARGEST_RATIO * packed:
        raise FileError(f"promises to unpack {packed} bytes into {unpacked}; no table of embeddings packs so well")


def missing(package: str) -> FileError:
    """The error that names the extra to install."""
    return FileError(f"needs the package {package}; install it with: pip install 'unclump[files]'")
