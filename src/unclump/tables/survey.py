"""One pass over a table: which rows have a direction, norms, moments of rows and of their directions, hashes of rows.

Memory is that of a block of rows, of two d x d matrices, and of sixteen bytes a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, UInt64
from torch import Tensor
from torch.linalg import vector_norm
from tqdm import tqdm

from unclump.ops.project import project
from unclump.tables.equal_rows import hash_rows
from unclump.tables.moments import Moments

_BLOCK = 2**22  # numbers that are held in double precision at a time
_PILOT = 1024  # rows whose mean is the point about which moments are summed


@dataclass(frozen=True)
class Survey:
    """What one pass over the rows with a direction found.

    Attributes:
        norms: The norm of each row.
        hashes: The hash of each row.
        raw: The moments of the rows.
        unit: The moments of their directions.
    """

    norms: Float64[Tensor, " n"]
    hashes: UInt64[np.ndarray, " n"]
    raw: Moments
    unit: Moments

    @property
    def dead_dimensions(self) -> tuple[int, ...]:
        """The dimensions whose standard deviation is at most a hundredth of the median one."""
        deviation = self.raw.variances.sqrt()
        return tuple((deviation <= 0.01 * deviation.median()).nonzero().flatten().tolist())


def survey(points: Float[Tensor, "m d"], numbers: Int[Tensor, " n"], *, progress: bool = False) -> Survey:
    """Pass over the rows of these numbers, all of which have a direction."""
    n = len(numbers)
    pilot = points[numbers[torch.arange(min(_PILOT, n)) * n // min(_PILOT, n)]].double()
    raw, unit = Moments(n, pilot.mean(dim=0)), Moments(n, project(pilot).mean(dim=0))
    norms, hashes = torch.empty(n, dtype=torch.float64), np.empty(n, dtype=np.uint64)
    with tqdm(total=n, disable=not progress, unit="row", unit_scale=True, desc="rows") as bar:
        for start, rows in blocks_of_rows(points, numbers):
            place = slice(start, start + len(rows))
            hashes[place] = hash_rows(rows)
            wide = rows.double()
            norms[place] = vector_norm(wide, dim=1)
            raw.add(wide)
            unit.add(project(wide))
            bar.update(len(rows))
    return Survey(norms, hashes, raw, unit)


def blocks_of_rows(
    points: Float[Tensor, "m d"], numbers: Int[Tensor, " n"]
) -> Iterator[tuple[int, Float[Tensor, "k d"]]]:
    """The rows of these numbers, a block at a time in their own dtype, each with the place of its first row."""
    height, all_rows = max(1, _BLOCK // points.shape[1]), len(numbers) == len(points)
    for start in range(0, len(numbers), height):
        place = slice(start, start + height)
        yield start, points[place] if all_rows else points[numbers[place]]
