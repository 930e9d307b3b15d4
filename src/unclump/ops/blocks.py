"""Blocks of pairs: how much of the matrix between two tables is held at once."""

import os
from collections.abc import Iterator
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

Block = tuple[slice, slice]

_MOST = 2**25  # entries of a block on a CPU, where a larger one is not faster
_MOST_PARTS, _WIDTH = 16, 32  # into how many windows a row is cut to find maxima, and what their width is a multiple of
_SHARE = 64  # of the memory that one block may take: an operation holds a few of them


def block_entries(x: Tensor) -> int:
    """How many pairs of rows of `x` a block may hold on its device."""
    if x.device.type == "cuda":
        return int(torch.cuda.get_device_properties(x.device).total_memory // (_SHARE * x.element_size()))
    return min(_MOST, _memory() // (_SHARE * x.element_size()))


@cache
def _memory() -> int:
    """Of this machine, in bytes."""
    if not hasattr(os, "sysconf"):
        return 2**33
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def blocks(rows: int, columns: int, entries: int) -> Iterator[Block]:
    """Slices of rows and columns that together cover a matrix, each block of at most so many entries.

    Whole rows as long as a block holds 64 of them, then squares.
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
    """The same of several matrices: as many whole ones as a block holds, or blocks of one after the other."""
    together = max(1, entries // max(1, rows * columns))
    for start in range(0, sets, together):
        here = slice(start, min(start + together, sets))
        for block in blocks(rows, columns, entries // (here.stop - here.start)):
            yield here, *block


def fill_diagonal(block: Float[Tensor, "*sets n m"], offset: int, value: float) -> None:
    """Fill, in place, the entries where a point meets itself; none if the diagonal lies outside of the block."""
    if -block.shape[-2] < offset < block.shape[-1]:
        block.diagonal(offset, dim1=-2, dim2=-1).fill_(value)


def largest(
    block: Float[Tensor, "*sets n m"], k: int, *, smallest: bool = False
) -> tuple[Float[Tensor, "*sets n k"], Int[Tensor, "*sets n k"]]:
    """For every row its largest entry and k - 1 others of the largest, and their columns; or of the smallest.

    Up to two are found by groups of columns, as maxima of the groups with the largest maxima: a maximum is a fast pass
    over the block, unlike its place, which is only looked for in these groups. So the second largest entry is missed
    where it shares a group with the largest, of some dozens.
    """
    m = block.shape[-1]
    width = _WIDTH * -(-m // (_WIDTH * _MOST_PARTS))
    parts = -(-m // width)
    if k > 2 or parts < 2 or (k == 2 and m % width != 0):  # the largest would be in two groups
        return block.topk(k, largest=not smallest)
    extreme, place, both = (torch.amin, torch.argmin, torch.min) if smallest else (torch.amax, torch.argmax, torch.max)
    step = (m - width) // (parts - 1)  # windows overlap a little where they do not fit otherwise
    windows = block.unfold(-1, m - (parts - 1) * step, step)  # (..., n, parts, width)
    extremes = extreme(windows, dim=-2)
    group = place(extremes, dim=-1, keepdim=True)
    if k == 2:
        extremes.scatter_(-1, group, torch.inf if smallest else -torch.inf)
        group = torch.cat([group, place(extremes, dim=-1, keepdim=True)], dim=-1)
    values, part = both(windows.gather(-1, group.unsqueeze(-2).expand(*windows.shape[:-1], k)), dim=-2)
    return values, part.mul_(step).add_(group)
