r"""One pass over all pairs of a table: the nearest neighbours of every point, their angles, and the clumps.

Rows of the table meet all others a block at a time, by a matrix product of points that are moved to their mean, where
a table in a narrow cone keeps its digits. With the squared chord
:math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle`, the nearest have the largest score
:math:`\langle x, y \rangle - \lVert y \rVert^2 / 2`. The product only selects: all angles are measured by differences
in double precision, and rows that it cannot decide in single precision are searched again in double.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from tqdm import tqdm

from unclump.geometry.sphere import angle

_ENTRIES = 2**23  # of a block of scores
_GROUP = 32  # columns that are looked at as one: the k largest scores are in the k groups with the largest maxima
_WIDE_UP_TO = 16  # dimensions: there neighbours are near, and double precision costs little
_ROUNDING = 32  # of a score, in units of the precision: generous, for thousands of dimensions


@dataclass(frozen=True)
class Neighbours:
    """What the pass found.

    Attributes:
        index: The numbers of the k nearest others of every point, nearest first, up to the rounding of scores.
        nearest_angle: The angle to the nearest, exact.
        clump: A number for every point, the same for points that are joined by steps of at most the given angle.
    """

    index: Int[Tensor, "n k"]
    nearest_angle: Float64[Tensor, " n"]
    clump: Int[Tensor, " n"]


def neighbours(x: Float64[Tensor, "n d"], *, k: int, within: float, progress: bool = False) -> Neighbours:
    """The k nearest neighbours of points on the sphere, 1 <= k < n, and clumps of those within an angle.

    Memory is O(n (d + k)), beside a block of fixed size.
    """
    n = len(x)
    index, nearest_angle = torch.empty(n, k, dtype=torch.long), torch.empty(n, dtype=torch.float64)
    joined = _Clumps(x, within)
    wide = _Scores(x, torch.float64)
    scores = wide if x.shape[1] <= _WIDE_UP_TO else _Scores(x, torch.float32)
    with tqdm(total=n, disable=not progress, unit="row", unit_scale=True) as bar:
        for rows in torch.split(torch.arange(n), max(1, _ENTRIES // n)):
            index[rows], nearest_angle[rows], undecided = _search(scores, rows, k, joined)
            if scores is not wide and undecided.any():
                for again in torch.split(rows[undecided], max(1, _ENTRIES // (2 * n))):
                    index[again], nearest_angle[again], _ = _search(wide, again, k, joined)
            bar.update(len(rows))
    return Neighbours(index, nearest_angle, joined.labels())


class _Scores:
    """Blocks of scores, largest for the nearest, in a buffer that is used again."""

    def __init__(self, x: Tensor, dtype: torch.dtype) -> None:
        self.dtype, self.n = dtype, len(x)
        self._x, self._mean = x, x.mean(dim=0)
        self._columns: Tensor | None = None
        self._buffer: Tensor | None = None

    def _prepare(self) -> None:
        """The columns, at the first block: few tables need those in double precision."""
        centred = (self._x - self._mean).to(self.dtype)
        self.squares = centred.double().square().sum(dim=-1)
        padded = math.ceil(self.n / _GROUP) * _GROUP
        self._columns = centred.new_zeros(padded, centred.shape[1])
        self._columns[: self.n] = centred
        self._offsets = centred.new_full((padded,), -math.inf)  # no padding is anybody's neighbour
        self._offsets[: self.n] = -self.squares / 2

    def block(self, rows: Int[Tensor, " a"]) -> Float[Tensor, "a m"]:
        if self._columns is None:
            self._prepare()
        assert self._columns is not None
        size = len(rows) * len(self._columns)
        if self._buffer is None or len(self._buffer) < size:
            self._buffer = self._columns.new_empty(size)
        out = self._buffer[:size].view(len(rows), len(self._columns))
        torch.addmm(self._offsets, self._columns[rows], self._columns.mT, out=out)
        out[torch.arange(len(rows)), rows] = -math.inf  # nor is any point its own
        return out


def _search(
    scores: _Scores, rows: Int[Tensor, " a"], k: int, joined: "_Clumps"
) -> tuple[Int[Tensor, "a k"], Float64[Tensor, " a"], Tensor]:
    """Neighbours and nearest angles of these rows, and which rows need scores of higher precision."""
    block = scores.block(rows)
    best, index = _largest(block, k)
    x = joined.x
    angles = torch.stack([angle(x[rows], x[column]) for column in index.unbind(dim=1)], dim=1)
    nearest_angle = angles.amin(dim=1)
    joined.join(rows, index, angles)
    squares, best = scores.squares[rows], best.double()
    reach = 2 * math.sin(joined.within / 2)  # as a chord
    # No point that counts is farther from the mean than this:
    farthest = squares.sqrt() + (2 * torch.sin(nearest_angle / 2)).clamp_min(reach)
    rounding = _ROUNDING * torch.finfo(scores.dtype).eps * farthest.square()
    needed = (squares - reach**2) / 2 - rounding  # the score of a point that may be within reach
    full = best[:, -1] >= needed  # there may be more of them than the list holds
    if k < scores.n - 1:
        tied = (best[:, -1] >= best[:, 0] - 2 * rounding) & (nearest_angle > 0)
        if scores.dtype is torch.float64 and full.any():
            joined.join_all(rows[full], block[full, : scores.n] >= needed[full].unsqueeze(1))
        return index, nearest_angle, full | tied
    return index, nearest_angle, torch.zeros_like(full)


def _largest(block: Float[Tensor, "a m"], k: int) -> tuple[Float[Tensor, "a k"], Int[Tensor, "a k"]]:
    """The k largest of every row, largest first, and where they are."""
    grouped = block.view(len(block), -1, _GROUP)
    groups = grouped.amax(dim=2).topk(min(k, grouped.shape[1]), dim=1).indices  # (a, g)
    values = grouped.gather(1, groups.unsqueeze(2).expand(-1, -1, _GROUP)).flatten(1)
    best, place = values.topk(k, dim=1)
    return best, groups.gather(1, place // _GROUP) * _GROUP + place % _GROUP


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

    def join_all(self, rows: Int[Tensor, " a"], candidates: Bool[Tensor, "a n"]) -> None:
        """Join rows with all their candidates that are near; those they are joined with already need no look."""
        unjoined = (candidates & (self._merged != self._merged[rows].unsqueeze(1))).any(dim=1)
        for row, others in zip(rows[unjoined].tolist(), candidates[unjoined], strict=True):
            left = (others & (self._merged != self._merged[row])).nonzero().flatten()
            left = left[angle(self.x[row], self.x[left]) <= self.within]
            if len(left) > 0:
                self._merged[torch.isin(self._merged, self._merged[left])] = self._merged[row].clone()

    def labels(self) -> Int[Tensor, " n"]:
        n = len(self.x)
        first, second = torch.cat([*self._pairs, torch.stack([torch.arange(n), self._merged])], dim=1).numpy()
        graph = coo_array((torch.ones(len(first), dtype=torch.bool).numpy(), (first, second)), shape=(n, n))
        return torch.from_numpy(connected_components(graph, directed=False)[1]).long()
