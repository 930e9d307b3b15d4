"""Projection onto the sphere, one pass over the rows there and one back; a program has some whole rows."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

_TILE = 2**10  # numbers that a program holds, if a row is not longer
MOST = tl.constexpr(torch.finfo(torch.float32).max)


@triton.jit
@no_type_check
def _project(x, y, inverse, total, d, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK_D)
    place, inside = rows[:, None] * d + depth[None, :], (rows[:, None] < total) & (depth[None, :] < d)
    row = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    # Divided by their largest entry, rows have norms between one and the root of d; by infinity, those of zeros.
    scale = tl.max(tl.abs(row), 1)
    scale = tl.where(scale == 0, float("inf"), scale)
    row = tl.div_rn(row, tl.broadcast_to(scale[:, None], [ROWS, BLOCK_D]))
    norm = tl.sqrt_rn(tl.sum(row * row, 1))
    norm = tl.where(norm < 1, 1.0, norm)
    tl.store(y + place, row / norm[:, None], mask=inside)
    ratio = tl.div_rn(1 / norm, scale)
    tl.store(inverse + rows, tl.where(ratio > MOST, MOST, ratio), mask=rows < total)


@triton.jit
@no_type_check
def _project_back(y, inverse, grad, result, total, d, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK_D)
    place, inside = rows[:, None] * d + depth[None, :], (rows[:, None] < total) & (depth[None, :] < d)
    row, vector = tl.load(y + place, mask=inside, other=0.0), tl.load(grad + place, mask=inside, other=0.0)
    along = tl.sum(row * vector, 1)
    factor = tl.load(inverse + rows, mask=rows < total, other=0.0)
    tl.store(result + place, (vector - along[:, None] * row) * factor[:, None], mask=inside)


def project(x: Float[Tensor, "*shape d"]) -> tuple[Float[Tensor, "*shape d"], Float[Tensor, "*shape 1"]]:
    """The rows on the sphere, and one over their norms, in float32."""
    x = x.contiguous()
    y, inverse = x.new_empty(x.shape, dtype=torch.float32), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)
    grid, choices = whole_rows(inverse.numel(), x.shape[-1])
    _project[grid](x, y, inverse, inverse.numel(), x.shape[-1], **choices)
    return y, inverse


def project_back(
    y: Float[Tensor, "*shape d"], inverse: Float[Tensor, "*shape 1"], grad: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape d"]:
    """The gradient by what was projected."""
    result = torch.empty_like(y, memory_format=torch.contiguous_format)
    grid, choices = whole_rows(inverse.numel(), y.shape[-1])
    tables = y.contiguous(), inverse.contiguous(), grad.contiguous(), result
    _project_back[grid](*tables, inverse.numel(), y.shape[-1], **choices)
    return result


def whole_rows(total: int, d: int) -> tuple[tuple[int], dict[str, int]]:
    """The grid of programs that have some whole rows each, and their tile."""
    block = triton.next_power_of_2(d)
    rows = max(1, _TILE // block)
    return (triton.cdiv(total, rows),), {"ROWS": rows, "BLOCK_D": block, "num_warps": max(4, min(16, block // 512))}
