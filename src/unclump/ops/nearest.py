r"""The nearest other points of every point, and the exact squared chords to them.

A matrix product selects, differences measure. The product is taken of points that are moved to their mean, where a
table in a narrow cone keeps its digits: the nearest have the largest score
:math:`\langle x, y \rangle - \lVert y \rVert^2 / 2`. A few more candidates than are needed are measured by the
differences of their coordinates, and the nearest of these count.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import pad

from unclump._precision import add_product, as_sets, exact_products, take_rows
from unclump.ops.blocks import block_entries, set_blocks
from unclump.ops.dispatch import has_native, register
from unclump.ops.native import nearest as loops

_SPARE = 1  # candidates beyond those that are needed, which are measured too


def nearest(
    x: Float[Tensor, "*sets n d"],
    y: Float[Tensor, "*sets m d"] | None = None,
    *,
    k: int = 1,
    mask: Bool[Tensor, "*sets m"] | None = None,
    itself: int | None = None,
) -> tuple[Int[Tensor, "*sets n k"], Float[Tensor, "*sets n k"]]:
    r"""The row numbers of the k nearest others of every point, nearest first, and the squared chords; no gradient.

    Args:
        x: Points on the sphere, in separate sets.
        y: Where to look for the others; None is `x` itself.
        k: How many.
        mask: False for rows of `y` that are nobody's neighbour.
        itself: The row of `y` that is the first of `x`, and no neighbour of it, the next not of the next, and so on.
            None is no such row, or the first where `y` is None.

    Example:
        >>> from unclump.ops.nearest import nearest
        >>> index, r2 = nearest(torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]))
        >>> index[:, 0], r2[:, 0]
        (tensor([1, 0, 1]), tensor([0.4000, 0.4000, 3.6000]))
    """
    index, r2 = _nearest(
        as_sets(x.detach()),
        None if y is None else as_sets(y.detach()),
        None if mask is None else as_sets(mask.unsqueeze(-1))[..., 0],
        k,
        (0 if y is None else y.shape[-2]) if itself is None else itself,
    )
    return index.view(*x.shape[:-1], k), r2.view(*x.shape[:-1], k)


def nearest_of_rows(x: Float[Tensor, "n d"], rows: Int[Tensor, " a"], *, k: int = 1) -> Int[Tensor, "a k"]:
    """The row numbers of the k nearest others of some rows of a table, nearest first; no gradient."""
    near, _ = nearest(x[rows], x, k=k + 1)
    itself = near == rows.unsqueeze(1)
    itself[:, -1] |= ~itself.any(dim=1)  # where others coincide with a row, it may not be among its own neighbours
    return near[~itself].view(len(rows), k)


def _fake(x: Tensor, y: Tensor | None, mask: Tensor | None, k: int, itself: int) -> tuple[Tensor, Tensor]:
    return x.new_empty((*x.shape[:2], k), dtype=torch.long), x.new_empty((*x.shape[:2], k))


@register("nearest(Tensor x, Tensor? y, Tensor? mask, int k, SymInt itself) -> (Tensor, Tensor)", _fake)
def _nearest(x: Tensor, y: Tensor | None, mask: Tensor | None, k: int, itself: int) -> tuple[Tensor, Tensor]:
    table = x if y is None else y
    if has_native(x, table):
        return loops.nearest(x, y, mask, k, itself)
    with exact_products(x.device):
        mean = table.mean(dim=1, keepdim=True)
        centred = table - mean
        offsets = vector_norm(centred, dim=-1).square_().mul_(-0.5)
        if mask is not None:
            offsets.masked_fill_(~mask, -math.inf)
        shape = len(x), x.shape[1], table.shape[1]
        if math.prod(shape) <= block_entries(x):
            here = centred if y is None else x - mean
            scores = add_product(offsets.unsqueeze(1), here, centred.mT)
            return _measured(x, table, scores, k, itself, 0)
        index, r2 = x.new_zeros((*shape[:2], k), dtype=torch.long), x.new_full((*shape[:2], k), math.inf)
        for sets, rows, columns in set_blocks(*shape, block_entries(x)):
            here = x[sets, rows] - mean[sets]
            scores = add_product(offsets[sets, None, columns], here, centred[sets, columns].mT)
            place = itself + rows.start - columns.start
            found = _measured(x[sets, rows], table[sets], scores, k, place, columns.start)
            both = [torch.cat(pair, dim=2) for pair in zip((index[sets, rows], r2[sets, rows]), found, strict=True)]
            nearer = both[1].topk(k, dim=2, largest=False)
            index[sets, rows], r2[sets, rows] = both[0].gather(2, nearer.indices), nearer.values
    return index, r2


def _measured(
    x: Tensor, table: Tensor, scores: Tensor, k: int, itself: int, first: int
) -> tuple[Int[Tensor, "b n k"], Float[Tensor, "b n k"]]:
    """The k nearest of the candidates with the largest scores, by differences; infinitely far where there are fewer.

    Args:
        x: Points.
        table: Others.
        scores: Between the points and some of the others.
        k: How many.
        itself: The column where the first point meets itself.
        first: The number of the first column.
    """
    if -scores.shape[1] < itself < scores.shape[2]:
        scores.diagonal(itself, dim1=1, dim2=2).fill_(-math.inf)  # no point is its own neighbour
    best, index = scores.topk(min(k + _SPARE, scores.shape[2]), dim=2)
    index, order = index.sort(dim=2)  # so that of several that are equally near the first is taken
    best = best.gather(2, order)
    if first > 0:
        index += first
    others = take_rows(table, index.flatten(1)).view(*index.shape, table.shape[2])  # (b, n, c, d)
    r2 = vector_norm(x.unsqueeze(2) - others, dim=-1).square_().masked_fill_(best == -math.inf, math.inf)
    if index.shape[2] < k:
        missing = (0, k - index.shape[2])
        return pad(index, missing), pad(r2, missing, value=math.inf)
    r2, order = r2.sort(dim=2, stable=True)
    return index.gather(2, order[..., :k]), r2[..., :k].contiguous()
