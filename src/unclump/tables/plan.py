"""Whether the neighbours of all rows are searched for or those of a sample, and the time and memory it takes.

The search dominates the time: n^2 d multiplications for all rows, m n d for m of them. All rows are searched for if
that takes at most `ALL_ROWS` multiplications, a minute on two cores; otherwise as many as `SAMPLED` allows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from unclump.ops.nearest import nearest
from unclump.ops.project import project
from unclump.tables.rows import BLOCK

ALL_ROWS = 1.5e12  # multiplications up to which all rows are searched for
SAMPLED = 6e11  # multiplications of the search for those of a sample
_LEAST = 2048  # sampled rows
_TRIAL = 1024, 8192  # rows and others of the search that is timed
_PROCESS = 300_000_000  # bytes of Python and torch
_PASS = 12.0  # time of the pass over the rows, in units of reading them once in double precision


@dataclass(frozen=True)
class Plan:
    """How a table is measured.

    Attributes:
        n: The number of rows.
        d: The number of dimensions.
        searched: How many rows have their neighbours searched for.
    """

    n: int
    d: int
    searched: int

    @property
    def is_exact(self) -> bool:
        """Whether the neighbours of all rows are searched for."""
        return self.searched == self.n

    def sample(self, generator: torch.Generator) -> torch.Tensor | None:
        """The sorted numbers of the sampled rows; None if all rows are searched for."""
        if self.is_exact:
            return None
        return torch.randperm(self.n, generator=generator)[: self.searched].sort().values

    def memory(self) -> int:
        """About how many bytes measuring takes, in addition to the pages of the file."""
        always = _PROCESS + 8 * 8 * BLOCK + 4 * 8 * self.d**2
        if self.is_exact:
            return always + self.n * (12 * self.d + 128)
        return always + self.n * 80 + self.searched * (12 * self.d + 512)

    def seconds(self) -> float:
        """About how many seconds measuring takes, from short trials on this machine."""
        rows, others = (min(size, self.n) for size in _TRIAL)
        x = project(torch.randn(others, self.d))
        nearest(x[:1], x, k=1)
        search = _time(lambda: nearest(x[:rows], x, k=min(11, others - 1))) / (rows * others)
        wide = x.double()
        moments, read = _time(lambda: wide.mT @ wide) / others, _time(lambda: wide * 2) / others
        return self.searched * self.n * search + self.n * (2 * moments + _PASS * read)


def make_plan(n: int, d: int, *, exact: bool = False, sample: int | None = None) -> Plan:
    """Choose how many rows to search for.

    Example:
        >>> make_plan(50_000, 100).is_exact, make_plan(1_000_000, 384).searched
        (True, 2048)
    """
    if exact or (sample is None and n * n * d <= ALL_ROWS):
        return Plan(n, d, n)
    return Plan(n, d, min(n, sample or max(_LEAST, int(SAMPLED / (n * d)))))


def _time(work: Callable[[], object]) -> float:
    """The shortest of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
