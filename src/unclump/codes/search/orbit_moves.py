"""Moves within a symmetry: whole orbits move into holes, so that every intermediate code has the exact symmetry."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from unclump.codes.search.loops import Flag, anneal_orbits
from unclump.codes.search.orbits import Orbits
from unclump.codes.search.spacing import estimate_spacing

_STARTS = 3
_SAMPLES, _HOLES = 200, 8
_FIRST, _AFTER_MOVE, _SHARPEST = 4.0, 64.0, 2048.0
_ITERATIONS, _TOLERANCE = 50, 1e-3
_PROMISING = 0.997  # of the largest squared chord so far: polishing may reverse the order


def promising_orbits(orbits: Orbits, patience: int, generator: np.random.Generator, flag: Flag) -> Iterator[Orbits]:
    """Anneal random orbits of these types, continue with moves, and yield those about as good as the best so far.

    Args:
        orbits: Their group and types are kept; their representatives are not used.
        patience: The number of moves without improvement after which to stop.
        generator: Draws the representatives and the moves.
        flag: Nonzero to stop early.
    """
    spacing = estimate_spacing(int(orbits.sizes.sum()), orbits.representatives.shape[1])

    def anneal(trial: Orbits, softest: float) -> float:
        return anneal_orbits(trial, softest, _SHARPEST, _ITERATIONS, _TOLERANCE, spacing, flag)

    starts = [orbits.randomised(generator) for _ in range(_STARTS)]
    squares = [anneal(start, _FIRST) for start in starts]
    largest = max(squares)
    best = starts[squares.index(largest)]
    yield best
    idle = 0
    while idle < patience and not flag[0]:
        trial = move_orbits(best, generator)
        square = anneal(trial, _AFTER_MOVE)
        idle += 1
        if square > _PROMISING * largest and not math.isclose(square, largest, rel_tol=1e-9):
            yield trial
        if square > largest * (1 + 1e-7):
            best, largest, idle = trial, square, 0


def move_orbits(orbits: Orbits, generator: np.random.Generator) -> Orbits:
    """Move one or two orbits, each into one of its eight deepest holes; in three of ten cases, also shake all orbits.

    Points on axes do not move.
    """
    firsts = np.cumsum(orbits.sizes) - orbits.sizes
    projectors = orbits.matrices[firsts]
    is_free = np.einsum("mii->m", projectors) > 1.5
    representatives = _unit(orbits.representatives)
    count = min(int(generator.integers(1, 3)), int(is_free.sum()))
    for moved in generator.choice(np.flatnonzero(is_free), size=count, replace=False):
        representatives[moved] = _hole(replace(orbits, representatives=representatives), int(moved), generator)
    if generator.random() < 0.3:
        n, d = len(orbits.matrices), representatives.shape[1]
        noise = estimate_spacing(n, d) * math.sqrt(3 / d) * generator.standard_normal(representatives.shape)
        shaken = representatives + generator.uniform(0.1, 0.4) * noise
        shaken = _unit(np.einsum("mij,mj->mi", projectors, shaken))
        representatives = np.where(is_free[:, None], shaken, representatives)
    return replace(orbits, representatives=np.ascontiguousarray(representatives))


def _hole(orbits: Orbits, moved: int, generator: np.random.Generator) -> Float[np.ndarray, " d"]:
    """One of the positions, out of 200, that are farthest from the other orbits and from their own images."""
    first, size = int(orbits.sizes[:moved].sum()), int(orbits.sizes[moved])
    matrices = orbits.matrices[first : first + size]
    positions = _unit(generator.standard_normal((_SAMPLES, matrices.shape[1])) @ matrices[0])  # a symmetric projector
    others = np.delete(orbits.points, np.s_[first : first + size], axis=0)
    nearest = np.full(_SAMPLES, -1.0) if len(others) == 0 else (positions @ others.T).max(axis=1)
    if size > 1:
        images = np.einsum("kij,sj->ski", matrices[1:], positions)
        nearest = np.maximum(nearest, np.einsum("ski,si->sk", images, positions).max(axis=1))
    chosen: Float[np.ndarray, " d"] = positions[generator.choice(np.argsort(nearest)[:_HOLES])]
    return chosen


def _unit(x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
    projected: Float[np.ndarray, "m d"] = x / np.linalg.norm(x, axis=1, keepdims=True)
    return projected
