"""Atomic writes: write a temporary file in the same folder, fsync it, then rename it to the final name."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, describe_error


@contextmanager
def replace_file(path: Path, *, follow_links: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` once it is complete and on disk; on any error it is removed.

    If `path` is a link, its target is replaced and the link stays, unless `follow_links` is False. A killed process
    may leave its `.unclump-*.tmp` behind, and nothing else.
    """
    path = path.resolve() if follow_links else path
    temporary = temporary_path(path)
    with report_os_errors(), remove_on_error(temporary):
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    sync_folder(path.parent)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder that is renamed to `path`, which must not exist yet, once it is complete."""
    path = path.resolve()
    temporary = temporary_path(path)
    with report_os_errors(), remove_on_error(temporary):
        temporary.mkdir()
        yield temporary
        os.rename(temporary, path)
    sync_folder(path.parent)


def temporary_path(path: Path) -> Path:
    """Return a unique name in the same folder, and so on the same file system, as a rename requires."""
    return path.with_name(f".unclump-{secrets.token_hex(8)}.tmp")


@contextmanager
def remove_on_error(temporary: Path) -> Iterator[None]:
    """Delete the temporary file or folder on any error, including Ctrl-C."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink()
        raise


@contextmanager
def report_os_errors() -> Iterator[None]:
    """Turn an OSError, such as a full disk, into a FileError, even if a library wrapped it in another exception."""
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
        raise FileError(f"could not be written, nothing was changed: {describe_error(cause)}") from error


def sync_folder(folder: Path) -> None:
    """Fsync the folder, so that the rename survives a crash; skipped where folders cannot be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
