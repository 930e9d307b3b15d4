r"""Sums of a kernel over blocks of pairs in float32; near pairs are measured exactly.

The squared chord :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32 is off by about
2e-7, wherever the points are. So it serves for pairs that are far apart, and to say which ones are not: those are
measured again, by the differences of their coordinates in double precision, and their kernel is asked for itself.

A block has the later points of its pairs for rows and the earlier ones for columns.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int
from torch import Tensor

from unclump.ops.native import threads
from unclump.ops.native.compiler import compiled
from unclump.ops.native.far import Far, OfChords, Polynomial, evaluate_cubics, evaluate_exponential
from unclump.ops.native.forces import Gradients, Near, add_force, add_near_forces_by_team, squared_chord_of_directions
from unclump.ops.native.gradients import (
    add_gradient,
    collect_by_embeddings,
    collect_by_embeddings_by_team,
    single,
)
from unclump.ops.native.layout import Laid, project_and_lay_out
from unclump.ops.native.product import (
    BLOCK,
    STRIDE,
    WIDTH,
    Chunks,
    columns_times,
    cut,
    pack,
    products,
    small_blocks,
    times_rows,
)
from unclump.ops.native.projection import A_THREAD
from unclump.ops.native.team import team

_COINCIDENT = float(np.finfo(np.float32).eps) ** 2  # squared chords that are within the precision
_LISTED = 2 * BLOCK**2  # near pairs that a thread may list before their kernel is asked for

Points = Float32[np.ndarray, "n d"]
Matrix = Float32[np.ndarray, "a b"]
Single = Float32[np.ndarray, " m"]
Lengths = Float64[np.ndarray, " n"]
Numbers = Int[np.ndarray, "t k"]


@dataclass(frozen=True)
class OfKernel:
    """What the loops have to know of a kernel."""

    far: Far
    value: OfChords
    """Of near pairs."""
    slope: OfChords
    """Its derivative by the squared chord, bounded."""
    apart: float
    """How far apart pairs are taken to be that are nearer than the precision."""


def mean_over_pairs(
    embeddings: Float32[Tensor, "n d"], kernel: OfKernel, *, wanted: bool, most: int
) -> tuple[float, Float32[Tensor, "n d"] | None]:
    """The mean of a kernel over all pairs of the embeddings' directions; and its gradient by the embeddings."""
    n, given = len(embeddings), embeddings.detach().contiguous().numpy()
    gradient, pairs = np.empty_like(given if wanted else given[:0]), n * (n - 1)
    several = threads(given.size, at_least=A_THREAD)
    if kernel.far.steepness != 0:
        of_kernel = *kernel.far, kernel.apart
        total = _sum_of_exponential_by_team(given, *of_kernel, 4 / pairs, gradient, min(several, most), several)
    else:
        points, inverse_norms = project_and_lay_out(given, several)
        places = small_blocks([(slice(0, n), slice(0, n))])
        total, gradients = _sum_over_pairs(points, places, kernel, wanted=wanted, most=most)
        collect_by_embeddings_by_team(gradients, 4 / pairs, points.x, inverse_norms, gradient, several)
    return single(2 * total / pairs), torch.from_numpy(gradient) if wanted else None


def _sum_over_pairs(
    points: Laid, places: Int[np.ndarray, "k 4"], kernel: OfKernel, *, wanted: bool, most: int
) -> tuple[float, Gradients]:
    """The sum over pairs in one order, and of every thread a quarter of the gradient of both."""
    (n, d), members = (len(points.inverse_norms), points.x.shape[1]), min(threads(len(places), at_least=1), most)
    totals, gradients = np.zeros(members), np.empty((members, n if wanted else 0, d))
    next_block, listed = np.arange(members), np.zeros(members, np.int64)
    most_listed = _LISTED if kernel.far.steepness == 0 else 0  # the loops know exponentials themselves
    first, second = np.empty((2, members, most_listed), np.int32)
    r2, weights = np.empty((2, members, most_listed))
    near = Near(first, second, r2, np.empty((members, most_listed), np.bool_))
    while True:
        _sum_by_team(*points, places, *kernel.far, kernel.apart, next_block, listed, totals, gradients, *near)
        for member in np.flatnonzero(listed):
            exact = torch.from_numpy(r2[member, : listed[member]])
            totals[member] += kernel.value(exact).sum().item()
            weights[member, : listed[member]] = kernel.slope(exact).numpy()
        if wanted and listed.any():
            add_near_forces_by_team(points.x, points.inverse_norms, listed, *near, weights, kernel.apart, gradients)
        if next_block.min() >= len(places):
            return float(totals.sum()), gradients


@compiled
def _sum_of_exponential_by_team(
    given: Points, at_zero: float, steepness: float, polynomial: Polynomial, cubics: Matrix, apart: float,
    factor: float, gradient: Points, most: int, threads: int,
) -> float:  # fmt: skip
    """The sum over pairs of embeddings' directions in one order; and a multiple of its gradient by the embeddings.

    No near pair has to be listed, and nothing else waits for Python.
    """
    n, d = given.shape
    points, inverse_norms = project_and_lay_out(given, threads)
    places = cut(np.array([[0, n, 0, n]]))
    members = min(most, len(places))
    totals, gradients = np.zeros(members), np.empty((members, len(gradient), d))
    state = np.arange(members), np.zeros(members, np.int64), totals, gradients
    none = np.empty((members, 0), np.int32)
    near = Near(none, none, np.empty((members, 0)), np.empty((members, 0), np.bool_))
    far = Far(at_zero, steepness, polynomial, cubics)
    team(_sum, (points, places, far, apart, *state, near), members, members)
    team(collect_by_embeddings, (gradients, factor, points.x, inverse_norms, gradient), len(gradient), threads)
    return float(totals.sum())


@compiled
def _sum_by_team(
    x: Points, laid_out: Chunks, squares: Single, inverse_norms: Lengths, places: Int[np.ndarray, "k 4"],
    at_zero: float, steepness: float, polynomial: Polynomial, cubics: Matrix, apart: float,
    next_block: Int[np.ndarray, " t"], listed: Int[np.ndarray, " t"], totals: Lengths, gradients: Gradients,
    first: Numbers, second: Numbers, r2: Float64[np.ndarray, "t k"], coincide: Bool[np.ndarray, "t k"],
) -> None:  # fmt: skip
    points, far = Laid(x, laid_out, squares, inverse_norms), Far(at_zero, steepness, polynomial, cubics)
    near = Near(first, second, r2, coincide)
    given = (points, places, far, apart, next_block, listed, totals, gradients, near)
    team(_sum, given, len(totals), len(totals))


@compiled
def _sum(
    points: Laid, places: Int[np.ndarray, "k 4"], far: Far, apart: float,
    next_block: Int[np.ndarray, " t"], listed: Int[np.ndarray, " t"], totals: Lengths, gradients: Gradients, near: Near,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Go over every so manieth block, until all are done or the list of near pairs may not hold those of another."""
    x, laid_out, squares = points.x, points.chunks, points.squares
    block, panels = np.zeros((BLOCK, STRIDE), np.float32), np.empty((BLOCK // WIDTH, x.shape[1], WIDTH), np.float32)
    product = np.empty((BLOCK, len(laid_out) * WIDTH), np.float32)
    by_late, by_early = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for member in range(start, stop):
        listed[member], packed = 0, -1
        if next_block[member] == member:
            gradients[member] = 0  # at the first call, so that the thread that fills it touches it first
        while next_block[member] < len(places):
            if far.steepness == 0 and listed[member] + BLOCK * BLOCK > near.r2.shape[1]:
                break
            early, early_stop, late, late_stop = places[next_block[member]]
            rows, columns, diagonal = late_stop - late, early_stop - early, early == late
            if early != packed:
                pack(x, early, columns, panels)
                packed = early
            products(x, late, rows, panels, columns, diagonal, block)
            given = block, rows, columns, diagonal, squares[late:], squares[early:]
            if far.steepness != 0:
                totals[member] += evaluate_exponential(*given, far.polynomial, far.steepness, by_late, by_early)
            else:
                totals[member] += evaluate_cubics(*given, far.cubics, by_late, by_early)
            for j in range(rows):
                if not by_late[j] < np.inf:
                    part = block[j, : j if diagonal else columns]
                    by_late[j] = _near_of_row(
                        points, part, late + j, early, far, apart, listed, totals, gradients, near, member
                    )
            if gradients.shape[1] > 0:
                times_rows(block, rows, laid_out, early, columns, diagonal, product)
                add_gradient(by_late, x, late, rows, product, gradients, member)
                columns_times(block, 0, columns, laid_out, late, rows, diagonal, product, 0)
                add_gradient(by_early, x, early, columns, product, gradients, member)
            next_block[member] += len(totals)


@compiled
def _near_of_row(
    points: Laid, slopes: Single, b: int, early: int, far: Far, apart: float,
    listed: Int[np.ndarray, " t"], totals: Lengths, gradients: Gradients, near: Near, member: int,
) -> Any:  # fmt: skip
    """Measure the near pairs of a point, and leave zeros for their slopes; the sum of the others.

    Those of an exponential are added at once, and of other kernels listed.
    """
    total = np.float32(0)
    for i in range(len(slopes)):
        if slopes[i] < np.inf:
            total += slopes[i]
            continue
        slopes[i], a = 0, early + i
        r2 = squared_chord_of_directions(points.x, points.inverse_norms, a, b)
        twins = r2 <= _COINCIDENT
        r2 = apart * apart if twins else r2
        if far.steepness == 0:
            k = listed[member]
            near.first[member, k], near.second[member, k] = a, b
            near.r2[member, k], near.coincide[member, k] = r2, twins
            listed[member] += 1
        else:
            value = far.at_zero * math.exp(far.steepness * r2)
            totals[member] += value
            if gradients.shape[1] > 0:
                pair = a, b, r2, twins, far.steepness * value
                add_force(points.x, points.inverse_norms, *pair, apart, gradients, member)
    return total
