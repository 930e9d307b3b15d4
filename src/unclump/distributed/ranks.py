r"""Points on many processes: the collective operations that objectives and measures need.

Every rank has some rows, perhaps none, of one table; they follow those of the ranks before it. All ranks compute the
same value, and each its gradient with respect to its own rows. All communication takes place in the forward pass, so
that it cannot interfere with that of DDP and FSDP in the backward pass.

`Alone` has the same interface for a single process, at no cost, so that code for many ranks also works for one.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump.ops.add_rows import add_rows

Group = Any  # a torch.distributed.ProcessGroup, which some builds of torch lack


@dataclass(frozen=True)
class Shards:
    """For `gather=`: the rows are this rank's part of a table, and their gradient is not averaged over ranks.

    Without it, gradients are assumed to be averaged over ranks afterwards, as DDP does, and scaled up to compensate.

    Args:
        group: The ranks that share the table; None for all of them. The mesh of a `DTensor` takes precedence.
    """

    group: Group | None = field(default=None, repr=False)

    def __deepcopy__(self, memo: object) -> "Shards":
        return self  # a group cannot be copied, and there is no other state


Gather = Any  # bool | Shards | Group


def check_gather(gather: Gather) -> None:
    """Raise unless `gather` is a valid choice of ranks."""
    if isinstance(gather, bool | Shards) or (dist.is_available() and isinstance(gather, dist.ProcessGroup)):
        return
    raise TypeError(
        f"expected gather to be True, False, a torch.distributed process group or unclump.Shards(), got {gather!r}"
    )


def shown(gather: Gather) -> str:
    """The text for `gather`, which is the same on all ranks."""
    return repr(gather) if isinstance(gather, bool | Shards) else f"<group of {gather.size()}>"


def rows_here(x: Tensor, gather: Gather) -> tuple[Tensor, Group | None, bool]:
    """The rows of this rank, the group that shares the table or None, and whether it averages gradients."""
    shards = gather if isinstance(gather, Shards) else None
    if gather is not False and hasattr(x, "device_mesh"):
        x, group = _local_rows(x)
        return x, group, False
    if gather is False or not _is_distributed():
        return x, None, False
    group = shards.group if shards is not None else None if gather is True else gather
    return x, dist.group.WORLD if group is None else group, shards is None


def _is_distributed() -> bool:
    """Whether there is a process group; raise if there are several processes but no group."""
    if dist.is_available() and dist.is_initialized():
        return True
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RuntimeError(
            f"expected an initialised process group for gather, got none on one of {os.environ['WORLD_SIZE']} "
            "processes; call torch.distributed.init_process_group() first"
        )
    return False


def _local_rows(x: Any) -> tuple[Tensor, Group]:
    """The local rows of a DTensor, with their gradient, and the group of its mesh."""
    if [placement.is_shard(0) for placement in x.placements] != [True]:
        raise ValueError(
            f"expected a DTensor sharded by rows over one dimension of its mesh, got {x.placements}; "
            "redistribute it to [Shard(0)]"
        )
    return x.to_local(), x.device_mesh.get_group(0)


@dataclass
class Alone:
    """A single process, which has all rows.

    Attributes:
        counts: The number of rows on every rank.
        rank: The rank of this process.
        size: The number of processes.
        before: The number of rows on the ranks before this one.
    """

    counts: list[int]
    rank: int = 0
    size: int = 1
    before: int = 0

    @property
    def total(self) -> int:
        """The number of rows on all ranks."""
        return sum(self.counts)

    def sum(self, x: Tensor) -> Tensor:
        """The elementwise sum over ranks."""
        return x

    def minimum(self, x: Tensor) -> Tensor:
        """The elementwise minimum over ranks."""
        return x

    def is_first(self, flag: Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Whether this is the first of the ranks whose flag is true, elementwise."""
        return flag

    def rows(self, x: Tensor) -> Tensor:
        """The rows of all ranks."""
        return x

    def stack(self, x: Tensor) -> Tensor:
        """The tensors of all ranks, which have the same shape, stacked."""
        return x.unsqueeze(0)

    def columns(self, x: Tensor) -> Tensor:
        """The columns of all ranks, along the last dimension."""
        return x if self.size == 1 else self.rows(x.movedim(-1, 0)).movedim(0, -1)

    def agree(self, x: Tensor) -> Tensor:
        """The tensor of the first rank, for random draws that all ranks must share."""
        return x

    def objects(self, thing: Any) -> list[Any]:
        """The objects of all ranks, which must be picklable."""
        return [thing]

    def any(self, *flags: bool) -> list[bool]:
        """For every flag, whether it is true on any rank."""
        return list(flags)

    def ring(self, *tables: Tensor | None) -> Iterator[tuple[int, list[Any]]]:
        """The rank and tables of every other rank in turn, passed around a ring: at most two are in memory at once."""
        return iter(())

    def add_back(
        self, gradient: Float[Tensor, "*sets n d"], numbers: Int[Tensor, "*sets m"], values: Float[Tensor, "*sets m d"]
    ) -> Float[Tensor, "*sets n d"]:
        """Add values in place to rows of the gradient, on the ranks that own them; `numbers` are global row numbers."""
        return add_rows(gradient, numbers, values)


class Ranks(Alone):
    """The processes of a group, each with its own rows.

    All ranks must create it, and call the same methods in the same order.

    Args:
        x: This rank's rows.
        group: The process group.
        same: Values that must be equal on all ranks; otherwise all ranks raise an error.
    """

    def __init__(self, x: Float[Tensor, "n d"], group: Group | None, *same: object) -> None:
        self.group, self.device = group, x.device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        common = zlib.crc32(repr((x.shape[1], x.dtype, *same)).encode())
        gathered = self.stack(torch.tensor([len(x), common], device=x.device)).tolist()
        self.counts = [count for count, _ in gathered]
        different = [rank for rank, (_, theirs) in enumerate(gathered) if theirs != gathered[0][1]]
        if different:
            raise ValueError(
                "expected the same call on all ranks, with the same objective, dimension and dtype on all ranks, "
                f"got a different one on ranks {different} than on rank 0; "
                f"rank {self.rank} has {', '.join(map(str, (f'd = {x.shape[1]}', x.dtype, *same)))}"
            )
        self.before = sum(self.counts[: self.rank])

    def stack(self, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(self.size)]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return torch.stack(parts)

    def sum(self, x: Tensor) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=self.group)
        return total

    def minimum(self, x: Tensor) -> Tensor:
        least = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(least, dist.ReduceOp.MIN, group=self.group)
        return least

    def is_first(self, flag: Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        first = torch.where(flag, self.rank, self.size)
        dist.all_reduce(first, dist.ReduceOp.MIN, group=self.group)
        return first == self.rank

    def rows(self, x: Tensor) -> Tensor:
        most = max(self.counts)
        padded = torch.cat([x.detach(), x.new_zeros(most - len(x), *x.shape[1:])])
        gathered = self.stack(padded)
        others = [part[:count] for part, count in zip(gathered, self.counts, strict=True)]
        return torch.cat([*others[: self.rank], x, *others[self.rank + 1 :]])

    def agree(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        dist.broadcast(x, self._global(0), group=self.group)
        return x

    def objects(self, thing: Any) -> list[Any]:
        things: list[Any] = [None] * self.size
        dist.all_gather_object(things, thing, group=self.group)
        return things

    def any(self, *flags: bool) -> list[bool]:
        raised = torch.tensor(flags, dtype=torch.int32, device=self.device)
        dist.all_reduce(raised, dist.ReduceOp.MAX, group=self.group)
        return [bool(flag) for flag in raised.tolist()]

    def ring(self, *tables: Tensor | None) -> Iterator[tuple[int, list[Any]]]:
        leaving = [table.detach().contiguous() for table in tables if table is not None]
        for turn in range(1, self.size):
            origin = (self.rank - turn) % self.size  # the rank whose rows arrive in this turn
            arriving = [part.new_empty(self.counts[origin], *part.shape[1:]) for part in leaving]
            self._pass_on(leaving, arriving)
            leaving, parts = arriving, iter(arriving)
            if self.counts[origin] > 0:
                yield origin, [None if table is None else next(parts) for table in tables]

    def _pass_on(self, leaving: list[Tensor], arriving: list[Tensor]) -> None:
        """Send to the next rank and receive from the previous one; empty tensors are skipped."""
        after, before = (self._global((self.rank + step) % self.size) for step in (1, -1))
        sends = [dist.P2POp(dist.isend, part, after, self.group) for part in leaving if part.numel() > 0]
        receives = [dist.P2POp(dist.irecv, part, before, self.group) for part in arriving if part.numel() > 0]
        for work in dist.batch_isend_irecv(sends + receives) if sends or receives else ():
            work.wait()

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def add_back(
        self, gradient: Float[Tensor, "n d"], numbers: Int[Tensor, " m"], values: Float[Tensor, "m d"]
    ) -> Float[Tensor, "n d"]:
        order = numbers.argsort(stable=True)  # a fixed order of sums
        ends = torch.tensor(self.counts, device=values.device).cumsum(0)
        leaving = torch.bincount(torch.searchsorted(ends, numbers, right=True), minlength=self.size)
        arriving = self.stack(leaving)[:, self.rank].tolist()
        received = [self._exchange_rows(table[order], leaving.tolist(), arriving) for table in (values, numbers)]
        return add_rows(gradient, received[1] - self.before, received[0])

    def _exchange_rows(self, x: Tensor, leaving: list[int], arriving: list[int]) -> Tensor:
        """Send each rank its rows, and receive ours from each rank."""
        received = x.new_empty(sum(arriving), *x.shape[1:])
        dist.all_to_all_single(received, x.contiguous(), arriving, leaving, group=self.group)
        return received


def ranks_of(x: Tensor, gather: Gather, *same: object) -> Alone:
    """The ranks over which a table is distributed; `x` are the rows of this rank."""
    _, group, _ = rows_here(x, gather)
    return Alone([len(x)]) if group is None else Ranks(x, group, *same)
