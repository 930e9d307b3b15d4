"""One pass over a table: rows without a direction, norms, moments, hashes, and the neighbours of sampled rows.

It needs memory for one block of rows in double precision, two d x d matrices, and 25 bytes per row, or 45 with a
sample; memory-mapped files are never loaded whole. If the table is distributed, each process reads its own rows, and
all get the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int, UInt32, UInt64
from torch import Tensor
from torch.linalg import vector_norm
from tqdm import tqdm

from unclump.ops.project import project
from unclump.tables.equal_rows import hash_rows
from unclump.tables.files._table import BadRow, faulty_rows
from unclump.tables.moments import Moments
from unclump.tables.rows import Rows, evenly, without
from unclump.tables.sampled_search import SampledSearch
from unclump.tables.sign_hashes import COLUMNS, SignHash

_PILOT = 1024  # rows; their mean is the centre of the moments
_FAULTS = ("", "NaN", "infinite", "zero")


@dataclass(frozen=True)
class Sample:
    """What a pass found about sampled rows.

    Attributes:
        numbers: The numbers of the sampled rows that have a direction.
        neighbours: The numbers of their nearest others.
        hashes: The sign hashes of all rows that have a direction, to find near duplicates.
    """

    numbers: Int[Tensor, " m"]
    neighbours: Int[Tensor, "m k"]
    hashes: UInt32[np.ndarray, "n columns"]


@dataclass(frozen=True)
class Survey:
    """What one pass over a table found.

    Attributes:
        bad: The rows without a direction.
        numbers: The numbers of the rows with a direction; everything below describes these rows.
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
    rows: Rows,
    *,
    names: Sequence[str] | None = None,
    sampled: Int[Tensor, " m"] | None = None,
    k: int = 1,
    device: torch.device | None = None,
    progress: bool = False,
) -> Survey:
    """Pass over a table once, and search it on the device for the k nearest neighbours of sampled rows, if any."""
    n, ranks = rows.count, rows.ranks
    pilot = rows.take_directed(evenly(len(rows), _PILOT))[0].double()
    centres = [points.mean(dim=0) if len(points) else points.new_zeros(rows.d) for points in (pilot, project(pilot))]
    raw, unit = (Moments(centre, at_most=len(rows)) for centre in centres)
    searches: list[tuple[SampledSearch, SignHash]] = []
    if sampled is not None:
        x, sampled = rows.take_directed(sampled)
        search = SampledSearch(project(x.double()).float().to(device), sampled, k)
        searches = [(search, SignHash(centres[1]))]
    # One buffer for each: many small tensors would keep the allocator from reusing the space of blocks.
    faults, norms = torch.zeros(n, dtype=torch.uint8), torch.zeros(n, dtype=torch.float64)
    hashes, signs = np.zeros(n, np.uint64), np.zeros((n if searches else 0, COLUMNS), np.uint32)
    with tqdm(total=n, disable=not progress, unit="row", unit_scale=True, desc="rows") as bar:
        for start, all_of_block in rows.blocks():
            block, here = all_of_block, torch.arange(start, start + len(all_of_block))
            bar.update(len(block))
            if bad := faulty_rows(block):
                for row, fault in bad:
                    faults[start + row] = _FAULTS.index(fault)
                good = without(len(block), [row for row, _ in bad])
                block, here = block[good], here[good]
            if len(block) == 0:
                continue
            wide = block.double()
            x = project(wide)
            norms[here], hashes[here.numpy()] = vector_norm(wide, dim=1), hash_rows(block)
            raw.add(wide)
            unit.add(x)
            for search, sign_hash in searches:
                search.add(x.float(), here + ranks.before)
                signs[here.numpy()] = sign_hash(x.float())
    raw.add_other_ranks(ranks)
    unit.add_other_ranks(ranks)
    faults, norms = ranks.rows(faults), ranks.rows(norms)
    hashes = ranks.rows(torch.from_numpy(hashes.view(np.int64))).numpy().view(np.uint64)
    numbers = (faults == 0).nonzero().flatten()
    kept = slice(None) if len(numbers) == len(faults) else numbers.numpy()  # no copy where all rows have a direction
    sample = None
    for search, _ in searches:
        search.merge(ranks)
        signs = ranks.rows(torch.from_numpy(signs.view(np.int32))).numpy().view(np.uint32)
        assert sampled is not None
        sample = Sample(sampled, search.neighbours(), signs[kept])
    bad_rows = [
        BadRow(row, None if names is None else names[row], _FAULTS[faults[row]])
        for row in faults.nonzero().flatten().tolist()
    ]
    return Survey(tuple(bad_rows), numbers, norms[kept], hashes[kept], raw, unit, sample)
