"""The rows of one table, which may be distributed over processes: in blocks, or by number."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.geometry.sphere import angle
from unclump.ops.project import project
from unclump.tables.files._table import faulty_rows

BLOCK = 2**21  # numbers in a block


class Rows:
    """A table, or the part of it that this process holds: the rows from `ranks.before` on.

    Args:
        local: The rows of this process, which may be a memory map; or a list of consecutive parts, such as the files
            of one table. Parts are never copied into one tensor, and blocks do not depend on where a part ends.
        ranks: The processes that share the table; None for a single process.

    Example:
        >>> rows = Rows(torch.eye(3))
        >>> len(rows), rows.take(torch.tensor([2]))
        (3, tensor([[0., 0., 1.]]))
    """

    def __init__(
        self, local: Float[Tensor, "n d"] | Sequence[Float[Tensor, "_ d"]], ranks: Alone | None = None
    ) -> None:
        self.parts = (local,) if isinstance(local, Tensor) else tuple(local)
        self.starts = [sum(map(len, self.parts[:place])) for place in range(len(self.parts))]
        self.count = self.starts[-1] + len(self.parts[-1])
        self.ranks = Alone([self.count]) if ranks is None else ranks

    def __len__(self) -> int:
        return self.ranks.total

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.parts[0].shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the rows."""
        return self.parts[0].dtype

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        """The rows of this process in blocks, each with the number of its first row."""
        for start in range(0, self.count, height := max(1, BLOCK // self.d)):
            yield start, self.between(start, start + height)

    def between(self, start: int, stop: int) -> Float[Tensor, "b d"]:
        """The rows of this process from `start` to `stop`; copied only if they belong to several parts."""
        pieces = [
            part[max(0, start - first) : stop - first]
            for first, part in zip(self.starts, self.parts, strict=True)
            if first < stop and first + len(part) > start
        ]
        return pieces[0] if len(pieces) == 1 else torch.cat([self.parts[0][:0], *pieces])

    def take(self, numbers: Int[Tensor, " m"]) -> Float[Tensor, "m d"]:
        """The rows with these numbers, whichever rank holds them. All ranks must pass the same numbers."""
        if self.ranks.size == 1 and len(self.parts) == 1:
            return self.parts[0][numbers]
        rows = self.parts[0].new_zeros(len(numbers), self.d)
        for first, part in zip(self.starts, self.parts, strict=True):
            places = numbers - (self.ranks.before + first)
            here = (places >= 0) & (places < len(part))
            rows[here] = part[places[here]]
        if self.ranks.size == 1:
            return rows
        # A row is on one rank, and zero on all others: adding bytes is exact, for every dtype.
        return self.ranks.sum(rows.view(torch.uint8)).view(self.dtype)

    def directions(self, numbers: Int[Tensor, " m"]) -> Float64[Tensor, "m d"]:
        """The directions of the rows with these numbers, in double precision; see `take`."""
        return project(self.take(numbers).double())

    def angles_to(self, x: Float64[Tensor, "m d"], index: Int[Tensor, "m k"]) -> Float64[Tensor, "m k"]:
        """The angles between each direction and the k rows with the numbers in its row of the index."""
        return torch.stack([angle(x, self.directions(column)) for column in index.unbind(dim=1)], dim=1)

    def take_directed(self, numbers: Int[Tensor, " a"]) -> tuple[Float[Tensor, "b d"], Int[Tensor, " b"]]:
        """The rows with these numbers that have a direction, and their numbers."""
        rows = self.take(numbers)
        good = without(len(rows), [row for row, _ in faulty_rows(rows)])
        return rows[good], numbers[good]


def evenly(n: int, count: int) -> Int[Tensor, " m"]:
    """`count` evenly spaced numbers from 0 to n - 1, or all n if there are fewer."""
    count = min(n, count)
    return torch.arange(count) * n // count


def without(n: int, bad: Sequence[int]) -> Bool[Tensor, " {n}"]:
    """The mask of n rows that leaves these out."""
    good = torch.ones(n, dtype=torch.bool)
    good[list(bad)] = False
    return good
