"""Writing so that a half-written file never bears the final name: write beside, fsync, rename."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, reason


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
