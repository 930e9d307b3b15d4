"""One pass over a table: rows without a direction, norms, moments, hashes; with a sample, its neighbours in the table.

A block of rows is in memory at a time, in double precision; beside it two d x d matrices, and 24 bytes a row, or 40
with a sample. Files that are memory-mapped are never read whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, UInt64
from torch import Tensor
from torch.linalg import vector_norm
from tqdm import tqdm

from unclump.ops.project import project
from unclump.tables.equal_rows import hash_rows
from unclump.tables.files._table import BadRow, faulty_rows
from unclump.tables.moments import Moments
from unclump.tables.sampled_search import SampledSearch
from unclump.tables.sign_hashes import SignHashes

BLOCK = 2**21  # numbers of a block
_PILOT = 1024  # rows whose mean is the point about which moments are summed


@dataclass(frozen=True)
class Sample:
    """What a pass found of sampled rows.

    Attributes:
        numbers: The numbers of the sampled rows that have a direction.
        neighbours: The numbers of their nearest others.
        hashes: Of all rows that have a direction, for near duplicates.
    """

    numbers: Int[Tensor, " m"]
    neighbours: Int[Tensor, "m k"]
    hashes: SignHashes


@dataclass(frozen=True)
class Survey:
    """What one pass over a table found.

    Attributes:
        bad: The rows without a direction.
        numbers: The numbers of the rows that have one, to which all below refers.
        norms: The norm of each row.
        hashes: The hash of each row.
        raw: The moments of the rows.
        unit: The moments of their directions.
        sample: The neighbours of sampled rows, or None.
    """

    bad: tuple[BadRow, ...]
    numbers: Int[Tensor, " n"]
    norms: Float64[Tensor, " n"]
    hashes: UInt64[np.ndarray, " n"]
    raw: Moments
    unit: Moments
    sample: Sample | None

    @property
    def dead_dimensions(self) -> tuple[int, ...]:
        """The dimensions whose standard deviation is at most a hundredth of the median one."""
        deviation = self.raw.variances.sqrt()
        return tuple((deviation <= 0.01 * deviation.median()).nonzero().flatten().tolist())


def survey(
    points: Float[Tensor, "n d"],
    *,
    names: Sequence[str] | None = None,
    sampled: Int[Tensor, " m"] | None = None,
    k: int = 1,
    progress: bool = False,
) -> Survey:
    """Pass over a table once; search it for the k nearest of the rows that are sampled, if any."""
    n, d = points.shape
    pilot = _directed(points, torch.arange(min(_PILOT, n)) * n // min(_PILOT, n))[0].double()
    centres = [rows.mean(dim=0) if len(rows) else rows.new_zeros(d) for rows in (pilot, project(pilot))]
    raw, unit = (Moments(centre, at_most=n) for centre in centres)
    searches: list[tuple[SampledSearch, SignHashes]] = []
    if sampled is not None:
        x, sampled = _directed(points, sampled)
        searches = [(SampledSearch(project(x.double()).float(), sampled, k), SignHashes(n, centres[1]))]
    bad: list[BadRow] = []
    # One buffer each: small tensors among the blocks would keep the allocator from reusing their space.
    numbers, norms, hashes = torch.empty(n, dtype=torch.long), torch.empty(n, dtype=torch.float64), np.empty(n, "u8")
    filled = 0
    with tqdm(total=n, disable=not progress, unit="row", unit_scale=True, desc="rows") as bar:
        for start in range(0, n, height := max(1, BLOCK // d)):
            rows = points[start : start + height]
            here = torch.arange(start, start + len(rows))
            bar.update(len(rows))
            if faults := faulty_rows(rows):
                bad += [BadRow(start + row, names[start + row] if names else None, fault) for row, fault in faults]
                good = _others(rows, faults)
                rows, here = rows[good], here[good]
            if len(rows) == 0:
                continue
            wide = rows.double()
            x, place = project(wide), slice(filled, filled := filled + len(rows))
            numbers[place], norms[place], hashes[place] = here, vector_norm(wide, dim=1), hash_rows(rows)
            raw.add(wide)
            unit.add(x)
            for search, signs in searches:
                search.add(x.float(), here)
                signs.add(x.float())
    sample = [Sample(sampled, search.neighbours(), signs) for search, signs in searches if sampled is not None]
    return Survey(
        tuple(bad), numbers[:filled], norms[:filled], hashes[:filled], raw, unit, sample[0] if sample else None
    )


def _others(rows: Float[Tensor, "n d"], faults: list[tuple[int, str]]) -> Bool[Tensor, " n"]:
    """Which rows have no fault."""
    good = torch.ones(len(rows), dtype=torch.bool)
    good[[row for row, _ in faults]] = False
    return good


def _directed(
    points: Float[Tensor, "n d"], numbers: Int[Tensor, " a"]
) -> tuple[Float[Tensor, "b d"], Int[Tensor, " b"]]:
    """Those of these rows that have a direction, and their numbers."""
    rows = points[numbers]
    good = _others(rows, faulty_rows(rows))
    return rows[good], numbers[good]
