"""FAISS: flat indexes, and all others that can reconstruct their vectors; read, not written."""

import struct
from pathlib import Path

import numpy as np
import torch

from unclump._atomic_write import temporary_folder
from unclump._text import FileError
from unclump.tables.files import arrays
from unclump.tables.files._child import run_reader
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_no_tensor, check_shape

FORMAT = "faiss"
_FLAT = (b"IxFI", b"IxF2", b"IxFl")  # by inner product, by L2, and by other metrics
_FIXED = struct.Struct("<4siqqqBi")  # kind, dimensions, vectors, two constants, whether it is trained, metric
_CONSTANT = 2**20


def looks_like_index(head: bytes) -> bool:
    """Whether a file that begins with `head` is an index: all begin with a kind, sizes, and a constant twice."""
    return head[:1] == b"I" and head[16:32] == struct.pack("<qq", _CONSTANT, _CONSTANT)


def read(path: Path, tensor: str | None) -> Table:
    """Read a flat index without FAISS; let FAISS reconstruct the vectors of others."""
    check_no_tensor(tensor)
    with open(path, "rb") as file:
        head = file.read(_FIXED.size)
    if not looks_like_index(head) or len(head) < _FIXED.size:
        raise FileError("is not a FAISS index: its first bytes are not those of one")
    if head[:4] in _FLAT:
        points = _read_flat(path, head)
    else:
        with temporary_folder() as folder:
            copy = folder / "table.npy"
            run_reader("faiss-cpu", "faiss", "read_faiss", path, str(copy))
            points = arrays.read(copy, None).points
    return Table(points, source=make_source(path, FORMAT, points))


def _read_flat(path: Path, head: bytes) -> torch.Tensor:
    _, d, n, _, _, _, metric = _FIXED.unpack(head)
    start = _FIXED.size + (4 if metric > 1 else 0) + 8  # an argument of the metric, and the number of numbers
    actual = path.stat().st_size - start
    if n < 0 or d < 0 or 4 * n * d != actual:
        raise FileError(f"declares {n} vectors of {d} numbers, {4 * n * d} bytes, but holds {actual}")
    check_shape(n, d)
    return torch.from_numpy(np.fromfile(path, "<f4", offset=start).reshape(n, d))
