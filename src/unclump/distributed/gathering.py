"""Searches through the points of all processes."""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from unclump._precision import take_rows
from unclump.distributed.ranks import Alone
from unclump.ops.nearest import nearest, select_nearest


def nearest_among(
    x: Float[Tensor, "*sets n d"],
    ranks: Alone,
    *,
    fixed: Float[Tensor, "*sets m d"] | None = None,
    mask: Bool[Tensor, "*sets n"] | None = None,
    spare: int = 1,
) -> tuple[Float[Tensor, "*sets n d"], Int[Tensor, "*sets n 1"], Float[Tensor, "*sets n 1"]]:
    """The nearest other of every point, on any rank or among fixed points: where it is, its number, and squared chord.

    Numbers count through all ranks; fixed points have -1. Of several that are equally near on different ranks, the
    first. With more than one rank there is one set.

    Args:
        x: Points on the sphere.
        ranks: The processes.
        fixed: More points, the same on all ranks.
        mask: False for points that are no neighbours.
        spare: See `nearest`. With none, on a single rank, the squared chord is only as exact as a product.
    """
    search = select_nearest if spare == 0 and ranks.size == 1 else partial(nearest, spare=spare)
    if fixed is None:
        table, first = x, 0
        numbers, r2 = search(x, mask=mask)
    else:
        table, first = torch.cat([fixed, x], dim=-2), fixed.shape[-2]
        present = None if mask is None else pad(mask, (first, 0), value=True)
        numbers, r2 = search(x, table, mask=present, itself=first)
    points = take_rows(table, numbers.squeeze(-1))
    if fixed is not None or ranks.size > 1:
        numbers = torch.where(numbers < first, -1, numbers - first + ranks.before)
    for rank, (y, elsewhere) in ranks.ring(x, mask):
        index, chords = search(x, y, mask=elsewhere)
        number = index + sum(ranks.counts[:rank])
        nearer = (chords < r2) | ((chords == r2) & (number < numbers))
        points = torch.where(nearer, take_rows(y, index.squeeze(-1)), points)
        numbers, r2 = torch.where(nearer, number, numbers), torch.where(nearer, chords, r2)
    return points, numbers, r2
