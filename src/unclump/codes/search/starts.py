"""Starts of the solver: random points, and random points with a symmetry."""

import numpy as np
from jaxtyping import Float

from unclump.codes.search.orbits import random_orbits
from unclump.codes.search.permuted import PermutedStarts

QUICK_KINDS = ("random", "symmetric", "antipodal", "blocks")  # take a time that is small beside an anneal, for any size
START_KINDS = (*QUICK_KINDS, "permuted")

Points = Float[np.ndarray, "n d"]


def make_start(n: int, d: int, kind: str, generator: np.random.Generator) -> Points:
    """Unit points of one of the `START_KINDS`; points of symmetric starts may coincide.

    Example:
        >>> x = make_start(6, 3, "antipodal", np.random.default_rng(0))
        >>> bool(np.all(x[::2] == -x[1::2]))
        True
    """
    makers = {
        "random": _random,
        "symmetric": _symmetric,
        "antipodal": _antipodal,
        "blocks": _blocks,
        "permuted": _permuted,
    }
    return makers[kind](n, d, generator)


def _random(n: int, d: int, generator: np.random.Generator) -> Points:
    return _unit_rows(generator.standard_normal((n, d)))


def _symmetric(n: int, d: int, generator: np.random.Generator) -> Points:
    """Orbits of a random group."""
    return random_orbits(n, d, generator).points


def _unit_rows(x: Points) -> Points:
    projected: Points = x / np.linalg.norm(x, axis=1, keepdims=True)
    return projected


def _antipodal(n: int, d: int, generator: np.random.Generator) -> Points:
    half = _random(-(-n // 2), d, generator)
    return np.stack([half, -half], axis=1).reshape(-1, d)[:n]


def _blocks(n: int, d: int, generator: np.random.Generator) -> Points:
    """Random orthonormal bases and their negatives, the last one truncated."""
    count = -(-n // (2 * d))
    bases = np.linalg.qr(generator.standard_normal((count, d, d))).Q
    return np.stack([bases, -bases], axis=2).reshape(-1, d)[:n]


def _permuted(n: int, d: int, generator: np.random.Generator) -> Points:
    """Permuted by a random group."""
    return PermutedStarts(n, d, generator).draw()
