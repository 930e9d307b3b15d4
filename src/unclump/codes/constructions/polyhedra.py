r"""The proved optima in three dimensions other than simplices and cross-polytopes.

Each is given in coordinates adapted to its symmetry. The contacts give equations that reduce to a single unknown, the
largest cosine c; `COSINE` holds it, accurate to the last bit or two.
"""

from collections.abc import Callable
from math import acos, atan2, cos, hypot, pi, sin, sqrt

import numpy as np

from unclump.codes.constructions.polytopes import GOLDEN, Points, ring, sign_patterns, unit_rows


def bisect(f: Callable[[float], float], low: float, high: float) -> float:
    """The sign change of `f` between `low` and `high`, by bisection down to adjacent floats."""
    rising = f(high) > 0
    while low < (middle := (low + high) / 2) < high:
        if (f(middle) > 0) is rising:
            high = middle
        else:
            low = middle
    return middle


POLE = np.array([[0.0, 0.0, 1.0]])
TRIBONACCI = bisect(lambda t: t**3 - t**2 - t - 1, 1, 2)


def _latitudes_10(c: float) -> tuple[float, float]:
    """The latitudes of the two pairs near the pole; see `points_10`."""
    x, w = sqrt((1 - c) / 2), -(3 * c - 1) / sqrt(2 * (1 + c))
    y = sqrt(1 - x**2 - w**2)
    return atan2(w, y) + acos(c / hypot(y, w)), atan2(w, x) + acos(c / hypot(x, w))


def _height_13(c: float) -> float:
    """The height of the middle square; see `points_13`."""
    return sqrt(c) * (1 - sqrt(1 + c)) / (sqrt(c) + sqrt(1 + c))


COSINE = {
    7: bisect(lambda c: 3 * c**3 - 9 * c**2 - 3 * c + 1, 0, 0.5),
    8: (2 * sqrt(2) - 1) / 7,
    9: 1 / 3,
    10: bisect(lambda c: sin(_latitudes_10(c)[0]) * sin(_latitudes_10(c)[1]) - c, 0.35, 0.45),
    11: 1 / sqrt(5),
    12: 1 / sqrt(5),
    13: bisect(lambda c: 2 * (c + sqrt(c) * _height_13(c)) ** 2 / (1 - c) + _height_13(c) ** 2 - 1, 0.4, 0.7),
    14: bisect(lambda c: 4 * c**4 - 2 * c**3 + 3 * c**2 - 1, 0.5, 0.6),
    24: 1 - (1 + 2 * TRIBONACCI - TRIBONACCI**2) / (1 + TRIBONACCI**-2 + TRIBONACCI**2),
}


def points_7() -> Points:
    """A pole, a triangle in contact with it, and a rotated triangle in contact with the first, its points touching."""
    c = COSINE[7]
    return np.concatenate([POLE, ring(3, c), ring(3, -sqrt((1 + 2 * c) / 3), pi / 3)])


def points_8() -> Points:
    """The square antiprism with equal edges."""
    height = sqrt(COSINE[8])
    return np.concatenate([ring(4, height), ring(4, -height, pi / 4)])


def points_9() -> Points:
    """A triangle on the equator, and two more at heights ±h, each with its points touching."""
    height = sqrt(5) / 3
    return np.concatenate([ring(3, height), ring(3, 0, pi / 3), ring(3, -height)])


def points_10() -> Points:
    """Two mirror planes, x = 0 and y = 0: three pairs on them, and four points off them.

    The points of the lowest pair, (±x, 0, -z) with 1 - 2x² = c, touch; so do the four points (±x, ±y, w) across x = 0,
    and these touch the lowest pair: x² - w z = c. The two upper pairs, one per plane, touch the four and each other.
    """
    c = COSINE[10]
    x, z = sqrt((1 - c) / 2), sqrt((1 + c) / 2)
    w = -(3 * c - 1) / sqrt(2 * (1 + c))
    y = sqrt(1 - x**2 - w**2)
    first, second = _latitudes_10(c)
    points = [
        [x, 0, -z],
        [-x, 0, -z],
        *([i * x, j * y, w] for i in (1, -1) for j in (1, -1)),
        [0, cos(first), sin(first)],
        [0, -cos(first), sin(first)],
        [cos(second), 0, sin(second)],
        [-cos(second), 0, sin(second)],
    ]
    return unit_rows(np.array(points))


def icosahedron() -> Points:
    """The cyclic permutations of (0, ±1, ±golden)."""
    corners = np.array([[0, i, j * GOLDEN] for i in (1, -1) for j in (1, -1)])
    return unit_rows(np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)]))


def points_13() -> Points:
    """A pole and three squares, rotated by 45° in turn: the first touches the pole, the points of the last touch."""
    c = COSINE[13]
    return np.concatenate([POLE, ring(4, c), ring(4, _height_13(c), pi / 4), ring(4, -sqrt(c))])


def points_14() -> Points:
    """Both poles, four points around each, and two pairs between; a quarter turn with z -> -z is a symmetry.

    The four around the north pole are (±x, ±y, c), with 1 - 2y² = c; the pairs (±r, 0, z) and (0, ±r, -z) touch the
    eight: r x + z c = c = r y - z c, hence c² = x y.
    """
    c = COSINE[14]
    x, y = sqrt((1 - c) * (1 + 2 * c) / 2), sqrt((1 - c) / 2)
    r, z = 2 * c / (x + y), (y - x) / (y + x)
    north = np.array([[0, 0, 1], *([i * x, j * y, c] for i in (1, -1) for j in (1, -1)), [r, 0, z], [-r, 0, z]])
    south = north[:, [1, 0, 2]] * [1, 1, -1]
    return unit_rows(np.concatenate([north, south]))


def snub_cube() -> Points:
    """The permutations of (±1, ±1/t, ±t): even ones with an odd number of minus signs, odd ones with an even number."""
    t = TRIBONACCI
    signs = sign_patterns(3)
    odd, even = signs[signs.prod(axis=1) < 0], signs[signs.prod(axis=1) > 0]
    halves = [odd * np.array([1, 1 / t, t]), even * np.array([t, 1 / t, 1])]
    return unit_rows(np.concatenate([np.roll(half, shift, axis=1) for half in halves for shift in range(3)]))
