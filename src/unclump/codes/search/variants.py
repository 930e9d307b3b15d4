"""Variants of a code: those that differ in the places of a few points, and in the angle by as little as 1e-5 degrees.

Where parts of a code are loose, each settles in one of several ways, and a polish ends in any of their combinations.
The best is rarely met by chance, but few steps away: all that are known are kept, and each is tried about as often.
"""

from dataclasses import dataclass

import numpy as np

from unclump.codes.search.loops import Flag, Points, minimise_overlap, polish, smallest_squared_chord
from unclump.codes.search.moves import into_hole_nearby, shake_cap

_EXCESSES = (1e-4, 5e-4, 2e-3, 5e-3)  # of the squared distance at which overlaps are reduced: the least changes least
_ITERATIONS, _TOLERANCE = 300, 1e-3  # the tolerance is relative to the overlap of one pair at the excess
_REACH, _STEPS = 1.25, 100
_MARGINS = (3e-6, 1e-4, 3e-3)  # of the polish: the least stays closest
_HOPELESS = 1e-3  # of the squared chord below the best, before the polish
_KEPT, _WITHIN = 60, 2e-4  # variants, and how far their squared chords may be below the best
_SAME = 1e-9  # of the squared chord


@dataclass
class _Variant:
    points: Points
    square: float
    tries: int = 0


def best_variant(x: Points, patience: int, generator: np.random.Generator, flag: Flag) -> Points:
    """The best variant of a polished code; ends after `patience` steps without a better one."""
    first = _Variant(x, smallest_squared_chord(x))
    best, idle = first, 0
    known = {_key(first.square): first}
    while idle < patience and not flag[0]:
        idle += 1
        trial = _step(_least_tried(known, best.square), best.square, generator, flag)
        if trial is None or trial.square < (1 - _WITHIN) * best.square or _key(trial.square) in known:
            continue
        known[_key(trial.square)] = trial
        if trial.square > best.square * (1 + 1e-13):
            best, idle = trial, 0
        if len(known) > _KEPT:
            del known[min(known)]
    return best.points


def _least_tried(known: dict[int, _Variant], best: float) -> _Variant:
    """One of the variants with the fewest tries, where the worst have to wait longest."""
    variant = min(known.values(), key=lambda one: one.tries + 10 * (1 - one.square / best) / _WITHIN)
    variant.tries += 1
    return variant


def _step(variant: _Variant, best: float, generator: np.random.Generator, flag: Flag) -> _Variant | None:
    """Move a point or shake a cap, let overlaps push the points apart, and polish; None if the result is far worse."""
    excess = float(generator.choice(_EXCESSES))
    square = (1 + excess) * variant.square
    x = (into_hole_nearby if generator.random() < 0.5 else shake_cap)(variant.points, generator)
    minimise_overlap(x, square, _ITERATIONS, _TOLERANCE * (excess * square) ** 2, flag)
    overlaps = np.maximum(square - 2 + 2 * x @ x.T, 0)
    np.fill_diagonal(overlaps, 0)
    if overlaps.any() and square - np.square(overlaps).sum() / overlaps.sum() < (1 - _HOPELESS) * best:
        return None  # where overlaps balance, their mean chord is close to what a polish reaches
    return _Variant(x, polish(x, _REACH, _STEPS, flag, margin=float(generator.choice(_MARGINS))))


def _key(square: float) -> int:
    return round(square / _SAME)
