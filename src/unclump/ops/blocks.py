"""Blocks of pairs: which part of the matrix between two tables is in memory at once."""

import math
import os
from collections.abc import Iterator
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import max_pool2d_with_indices

Block = tuple[slice, slice]

_MAX_ENTRIES = 2**25  # of a block on a CPU: larger ones are not faster
_MAX_POOL = 1024  # rows of one pool
_WIDTH = 32  # the width of the windows in which maxima are searched is a multiple of this
_MEMORY_DIVISOR = 64  # a block takes at most 1/64 of the memory: an operation needs a few of them


def block_entries(x: Tensor) -> int:
    """The largest number of pairs of rows of `x` in a block, on its device."""
    if x.device.type == "cuda":
        return int(torch.cuda.get_device_properties(x.device).total_memory // (_MEMORY_DIVISOR * x.element_size()))
    return min(_MAX_ENTRIES, _physical_memory() // (_MEMORY_DIVISOR * x.element_size()))


@cache
def _physical_memory() -> int:
    """The physical memory of this machine, in bytes."""
    if not hasattr(os, "sysconf"):
        return 2**33
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def blocks(rows: int, columns: int, entries: int) -> Iterator[Block]:
    """Row and column slices of blocks that together cover a matrix, each with at most `entries` entries.

    Blocks consist of whole rows if 64 of them fit, and are square otherwise.
    """
    if rows == 0 or columns == 0:
        return
    width = columns if 64 * columns <= entries else max(1, int(entries**0.5))
    height = max(1, entries // width)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            yield slice(row, min(row + height, rows)), slice(column, min(column + width, columns))


def upper_triangle(n: int, size: int) -> Iterator[Block]:
    """The row and column slices of the square blocks on and above the diagonal."""
    for row in range(0, n, size):
        for column in range(row, n, size):
            yield slice(row, min(row + size, n)), slice(column, min(column + size, n))


def set_blocks(sets: int, rows: int, columns: int, entries: int) -> Iterator[tuple[slice, slice, slice]]:
    """Blocks of several matrices: as many whole matrices as fit, or blocks of one matrix at a time."""
    step = max(1, entries // max(1, rows * columns))
    for start in range(0, sets, step):
        chunk = slice(start, min(start + step, sets))
        for block in blocks(rows, columns, entries // (chunk.stop - chunk.start)):
            yield chunk, *block


def fill_diagonal(block: Float[Tensor, "*sets n m"], offset: int, value: float) -> None:
    """Fill, in place, the entries that pair a point with itself, if the diagonal crosses the block."""
    if -block.shape[-2] < offset < block.shape[-1]:
        block.diagonal(offset, dim1=-2, dim2=-1).fill_(value)


def largest_of_columns(
    block: Float[Tensor, "*sets m n"],
) -> tuple[Float[Tensor, "*sets n 1"], Int[Tensor, "*sets n 1"]]:
    """The largest entry of every column, and its row, the first of equal numbers; a NaN is the largest of all.

    On a CPU, torch searches for a maximum and its position fastest when it pools channels: here, the columns.
    """
    *sets, m, n = block.shape
    if not block.is_cpu or n == 0:
        best, row = block.max(dim=-2)
    else:
        channels = block.view(-1, m, 1, n).permute(0, 3, 1, 2)  # (b, n, m, 1), of which n is contiguous
        best, row = max_pool2d_with_indices(channels, (min(m, _MAX_POOL), 1), ceil_mode=True)
        if m > _MAX_POOL:  # then the largest of the pools, which run in parallel
            best, pool = best.max(dim=-2, keepdim=True)
            row = row.gather(-2, pool)
    return best.view(*sets, n, 1), row.view(*sets, n, 1)


def largest(
    block: Float[Tensor, "*sets n m"], k: int, *, smallest: bool = False
) -> tuple[Float[Tensor, "*sets n k"], Int[Tensor, "*sets n k"]]:
    """For every row, its largest entry and k - 1 others of the largest, and their columns; or of the smallest.

    For k = 2, and for k = 1 on a CPU, columns are divided into windows, and the results are the maxima of the windows
    with the largest maxima: taking a maximum is a fast pass over the block, while its position is searched only in
    these windows. So the second largest entry is missed if it is in the same window as the largest.
    """
    if k == 1 and not block.is_cpu:
        return (torch.min if smallest else torch.max)(block, dim=-1, keepdim=True)
    m = block.shape[-1]
    width = _WIDTH * max(1, round(math.sqrt(m) / _WIDTH))
    parts = -(-m // width)
    if k > 2 or parts < 2 or (k == 2 and m % width != 0):  # otherwise the largest could be in two windows
        return block.topk(k, largest=not smallest)
    extreme, both = (torch.amin, torch.min) if smallest else (torch.amax, torch.max)
    step = (m - width) // (parts - 1)  # windows overlap a little if they do not fit exactly
    windows = block.view(-1, m).unfold(1, m - (parts - 1) * step, step)  # (rows, parts, width)
    extremes = extreme(windows, dim=2)
    part = both(extremes, dim=1, keepdim=True)[1]
    if k == 2:
        extremes.scatter_(1, part, torch.inf if smallest else -torch.inf)
        part = torch.cat([part, both(extremes, dim=1, keepdim=True)[1]], dim=1)
    rows = torch.arange(len(windows), device=block.device).unsqueeze(1)
    values, column = both(windows[rows, part], dim=2)
    column = torch.add(column, part, alpha=step)
    return (
        (values, column) if block.ndim == 2 else (values.view(*block.shape[:-1], k), column.view(*block.shape[:-1], k))
    )
