"""Atomic writes: write a temporary file in the same folder, fsync it, then rename it to the final name.

A temporary file is locked while its writer is alive. Files that a killed process left behind are not locked, and the
next write into the folder removes them.
"""

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, describe_error

try:
    import fcntl
except ImportError:  # Windows: files are not locked, and abandoned files are not removed
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.unclump-[0-9a-f]{16}\.tmp")


@contextmanager
def replace_file(path: Path, *, follow_links: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` once it is complete and on disk; on any error it is removed.

    If `path` is a link, its target is replaced and the link stays, unless `follow_links` is False.
    """
    path = path.resolve() if follow_links else path
    with report_os_errors():
        remove_abandoned(path.parent)
        temporary = _temporary_path(path)
        with remove_on_error(temporary):
            with _create_file(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is not None:  # while the lock is held: an unlocked file counts as abandoned
                    _rename_into_place(temporary, path)
            if fcntl is None:  # Windows cannot rename an open file
                _rename_into_place(temporary, path)
    sync_folder(path.parent)


def _rename_into_place(temporary: Path, path: Path) -> None:
    """Rename a complete file; it gets the permissions of the file that it replaces."""
    if path.exists():
        shutil.copymode(path, temporary)
    os.replace(temporary, path)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder that is renamed to `path`, which must not exist yet, once it is complete."""
    path = path.resolve()
    with report_os_errors():
        remove_abandoned(path.parent)
        temporary = _temporary_path(path)
        with remove_on_error(temporary):
            handle = _create_folder(temporary)
            try:
                yield temporary
                os.rename(temporary, path)
            finally:
                if handle is not None:
                    os.close(handle)
    sync_folder(path.parent)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder that only this user can access, and delete it at the end of the block."""
    parent = Path(tempfile.gettempdir())
    remove_abandoned(parent)
    folder, handle = _temporary_path(parent / "unused"), None
    try:
        handle = _create_folder(folder, mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders of killed processes, which are the unlocked ones."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(temporary: Path) -> None:
    handle = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(temporary)
        elif stat.S_ISREG(mode):
            temporary.unlink()
    finally:
        os.close(handle)


def _create_file(temporary: Path) -> BinaryIO:
    """Create and lock a temporary file."""
    while True:
        file = open(temporary, "xb")  # noqa: SIM115 - the caller closes it
        if _acquire_lock(file.fileno(), temporary):
            return file
        file.close()


def _create_folder(temporary: Path, *, mode: int = 0o777) -> int | None:
    """Create and lock a temporary folder; closing the returned handle releases the lock."""
    while True:
        temporary.mkdir(mode)
        if fcntl is None:
            return None
        try:
            handle = os.open(temporary, os.O_RDONLY)
        except FileNotFoundError:  # another process removed it as abandoned before it was locked
            continue
        if _acquire_lock(handle, temporary):
            return handle
        os.close(handle)


def _acquire_lock(handle: int, temporary: Path) -> bool:
    """Lock a new file; return False if another process removed it as abandoned before it was locked."""
    if fcntl is None:
        return True
    with suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(handle), os.stat(temporary))
    except FileNotFoundError:
        return False


def _temporary_path(path: Path) -> Path:
    """Return a unique name in the same folder: a rename requires the same file system."""
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
