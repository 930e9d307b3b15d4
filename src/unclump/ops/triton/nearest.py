r"""Nearest neighbours: one kernel selects candidates by products, tile by tile; another measures them by differences.

Of centred points those nearest to :math:`a_i` have the largest scores :math:`\langle a_i, c_j \rangle - \lVert c_j
\rVert^2 / 2`. A program has a tile of rows, goes through tiles of columns, and keeps the few best of every row. Where
there are few rows the columns are cut into parts, whose candidates torch merges.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump.ops.native import check_alike
from unclump.ops.triton.tiles import centred, depth_of, parts_of_columns, product_precision, tunable

_PAIRS = 64  # that a program measures

# The best scores are the same whatever the tile: tuning changes no bit of a result.
_CONFIGS = [
    triton.Config({"BLOCK_N": 64, "BLOCK_M": 64}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_N": 128, "BLOCK_M": 64}, num_warps=8, num_stages=2),
]


@triton.autotune(tunable(_CONFIGS), ["width", "KEEP", "PRECISION"], cache_results=True)
@triton.jit
@no_type_check
def _select(
    here, there, halves, scores, index, n, m, width, itself, part_length,
    KEEP: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """The KEEP columns of this part with the largest scores, for a tile of rows of one set."""
    row_tiles = tl.cdiv(n, BLOCK_N)
    sets, tile = (tl.program_id(0) // row_tiles).to(tl.int64), tl.program_id(0) % row_tiles
    rows = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    lanes, slots, depth = tl.arange(0, BLOCK_M), tl.arange(0, KEEP), tl.arange(0, BLOCK_D)
    # Beyond the last row the last is read again, and what comes of it is not stored.
    row_start = here + (sets * n + tl.minimum(rows, n - 1)).to(tl.int64)[:, None] * width + depth[None, :]
    best = tl.full([BLOCK_N, KEEP], float("-inf"), tl.float32)
    numbers = tl.zeros([BLOCK_N, KEEP], tl.int32)
    first = tl.program_id(1) * part_length
    stop = tl.minimum(first + part_length, m)
    for start in range(first, stop, BLOCK_M):
        columns = start + lanes
        column_start = there + (sets * m + tl.minimum(columns, m - 1)).to(tl.int64)[None, :] * width + depth[:, None]
        product = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for k in range(0, width, BLOCK_D):
            product = tl.dot(tl.load(row_start + k), tl.load(column_start + k), product, input_precision=PRECISION)
        half = tl.load(halves + sets * m + columns, mask=columns < stop, other=float("inf"))
        score = product - half[None, :]
        # No row is its own neighbour, and none with a NaN is any: a comparison with it is false.
        score = tl.where((columns[None, :] != rows[:, None] + itself) & (score == score), score, float("-inf"))
        largest, least = tl.max(score, 1), tl.min(best, 1)
        while tl.max((largest > least).to(tl.int32), 0) > 0:
            lane = tl.argmax(score, 1)
            replaced = (slots[None, :] == tl.argmin(best, 1)[:, None]) & (largest > least)[:, None]
            best = tl.where(replaced, largest[:, None], best)
            numbers = tl.where(replaced, (start + lane)[:, None], numbers)
            score = tl.where(lanes[None, :] == lane[:, None], float("-inf"), score)
            largest, least = tl.max(score, 1), tl.min(best, 1)
    part = (sets * n + rows).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    place = part[:, None] * KEEP + slots[None, :]
    tl.store(scores + place, best, mask=rows[:, None] < n)
    tl.store(index + place, numbers, mask=rows[:, None] < n)


@triton.jit
@no_type_check
def _measure(
    x, y, scores, candidates, index, r2, n, m, d, total,
    K: tl.constexpr, KEEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The K nearest of the candidates of ROWS rows, by differences; infinitely far where there are fewer."""
    pairs = tl.program_id(0).to(tl.int64) * (ROWS * KEEP) + tl.arange(0, ROWS * KEEP)
    rows = pairs // KEEP  # of all sets
    here = rows < total
    number = tl.load(candidates + pairs, mask=here, other=0)
    depth = tl.arange(0, BLOCK_D)
    row_start = x + rows[:, None] * d + depth[None, :]
    other_start = y + (rows // n * m + number)[:, None] * d + depth[None, :]
    chord = tl.zeros([ROWS * KEEP], tl.float32)
    for k in range(0, d, BLOCK_D):
        inside = here[:, None] & (depth[None, :] < d - k)
        difference = tl.load(row_start + k, mask=inside, other=0).to(tl.float32)
        difference -= tl.load(other_start + k, mask=inside, other=0).to(tl.float32)
        chord += tl.sum(difference * difference, 1)
    counts = tl.load(scores + pairs, mask=here, other=0) > float("-inf")
    chord = tl.where(counts | (chord != chord), chord, float("inf"))
    # The rank of every candidate: how many are nearer, or as near and before it.
    length = tl.reshape(tl.where(chord == chord, chord, float("inf")), [ROWS, KEEP])
    place = tl.reshape(tl.where(counts, number, m) * KEEP + (pairs % KEEP).to(tl.int32), [ROWS, KEEP])
    nearer, as_near = length[:, None, :] < length[:, :, None], length[:, None, :] == length[:, :, None]
    before = nearer | (as_near & (place[:, None, :] < place[:, :, None]))
    rank = tl.reshape(tl.sum(before.to(tl.int32), 2), [ROWS * KEEP])
    target = rows * K + rank
    tl.store(index + target, tl.where(counts, number, 0).to(tl.int64), mask=here & (rank < K))
    tl.store(r2 + target, chord, mask=here & (rank < K))


def nearest(
    x: Float[Tensor, "*sets n d"],
    y: Float[Tensor, "*sets m d"] | None,
    mask: Bool[Tensor, "*sets m"] | None,
    k: int,
    itself: int,
) -> tuple[Int[Tensor, "*sets n {k}"], Float[Tensor, "*sets n {k}"]]:
    """`unclump.ops.nearest.nearest` of sets."""
    check_alike(x, y)
    x, table = x.contiguous(), (x if y is None else y).contiguous()
    *sets, n, d = x.shape
    m, keep = table.shape[-2], triton.next_power_of_2(k + 2)
    mean = table.mean(dim=-2, keepdim=True, dtype=torch.float32)
    nan_or_zero = 0 * mean.sum(dim=-1, keepdim=True)  # a NaN in the table makes every squared chord NaN
    mean.nan_to_num_()
    there, halves = centred(table, mean)
    here = there if y is None else centred(x, mean)[0]
    if mask is not None:
        halves = halves.masked_fill(~mask, torch.inf)
    total = x.numel() // d
    parts = parts_of_columns(x, total, m)
    scores = x.new_empty((total, parts * keep), dtype=torch.float32)
    candidates = x.new_empty((total, parts * keep), dtype=torch.int32)
    _select[lambda choice: (total // n * triton.cdiv(n, choice["BLOCK_N"]), parts)](
        here, there, halves, scores, candidates, n, m, here.shape[-1], itself, triton.cdiv(m, parts),
        KEEP=keep, BLOCK_D=depth_of(d), PRECISION=product_precision(x),
    )  # fmt: skip
    if parts > 1:
        scores, places = scores.topk(keep)
        candidates = candidates.gather(-1, places)
    index, r2 = x.new_empty((*sets, n, k), dtype=torch.long), x.new_empty((*sets, n, k), dtype=torch.float32)
    rows = _PAIRS // keep
    _measure[(triton.cdiv(total, rows),)](
        x, table, scores, candidates, index, r2, n, m, d, total, K=k, KEEP=keep, ROWS=rows, BLOCK_D=64
    )
    return index, r2.add_(nan_or_zero)
