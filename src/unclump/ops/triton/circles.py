"""Distance to even spacing on circles, around torch's sort: angles before it, the gradient's coefficients after it."""

import math
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

from unclump.geometry.circles import Circles, matched
from unclump.ops.triton.formulas import arc_tangent
from unclump.ops.triton.tiles import product_precision

_ROWS, _CIRCLES, _DEPTH, _WIDTH, _RANKS = 64, 16, 16, 32, 1024  # of a program
EPS = tl.constexpr(torch.finfo(torch.float32).eps)
LEAST = tl.constexpr(16 / torch.finfo(torch.float32).max)


@triton.jit
@no_type_check
def _find_angles(
    x, circles, mask, along, angles, n, d, count,
    AXES: tl.constexpr, HAS_MASK: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Coordinates and angles of a tile of points on a tile of circles; infinite for points that a mask leaves out."""
    row_tiles = tl.cdiv(n, BLOCK_N)
    sets, tile = (tl.program_id(0) // row_tiles).to(tl.int64), tl.program_id(0) % row_tiles
    rows, depth = tile * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    number = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    is_row, is_circle = rows < n, number < count
    points = x + (sets * n + rows) * d
    p, q = tl.zeros([BLOCK_N, BLOCK_K], tl.float32), tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    if not AXES:
        for k in range(0, d, BLOCK_D):
            inside = depth < d - k
            row = tl.load(points[:, None] + k + depth[None, :], mask=is_row[:, None] & inside[None, :], other=0.0)
            vectors = circles + number[None, :] * (2 * d) + k + depth[:, None]
            chosen = is_circle[None, :] & inside[:, None]
            p = tl.dot(row, tl.load(vectors, mask=chosen, other=0.0), p, input_precision=PRECISION)
            q = tl.dot(row, tl.load(vectors + d, mask=chosen, other=0.0), q, input_precision=PRECISION)
    if AXES:  # no product: the coordinates themselves, NaN for an axis that does not exist
        first, second = tl.load(circles + 2 * number, mask=is_circle), tl.load(circles + 2 * number + 1, mask=is_circle)
        exists = is_circle & (first >= 0) & (first < d) & (second >= 0) & (second < d)
        chosen = is_row[:, None] & exists[None, :]
        p = tl.load(points[:, None] + first[None, :], mask=chosen, other=float("nan"))
        q = tl.load(points[:, None] + second[None, :], mask=chosen, other=float("nan"))
    low, high = tl.minimum(tl.abs(p), tl.abs(q)), tl.maximum(tl.abs(p), tl.abs(q))
    angle = arc_tangent(low / tl.where(high == 0, 1.0, high))
    angle = tl.where(tl.abs(q) > tl.abs(p), 1.5707963267948966 - angle, angle)
    angle = tl.where(p < 0, 3.141592653589793 - angle, angle)
    angle = tl.where((p != p) | (q != q), float("nan"), tl.where(q < 0, -angle, angle))
    if HAS_MASK:
        takes_part = tl.load(mask + sets * n + rows, mask=is_row, other=0).to(tl.int32) != 0
        angle = tl.where(takes_part[:, None], angle, float("inf"))
    circle = sets * count + number[None, :]
    place, inside = rows[:, None] + 2 * circle * n, is_row[:, None] & is_circle[None, :]
    tl.store(along + place, p, mask=inside)
    tl.store(along + place + n, q, mask=inside)
    tl.store(angles + rows[:, None] + circle * n, angle, mask=inside)


@triton.jit
@no_type_check
def _find_coefficients(
    along, ordered, order, means, present, largest, coefficients, squares, n, count, BLOCK: tl.constexpr
):
    """Of some ranks on one circle: the coefficients of the points that have them, and the sum of squared gaps."""
    circle = tl.program_id(0).to(tl.int64)
    rank = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_rank = rank < n
    point = tl.load(order + circle * n + rank, mask=is_rank, other=0)
    total = tl.load(present + circle // count)  # the others have the last ranks, and no gap
    place = (2 * rank + 1 - total) * (3.141592653589793 / tl.maximum(total, 1.0))
    angle = tl.load(ordered + circle * n + rank, mask=rank < total, other=0.0)
    gap = tl.where(rank < total, angle - (tl.load(means + circle) + place), 0.0)
    p = tl.load(along + 2 * circle * n + point, mask=is_rank, other=1.0)
    q = tl.load(along + (2 * circle + 1) * n + point, mask=is_rank, other=1.0)
    high = tl.maximum(tl.abs(p), tl.abs(q))
    low = tl.minimum(tl.abs(p), tl.abs(q)) / tl.where(high == 0, 1.0, high)
    # Nearer to the circle's axis than the points' precision the angle is not known: there the gradient stays bounded.
    bound = tl.load(largest + circle // count * n + point, mask=is_rank, other=1.0)
    bound *= EPS
    bound = tl.where(bound > LEAST, bound, LEAST)
    radius = tl.maximum(high * tl.sqrt(1 + low * low), bound)
    turn = tl.where(rank < total, gap / radius, 0.0)
    tl.store(coefficients + 2 * circle * n + point, tl.where(turn == 0, 0.0, -turn * (q / radius)), mask=is_rank)
    tl.store(coefficients + (2 * circle + 1) * n + point, tl.where(turn == 0, 0.0, turn * (p / radius)), mask=is_rank)
    tl.store(squares + circle * tl.num_programs(1) + tl.program_id(1), tl.sum(gap * gap, 0))


@triton.jit
@no_type_check
def _combine(
    coefficients, circles, scale, gradient, n, d, count, scales,
    AXES: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The sums over circles, in their order, for a tile of the gradient: the same bits however often an axis comes."""
    row_tiles = tl.cdiv(n, BLOCK_N)
    sets, tile = (tl.program_id(0) // row_tiles).to(tl.int64), tl.program_id(0) % row_tiles
    rows = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for vector in range(2 * count):
        factor = tl.load(coefficients + (sets * 2 * count + vector) * n + rows, mask=rows < n, other=0.0)
        if AXES:
            total += tl.where(depth[None, :] == tl.load(circles + vector), factor[:, None], 0.0)
        else:
            total += factor[:, None] * tl.load(circles + vector * d + depth, mask=depth < d, other=0.0)[None, :]
    total *= tl.load(scale + sets * (scales > 1))
    inside = (rows[:, None] < n) & (depth[None, :] < d)
    tl.store(gradient + (sets * n + rows)[:, None] * d + depth[None, :], total, mask=inside)


def even_spacing(
    x: Float[Tensor, "*sets n d"],
    circles: Circles,
    largest: Float[Tensor, "*sets n 1"],
    mask: Bool[Tensor, "*sets n"] | None,
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets k 2 n"]]:
    """`unclump.ops.even_spacing.squares_of_gaps` of sets."""
    x, circles = x.contiguous(), matched(circles, x, x.shape[-1])
    *sets, n, d = x.shape
    count, total = len(circles), x.numel() // (n * d)
    along, angles = x.new_empty((*sets, count, 2, n)), x.new_empty((*sets, count, n))
    coefficients, blocks = torch.empty_like(along), triton.cdiv(n, _RANKS)
    squares = x.new_empty((*sets, count * blocks))
    _find_angles[(total * triton.cdiv(n, _ROWS), triton.cdiv(count, _CIRCLES))](
        x, circles, x if mask is None else mask.contiguous(), along, angles, n, d, count,
        AXES=not circles.is_floating_point(), HAS_MASK=mask is not None,
        PRECISION=product_precision(x), BLOCK_N=_ROWS, BLOCK_K=_CIRCLES, BLOCK_D=_DEPTH,
    )  # fmt: skip
    ordered, order = angles.sort(dim=-1)
    if mask is None:
        present, sums = x.new_full(sets, n), angles.sum(dim=-1)
    else:
        present, sums = mask.sum(dim=-1, dtype=x.dtype), angles.masked_fill(angles == torch.inf, 0).sum(dim=-1)
    _find_coefficients[(total * count, blocks)](
        along, ordered, order, sums / present.unsqueeze(-1).clamp_min(1), present, largest.contiguous(),
        coefficients, squares, n, count, BLOCK=_RANKS,
    )  # fmt: skip
    return squares.sum(dim=-1), coefficients


def combine(
    coefficients: Float[Tensor, "*sets k 2 n"], circles: Circles, d: int, scale: Float[Tensor, "..."]
) -> Float[Tensor, "*sets n {d}"]:
    """The vectors with these coefficients of both vectors of every circle, scaled: one number for all, or for a set."""
    coefficients, circles = coefficients.contiguous(), matched(circles, coefficients, d)
    *sets, count, _, n = coefficients.shape
    gradient, total = coefficients.new_empty((*sets, n, d)), math.prod(sets)
    _combine[(total * triton.cdiv(n, _ROWS), triton.cdiv(d, _WIDTH))](
        coefficients, circles, scale.contiguous(), gradient, n, d, count, scale.numel(),
        AXES=not circles.is_floating_point(), BLOCK_N=_ROWS, BLOCK_D=_WIDTH,
    )  # fmt: skip
    return gradient
