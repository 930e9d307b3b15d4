"""Rows that are equal, number by number: found by a hash of each row, then compared.

The hash is a sum of a row's words times random odd numbers, with their upper halves mixed in, modulo 2^64: eight bytes
a row, and no second copy of the table. Rows with the same hash are compared: a collision costs time alone.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int, UInt64
from torch import Tensor

from unclump.tables.rows import Rows

_WORDS = (np.uint64, np.uint32, np.uint16)
_COMPARED = 2**20  # numbers that are compared at a time


def hash_rows(rows: Float[Tensor, "n d"]) -> UInt64[np.ndarray, " n"]:
    """A number for each row, the same for equal rows; minus zero equals zero."""
    words = _words(rows).astype(np.uint64)
    factors = np.random.default_rng(0).integers(0, 2**63, words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = words * factors  # modulo 2^64
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))


def equal_rows(rows: Rows, numbers: Int[Tensor, " n"], hashes: UInt64[np.ndarray, " n"]) -> list[tuple[int, ...]]:
    """Groups of equal rows by number, largest first, among the rows of these numbers and hashes.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]])
        >>> equal_rows(Rows(table), torch.arange(3), hash_rows(table))
        [(0, 2)]
    """
    order = np.argsort(hashes, kind="stable")
    starts, ends = _runs(hashes[order])
    repeated = ends - starts > 1
    groups: list[tuple[int, ...]] = []
    for some in _batches(starts[repeated], ends[repeated], _COMPARED // rows.d):
        groups += _equal_among(rows, numbers.numpy()[order[some]])
    return sorted(groups, key=lambda group: (-len(group), group))


def _batches(starts: Int[np.ndarray, " g"], ends: Int[np.ndarray, " g"], size: int) -> Iterator[Int[np.ndarray, " b"]]:
    """The places from each start to its end, in batches of about a size: fetching rows of other processes has a cost.

    All places between a start and its end are in one batch.
    """
    batch_of = np.cumsum(ends - starts) // max(1, size)
    for first, last in zip(*_runs(batch_of), strict=True):
        yield np.concatenate([np.arange(starts[group], ends[group]) for group in range(first, last)])


def _equal_among(rows: Rows, numbers: Int[np.ndarray, " b"]) -> list[tuple[int, ...]]:
    """Groups of equal rows among these."""
    rows_by_bytes: defaultdict[bytes, list[int]] = defaultdict(list)
    for some in np.array_split(numbers, max(1, len(numbers) * rows.d // _COMPARED)):
        for number, row in zip(some.tolist(), _words(rows.take(torch.from_numpy(some))), strict=True):
            rows_by_bytes[row.tobytes()].append(number)
    return [tuple(group) for group in rows_by_bytes.values() if len(group) > 1]


def _runs(values: np.ndarray) -> tuple[Int[np.ndarray, " r"], Int[np.ndarray, " r"]]:
    """Where runs of equal values start and end."""
    starts = np.flatnonzero(np.concatenate([[True] * min(1, len(values)), values[1:] != values[:-1]]))
    return starts, np.append(starts[1:], len(values))[: len(starts)]


def _words(rows: Tensor) -> np.ndarray:
    """The bytes of each row as the widest unsigned integers that fit, minus zero as zero; NumPy lacks bfloat16."""
    content = (rows + 0.0).contiguous().view(torch.uint8).numpy()
    return content.view(next(word for word in _WORDS if content.shape[1] % np.dtype(word).itemsize == 0))
