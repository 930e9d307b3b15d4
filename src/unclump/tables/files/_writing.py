"""Writing so that a half-written file never bears the final name: write beside, fsync, rename."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.tables.files._refusals import FileError, reason


@runtime_checkable
class Reader(Protocol):
    """What can be read: a file, or a member of an archive."""

    def read(self, size: int = ..., /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...
    def tell(self) -> int: ...


@runtime_checkable
class Writer(Protocol):
    """What can be written to: a file, or a member of an archive."""

    def write(self, data: bytes | memoryview, /) -> object: ...


BLOCK = 2**22  # bytes written or copied at once


@contextmanager
def replacing(path: Path, *, follow: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is complete and on the disk; on any error it is removed.

    A link stays a link: the file behind it is replaced, unless `follow` is False. A killed process may leave its
    `.unclump-*.tmp` behind, and nothing else.
    """
    path = path.resolve() if follow else path
    beside = beside_of(path)
    with reporting(), removing(beside):
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, beside)
        os.replace(beside, path)
    sync_folder(path.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same for a folder that does not exist yet."""
    path = path.resolve()
    beside = beside_of(path)
    with reporting(), removing(beside):
        beside.mkdir()
        yield beside
        os.rename(beside, path)
    sync_folder(path.parent)


def beside_of(path: Path) -> Path:
    """A name that nobody else has, in the same folder and so on the same disk."""
    return path.with_name(f".unclump-{secrets.token_hex(8)}.tmp")


@contextmanager
def removing(beside: Path) -> Iterator[None]:
    """On any error, Ctrl-C included, no trace stays."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(beside) if beside.is_dir() else beside.unlink()
        raise


@contextmanager
def reporting() -> Iterator[None]:
    """A full disk says so, even where a library wraps its error into another."""
    try:
        yield
    except FileError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise FileError(f"could not be written, nothing was changed: {reason(cause)}") from error


def sync_folder(folder: Path) -> None:
    """Make the new name last; where folders cannot be synced, the file itself still was."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_rows(file: Writer, points: Float[Tensor, "n d"]) -> None:
    """The numbers of a table, row after row, without a second copy of it."""
    for block in blocks(points):
        file.write(block.contiguous().view(torch.uint8).numpy().data)


def blocks(points: Float[Tensor, "n d"]) -> Iterator[Tensor]:
    """A table in slices of rows that are small enough to copy."""
    step = max(1, BLOCK // (points.shape[1] * points.element_size()))
    for start in range(0, len(points), step):
        yield points[start : start + step].detach().cpu()


def copy_bytes(origin: Reader, file: Writer, count: int) -> None:
    """Copy `count` bytes from where `origin` stands."""
    while count > 0:
        piece = origin.read(min(BLOCK, count))
        if not piece:
            raise FileError("the file it was read from ended early; read it again")
        file.write(piece)
        count -= len(piece)
