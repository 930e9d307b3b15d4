"""A walk that lowers the overlap of points at a slightly too large distance.

The overlap sums the violations of all pairs, while the smallest angle depends on the worst pair alone. At a distance
a percent too large, codes that differ in a few loose points are one, and a step takes a fraction of an anneal.
"""

import math
from collections.abc import Callable

import numpy as np

from unclump.codes.search.loops import Flag, Points, minimise_overlap, smallest_squared_chord
from unclump.codes.search.moves import move, overlapping_into_holes
from unclump.codes.search.pool import Candidate

# Squared target distance, relative to the best so far. In more dimensions 1.01 tells too many codes apart: most of the
# time then goes into their angles (60 points in 7-D, equal time: 250 moves, and 5000 with a better result at 1.03).
_EXCESS_TO_4D, _EXCESS = 1.01, 1.03
_ITERATIONS, _TOLERANCE = 400, 1e-3  # the tolerance is relative to the overlap before the move
_RISE = 0.1  # the mean relative increase, of the overlap's root, that a move may cause
_SAME = 3e-3  # relative difference of the overlap
_NEAR_LEAST = 1.1  # of the smallest overlap: below it, the angle is computed


def reduce_overlap(
    best: Candidate,
    target: float,
    patience: int,
    better_angle: Callable[[Points], Candidate | None],
    generator: np.random.Generator,
    flag: Flag,
) -> None:
    """Walk from a code, and improve it in place.

    Args:
        best: Where to start.
        target: The angle at which to stop.
        patience: Moves without a smaller overlap, or a better code, after which to stop.
        better_angle: Returns the code near these points, or None if its angle is not larger than the best.
        generator: Draws the moves.
        flag: Nonzero to stop early.
    """
    x, idle = best.points.copy(), 0
    excess = _EXCESS_TO_4D if x.shape[1] <= 4 else _EXCESS
    while idle < patience and not flag[0] and best.score < target:
        square = excess * smallest_squared_chord(best.points)
        overlap = _descend(x, square, 0.0, math.inf, flag)
        least, known = overlap, set[int]()
        while idle < patience and not flag[0]:
            step = overlapping_into_holes(x, square, generator) if generator.random() < 0.5 else move(x, generator)
            limit = overlap * (1 + _RISE * generator.exponential()) ** 2
            trial_overlap = _descend(step, square, _TOLERANCE * overlap, limit, flag)
            best.hops += 1
            idle += 1
            if math.isclose(trial_overlap, overlap, rel_tol=_SAME) or trial_overlap > limit:
                continue
            x, overlap = step, trial_overlap
            if overlap < least * (1 - _SAME):
                least, idle = overlap, 0
            basin = round(math.log(max(overlap, 1e-300)) / _SAME)
            if overlap > _NEAR_LEAST * least or basin in known:
                continue
            known.add(basin)
            code = better_angle(x)
            if code is not None:
                best.points, best.score, best.screened, idle = code.points, code.score, None, 0
                break


def _descend(x: Points, square: float, tolerance: float, limit: float, flag: Flag) -> float:
    overlap = minimise_overlap(x, square, _ITERATIONS, tolerance, flag, limit=limit)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return overlap
