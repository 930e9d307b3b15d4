"""The squared chords of all pairs in double precision: counted in bins, or those in a range."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.ops.native import Loop, failure, threads

_A_THREAD = 2**15  # pairs that are worth a thread

_COUNT, _COLLECT = Loop("count_chords", "ppiiiddi"), Loop("collect_chords", "ppiiiddi")


def count_chords(x: Float[Tensor, "n d"], low: float, width: float, bins: int) -> Int[Tensor, " bins_and_one"]:
    """How many squared chords of pairs are below `low`, and in each of the bins of equal width from there on.

    Args:
        x: Points in float64.
        low: Where the first bin begins.
        width: Of all bins together.
        bins: How many; their widths must be powers of two, or rounding would move values into the next one.
    """
    counts = torch.empty(1 + bins, dtype=torch.long)
    _call(_COUNT, x, counts, bins, low, width)
    return counts


def collect_chords(x: Float[Tensor, "n d"], low: float, width: float, count: int) -> Float[Tensor, " count"]:
    """The squared chords of pairs from `low` on over the width, in any order, where there are so many."""
    chords = torch.empty(count, dtype=torch.float64)
    _call(_COLLECT, x, chords, count, low, width)
    return chords


def _call(loop: Loop, x: Tensor, results: Tensor, count: int, low: float, width: float) -> None:
    n, d = x.shape
    points, several = x.contiguous(), threads(n * n, at_least=_A_THREAD)
    if status := loop[points.itemsize](points.data_ptr(), results.data_ptr(), n, d, count, low, width, several):
        raise failure(status)
