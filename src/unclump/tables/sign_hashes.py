r"""Near duplicates among millions of rows, by the signs of random projections.

A row is hashed by the sides of 32 random hyperplanes through the centre of the table on which it lies [1]; two rows
whose directions from there are at an angle t agree on one of them with probability :math:`1 - t / \pi`. Rows that agree
on all 32 of one of four tables, and nearly on the others, are measured. Of pairs at a degree, 99.9 percent are found
if rows surround their centre; in a cone of half-width w radians the angle from its centre is about 1 / w times
larger, and fewer are found. Hyperplanes divide a space of few dimensions into few cells: if many rows have the same
hash, each is compared with the next ones along a random line, where near duplicates in few dimensions are neighbours.
A row takes twenty bytes, and no row is compared with all others.

References:
    [1] Charikar. Similarity estimation techniques from rounding algorithms. STOC 2002.
"""

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int, UInt32, UInt64
from torch import Tensor

from unclump.ops.project import project

_TABLES, _BITS = 4, 32
COLUMNS = _TABLES + 1  # of a row's hashes: one per table, and its place along the line
_FEW_FLIPS = 8  # bits of the other tables on which near duplicates may differ: half a bit is expected at one degree
_ALL_PAIRS = 32  # rows with the same hash: up to so many, all pairs are candidates
_NEXT = 8  # of more rows, how many of the following ones along the line are candidates


class SignHash:
    """The sides of random hyperplanes on which directions lie.

    Args:
        centre: The point through which the hyperplanes go.
    """

    def __init__(self, centre: Float64[Tensor, " d"]) -> None:
        generator = torch.Generator().manual_seed(0)
        self._normals = torch.randn(len(centre), _TABLES * _BITS, generator=generator)
        self._offsets = centre.float() @ self._normals
        self._line = project(torch.randn(1, len(centre), generator=generator))[0]

    def __call__(self, x: Float32[Tensor, "n d"]) -> UInt32[np.ndarray, "n columns"]:
        """Hash a block of directions."""
        sides = x @ self._normals > self._offsets  # (n, tables x bits)
        place = (((x @ self._line).double() + 1) * 2**31).clamp(0, 2**32 - 1)  # from one end of the line to the other
        hashes = np.packbits(sides.numpy(), axis=1).view(np.uint32)
        return np.column_stack([hashes, place.numpy().astype(np.uint32)])


def candidates(hashes: UInt32[np.ndarray, "n columns"]) -> Int[Tensor, "pairs 2"]:
    """Pairs of rows with these hashes that may be near duplicates."""
    tables, place = hashes[:, :_TABLES], hashes[:, _TABLES].astype(np.uint64)
    pairs = [_pairs_with_few_flips(tables, _pairs_of_equal(one, place)) for one in tables.T]
    return torch.from_numpy(np.unique(np.concatenate(pairs), axis=0))


def _pairs_of_equal(hashes: UInt32[np.ndarray, " n"], place: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, "pairs 2"]:
    """Pairs of rows with the same hash: all of a few, or each with the first and the next few along the line."""
    order = np.argsort((hashes.astype(np.uint64) << np.uint64(_BITS)) | place, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], hashes[order][1:] != hashes[order][:-1]]))
    sizes = np.diff(np.append(starts, len(order)))
    rank = np.arange(len(order)) - np.repeat(starts, sizes)  # of each row among those with its hash
    size = np.repeat(sizes, sizes)
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for lag in range(1, min(_ALL_PAIRS, int(sizes.max()))):
        first = np.flatnonzero((rank + lag < size) & ((size <= _ALL_PAIRS) | (lag <= _NEXT)))
        pairs.append(np.stack([order[first], order[first + lag]], axis=1))
    later = np.flatnonzero((size > _ALL_PAIRS) & (rank > 0))
    pairs.append(np.stack([order[later - rank[later]], order[later]], axis=1))
    return np.sort(np.concatenate(pairs), axis=1)


def _pairs_with_few_flips(
    hashes: UInt32[np.ndarray, "n tables"], pairs: Int[np.ndarray, "pairs 2"]
) -> Int[np.ndarray, "some 2"]:
    """The pairs that differ in few bits of all tables."""
    flips = np.zeros(len(pairs), dtype=np.int64)
    for one in hashes.T:
        differing = (one[pairs[:, 0]] ^ one[pairs[:, 1]]).view(np.uint8).reshape(-1, 4)
        flips += _BITS_OF_BYTE[differing].sum(axis=1, dtype=np.int64)
    return pairs[flips <= _FEW_FLIPS]


_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
