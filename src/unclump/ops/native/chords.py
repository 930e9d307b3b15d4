"""The squared chords of all pairs in double precision: counted in bins, or those in a range."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.ops.native import Loop, failure, threads

_A_THREAD = 2**15  # pairs that are worth a thread

_COUNT, _COLLECT = Loop("count_chords", "ppiiiddi"), Loop("collect_chords", "pppiiiddi")


def count_chords(x: Float[Tensor, "n d"], low: float, width: float, bins: int) -> Int[Tensor, " bins_and_one"]:
    """How many squared chords of pairs are below `low`, and in each of the bins of equal width from there on.

    Args:
        x: Points in float64.
        low: Where the first bin begins.
        width: Of all bins together.
        bins: How many; their widths must be powers of two, or rounding would move values into the next one.
    """
    counts = torch.empty(1 + bins, dtype=torch.long)
    _call(_COUNT, x, [counts], bins, low, width)
    return counts


def collect_chords(
    x: Float[Tensor, "n d"], low: float, width: float, room: int
) -> tuple[int, Float[Tensor, " chords"] | None]:
    """How many squared chords of pairs are below `low`; and those from there on over the width, in any order.

    None instead of them if there are more than `room`.
    """
    chords, counts = torch.empty(room, dtype=torch.float64), torch.empty(2, dtype=torch.long)
    _call(_COLLECT, x, [chords, counts], room, low, width)
    below, inside = counts.tolist()
    return below, chords[:inside] if inside <= room else None


def _call(loop: Loop, x: Tensor, results: list[Tensor], size: int, low: float, width: float) -> None:
    n, d = x.shape
    points, several = x.contiguous(), threads(n * n, at_least=_A_THREAD)
    addresses = [result.data_ptr() for result in results]
    if status := loop[points.itemsize](points.data_ptr(), *addresses, n, d, size, low, width, several):
        raise failure(status)
