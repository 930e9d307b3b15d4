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
from unclump.ops.blocks import block_entries, fill_diagonal, largest, largest_of_columns, set_blocks
from unclump.ops.dispatch import has_native, has_triton, register
from unclump.ops.native import nearest as loops

_MOST_IN_KERNEL = 8  # neighbours that a kernel keeps for every row


def nearest(
    x: Float[Tensor, "*sets n d"],
    y: Float[Tensor, "*sets m d"] | None = None,
    *,
    k: int = 1,
    mask: Bool[Tensor, "*sets m"] | None = None,
    itself: int | None = None,
    spare: int = 1,
) -> tuple[Int[Tensor, "*sets n k"], Float[Tensor, "*sets n k"]]:
    r"""The row numbers of the k nearest others of every point, nearest first, and the squared chords; no gradient.

    Args:
        x: Points on the sphere, in separate sets.
        y: Where to look for the others; None is `x` itself.
        k: How many.
        mask: False for rows of `y` that are no neighbours.
        itself: The row of `y` that is the first of `x`, and no neighbour of it, the next not of the next, and so on.
            None is no such row, or the first where `y` is None.
        spare: How many candidates beyond k are measured. The more, the surer the nearest is found among points that a
            product of float32 cannot tell apart: those whose squared chords differ by less than about 2e-7.

    Example:
        >>> from unclump.ops.nearest import nearest
        >>> index, r2 = nearest(torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]))
        >>> index[:, 0], r2[:, 0]
        (tensor([1, 0, 1]), tensor([0.4000, 0.4000, 3.6000]))
    """
    index, r2 = _nearest(
        as_sets(x.detach()),
        None if y is None else as_sets(y.detach()),
        mask if mask is None or mask.ndim <= 2 else mask.flatten(0, -2),
        k,
        (0 if y is None else y.shape[-2]) if itself is None else itself,
        k + spare,
    )
    return (index, r2) if x.ndim <= 3 else (index.view(*x.shape[:-1], k), r2.view(*x.shape[:-1], k))


def select_nearest(
    x: Float[Tensor, "*sets n d"],
    y: Float[Tensor, "*sets m d"] | None = None,
    *,
    mask: Bool[Tensor, "*sets m"] | None = None,
    itself: int | None = None,
    needs_chords: bool = True,
) -> tuple[Int[Tensor, "*sets n 1"], Float[Tensor, "*sets n 1"] | None]:
    """The row number of the nearest other of every point, and the squared chord, as far as a product can tell.

    For who measures it anyway. The arguments are those of `nearest`, with one leading dimension or none. Unless they
    are needed, there may be no chords; then others with a NaN, if there are any, are the nearest of all points.
    """
    offset = (0 if y is None else y.shape[-2]) if itself is None else itself
    if not needs_chords and not torch.compiler.is_compiling() and _takes_product(x, x if y is None else y):
        return _by_product(x, y, mask, offset)[0], None
    index, r2 = _select_nearest(x.detach(), None if y is None else y.detach(), mask, offset)
    return index, r2


def nearest_of_rows(x: Float[Tensor, "n d"], rows: Int[Tensor, " a"], *, k: int = 1) -> Int[Tensor, "a k"]:
    """The row numbers of the k nearest others of some rows of a table, nearest first; no gradient."""
    return without_itself(nearest(x[rows], x, k=k + 1)[0], rows)


def without_itself(near: Int[Tensor, "a m"], rows: Int[Tensor, " a"]) -> Int[Tensor, "a k"]:
    """The nearest of each of these rows, less the row itself, or less the farthest where it is not among them.

    It may not be, where others coincide with it.
    """
    itself = near == rows.unsqueeze(1)
    itself[:, -1] |= ~itself.any(dim=1)
    return near[~itself].view(len(rows), near.shape[1] - 1)


def _fake(
    x: Tensor, y: Tensor | None, mask: Tensor | None, k: int, itself: int, candidates: int
) -> tuple[Tensor, Tensor]:
    return x.new_empty((*x.shape[:-1], k), dtype=torch.long), x.new_empty((*x.shape[:-1], k))


@register("nearest(Tensor x, Tensor? y, Tensor? mask, int k, SymInt itself, int candidates) -> (Tensor, Tensor)", _fake)
def _nearest(
    x: Tensor, y: Tensor | None, mask: Tensor | None, k: int, itself: int, candidates: int
) -> tuple[Tensor, Tensor]:
    table = x if y is None else y
    if table.shape[-2] == 0:  # as of a process without rows
        return x.new_zeros((*x.shape[:-1], k), dtype=torch.long), x.new_full((*x.shape[:-1], k), math.inf)
    if has_native(x, table):
        return loops.nearest(x, y, mask, k, itself)
    if k <= _MOST_IN_KERNEL and has_triton(x, table):
        from unclump.ops.triton import nearest as kernels

        return kernels.nearest(x, y, mask, k, itself)
    with exact_products(x.device):
        mean = table.mean(dim=-2, keepdim=True)
        nan_or_zero = 0 * mean.sum(dim=-1, keepdim=True)  # a NaN in the table makes every squared chord NaN
        here, there, squares = _centred(x, y, mean)
        squares = _unless_masked(squares, mask).mT
        if _fits(x, table):
            scores = add_product(squares, here, there.mT, beta=-0.5)
            index, r2 = _measured(x, table, scores, k, candidates, itself, 0, mask is not None)
            return index, r2.add_(nan_or_zero)
        tables = [one.view(-1, *one.shape[-2:]) for one in (x, table, here, there, squares)]
        index, r2 = _streamed(*tables, k=k, candidates=candidates, itself=itself)
        return index.view(*x.shape[:-1], k), r2.view(*x.shape[:-1], k).add_(nan_or_zero)


def _fake_select(x: Tensor, y: Tensor | None, mask: Tensor | None, itself: int) -> tuple[Tensor, Tensor]:
    return _fake(x, y, mask, 1, itself, 1)


@register("select_nearest(Tensor x, Tensor? y, Tensor? mask, SymInt itself) -> (Tensor, Tensor)", _fake_select)
def _select_nearest(x: Tensor, y: Tensor | None, mask: Tensor | None, itself: int) -> tuple[Tensor, Tensor]:
    if not _takes_product(x, x if y is None else y):
        return _nearest(x, y, mask, 1, itself, 1)  # type: ignore[no-any-return]
    index, best, here, squares = _by_product(x, y, mask, itself)
    own = squares if y is None else vector_norm(here, dim=-1, keepdim=True).square_()
    return index, torch.sub(own, best, alpha=2)


def _takes_product(x: Tensor, table: Tensor) -> bool:
    """Whether torch selects, by one product: neither loops nor kernels do, and a block holds all pairs."""
    return not has_native(x, table) and not has_triton(x, table) and table.shape[-2] > 0 and _fits(x, table)


def _by_product(x: Tensor, y: Tensor | None, mask: Tensor | None, itself: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The row number of the nearest other of every point, its score, the points moved to the mean, and squared norms.

    Others with a NaN are the nearest of all.
    """
    with exact_products(x.device):
        mean = (x if y is None else y).mean(dim=-2, keepdim=True).nan_to_num_()  # others without a NaN remain so
        here, there, squares = _centred(x, y, mean)
        scores = add_product(_unless_masked(squares, mask), there, here.mT, beta=-0.5)
    fill_diagonal(scores, -itself, -math.inf)
    best, index = largest_of_columns(scores)
    return index, best, here, squares


def _fits(x: Tensor, table: Tensor) -> bool:
    """Whether a block holds all pairs."""
    return x.numel() // x.shape[-1] * table.shape[-2] <= block_entries(x)


def _centred(
    x: Tensor, y: Tensor | None, mean: Tensor
) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets m d"], Float[Tensor, "*sets m 1"]]:
    """The points and the others, moved to the mean, and the squared norms of the others."""
    there = (x if y is None else y) - mean
    return there if y is None else x - mean, there, vector_norm(there, dim=-1, keepdim=True).square_()


def _unless_masked(squares: Float[Tensor, "*sets m 1"], mask: Bool[Tensor, "*sets m"] | None) -> Tensor:
    """Infinite for masked others, which are then the nearest of no row."""
    return squares if mask is None else squares.masked_fill(~mask.unsqueeze(-1), math.inf)


def _streamed(
    x: Tensor, table: Tensor, here: Tensor, there: Tensor, squares: Tensor, *, k: int, candidates: int, itself: int
) -> tuple[Int[Tensor, "b n k"], Float[Tensor, "b n k"]]:
    """The same block by block."""
    shape = len(x), x.shape[1], table.shape[1]
    index, r2 = x.new_zeros((*shape[:2], k), dtype=torch.long), x.new_full((*shape[:2], k), math.inf)
    for sets, rows, columns in set_blocks(*shape, block_entries(x)):
        scores = add_product(squares[sets, :, columns], here[sets, rows], there[sets, columns].mT, beta=-0.5)
        place = itself + rows.start - columns.start
        found = _measured(x[sets, rows], table[sets], scores, k, candidates, place, columns.start, True)
        both = [torch.cat(pair, dim=2) for pair in zip((index[sets, rows], r2[sets, rows]), found, strict=True)]
        nearer = both[1].topk(k, dim=2, largest=False)
        index[sets, rows], r2[sets, rows] = both[0].gather(2, nearer.indices), nearer.values
    return index, r2


def _measured(
    x: Tensor, table: Tensor, scores: Tensor, k: int, candidates: int, itself: int, first: int, masked: bool
) -> tuple[Int[Tensor, "*sets n k"], Float[Tensor, "*sets n k"]]:
    """The k nearest of the candidates with the largest scores, by differences; infinitely far where there are fewer.

    Args:
        x: Points.
        table: Others.
        scores: Between the points and some of the others.
        k: How many.
        candidates: How many are measured.
        itself: The column where the first point meets itself.
        first: The number of the first column.
        masked: Whether scores may be minus infinity, of others that do not count.
    """
    fill_diagonal(scores, itself, -math.inf)  # no point is its own neighbour
    best, index = largest(scores, min(candidates, scores.shape[-1]))
    if first > 0:
        index += first
    others = take_rows(table, index.flatten(-2)).view(*index.shape, table.shape[-1])  # (..., n, c, d)
    chord = vector_norm(others.sub_(x.unsqueeze(-2)), dim=-1)
    if masked or scores.shape[-1] <= candidates:
        chord.masked_fill_(best == -math.inf, math.inf)
    if index.shape[-1] < k:
        missing = (0, k - index.shape[-1])
        return pad(index, missing), pad(chord, missing, value=math.inf).square_()
    if k == candidates == 1:
        return index, chord.square_()
    order = chord.argmin(dim=-1, keepdim=True) if k == 1 else chord.argsort(dim=-1, stable=True)[..., :k]
    return index.gather(-1, order), chord.gather(-1, order).square_()
