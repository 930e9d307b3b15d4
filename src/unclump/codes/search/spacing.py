"""Chords and angles: an estimate of the distance between neighbours, and the angle of a chord."""

import math

from scipy import special


def estimate_spacing(n: int, d: int) -> float:
    """Estimate the chord between neighbours, assuming that n caps cover the same fraction as a dense packing."""
    density = {2: 1.0, 3: 0.85, 4: 0.7}.get(d, 0.65 * 0.72 ** (d - 4))
    fraction = min(0.5, density / n)  # of the sphere's area in one cap of half the minimal angle
    a = (d - 1) / 2
    half = math.asin(math.sqrt(special.betaincinv(a, 0.5, 2 * fraction)))
    return 2 * math.sin(min(half, math.pi / 3))


def angle_of_squared_chord(square: float) -> float:
    """The angle of a squared chord, accurate near 0 and 4."""
    return 2 * math.atan2(math.sqrt(square), math.sqrt(4 - square))
