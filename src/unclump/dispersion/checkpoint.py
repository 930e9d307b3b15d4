"""The state of a run on disk: always complete, and never loaded by a different run."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unclump._atomic_write import replace_file
from unclump._text import FileError


class Checkpoint:
    """A file with the latest state of one run.

    Args:
        path: The file, which need not exist yet.
        identity: What identifies the run: tensors are compared by their bytes, everything else by its repr.
    """

    def __init__(self, path: str | os.PathLike[str], **identity: object) -> None:
        self.path = Path(path)
        self.identity = {name: self.fingerprint(thing) for name, thing in identity.items()}

    def read(self) -> dict[str, Any] | None:
        """The saved state, or None if there is none; raise if it is of a different run, naming what differs."""
        return self.check_identity(read_state(self.path)) if self.path.exists() else None

    def check_identity(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state; raise unless it is of this run."""
        saved = state["identity"]
        for name, value in self.identity.items():
            if saved.get(name) != value:
                raise ValueError(
                    f"expected the checkpoint {self.path} of this run, got that of one with another {name}: "
                    f"{saved.get(name)} there, {value} here; delete it or name another"
                )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write atomically: a process killed at any moment leaves either the old file or the new one."""
        write_state(self.path, {"identity": self.identity, **state})

    def fingerprint(self, thing: object) -> str:
        """A string that identifies a value: a hash of the bytes of a tensor, the repr of anything else."""
        if isinstance(thing, Tensor):
            content = thing.detach().cpu().contiguous().view(torch.uint8).numpy().data
            return f"{tuple(thing.shape)} {thing.dtype} {hashlib.sha256(content).hexdigest()[:16]}"
        return " ".join(repr(thing).split())


def read_state(path: Path) -> dict[str, Any]:
    """Read a file that `write_state` wrote; raise on any other file, or if a single bit has changed."""
    state = None
    if path.is_file():
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        except Exception:  # arbitrary bytes can make the parser raise anything
            state = None
    if not isinstance(state, dict) or not isinstance(state.get("identity"), dict) or "digest" not in state:
        raise ValueError(f"expected a checkpoint of disperse in {path}, got another file; delete it or name another")
    if state.pop("digest") != digest(state):
        raise ValueError(f"expected the checkpoint {path} as it was written, got other bytes: it is damaged; delete it")
    return state


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state with a digest of its contents."""
    try:
        with replace_file(path) as file:
            torch.save({**state, "digest": digest(state)}, file)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error


def digest(state: Any) -> str:
    """SHA-256 of everything in a state: the bytes of tensors, and the repr of numbers and strings."""
    result = hashlib.sha256()
    for part in _bytes(state):
        result.update(part)
    return result.hexdigest()


def _bytes(thing: Any) -> Iterator[bytes | memoryview]:
    if isinstance(thing, Tensor):
        yield f"tensor {tuple(thing.shape)} {thing.dtype}".encode()
        yield thing.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
    elif isinstance(thing, Mapping):
        yield b"{"
        for key, value in thing.items():
            yield repr(key).encode()
            yield from _bytes(value)
        yield b"}"
    elif isinstance(thing, list | tuple):
        yield b"["
        for value in thing:
            yield from _bytes(value)
        yield b"]"
    else:
        yield repr(thing).encode() + b";"
