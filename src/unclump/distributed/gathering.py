"""Nearest-neighbour searches among the points of all processes."""

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
    k: int = 1,
    fixed: Float[Tensor, "*sets m d"] | None = None,
    mask: Bool[Tensor, "*sets n"] | None = None,
    fixed_mask: Bool[Tensor, "*sets m"] | None = None,
    spare: int = 1,
) -> tuple[Float[Tensor, "*sets nk d"], Int[Tensor, "*sets nk 1"], Float[Tensor, "*sets nk 1"]]:
    """The k nearest others of every point, on any rank or fixed: their coordinates, row numbers, and squared chords.

    Neighbours are ordered by point, then nearest first. Row numbers are global; fixed points have -1. Ties between
    ranks go to the first rank. If there are fewer than k others, the rest are infinitely far. With more than one rank,
    there must be a single set.

    Args:
        x: Points on the sphere.
        ranks: The processes.
        k: The number of neighbours.
        fixed: Further points, the same on all ranks.
        mask: False for points that do not count as neighbours.
        fixed_mask: The same for the fixed points.
        spare: See `nearest`.
    """
    search = partial(nearest, k=k, spare=spare)
    table, all_mask, first = _after_fixed(x, mask, fixed, fixed_mask)
    numbers, r2 = search(x, None if fixed is None else table, mask=all_mask, itself=first)
    points = take_rows(table, numbers.flatten(-2))
    if fixed is not None or ranks.size > 1:
        numbers = torch.where(numbers < first, -1, numbers - first + ranks.before)
    for rank, (y, their_mask) in ranks.ring(x, mask):
        index, chords = search(x, y, mask=their_mask)
        numbers = torch.cat([numbers, index + sum(ranks.counts[:rank])], dim=1)
        r2 = torch.cat([r2, chords], dim=1)
        points = torch.cat([points.view(-1, k, x.shape[1]), take_rows(y, index.flatten()).view(-1, k, x.shape[1])], 1)
        by_number = numbers.argsort(dim=1, stable=True)
        nearer = r2.gather(1, by_number).nan_to_num(-1, torch.inf).argsort(dim=1, stable=True)  # NaN sorts first
        order = by_number.gather(1, nearer[:, :k])
        numbers, r2 = numbers.gather(1, order), r2.gather(1, order)
        points = points.gather(1, order.unsqueeze(2).expand(-1, -1, x.shape[1])).flatten(0, 1)
    return points, numbers.flatten(-2).unsqueeze(-1), r2.flatten(-2).unsqueeze(-1)


def select_among(
    x: Float[Tensor, "*sets n d"],
    table: Float[Tensor, "*sets nm d"] | None = None,
    *,
    mask: Bool[Tensor, "*sets nm"] | None = None,
    needs_chords: bool = True,
) -> tuple[Float[Tensor, "*sets n d"], Int[Tensor, "*sets n 1"], Float[Tensor, "*sets n 1"] | None]:
    """The nearest other of every point on this rank, as far as a product can tell: see `select_nearest`.

    The table ends with the points, after fixed ones; None if there are no others.
    """
    first = 0 if table is None else table.shape[-2] - x.shape[-2]
    numbers, r2 = select_nearest(x, table, mask=mask, itself=first, needs_chords=needs_chords)
    points = take_rows(x if table is None else table, numbers.squeeze(-1))
    return points, numbers if first == 0 else (numbers - first).clamp_min_(-1), r2


def _after_fixed(
    x: Tensor, mask: Tensor | None, fixed: Tensor | None, fixed_mask: Tensor | None
) -> tuple[Float[Tensor, "*sets nm d"], Bool[Tensor, "*sets nm"] | None, int]:
    """The fixed points and then the others, the mask of both, and where the others begin."""
    if fixed is None:
        return x, mask, 0
    first = fixed.shape[-2]
    if mask is not None:
        mask = pad(mask, (first, 0), value=True) if fixed_mask is None else torch.cat([fixed_mask, mask], dim=-1)
    return torch.cat([fixed, x], dim=-2), mask, first


def nearest_in_groups(
    x: Float[Tensor, "*sets n d"],
    ranks: Alone,
    *,
    k: int,
    group_size: int,
    mask: Bool[Tensor, "*sets n"] | None = None,
) -> tuple[Float[Tensor, "*sets nk d"], Int[Tensor, "*sets nk 1"], Float[Tensor, "*sets nk 1"]]:
    """The same within groups of consecutive rows, counted over all ranks."""
    if all(sum(ranks.counts[: rank + 1]) % group_size == 0 for rank in range(ranks.size)):  # no group spans two ranks
        table, before = x, ranks.before
        groups = None if mask is None else mask.reshape(-1, group_size)
        index, r2 = nearest(x.reshape(-1, group_size, x.shape[-1]), k=k, mask=groups)
        firsts = torch.arange(x.shape[-2], device=x.device) // group_size * group_size
        numbers, r2 = index.view(*x.shape[:-1], k) + firsts.unsqueeze(-1), r2.view(*x.shape[:-1], k)
    else:
        table, before = ranks.rows(x), 0
        all_mask = None if mask is None else ranks.rows(mask)
        numbers, r2 = x.new_empty(0, k, dtype=torch.long), x.new_empty(0, k)
        start, stop = ranks.before, ranks.before + len(x)
        for first in range(start // group_size * group_size, stop, group_size):
            low, high = max(first, start), min(first + group_size, stop)
            if low < high:
                group = slice(first, first + group_size)
                group_mask = None if all_mask is None else all_mask[group]
                index, chords = nearest(table[low:high], table[group], k=k, itself=low - first, mask=group_mask)
                numbers, r2 = torch.cat([numbers, index + first]), torch.cat([r2, chords])
    points = take_rows(table, numbers.flatten(-2))
    return points, (numbers + before).flatten(-2).unsqueeze(-1), r2.flatten(-2).unsqueeze(-1)
