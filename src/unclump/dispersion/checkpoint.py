"""The state of a run on the disk: whole at every moment, and refused by any other run."""

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
        path: Where it is, or is going to be.
        identity: What tells this run from others: tensors by their bytes, all else by how it prints.
    """

    def __init__(self, path: str | os.PathLike[str], **identity: object) -> None:
        self.path = Path(path)
        self.identity = {name: self.fingerprint(thing) for name, thing in identity.items()}

    def read(self) -> dict[str, Any] | None:
        """The state that is there, or None; that of another run is refused, by what differs."""
        return self.checked(read_state(self.path)) if self.path.exists() else None

    def checked(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, if it is that of this run."""
        there = state["identity"]
        for name, here in self.identity.items():
            if there.get(name) != here:
                raise ValueError(
                    f"expected the checkpoint {self.path} of this run, got that of one with another {name}: "
                    f"{there.get(name)} there, {here} here; delete it or name another"
                )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write beside, then rename: a kill at any moment leaves the old file or the new one, never half of one."""
        write_state(self.path, {"identity": self.identity, **state})

    def fingerprint(self, thing: object) -> str:
        """What tells it from others: of tensors their bytes, of all else how it prints."""
        if isinstance(thing, Tensor):
            content = thing.detach().cpu().contiguous().view(torch.uint8).numpy().data
            return f"{tuple(thing.shape)} {thing.dtype} {hashlib.sha256(content).hexdigest()[:16]}"
        return " ".join(repr(thing).split())


def read_state(path: Path) -> dict[str, Any]:
    """Read what `write_state` wrote; any other file, and one in which a bit has changed, is refused."""
    state = None
    if path.is_file():
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        except Exception:  # whatever a file of other bytes makes a parser raise
            state = None
    if not isinstance(state, dict) or not isinstance(state.get("identity"), dict) or "digest" not in state:
        raise ValueError(f"expected a checkpoint of disperse in {path}, got another file; delete it or name another")
    if state.pop("digest") != digest(state):
        raise ValueError(f"expected the checkpoint {path} as it was written, got other bytes: it is damaged; delete it")
    return state


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state with the digest of its contents."""
    try:
        with replace_file(path) as file:
            torch.save({**state, "digest": digest(state)}, file)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error


def digest(state: Any) -> str:
    """SHA-256 of everything in a state: tensors by their bytes, numbers and strings by how they print."""
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
