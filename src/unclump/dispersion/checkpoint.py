"""The state of a run on the disk: whole at every moment, and refused by any other run."""

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


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
        if not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            state = None
        if not isinstance(state, dict) or "identity" not in state:
            raise ValueError(
                f"expected a checkpoint of disperse in {self.path}, got another file; delete it or name another"
            )
        return self.checked(state)

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
        beside = self.path.with_name(self.path.name + ".partial")
        with beside.open("wb") as file:
            torch.save({"identity": self.identity, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def fingerprint(self, thing: object) -> str:
        """What tells it from others: of tensors their bytes, of all else how it prints."""
        if isinstance(thing, Tensor):
            content = thing.detach().cpu().contiguous().view(torch.uint8).numpy().data
            return f"{tuple(thing.shape)} {thing.dtype} {hashlib.sha256(content).hexdigest()[:16]}"
        return " ".join(repr(thing).split())
