r"""Sums of a kernel over pairs, with the gradient, from one pass over tiles: no matrix of pairs leaves the chip.

Far pairs have their squared chord from a product of centred points, and their force on point i is the slope k' times
:math:`a_i - c_j`: another product, of the tile of slopes with the columns. A tile with near pairs, or for geodesic
kernels near antipodes, is measured again by differences or sums of coordinates, as are the forces between these.

A program has a tile of rows and goes through tiles of columns. What it adds to the gradient of its rows is its alone:
sums have one order, and need no atomics. Where there are few rows the columns are cut into parts, and their sums added.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from unclump.kernels import FramePotential, Kernel
from unclump.ops.native import check_alike
from unclump.ops.native import kernel_sum as loops
from unclump.ops.triton.formulas import FRAME, GAUSSIAN, GEODESIC, value_and_slope
from unclump.ops.triton.near_tiles import add_near_tiles
from unclump.ops.triton.tiles import centred, parts_of_columns, product_precision, tunable

_ROWS, _COLUMNS, _DEPTH, _WARPS = 128, 32, 16, 8  # of a tile: the largest that needs no register more than there are
_NEAR_WARPS = 4

# Tuning of what changes no order of sums: the same input has the same bits, whatever is chosen.
_CONFIGS = [triton.Config({}, num_warps=_WARPS, num_stages=stages) for stages in (2, 3)]
_KEYS = ["width", "FORM", "METRIC", "NEEDS_GRAD", "PRECISION"]


@triton.autotune(tunable(_CONFIGS), _KEYS, reset_to_zero=["gradient"], cache_results=True)
@triton.jit
@no_type_check
def _add_far_tiles(
    here, there, own_halves, halves, left, own, others_left, right, near_tiles, sums, gradient,
    n, m, d, width, itself, part_length, words, parameter, offset, near, high,
    FORM: tl.constexpr, METRIC: tl.constexpr, NEEDS_GRAD: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """The sums of a tile of rows over a part of the columns, and their gradient."""
    row_tiles = tl.cdiv(n, BLOCK_N)
    sets, row_tile = (tl.program_id(0) // row_tiles).to(tl.int64), tl.program_id(0) % row_tiles
    rows = row_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    lanes, depth = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    is_row = rows < n
    # Offsets within a tile are small, and take half the registers. Beyond the last row the last is read again.
    base = sets * n + row_tile * BLOCK_N
    row = tl.minimum(rows, n - 1) - row_tile * BLOCK_N
    row_start = here + base * width
    own_half = tl.load(own_halves + base + row)
    row_left, row_right = tl.load(left + base + row), tl.load(own + base + row)
    part = tl.program_id(1) * (tl.num_programs(0) // row_tiles).to(tl.int64) * n
    forces = gradient + (part + base) * d
    total_value, total_slope = tl.zeros([BLOCK_N], tl.float64), tl.zeros([BLOCK_N], tl.float64)
    first = tl.program_id(1) * part_length
    marks = near_tiles + (tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * words
    bits = 0
    stop = tl.minimum(first + part_length, m)
    for start in range(first, stop, BLOCK_M):
        columns = start + lanes
        column = tl.minimum(lanes, m - 1 - start)
        others = sets * m + start
        product = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for k in range(0, width, BLOCK_D):
            a = tl.load(row_start + k + (row[:, None] * width + depth[None, :]))
            b = tl.load(there + others * width + k + (column[None, :] * width + depth[:, None]))
            product = tl.dot(a, b, product, input_precision=PRECISION)
        squares = 2 * (own_half[:, None] + tl.load(halves + others + column)[None, :])
        r2 = squares - 2 * product
        is_pair = (columns[None, :] < stop) & (columns[None, :] != rows[:, None] + itself)
        is_near = is_pair & ((r2 <= near * tl.minimum(squares / 2, 1.0)) | (r2 >= high))  # NaN is not
        has_near = tl.max(tl.max(is_near.to(tl.int32), 1), 0)
        tile = (start - first) // BLOCK_M
        bits = tl.where(tile % 32 == 0, 0, bits) | (has_near << (tile % 32))
        tl.store(marks + tile // 32, bits)
        if has_near == 0:
            r2 = tl.where(is_pair, r2, 2.0)
            value, slope = value_and_slope(r2, 4 - r2, parameter, offset, FORM, METRIC)
            value, slope = tl.where(is_pair, value, 0.0), tl.where(is_pair, slope, 0.0)
            by_column, other_left = tl.load(right + others + column), tl.load(others_left + others + column)
            value *= by_column[None, :]
            slope *= row_left[:, None] * by_column[None, :] + row_right[:, None] * other_left[None, :]
            total_value += tl.sum(value, 1).to(tl.float64)
            if NEEDS_GRAD:
                total_slope += tl.sum(slope, 1).to(tl.float64)
                for k in range(0, width, BLOCK_D):
                    b = tl.load(there + others * width + k + (column[:, None] * width + depth[None, :]))
                    force = tl.dot(slope, b, input_precision=PRECISION)
                    inside = is_row[:, None] & (depth[None, :] < d - k)
                    place = forces + k + (row[:, None] * d + depth[None, :])
                    tl.store(place, tl.load(place, mask=inside, other=0.0) - force, mask=inside)
                tl.debug_barrier()  # other threads may read on what these have written
    tl.store(sums + part + base + row, total_value.to(tl.float32), mask=is_row)
    if NEEDS_GRAD:
        slopes = total_slope.to(tl.float32)[:, None]
        for k in range(0, width, BLOCK_D):
            inside = is_row[:, None] & (depth[None, :] < d - k)
            place = forces + k + (row[:, None] * d + depth[None, :])
            a = tl.load(row_start + k + (row[:, None] * width + depth[None, :]))
            tl.store(place, 2 * (slopes * a + tl.load(place, mask=inside, other=0.0)), mask=inside)


def code_of(kernel: Kernel) -> loops.Code | None:
    """The kernel for `kernel_sum`; None for one of the user's own, or too steep for the digits that products leave."""
    if type(kernel) is FramePotential:
        return loops.Code(FRAME.value, loops.DISTANCES["chordal"], 0.0, 0.0)
    return loops.code_of(kernel, torch.float32)


def kernel_sum(
    x: Float[Tensor, "*sets n d"], y: Float[Tensor, "*sets m d"] | None, right: Float[Tensor, "*sets m 1"] | None,
    left: Float[Tensor, "*sets n 1"] | None, code: loops.Code, itself: int, needs_grad: bool,
) -> tuple[Float[Tensor, "*sets n 1"], Float[Tensor, "*sets n d"] | None]:  # fmt: skip
    """`unclump.ops.kernel_sum.kernel_sum` of sets."""
    check_alike(x, y)
    x, table = x.float().contiguous(), (x if y is None else y).float().contiguous()
    *sets, n, d = x.shape
    m, total = table.shape[-2], x.numel() // d
    mean = table.mean(dim=-2, keepdim=True)
    there, halves = centred(table, mean)
    here, own_halves = (there, halves) if y is None else centred(x, mean)
    right = x.new_ones((*sets, m, 1)) if right is None else right
    weights = loops.weights_of_pairs(x, m, right, left, itself)
    parts = parts_of_columns(x, total, m)
    part_length = triton.cdiv(m, parts * _COLUMNS) * _COLUMNS
    words, tiles = triton.cdiv(part_length, 32 * _COLUMNS), total // n * triton.cdiv(n, _ROWS)
    near_tiles = x.new_zeros((tiles, parts, words), dtype=torch.int32)
    sums = x.new_empty((parts, *sets, n, 1))
    gradient = x.new_zeros((parts, *sets, n, d if needs_grad else 0))
    # The rounding of products shows in the value of a smooth kernel nowhere; in its force, where points coincide.
    is_geodesic = code.distance == GEODESIC.value
    is_smooth = code.form in (GAUSSIAN.value, FRAME.value) and not is_geodesic
    near = 128 * torch.finfo(torch.float32).eps if is_smooth else loops.NEAR
    high = 4 - loops.NEAR if is_geodesic else torch.inf
    choices = {"FORM": code.form, "METRIC": code.distance, "NEEDS_GRAD": needs_grad}
    _add_far_tiles[(tiles, parts)](
        here, there, own_halves, halves, *weights, near_tiles, sums, gradient, n, m, d, here.shape[-1], itself,
        part_length, words, code.parameter, code.offset, near, high,
        PRECISION=product_precision(x), BLOCK_D=_DEPTH, BLOCK_N=_ROWS, BLOCK_M=_COLUMNS, **choices,
    )  # fmt: skip
    sums, gradient = (table[0] if len(table) == 1 else table.sum(dim=0) for table in (sums, gradient))
    add_near_tiles[(2 * tiles,)](
        x, table, *weights, near_tiles, sums, gradient, n, m, d, itself, part_length, words, parts,
        code.parameter, code.offset, BLOCK_N=_ROWS // 2, BLOCK_M=_COLUMNS, num_warps=_NEAR_WARPS, **choices,
    )  # fmt: skip
    return sums, gradient if needs_grad else None
