"""Sums of rows by number, in the order in which they come: sorted by number, every row has its values in one piece.

A program has one row of the sums. Numbers outside of the table are in no piece: nothing is read or written for them.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

_VALUES, _WIDTH = 8, 128  # of a tile: the sum over its values stays within a thread


@triton.jit
@no_type_check
def _sum_pieces(values, order, starts, sums, d, IN_PLACE: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr):
    """The sum of the values of one row, some coordinates of it, added to what is there where IN_PLACE."""
    row = tl.program_id(0).to(tl.int64)
    depth, lanes = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_K)
    first, stop = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros([BLOCK_D], tl.float32)
    for start in range(first, stop, BLOCK_K):
        is_value = start + lanes < stop
        number = tl.load(order + start + lanes, mask=is_value, other=0)
        inside = is_value[:, None] & (depth[None, :] < d)
        total += tl.sum(tl.load(values + number[:, None] * d + depth[None, :], mask=inside, other=0.0), 0)
    place, inside = sums + row * d + depth, depth < d
    if IN_PLACE:
        inside = inside & (first < stop)
        total += tl.load(place, mask=inside, other=0.0)
    tl.store(place, total, mask=inside)


def add_rows(table: Float[Tensor, "n d"], index: Int[Tensor, " k"], values: Float[Tensor, "k d"]) -> None:
    """Add the values, in place, to the rows of a contiguous table that have these numbers."""
    _launch(table, index, values, in_place=True)


def sum_rows(n: int, index: Int[Tensor, " k"], values: Float[Tensor, "k d"]) -> Float[Tensor, "{n} d"]:
    """The sums of the values with each of these n row numbers."""
    table = values.new_empty((n, values.shape[-1]))
    _launch(table, index, values, in_place=False)
    return table


def _launch(table: Tensor, index: Tensor, values: Tensor, *, in_place: bool) -> None:
    n, d = table.shape
    numbers, order = index.sort(stable=True)
    starts = torch.searchsorted(numbers, torch.arange(n + 1, device=index.device))
    _sum_pieces[(n, triton.cdiv(d, _WIDTH))](
        values.contiguous(), order, starts, table, d, IN_PLACE=in_place, BLOCK_K=_VALUES, BLOCK_D=_WIDTH, num_warps=1
    )
