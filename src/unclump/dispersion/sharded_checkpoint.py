"""The state of a run that is spread over ranks: a folder to which each writes its rows, and any number can read.

Rows go through `torch.distributed.checkpoint`, a file a rank; all else is the same on every rank, and the first writes
it. A state is complete in a folder of its own before the name in `latest` changes to it: a kill at any moment leaves
the old state or the new one. The folder must be one that all ranks see.
"""

import shutil
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from unclump._atomic_write import replace_file
from unclump.dispersion.checkpoint import Checkpoint, read_state, write_state
from unclump.distributed.ranks import Ranks

_WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # of as many bytes as a dtype's


class ShardedCheckpoint(Checkpoint):
    """A folder with the latest state of one run; see `Checkpoint`. All ranks must call the same methods."""

    def __init__(self, path: Any, ranks: Ranks, **identity: object) -> None:
        self.ranks = ranks
        super().__init__(path, **identity)

    def fingerprint(self, thing: object) -> str:
        """The same for the same table, however it is spread: every number's bits by its place, in whole numbers."""
        if not isinstance(thing, Tensor):
            return super().fingerprint(thing)
        rows = thing.detach().flatten(1) if thing.ndim > 1 else thing.detach().unsqueeze(1)
        bits = (rows.int() if rows.dtype == torch.bool else rows.view(_WHOLE_NUMBERS[rows.itemsize])).long()
        columns = bits.shape[1]
        places = self.ranks.before * columns + torch.arange(bits.numel(), device=bits.device).view_as(bits)
        checksum = int(self.ranks.sum((bits * (2 * places + 1)).sum()))  # beyond 64 bits it wraps, on any ranks alike
        return f"{(self.ranks.total, *thing.shape[1:])} {thing.dtype} {checksum & (2**64 - 1):016x}"

    def read(self) -> dict[str, Any] | None:
        latest = self.path / "latest"
        there = self.ranks.any(latest.exists())[0]
        if not there:
            if self.path.exists() and not self.path.is_dir():
                raise ValueError(f"expected a folder for a checkpoint of many ranks in {self.path}, got a file")
            return None
        folder = self.path / latest.read_text("utf-8", "replace")
        rest = self.checked(read_state(folder / "rest.pt"))
        kinds: dict[str, Any] = rest.pop("rows")
        here = self.ranks.counts[self.ranks.rank]
        tables = {name: torch.empty(here, *shape, dtype=dtype) for name, (shape, dtype, _) in kinds.items()}
        load(self._spread(tables), checkpoint_id=folder, process_group=self.ranks.group)
        for name, (_, _, fingerprint) in kinds.items():
            if self.fingerprint(tables[name]) != fingerprint:
                raise ValueError(
                    f"expected the checkpoint {self.path} as it was written, got other bytes: it is damaged; delete it"
                )
        state: dict[str, Any] = _put_back(rest, tables)
        return state

    def write(self, state: dict[str, Any]) -> None:
        tables: dict[str, Tensor] = {}
        rest = _take_out(state, "", self.ranks.counts[self.ranks.rank], tables)
        name = f"step-{state['step']}"
        folder = self.path / name
        if self.ranks.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # of a write that did not end
            folder.mkdir(parents=True)
        self.ranks.any(False)  # the folder is there for all
        save(self._spread(tables), checkpoint_id=folder, process_group=self.ranks.group)
        kinds = {k: (tuple(table.shape[1:]), table.dtype, self.fingerprint(table)) for k, table in tables.items()}
        if self.ranks.rank == 0:
            write_state(folder / "rest.pt", {"identity": self.identity, "rows": kinds, **rest})
            with replace_file(self.path / "latest") as file:
                file.write(name.encode())
            for old in self.path.glob("step-*"):
                if old != folder:
                    shutil.rmtree(old)
        self.ranks.any(False)  # and so is the state

    def _spread(self, tables: dict[str, Tensor]) -> dict[str, Any]:
        return {name: _Rows.of(table, self.ranks) for name, table in tables.items()}


class _Rows(Tensor):
    """A rank's rows as `torch.distributed.checkpoint` asks for them: where they are in the whole table."""

    before: int
    whole: torch.Size

    @classmethod
    def of(cls, table: Tensor, ranks: Ranks) -> "_Rows":
        rows = table.as_subclass(cls)
        rows.before, rows.whole = ranks.before, torch.Size([ranks.total, *table.shape[1:]])
        return rows

    def size(self, *_: object) -> torch.Size:  # type: ignore[override]  # which must be that of the table in the folder
        return self.whole

    def _place(self) -> torch.Size:
        return torch.Size([self.before, *[0] * (self.ndim - 1)])

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        data = [TensorWriteData(chunk, TensorProperties(dtype=self.dtype), self.whole) for chunk in self._chunks()]
        return [WriteItem(MetadataIndex(name, self._place()), WriteItemType.SHARD, tensor_data=part) for part in data]

    def _chunks(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(self._place(), self.shape)] if len(self) > 0 else []

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return self._chunks()

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.as_subclass(Tensor)


def _take_out(thing: Any, name: str, rows: int, tables: dict[str, Tensor]) -> Any:
    """`thing` without its tensors of so many rows: they go into `tables`, and their names stay in their places."""
    if isinstance(thing, dict):
        return {key: _take_out(value, f"{name}/{key}", rows, tables) for key, value in thing.items()}
    if isinstance(thing, Tensor) and thing.ndim > 1 and len(thing) == rows:
        tables[name] = thing.detach().contiguous()
        return _NAMED + name
    return thing


def _put_back(thing: Any, tables: dict[str, Tensor]) -> Any:
    if isinstance(thing, dict):
        return {key: _put_back(value, tables) for key, value in thing.items()}
    return tables[thing.removeprefix(_NAMED)] if isinstance(thing, str) and thing.startswith(_NAMED) else thing


_NAMED = "rows of "
