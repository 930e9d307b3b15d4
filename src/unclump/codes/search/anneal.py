r"""Annealing: minimise the soft maximum of the cosines, sharpened step by step, down to a local optimum.

At sharpness :math:`s = p / r_{\min}^2`, where :math:`r_{\min}` is the least chord, a pair at the chord r weighs
:math:`\exp(-\tfrac p2 (r^2 / r_{\min}^2 - 1))`: at p = 4 points feel each other over several spacings, at p = 2048
only the pairs that are all but active.
"""

import math

import numpy as np
from jaxtyping import Float, UInt8
from scipy import special

from unclump.codes.search.descent import SOFT, SOFT_NEAR, STALE, minimise, normalise
from unclump.codes.search.pair_sums import FAR, largest_cosine, near_pairs
from unclump.ops.native.compiler import compiled

Points = Float[np.ndarray, "n d"]

SHARPEST = 2048.0


def estimate_spacing(n: int, d: int) -> float:
    """Estimate the chord between neighbours: n caps cover the fraction of the sphere that dense packings do."""
    density = {2: 1.0, 3: 0.85, 4: 0.7}.get(d, 0.65 * 0.72 ** (d - 4))
    fraction = min(0.5, density / n)  # of the sphere's area in one cap of half the minimal angle
    a = (d - 1) / 2
    half = math.asin(math.sqrt(special.betaincinv(a, 0.5, 2 * fraction)))
    return 2 * math.sin(min(half, math.pi / 3))


@compiled
def columns(x: Points) -> Float[np.ndarray, "d n"]:
    """The points as columns."""
    return np.ascontiguousarray(x.T)


@compiled
def anneal(
    x: Points,
    softest: float,
    sharpest: float,
    iterations: int,
    tolerance: float,
    spacing: float,
    stop: UInt8[np.ndarray, "1"],
) -> float:
    """Minimise the soft maximum at p = `softest`, twice that, and so on to `sharpest`, in place.

    Args:
        x: The points, rows of any nonzero norm.
        softest: The first p.
        sharpest: The last p.
        iterations: Maximum for each p.
        tolerance: On the decrease per iteration, relative to the squared spacing over p.
        spacing: Estimate of the final smallest chord, as a start may contain coinciding points.
        stop: Nonzero to stop early.

    Returns:
        The largest cosine.
    """
    n = len(x)
    none = np.zeros(1, np.int64), np.zeros(1, np.int32)
    parameters = np.zeros(4)
    p = softest
    normalise(x)
    while p <= sharpest and stop[0] == 0:
        remaining = iterations
        square = max(2 - 2 * largest_cosine(columns(x)), 0.4 * spacing * spacing)
        parameters[0], parameters[1] = p / square, 1 - square / 2
        chord = math.sqrt(square)
        skin = min(0.3, 8 / p + 0.03) * chord
        cut = math.sqrt(square * (1 - 2 * FAR / p)) + 2 * skin
        while remaining > 0:
            start, partner = none
            objective = SOFT
            if cut < 1.2:
                start, partner = near_pairs(columns(x), 1 - cut * cut / 2)
                if len(partner) < n * (n - 1) / 8:
                    objective = SOFT_NEAR
            _, status, used = minimise(
                x, remaining, tolerance * square / p, chord, skin, objective, parameters, start, partner, stop
            )
            remaining -= used
            if status != STALE:
                break
        p *= 2
    normalise(x)
    largest: float = largest_cosine(columns(x))
    return largest
