"""The state of a run that is distributed over ranks: a folder into which each rank writes its rows.

Rows are written by `torch.distributed.checkpoint`, one file per rank, and can be read by any number of ranks. All else
is the same on every rank, and the first rank writes it. A state is complete in a subfolder before the file `latest`
names it: a process killed at any moment leaves either the old state or the new one. All ranks must share the folder.
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

_INTEGER_DTYPES = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the number of bytes


class ShardedCheckpoint(Checkpoint):
    """A folder with the latest state of one run; see `Checkpoint`. All ranks must call the same methods."""

    def __init__(self, path: Any, ranks: Ranks, **identity: object) -> None:
        self.ranks = ranks
        super().__init__(path, **identity)

    def fingerprint(self, thing: object) -> str:
        """A checksum that is independent of how the table is distributed: the bits of each entry times its position."""
        if not isinstance(thing, Tensor):
            return super().fingerprint(thing)
        rows = thing.detach().flatten(1) if thing.ndim > 1 else thing.detach().unsqueeze(1)
        bits = (rows.int() if rows.dtype == torch.bool else rows.view(_INTEGER_DTYPES[rows.itemsize])).long()
        columns = bits.shape[1]
        positions = self.ranks.before * columns + torch.arange(bits.numel(), device=bits.device).view_as(bits)
        # The sum wraps beyond 64 bits, in the same way for any distribution.
        checksum = int(self.ranks.sum((bits * (2 * positions + 1)).sum()))
        return f"{(self.ranks.total, *thing.shape[1:])} {thing.dtype} {checksum & (2**64 - 1):016x}"

    def read(self) -> dict[str, Any] | None:
        latest = self.path / "latest"
        exists = self.ranks.any(latest.exists())[0]
        if not exists:
            if self.path.exists() and not self.path.is_dir():
                raise ValueError(f"expected a folder for a checkpoint of many ranks in {self.path}, got a file")
            return None
        folder = self.path / latest.read_text("utf-8", "replace")
        rest = self.check_identity(read_state(folder / "rest.pt"))
        layouts: dict[str, Any] = rest.pop("rows")
        count = self.ranks.counts[self.ranks.rank]
        tables = {name: torch.empty(count, *shape, dtype=dtype) for name, (shape, dtype, _) in layouts.items()}
        load(self._as_shards(tables), checkpoint_id=folder, process_group=self.ranks.group)
        for name, (_, _, fingerprint) in layouts.items():
            if self.fingerprint(tables[name]) != fingerprint:
                raise ValueError(
                    f"expected the checkpoint {self.path} as it was written, got other bytes: it is damaged; delete it"
                )
        state: dict[str, Any] = _restore_tables(rest, tables)
        return state

    def write(self, state: dict[str, Any]) -> None:
        tables: dict[str, Tensor] = {}
        rest = _extract_tables(state, "", self.ranks.counts[self.ranks.rank], tables)
        name = f"step-{state['step']}"
        folder = self.path / name
        if self.ranks.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted write
            folder.mkdir(parents=True)
        self.ranks.any(False)  # a barrier: the folder exists
        save(self._as_shards(tables), checkpoint_id=folder, process_group=self.ranks.group)
        layouts = {k: (tuple(table.shape[1:]), table.dtype, self.fingerprint(table)) for k, table in tables.items()}
        if self.ranks.rank == 0:
            write_state(folder / "rest.pt", {"identity": self.identity, "rows": layouts, **rest})
            with replace_file(self.path / "latest") as file:
                file.write(name.encode())
            for old in self.path.glob("step-*"):
                if old != folder:
                    shutil.rmtree(old)
        self.ranks.any(False)  # a barrier: the state is complete

    def _as_shards(self, tables: dict[str, Tensor]) -> dict[str, Any]:
        return {name: _Shard.of(table, self.ranks) for name, table in tables.items()}


class _Shard(Tensor):
    """A rank's rows, with their position in the whole table, as `torch.distributed.checkpoint` expects them."""

    before: int
    whole: torch.Size

    @classmethod
    def of(cls, table: Tensor, ranks: Ranks) -> "_Shard":
        rows = table.as_subclass(cls)
        rows.before, rows.whole = ranks.before, torch.Size([ranks.total, *table.shape[1:]])
        return rows

    def size(self, *_: object) -> torch.Size:  # type: ignore[override]  # must be the size of the saved table
        return self.whole

    def _offset(self) -> torch.Size:
        return torch.Size([self.before, *[0] * (self.ndim - 1)])

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        data = [TensorWriteData(chunk, TensorProperties(dtype=self.dtype), self.whole) for chunk in self._chunks()]
        return [WriteItem(MetadataIndex(name, self._offset()), WriteItemType.SHARD, tensor_data=part) for part in data]

    def _chunks(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(self._offset(), self.shape)] if len(self) > 0 else []

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return self._chunks()

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.as_subclass(Tensor)


def _extract_tables(thing: Any, name: str, rows: int, tables: dict[str, Tensor]) -> Any:
    """Replace the tensors in `thing` that have `rows` rows with their names, and move the tensors to `tables`."""
    if isinstance(thing, dict):
        return {key: _extract_tables(value, f"{name}/{key}", rows, tables) for key, value in thing.items()}
    if isinstance(thing, Tensor) and thing.ndim > 1 and len(thing) == rows:
        tables[name] = thing.detach().contiguous()
        return _NAME_PREFIX + name
    return thing


def _restore_tables(thing: Any, tables: dict[str, Tensor]) -> Any:
    if isinstance(thing, dict):
        return {key: _restore_tables(value, tables) for key, value in thing.items()}
    return (
        tables[thing.removeprefix(_NAME_PREFIX)] if isinstance(thing, str) and thing.startswith(_NAME_PREFIX) else thing
    )


_NAME_PREFIX = "rows of "
