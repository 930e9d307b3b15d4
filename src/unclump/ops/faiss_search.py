"""Approximate nearest neighbours by faiss (extra `[faiss]`), for tables where the exact search takes too long.

An inverted file: every row belongs to the nearest of some thousand rows, the centres, and looks for its neighbour only
among the rows of the centres nearest to it. How many of those it asks is found by trial, on a sample of rows whose
exact neighbours are known.

The recall, the part of this sample whose neighbour was found, is printed on stderr at every search; or, where logging
is set up to show the level INFO, logged by "unclump". `logging.getLogger("unclump").setLevel("WARNING")` silences it.
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
_ENOUGH = 0.95  # the recall beyond which no more centres are asked
_MOST = 32  # nor more than one in so many: a scan is slower than a matrix product, and the exact search catches up

_log = logging.getLogger("unclump")


def nearest(x: Float[Tensor, "n d"]) -> tuple[Int[Tensor, " n"], float]:
    """The row number of a near other point of every point, nearly always the nearest; and the recall on a sample.

    Args:
        x: Points on the unit sphere, n >= 2, on any device. The search runs on the CPU, in float32.
    """
    x = x.detach()
    rows = torch.arange(min(_SAMPLE, len(x)), device=x.device) * len(x) // min(_SAMPLE, len(x))
    closest = nearest_of_rows(x, rows)[:, 0]
    table = np.ascontiguousarray(x.cpu().float().numpy())
    with _faiss_on_our_threads() as faiss:
        index = _inverted_file(faiss, table)
        most = min(index.nlist, max(8, index.nlist // _MOST))
        index.nprobe = min(2, most)
        while index.nprobe < most:
            found = _search(index, table[rows.cpu().numpy()], rows)
            if _recall(x, rows, found, closest) >= _ENOUGH:
                break
            index.nprobe = min(2 * index.nprobe, most)
        found = _search(index, table, torch.arange(len(x), device=x.device))
    recall = _recall(x, rows, found[rows], closest)
    _report(f"nearest neighbours by faiss: recall {recall:.3f} (of {len(rows)} rows of {len(x)})")
    return found, recall


def _inverted_file(faiss: Any, table: Float[np.ndarray, "n d"]) -> Any:
    """Cells around evenly spaced rows: no cell is empty, and they are small where there are many points."""
    n, d = table.shape
    count = max(1, min(round(4 * math.sqrt(n)), n // 32))
    centres = np.unique(table[np.arange(count) * n // count], axis=0)
    quantizer = faiss.IndexFlatL2(d)
    quantizer.add(centres)
    index = faiss.IndexIVFFlat(quantizer, d, len(centres), faiss.METRIC_L2)  # differences: near pairs keep their digits
    index.is_trained = True
    index.add(table)
    return index


def _search(index: Any, points: Float[np.ndarray, "k d"], rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
    """The nearest that is found of each of the points, which are the rows of these numbers, but not the row itself."""
    two = torch.from_numpy(index.search(points, 2)[1]).to(rows.device)
    other = torch.where(two[:, 0] == rows, two[:, 1], two[:, 0])
    return torch.where(other < 0, (rows + 1) % index.ntotal, other)  # NaN has no neighbour: any row is as good


def _recall(x: Tensor, rows: Tensor, found: Tensor, closest: Tensor) -> float:
    """The part of the rows whose neighbour is as near as the nearest: one of several that are is as good."""
    here = widen(x[rows])
    far, near = chord(here, widen(x[found])), chord(here, widen(x[closest]))
    return int((far <= near * (1 + 1e-6)).sum()) / len(rows)


@contextmanager
def _faiss_on_our_threads() -> Iterator[Any]:
    """On as many threads as torch may use: on one in a data loader's worker, where others would wait for ever."""
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
    elif _log.level <= logging.INFO:  # nobody has asked for silence
        tqdm.write(text, file=sys.stderr)  # beside a progress bar, not into it
