"""Upper bounds on the minimal angle of n points in d dimensions: how good a spherical code can be.

Each bound is a function of n and d, in radians, infinite where it does not apply. `upper_bound` is the best of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from unclump._checks import check_count, check_number
from unclump.codes.bounds.delsarte import delsarte
from unclump.codes.bounds.levenshtein import levenshtein
from unclump.codes.bounds.lines import LINE_BOUNDS
from unclump.codes.bounds.simplicial import boroczky, fejes_toth
from unclump.codes.bounds.three_point import three_point

__all__ = [
    "BOUNDS",
    "Bound",
    "best_bound",
    "best_line_bound",
    "boroczky",
    "delsarte",
    "fejes_toth",
    "levenshtein",
    "proved_optimal",
    "rankin",
    "three_point",
    "upper_bound",
]

_MAX_POINTS = 10**100  # larger n are reduced to this, which keeps the bounds valid


def rankin(n: int, d: int) -> float:
    r"""Rankin's bound on the smallest angle of n points in d dimensions, in radians.

    .. math:: \arccos \frac{-1}{n - 1} \text{ for } n \le d + 1, \qquad \frac{\pi}{2} \text{ for } n \ge d + 2

    Sharp for n <= 2 d: the regular simplex, and subsets of the cross-polytope. On the circle, where regular polygons
    are optimal, it is :math:`2 \pi / n`.

    References:
        Rankin. The closest packing of spherical caps in n dimensions. Glasgow Mathematical Journal 2, 1955.

    Example:
        >>> from unclump.codes.bounds.upper_bound import rankin
        >>> [round(math.degrees(rankin(n, 3)), 4) for n in (2, 3, 4, 5, 6)]
        [180.0, 120.0, 109.4712, 90.0, 90.0]
    """
    if d == 2:
        return 2 * math.pi / n
    return math.pi / 2 + (math.asin(1 / (n - 1)) if n <= d + 1 else 0)


BOUNDS: dict[str, Callable[[int, int], float]] = {
    "Rankin": rankin,
    "Fejes Tóth": fejes_toth,
    "Böröczky": boroczky,
    "Levenshtein": levenshtein,
    "Delsarte": delsarte,
    "Bachoc and Vallentin": three_point,
}


@dataclass(frozen=True)
class Bound:
    """An upper bound on the minimal angle, in radians, and its author."""

    angle: float
    name: str


@lru_cache
def best_bound(n: int, d: int) -> Bound:
    """The lowest of all bounds; of bounds that agree to 1e-11, the oldest.

    Example:
        >>> from unclump.codes.bounds.upper_bound import best_bound
        >>> [best_bound(n, d).name for n, d in ((12, 3), (120, 4), (240, 8), (41, 5), (10, 4))]
        ['Fejes Tóth', 'Böröczky', 'Levenshtein', 'Delsarte', 'Bachoc and Vallentin']
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    n = min(n, _MAX_POINTS)
    if d == 2 or n <= 2 * d:
        return Bound(rankin(n, d), "Rankin")  # sharp
    angles = {name: bound(n, d) for name, bound in BOUNDS.items()}
    lowest = min(angles.values())
    return next(Bound(angle, name) for name, angle in angles.items() if angle <= lowest * (1 + 1e-11))


@lru_cache
def best_line_bound(n: int, d: int) -> Bound:
    """The lowest of the bounds on n lines, and of those on the 2 n points where they meet the sphere.

    Example:
        >>> from unclump.codes.bounds.upper_bound import best_line_bound
        >>> best_line_bound(28, 7).name, best_line_bound(120, 8).name, best_line_bound(60, 4).name
        ('Welch', 'Levenshtein', 'Böröczky')
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    if d == 2:
        return Bound(math.pi / n, "elementary")
    bounds = [Bound(bound(n, d), name) for name, bound in LINE_BOUNDS.items()]
    if n > d:
        bounds.append(best_bound(2 * n, d))
    lowest = min(bound.angle for bound in bounds)
    return next(bound for bound in bounds if bound.angle <= lowest * (1 + 1e-11))


def upper_bound(n: int, d: int, *, antipodal: bool = False) -> float:
    """An upper bound on the minimal angle of n points in d dimensions, in radians.

    The best of the bounds of Rankin, Fejes Tóth (three dimensions), Böröczky (four), Levenshtein, Delsarte, and Bachoc
    and Vallentin (a table of a few sizes in three to five dimensions). All are rounded up, except Rankin's closed form,
    which is the nearest double. Takes a second or two if the linear program has many terms.

    Args:
        n: Number of points, at least two.
        d: Dimensions, at least two.
        antipodal: Bound the smallest angle of n lines through the origin instead: the best of the bounds of Welch,
            Rankin and Levenshtein for lines, and of those for 2 n points.

    Example:
        >>> from unclump.codes.bounds.upper_bound import upper_bound
        >>> round(math.degrees(upper_bound(12, 3)), 6)  # the icosahedron attains it
        63.434949
        >>> round(math.degrees(upper_bound(24, 3)), 6)  # the snub cube has 43.690767
        44.442262
    """
    return (best_line_bound if antipodal else best_bound)(n, d).angle


def proved_optimal(angle: float, n: int, d: int, *, tolerance: float = 1e-10) -> bool:
    """Whether a minimal angle of n points in d dimensions attains the `upper_bound`, so that no code is better.

    Example:
        >>> from unclump.codes.bounds.upper_bound import proved_optimal
        >>> proved_optimal(math.pi / 3, 240, 8), proved_optimal(math.pi / 3, 24, 4)  # the latter needs stronger bounds
        (True, False)
    """
    check_number("angle", angle)
    return angle >= upper_bound(n, d) - tolerance
