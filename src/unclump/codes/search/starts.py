"""Starts of the solver: random points, and random points with an exact symmetry."""

import math

import numpy as np
from jaxtyping import Float

START_KINDS = ("random", "cyclic", "antipodal", "blocks")

Points = Float[np.ndarray, "n d"]


def make_start(n: int, d: int, kind: str, generator: np.random.Generator) -> Points:
    """Unit points of one of the `START_KINDS`; points of symmetric starts may coincide.

    Example:
        >>> x = make_start(6, 3, "antipodal", np.random.default_rng(0))
        >>> bool(np.all(x[::2] == -x[1::2]))
        True
    """
    makers = {"random": _random, "cyclic": _cyclic, "antipodal": _antipodal, "blocks": _blocks}
    return makers[kind](n, d, generator)


def _random(n: int, d: int, generator: np.random.Generator) -> Points:
    return _unit_rows(generator.standard_normal((n, d)))


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


def _cyclic(n: int, d: int, generator: np.random.Generator) -> Points:
    """Orbits of a random isometry of finite order, and points that it fixes."""
    order = _random_order(n, generator)
    step = _random_isometry(d, order, generator)
    powers = [np.eye(d)]
    while len(powers) < n and not np.allclose(powers[-1] @ step, np.eye(d), atol=1e-9):
        powers.append(powers[-1] @ step)
    period = len(powers)
    mean = np.mean(powers, axis=0)  # projects onto the fixed subspace
    leftover = n % period
    orbits = np.einsum("pij,nj->npi", np.stack(powers), _random(n // period, d, generator)).reshape(-1, d)
    rest = _random(leftover, d, generator)
    if np.trace(mean) > 0.5:
        rest = rest @ mean
        if round(np.trace(mean)) == 1 and leftover == 2:
            rest[1] = -rest[0]
    return _unit_rows(np.concatenate([orbits, rest]))


def _random_order(n: int, generator: np.random.Generator) -> int:
    """A random order whose orbits leave at most two points over; in half of the cases at most six, if possible."""
    fits = [m for m in range(2, n + 1) if n % m <= 2]
    small = [m for m in fits if m <= 6]
    return int(generator.choice(small if small and generator.random() < 0.5 else fits))


def _random_isometry(d: int, order: int, generator: np.random.Generator) -> Float[np.ndarray, "{d} {d}"]:
    """Rotations by random multiples of 2π/order in coordinate planes, and a random sign on an odd last axis."""
    matrix = np.eye(d)
    for k in range(0, d - 1, 2):
        turns = 1 if k == 0 else int(generator.integers(0, order))
        c, s = math.cos(2 * math.pi * turns / order), math.sin(2 * math.pi * turns / order)
        matrix[k : k + 2, k : k + 2] = [[c, -s], [s, c]]
    if d % 2 == 1 and generator.random() < 0.3:
        matrix[-1, -1] = -1
    return matrix
