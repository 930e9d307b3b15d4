"""Rows that are equal, number by number: found by a hash of each row, then by a digest.

The hash is a sum of a row's words times random odd numbers, with their upper halves mixed in, modulo 2^64: eight bytes
a row, and no second copy of the table. Rows with the same hash are equal if their cryptographic digests are.
"""

import hashlib
from collections import defaultdict

import numpy as np
import torch
from jaxtyping import Float, Int, UInt64
from torch import Tensor

from unclump.tables.rows import Rows

_WORDS = (np.uint64, np.uint32, np.uint16)
_DIGESTED = 2**20  # numbers whose rows are digested at a time


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
    same = hashes[order][1:] == hashes[order][:-1]  # whether a hash is that of the next row
    repeated = np.append(same, False) | np.append(False, same)
    candidates = numbers[order[repeated[: len(order)]]]
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    for some in torch.split(candidates, max(1, _DIGESTED // rows.d)):
        for number, row in zip(some.tolist(), _words(rows.take(some)), strict=True):
            groups[hashlib.blake2b(row.tobytes(), digest_size=16).digest()].append(number)
    equal = [tuple(group) for group in groups.values() if len(group) > 1]
    return sorted(equal, key=lambda group: (-len(group), group))


def _words(rows: Tensor) -> np.ndarray:
    """The bytes of each row as the widest unsigned integers that fit, minus zero as zero; NumPy lacks bfloat16."""
    content = (rows + 0.0).contiguous().view(torch.uint8).numpy()
    return content.view(next(word for word in _WORDS if content.shape[1] % np.dtype(word).itemsize == 0))
