"""Tiles of pairs some of which are near: chords and forces by differences of coordinates, all in float32.

`kernel_sum` leaves these tiles out and sets a bit for each. The forces on a program's rows are its alone.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl

from unclump._precision import largest_slope
from unclump.ops.triton.formulas import GEODESIC, value_and_slope

_EPS = torch.finfo(torch.float32).eps
EPS, ROOT_EPS = tl.constexpr(_EPS), tl.constexpr(_EPS**0.5)
MOST = tl.constexpr(largest_slope(torch.float32))


@triton.jit
@no_type_check
def add_near_tiles(
    x, y, left, own, others_left, right, near_tiles, sums, gradient,
    n, m, d, itself, part_length, words, parts, parameter, offset,
    FORM: tl.constexpr, METRIC: tl.constexpr, NEEDS_GRAD: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add the marked tiles to the sums and to the gradient, of half the rows of a tile."""
    row_tiles, tile = tl.cdiv(n, 2 * BLOCK_N), tl.program_id(0) // 2
    sets = (tile // row_tiles).to(tl.int64)
    first_row = (tile % row_tiles) * (2 * BLOCK_N) + tl.program_id(0) % 2 * BLOCK_N
    rows, lanes = first_row + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    is_row = rows < n
    base = sets * n + first_row
    row = tl.minimum(rows, n - 1) - first_row
    points, forces = x + base * d, gradient + base * d
    for word in range(parts * words):
        bits = tl.load(near_tiles + tile.to(tl.int64) * parts * words + word)
        for bit in range(32 * (bits != 0).to(tl.int32)):
            start = word // words * part_length + (32 * (word % words) + bit) * BLOCK_M
            if (bits >> bit) & 1 != 0:
                columns = start + lanes
                base_column = sets * m + start
                column = tl.minimum(lanes, m - 1 - start)
                others = y + base_column * d
                r2, opposite = tl.zeros([BLOCK_N, BLOCK_M], tl.float32), tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
                for k in range(d):
                    a, b = tl.load(points + k + row * d)[:, None], tl.load(others + k + column * d)[None, :]
                    r2 += (a - b) * (a - b)
                    if METRIC == GEODESIC:
                        opposite += (a + b) * (a + b)
                coincide = r2 <= EPS * EPS
                r2 = tl.where(coincide, EPS, r2)
                gap = 4 - r2
                if METRIC == GEODESIC:  # towards an antipode the sum has the digits
                    is_opposite = r2 > 2
                    gap = tl.where(is_opposite, tl.where(opposite < EPS * EPS, EPS * EPS, opposite), gap)
                    r2 = tl.where(is_opposite, 4 - gap, r2)
                value, slope = value_and_slope(r2, gap, parameter, offset, FORM, METRIC)
                slope = tl.where(slope < -MOST, -MOST, slope)
                is_pair = (columns[None, :] < m) & (columns[None, :] != rows[:, None] + itself)
                value, slope = tl.where(is_pair, value, 0.0), tl.where(is_pair, slope, 0.0)
                by_column = tl.load(right + base_column + column)[None, :]
                other_left = tl.load(others_left + base_column + column)[None, :]
                value *= by_column
                by_row = tl.load(left + base + row)[:, None] * by_column
                slope *= by_row + tl.load(own + base + row)[:, None] * other_left
                before = tl.load(sums + base + row)
                tl.store(sums + base + row, before + tl.sum(value, 1), mask=is_row)
                if NEEDS_GRAD:
                    slope *= 2
                    for k in range(d):
                        a, b = tl.load(points + k + row * d)[:, None], tl.load(others + k + column * d)[None, :]
                        if METRIC == GEODESIC:  # the same but for a part that is normal to the sphere
                            a = tl.where(is_opposite, -a, a)
                        before = tl.load(forces + k + row * d)
                        tl.store(forces + k + row * d, before + tl.sum(slope * (a - b), 1), mask=is_row)
                    # Points that coincide are pushed aside by different amounts, along the axis of a small coordinate.
                    ahead = (rows[:, None] + itself - columns[None, :]).to(tl.float32)
                    push = tl.sum(tl.where(coincide, slope * ROOT_EPS * ahead / (1 + tl.abs(ahead)), 0.0), 1)
                    axes = tl.arange(0, 8)
                    first = tl.load(points + row[:, None] * d + axes[None, :], mask=axes[None, :] < d, other=2.0)
                    # At most a half of two coordinates or more; of a single one, where nothing is tangent, as finite.
                    smallest, axis = tl.minimum(tl.min(first * first, 1), 0.5), tl.argmin(first * first, 1)
                    push = tl.where(push != 0, push / tl.sqrt(1 - smallest), 0.0)
                    tl.debug_barrier()  # other threads read on what these have written
                    before = tl.load(forces + row * d + axis)
                    tl.store(forces + row * d + axis, before + push, mask=is_row)
                tl.debug_barrier()
