r"""The nearest neighbours of sampled rows in a table that is read in blocks, and estimates for all rows.

**Hubness from a sample.** A row that is among the k nearest of N of the n rows is among those of C of m sampled ones,
where C is hypergeometric, and its falling powers have the means

.. math:: E \, C (C - 1) \cdots (C - r + 1) = N (N - 1) \cdots (N - r + 1) \; \frac{m (m - 1) \cdots (m - r + 1)}
    {n (n - 1) \cdots (n - r + 1)}

so that the moments of N, up to the third, are estimated without bias, and with all rows are exact.
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from tqdm import tqdm

from unclump.distributed.ranks import Alone
from unclump.ops.nearest import nearest, without_itself
from unclump.tables.rows import BLOCK, Rows
from unclump.tables.skewness import skewness_of

Interval = tuple[float, float]

_GROUPS = 20  # of the jackknife
_DEVIATIONS = 1.96  # standard deviations of a 95 percent interval


class SampledSearch:
    """The k nearest neighbours of sampled rows, in a table of directions that is added block by block.

    Args:
        x: The directions of the sampled rows, on the device where the table is searched.
        numbers: Their numbers.
        k: How many neighbours.
    """

    def __init__(self, x: Float[Tensor, "m d"], numbers: Int[Tensor, " m"], k: int) -> None:
        self._x, self._numbers, self._k = x, numbers, k
        self._index = torch.full((len(x), k + 1), -1, device=x.device)
        self._r2 = x.new_full((len(x), k + 1), math.inf)

    def add(self, table: Float[Tensor, "b d"], numbers: Int[Tensor, " b"]) -> None:
        """Search a block of directions: the rows with these numbers."""
        index, r2 = nearest(self._x, table.to(self._x.device), k=min(self._k + 1, len(table)))
        self._keep_nearest(numbers.to(self._x.device)[index], r2)

    def merge(self, ranks: Alone) -> None:
        """Merge the neighbours that the ranks found, each among its own rows."""
        if ranks.size > 1:
            index, r2 = (ranks.stack(part.cpu()).to(part.device).unbind() for part in (self._index, self._r2))
            self._index, self._r2 = index[0], r2[0]
            self._keep_nearest(torch.cat(index[1:], dim=1), torch.cat(r2[1:], dim=1))

    def _keep_nearest(self, index: Int[Tensor, "m a"], r2: Float[Tensor, "m a"]) -> None:
        """Keep the nearest of the neighbours so far and these."""
        self._r2, order = torch.cat([self._r2, r2], dim=1).topk(self._k + 1, largest=False)
        self._index = torch.cat([self._index, index], dim=1).gather(1, order)

    def neighbours(self) -> Int[Tensor, "m k"]:
        """The numbers of the nearest others, nearest first."""
        return without_itself(self._index.cpu(), self._numbers)


def nearest_in_table(
    rows: Rows,
    numbers: Int[Tensor, " n"],
    chosen: Int[Tensor, " m"],
    *,
    k: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    progress: bool = False,
) -> Int[Tensor, "m k"]:
    """The numbers of the k nearest others of chosen rows, nearest first, among the rows with these numbers.

    It needs memory for the chosen rows, their neighbours, and one block of rows.
    """
    search = SampledSearch(rows.directions(chosen).to(device, dtype), chosen, k)
    with tqdm(total=len(numbers), desc="neighbours", unit="row", disable=not progress, leave=False) as bar:
        for some in torch.split(numbers, max(1, BLOCK // rows.d)):
            search.add(rows.directions(some).to(dtype), some)
            bar.update(len(some))
    return search.neighbours()


def estimate_hubness(index: Int[Tensor, "m k"], n: int) -> tuple[float, Interval]:
    """The skewness of how often a row is among the k nearest of n rows, and an interval by the jackknife."""
    m = len(index)
    value = _skewness(index, n)
    groups = min(_GROUPS, m)
    parts = torch.arange(m) % groups
    left_out = torch.tensor([_skewness(index[parts != group], n) for group in range(groups)], dtype=torch.float64)
    spread = (groups - 1) / groups * (left_out - left_out.mean()).square().sum().item()
    half = _DEVIATIONS * math.sqrt(spread * (1 - m / n))
    return value, (value - half, value + half)


def _skewness(index: Int[Tensor, "m k"], n: int) -> float:
    m, counts = len(index), _count(index)[1].double()
    falling, scale, powers = torch.ones_like(counts), 1.0, []
    for r in range(3):
        falling, scale = falling * (counts - r), scale * (n - r) / max(m - r, 1)
        powers.append(falling.sum().item() / n * scale)
    return float(skewness_of(powers[0], powers[1] + powers[0], powers[2] + 3 * powers[1] + powers[0]))


def estimate_largest_hub(index: Int[Tensor, "m k"], excluded: Int[Tensor, " e"]) -> tuple[float, Interval]:
    """The share of the rows that have the largest hub among their k nearest; excluded rows do not count as hubs.

    One half of the sample chooses the hub and the other estimates its share: the same half would overestimate it.
    """
    chosen, judging = index[::2], index[1::2]
    rows, counts = _count(chosen)
    counts[torch.isin(rows, excluded)] = 0
    return _share(int((judging == rows[counts.argmax()]).sum()) if counts.max() > 0 else 0, len(judging))


def _count(index: Int[Tensor, "m k"]) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """The rows that occur, and how often."""
    rows, counts = np.unique(index.numpy(), return_counts=True)
    return torch.from_numpy(rows), torch.from_numpy(counts)


def _share(count: int, of: int) -> tuple[float, Interval]:
    """A share and its interval, by Wilson."""
    share, z2 = count / of, _DEVIATIONS**2
    middle, weight = share + z2 / (2 * of), 1 + z2 / of
    half = _DEVIATIONS * math.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return share, (max(0.0, (middle - half) / weight), min(1.0, (middle + half) / weight))


def mean_interval(values: Float64[Tensor, " m"], n: int) -> Interval:
    """The interval of the mean of n values, from a sample of them."""
    half = _DEVIATIONS * math.sqrt(values.var().item() / len(values) * (1 - len(values) / n))
    return values.mean().item() - half, values.mean().item() + half


def median_interval(values: Float64[Tensor, " m"], n: int) -> Interval:
    """The interval of the median of n values, from a sample of them, by the binomial law: between two of the sample."""
    m = len(values)
    half = _DEVIATIONS / 2 * math.sqrt(m * (1 - m / n))
    ordered = values.sort().values
    low, high = math.floor((m - 1) / 2 - half), math.ceil((m - 1) / 2 + half)
    return ordered[max(0, low)].item(), ordered[min(m - 1, high)].item()
