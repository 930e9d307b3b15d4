r"""The nearest neighbours of every row of a table, their angles, and the clumps.

Neighbours are found in single precision and measured in double. The search is repeated in double for rows whose
neighbours are too close to distinguish in single precision, or all within the reach of a clump.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor
from tqdm import tqdm

from unclump.distributed.ranks import Alone
from unclump.geometry.sphere import angle
from unclump.ops.blocks import block_entries
from unclump.ops.nearest import nearest, nearest_of_rows
from unclump.tables.groups import connect

_WIDE_UP_TO = 16  # dimensions: neighbours are near, and double precision costs little
_BLOCK = 2**22  # coordinates of neighbours that are measured at a time
_ROUNDING = 32  # of a squared chord, in units of the precision: generous, for thousands of dimensions


@dataclass(frozen=True)
class Neighbours:
    """The result of `neighbours`.

    Attributes:
        index: The numbers of the k nearest others of every point, nearest first, up to rounding.
        nearest_angle: The angle to the nearest, exact.
        clump: A number for every point, the same for points that are joined by steps of at most the given angle.
    """

    index: Int[Tensor, "n k"]
    nearest_angle: Float64[Tensor, " n"]
    clump: Int[Tensor, " n"]


def neighbours(
    x: Float64[Tensor, "n d"],
    *,
    k: int,
    within: float,
    ranks: Alone | None = None,
    device: torch.device | None = None,
    progress: bool = False,
) -> Neighbours:
    """The k nearest neighbours of points on the sphere, 1 <= k < n, and clumps of those within an angle.

    Memory is O(n (d + k)), plus a block of pairs.

    Args:
        x: All points, on the CPU of every rank; each rank searches for the neighbours of its share.
        k: How many.
        within: The angle, in radians.
        ranks: The processes that share the search; None for a single process.
        device: Where the search runs; angles are measured on the CPU, in double precision.
        progress: Show a bar on stderr.
    """
    n, clumps, ranks = len(x), _Clumps(x, within), ranks or Alone([len(x)])
    index, nearest_angle = torch.zeros(n, k, dtype=torch.long), torch.zeros(n, dtype=torch.float64)
    on_cpu = device is None or device.type == "cpu"
    table = x if on_cpu and x.shape[1] <= _WIDE_UP_TO else x.float().to(device)
    share = torch.arange(n * ranks.rank // ranks.size, n * (ranks.rank + 1) // ranks.size)
    rounding = _ROUNDING * torch.finfo(table.dtype).eps * (table - table.mean(dim=0)).square().sum(dim=1).max().item()
    reach = (2 * math.sin(within / 2)) ** 2  # as a squared chord
    with tqdm(total=len(share), disable=not progress, unit="row", unit_scale=True) as bar:
        for rows in torch.split(share, max(1, _BLOCK // (k * x.shape[1]))):
            if len(rows) == 0:  # more ranks than points
                break
            first = int(rows[0])
            found = nearest(table[first : first + len(rows)], table, k=k, itself=first)
            index[rows], r2 = (part.cpu() for part in found)
            if k < n - 1:
                nearer = r2[:, 0] + 2 * rounding
                unclear = ((r2[:, -1] <= nearer) & (r2[:, 0] > 0)) | (r2[:, -1] <= reach + rounding)
                again = rows[unclear] if table is not x else rows[:0]
                index[again] = nearest_of_rows(x, again, k=k)
                clumps.join_all(rows[r2[:, -1] <= reach + rounding])
            angles = torch.stack([angle(x[rows], x[column]) for column in index[rows].unbind(dim=1)], dim=1)
            nearest_angle[rows] = angles.amin(dim=1)
            clumps.join(rows, index[rows], angles)
            bar.update(len(rows))
    return Neighbours(ranks.sum(index), ranks.sum(nearest_angle), clumps.labels(ranks))


class _Clumps:
    """Which points are joined by steps of at most an angle."""

    def __init__(self, x: Float64[Tensor, "n d"], within: float) -> None:
        self.x, self.within = x, within
        self._pairs: list[Tensor] = []
        self._merged = torch.arange(len(x))

    def join(self, rows: Int[Tensor, " a"], index: Int[Tensor, "a k"], angles: Float64[Tensor, "a k"]) -> None:
        """Join rows with those of their neighbours that are near."""
        near = angles <= self.within
        self._pairs.append(torch.stack([rows.unsqueeze(1).expand_as(index)[near], index[near]]))

    def join_all(self, rows: Int[Tensor, " a"]) -> None:
        """Join rows with all that are near; rows that are joined already are not measured."""
        for some in torch.split(rows, max(1, block_entries(self.x) // (8 * len(self.x)))):
            candidates = self._candidates(some)
            unjoined = (candidates & (self._merged != self._merged[some].unsqueeze(1))).any(dim=1)
            for row, others in zip(some[unjoined].tolist(), candidates[unjoined], strict=True):
                left = (others & (self._merged != self._merged[row])).nonzero().flatten()
                left = left[angle(self.x[row], self.x[left]) <= self.within]
                if len(left) > 0:
                    self._merged[torch.isin(self._merged, self._merged[left])] = self._merged[row].clone()

    def _candidates(self, rows: Int[Tensor, " a"]) -> Bool[Tensor, "a n"]:
        """The mask of the points that may be near, by a matrix product."""
        slack = _ROUNDING * torch.finfo(torch.float64).eps
        return self.x[rows] @ self.x.mT >= math.cos(self.within) - slack

    def labels(self, ranks: Alone) -> Int[Tensor, " n"]:
        """The clump of every point, from the joins of all ranks."""
        pairs = torch.cat([*self._pairs, torch.stack([torch.arange(len(self.x)), self._merged])], dim=1)
        labels = connect(pairs, len(self.x))
        if ranks.size == 1:
            return labels
        own = torch.from_numpy(np.unique(labels.numpy(), return_index=True)[1])[labels]
        firsts = ranks.stack(own)  # the first point of each point's clump, by each rank
        return connect(torch.stack([torch.arange(len(labels)).expand_as(firsts), firsts]).flatten(1), len(labels))
