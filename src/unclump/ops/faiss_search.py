"""Approximate nearest neighbours by faiss (extra `[faiss]`), for tables where the exact search takes too long.

It uses an inverted file: every row is assigned to the nearest of about a thousand centres, which are rows themselves,
and the search for its neighbour covers only the rows of the nearest few centres. Their number is tuned on a sample of
rows whose exact neighbours are known.

The recall, the share of this sample whose neighbour was found, is printed to stderr at every search, or logged by
"unclump" if logging is configured for level INFO. `logging.getLogger("unclump").setLevel("WARNING")` silences it.
"""

import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from unclump._precision import widen
from unclump.geometry.sphere import chord
from unclump.ops.nearest import nearest_of_rows

NEIGHBOURS = ("exact", "faiss")

_SAMPLE = 256
_SUFFICIENT_RECALL = 0.95  # no more centres are searched once it is reached
_LISTS_PER_PROBE = 32  # nor more than one centre in 32: scanning more is no faster than exact search by products

_log = logging.getLogger("unclump")


def nearest(x: Float[Tensor, "n d"]) -> tuple[Int[Tensor, " n"], float]:
    """For every point, the row number of a near other point, nearly always the nearest; and the recall on a sample.

    Args:
        x: Points on the unit sphere, n >= 2, on any device. The search runs on the CPU, in float32.
    """
    x = x.detach()
    rows = torch.arange(min(_SAMPLE, len(x)), device=x.device) * len(x) // min(_SAMPLE, len(x))
    exact = nearest_of_rows(x, rows)[:, 0]
    table = np.ascontiguousarray(x.cpu().float().numpy())
    with _faiss_on_our_threads() as faiss:
        index = _build_index(faiss, table)
        most = min(index.nlist, max(8, index.nlist // _LISTS_PER_PROBE))
        index.nprobe = min(2, most)
        while index.nprobe < most:
            neighbours = _search(index, table[rows.cpu().numpy()], rows)
            if _recall(x, rows, neighbours, exact) >= _SUFFICIENT_RECALL:
                break
            index.nprobe = min(2 * index.nprobe, most)
        neighbours = _search(index, table, torch.arange(len(x), device=x.device))
    recall = _recall(x, rows, neighbours[rows], exact)
    _report(f"nearest neighbours by faiss: recall {recall:.3f} (of {len(rows)} rows of {len(x)})")
    return neighbours, recall


def _build_index(faiss: Any, table: Float[np.ndarray, "n d"]) -> Any:
    """Build an index whose cells surround evenly spaced rows: none is empty, and they are small in dense regions."""
    n, d = table.shape
    count = max(1, min(round(4 * math.sqrt(n)), n // 32))
    centres = np.unique(table[np.arange(count) * n // count], axis=0)
    quantizer = faiss.IndexFlatL2(d)
    quantizer.add(centres)
    # The L2 metric uses differences, which are accurate for near pairs.
    index = faiss.IndexIVFFlat(quantizer, d, len(centres), faiss.METRIC_L2)
    index.is_trained = True
    index.add(table)
    return index


def _search(index: Any, points: Float[np.ndarray, "k d"], rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
    """The nearest neighbour that the index finds for each of these points, excluding the point's own row."""
    two = torch.from_numpy(index.search(points, 2)[1]).to(rows.device)
    other = torch.where(two[:, 0] == rows, two[:, 1], two[:, 0])
    return torch.where(other < 0, (rows + 1) % index.ntotal, other)  # NaN has no neighbour: return any row


def _recall(x: Tensor, rows: Tensor, neighbours: Tensor, exact: Tensor) -> float:
    """The share of rows whose neighbour is as near as the exact one, which may not be unique."""
    points = widen(x[rows])
    far, near = chord(points, widen(x[neighbours])), chord(points, widen(x[exact]))
    return int((far <= near * (1 + 1e-6)).sum()) / len(rows)


@contextmanager
def _faiss_on_our_threads() -> Iterator[Any]:
    """Run faiss on as many threads as torch: on one in a data loader's worker, where more would deadlock."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "expected the package faiss for neighbours='faiss', got none; pip install 'unclump[faiss]', "
            "or choose neighbours='exact'"
        ) from error
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


def _report(text: str) -> None:
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(text)
    elif _log.level <= logging.INFO:  # not silenced
        tqdm.write(text, file=sys.stderr)  # does not break a progress bar
