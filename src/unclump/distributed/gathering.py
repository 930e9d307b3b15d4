"""Searches through the points of all processes."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump._precision import take_rows
from unclump.distributed.ranks import Alone
from unclump.ops.nearest import nearest


def nearest_among(
    x: Float[Tensor, "b n d"],
    ranks: Alone,
    *,
    fixed: Float[Tensor, "b m d"] | None = None,
    mask: Bool[Tensor, "b n"] | None = None,
) -> tuple[Float[Tensor, "b n d"], Int[Tensor, "b n"]]:
    """The nearest other of every point, on any rank or among fixed points: where it is, and its number.

    Numbers count through all ranks; fixed points have -1. Of several that are equally near on different ranks, the
    first. With more than one rank there is one set.

    Args:
        x: Points on the sphere.
        ranks: The processes.
        fixed: More points, the same on all ranks.
        mask: False for points that are nobody's neighbour.
    """
    first = 0 if fixed is None else fixed.shape[1]
    table = x if fixed is None else torch.cat([fixed, x], dim=1)
    present = None if mask is None else torch.cat([mask.new_ones(len(mask), first), mask], dim=1)
    index, r2 = (one[..., 0] for one in nearest(x, None if fixed is None else table, mask=present, itself=first))
    points, numbers = take_rows(table, index), index
    if fixed is not None or ranks.size > 1:
        numbers = torch.where(index < first, -1, index - first + ranks.before)
    for rank, (y, there) in ranks.ring(x[0], None if mask is None else mask[0]) if ranks.size > 1 else ():
        elsewhere = None if there is None else there.unsqueeze(0)
        index, chords = (one[..., 0] for one in nearest(x, y.unsqueeze(0), mask=elsewhere))
        number = index + sum(ranks.counts[:rank])
        nearer = (chords < r2) | ((chords == r2) & (number < numbers))
        points = torch.where(nearer.unsqueeze(-1), take_rows(y.unsqueeze(0), index), points)
        numbers, r2 = torch.where(nearer, number, numbers), torch.where(nearer, chords, r2)
    return points, numbers
