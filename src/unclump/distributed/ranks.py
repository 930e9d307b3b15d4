r"""Points on many processes: what an objective or a measure needs to see those of the other ranks.

Every rank holds some rows, perhaps none, of one table: its rows follow those of the ranks before it. What is computed
is the same number on all ranks, and its gradient by the rank's own rows. All communication takes place in the forward
pass, so that nothing waits in the backward pass, where DDP and FSDP have their own.

`Alone` is the same for a single process, at no cost: whoever computes for many ranks computes for one.
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

Group = Any  # a torch.distributed.ProcessGroup, which torch has only where it was built with it


@dataclass(frozen=True)
class Shards:
    """For `gather=`: the rows are this rank's part of a table, whose gradient stays here.

    Without it, a gradient is taken to be averaged over ranks afterwards, as DDP does, and is made larger to match.

    Args:
        group: The ranks that share the table; None for all of them. The mesh of a `DTensor` goes before it.
    """

    group: Group | None = field(default=None, repr=False)

    def __deepcopy__(self, memo: object) -> "Shards":
        return self  # a group cannot be copied, and there is nothing else in it


Gather = Any  # bool | Shards | Group


def check_gather(gather: Gather) -> None:
    """Refuse what names no ranks."""
    if isinstance(gather, bool | Shards) or (dist.is_available() and isinstance(gather, dist.ProcessGroup)):
        return
    raise TypeError(
        f"expected gather to be True, False, a torch.distributed process group or unclump.Shards(), got {gather!r}"
    )


def shown(gather: Gather) -> str:
    """As it prints, which is the same on all ranks."""
    return repr(gather) if isinstance(gather, bool | Shards) else f"<group of {gather.size()}>"


def rows_here(x: Tensor, gather: Gather) -> tuple[Tensor, Group | None, bool]:
    """The rows of this rank, the ranks it shares them with or None, and whether gradients are averaged over these."""
    shards = gather if isinstance(gather, Shards) else None
    if gather is not False and hasattr(x, "device_mesh"):
        x, group = _local(x)
        return x, group, False
    if gather is False or not _started():
        return x, None, False
    group = shards.group if shards is not None else None if gather is True else gather
    return x, dist.group.WORLD if group is None else group, shards is None


def _started() -> bool:
    """Whether there are other processes to speak of; where they were started but not introduced, that is refused."""
    if dist.is_available() and dist.is_initialized():
        return True
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RuntimeError(
            f"expected an initialised process group for gather, got none on one of {os.environ['WORLD_SIZE']} "
            "processes; call torch.distributed.init_process_group() first"
        )
    return False


def _local(x: Any) -> tuple[Tensor, Group]:
    """The local rows of a DTensor, with their gradient, and the group of its mesh."""
    if [placement.is_shard(0) for placement in x.placements] != [True]:
        raise ValueError(
            f"expected a DTensor sharded by rows over one dimension of its mesh, got {x.placements}; "
            "redistribute it to [Shard(0)]"
        )
    return x.to_local(), x.device_mesh.get_group(0)


@dataclass
class Alone:
    """A single process: its rows are all there are.

    Attributes:
        counts: How many rows every rank has.
        rank: The number of this process.
        size: How many processes there are.
        before: How many rows the ranks before it have.
    """

    counts: list[int]
    rank: int = 0
    size: int = 1
    before: int = 0

    @property
    def total(self) -> int:
        """How many rows there are on all ranks."""
        return sum(self.counts)

    def sum(self, x: Tensor) -> Tensor:
        """The sum over ranks of equally many numbers each."""
        return x

    def minimum(self, x: Tensor) -> Tensor:
        """The smallest over ranks of each number."""
        return x

    def is_first(self, flag: Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Of the ranks whose flag is up, whether this is the first one."""
        return flag

    def rows(self, x: Tensor) -> Tensor:
        """The rows of all ranks."""
        return x

    def columns(self, x: Tensor) -> Tensor:
        """The columns of all ranks, along the last dimension."""
        return x if self.size == 1 else self.rows(x.movedim(-1, 0)).movedim(0, -1)

    def agree(self, x: Tensor) -> Tensor:
        """The numbers of the first rank, for draws that all must share."""
        return x

    def objects(self, thing: Any) -> list[Any]:
        """What every rank has, which can be pickled."""
        return [thing]

    def any(self, *flags: bool) -> list[bool]:
        """Which of the flags are up on any rank."""
        return list(flags)

    def ring(self, *tables: Tensor | None) -> Iterator[tuple[int, list[Any]]]:
        """The tables of every other rank in turn, and its number. They go around: no rank ever holds more than two."""
        return iter(())

    def add_back(
        self, gradient: Float[Tensor, "*sets n d"], numbers: Int[Tensor, "*sets m"], values: Float[Tensor, "*sets m d"]
    ) -> Float[Tensor, "*sets n d"]:
        """The gradient, with values added, in place, to the rows of these numbers, which count through all ranks."""
        return add_rows(gradient, numbers, values)


class Ranks(Alone):
    """The processes of a group, every one with its rows.

    All of them must make it, and call the same methods in the same order.

    Args:
        x: This rank's rows.
        group: Whose ranks take part.
        same: What all ranks must have in common, and is refused on all of them where they do not.
    """

    def __init__(self, x: Float[Tensor, "n d"], group: Group | None, *same: object) -> None:
        self.group, self.device = group, x.device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        common = zlib.crc32(repr((x.shape[1], x.dtype, *same)).encode())
        found = self._each(torch.tensor([len(x), common], device=x.device)).tolist()
        self.counts = [count for count, _ in found]
        different = [rank for rank, (_, theirs) in enumerate(found) if theirs != found[0][1]]
        if different:
            raise ValueError(
                "expected the same call on all ranks, with the same objective, dimension and dtype on all ranks, "
                f"got others on {different} than on 0; "
                f"rank {self.rank} has {', '.join(map(str, (f'd = {x.shape[1]}', x.dtype, *same)))}"
            )
        self.before = sum(self.counts[: self.rank])

    def _each(self, x: Tensor) -> Tensor:
        """Equally shaped tensors of all ranks, stacked."""
        found = [torch.empty_like(x) for _ in range(self.size)]
        dist.all_gather(found, x.contiguous(), group=self.group)
        return torch.stack(found)

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
        found = self._each(padded)
        others = [part[:count] for part, count in zip(found, self.counts, strict=True)]
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
        there = [table.detach().contiguous() for table in tables if table is not None]
        for turn in range(1, self.size):
            origin = (self.rank - turn) % self.size  # whose rows arrive now
            arriving = [part.new_empty(self.counts[origin], *part.shape[1:]) for part in there]
            self._pass_on(there, arriving)
            there, parts = arriving, iter(arriving)
            if self.counts[origin] > 0:
                yield origin, [None if table is None else next(parts) for table in tables]

    def _pass_on(self, leaving: list[Tensor], arriving: list[Tensor]) -> None:
        """Give to the next rank and take from the one before, where there is anything to give or to take."""
        after, before = (self._global((self.rank + step) % self.size) for step in (1, -1))
        sends = [dist.P2POp(dist.isend, part, after, self.group) for part in leaving if part.numel() > 0]
        takes = [dist.P2POp(dist.irecv, part, before, self.group) for part in arriving if part.numel() > 0]
        for work in dist.batch_isend_irecv(sends + takes) if sends or takes else ():
            work.wait()

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def add_back(
        self, gradient: Float[Tensor, "n d"], numbers: Int[Tensor, " m"], values: Float[Tensor, "m d"]
    ) -> Float[Tensor, "n d"]:
        order = numbers.argsort(stable=True)  # sums have one order
        ends = torch.tensor(self.counts, device=values.device).cumsum(0)
        leaving = torch.bincount(torch.searchsorted(ends, numbers, right=True), minlength=self.size)
        arriving = self._each(leaving)[:, self.rank].tolist()
        taken = [self._swap(table[order], leaving.tolist(), arriving) for table in (values, numbers)]
        return add_rows(gradient, taken[1] - self.before, taken[0])

    def _swap(self, x: Tensor, leaving: list[int], arriving: list[int]) -> Tensor:
        """To each rank its part of the rows, from each rank ours."""
        taken = x.new_empty(sum(arriving), *x.shape[1:])
        dist.all_to_all_single(taken, x.contiguous(), arriving, leaving, group=self.group)
        return taken


def ranks_of(x: Tensor, gather: Gather, *same: object) -> Alone:
    """The ranks over which a table is spread, of which `x` are the rows here."""
    _, group, _ = rows_here(x, gather)
    return Alone([len(x)]) if group is None else Ranks(x, group, *same)
