r"""Levenshtein's bound, solved for the angle in extended precision."""

import math
from bisect import bisect_right
from decimal import Decimal, localcontext
from functools import lru_cache

from unclump.codes.bounds.gegenbauer import harmonic_dimension

_DIGITS = 60
_MAX_DEGREE = 2000  # larger n are reduced to the largest that this degree covers, which keeps the bound valid


def levenshtein(n: int, d: int) -> float:
    r"""Levenshtein's bound on the smallest angle of n points in d dimensions, in radians.

    The uniform measure minus a mass of 1/n at one has a Gauss quadrature (with a node at -1 if the degree is even) that
    is exact up to `tight_degree`. Its largest node is the bound on the cosine. This is Levenshtein's equation
    :math:`L(d, s) = n` solved for s, without its poles: s is the largest zero of

    .. math::
        (n - R_k - R_{k-1}) P_k + \sum_{j < k} h_j P_j, \qquad
        (\tfrac{n}{2} - R_k) P_{k+1} + (\tfrac{n}{2} - R_{k-1}) P_k + \sum_{j < k} h_j P_j

    for degrees 2k - 1 and 2k, with :math:`h_j` the dimensions of the spherical harmonics, :math:`P_j` the Gegenbauer
    polynomials and :math:`R_k = \tbinom{d+k-2}{d-1}`, for which :math:`\sum_{j<k} h_j = R_k + R_{k-1}`. All
    zeros are real, so Newton's method started at one decreases monotonically to the largest. It runs with 60 digits;
    the angle is rounded up.

    References:
        Levenshtein. Universal bounds for codes and designs. Handbook of Coding Theory, 1998, chapter 6.

    Example:
        >>> from unclump.codes.bounds.upper_bound import levenshtein
        >>> math.degrees(levenshtein(240, 8))  # the roots of E8
        60.0000000000000...
    """
    return angle_rounded_up(levenshtein_cosine(n, d))


@lru_cache
def levenshtein_cosine(n: int, d: int) -> Decimal:
    """The cosine of the bound, to about 50 digits."""
    degree = tight_degree(n, d)
    n = min(n, design_bound(d, _MAX_DEGREE))
    k = (degree + 1) // 2
    with localcontext() as context:
        context.prec = _DIGITS
        weights = [Decimal(harmonic_dimension(d, j)) for j in range(k)]
        lower, upper = math.comb(d + k - 3, d - 1), math.comb(d + k - 2, d - 1)
        if degree % 2 == 1:
            weights += [Decimal(n - lower - upper)]
        else:
            weights += [Decimal(n) / 2 - lower, Decimal(n) / 2 - upper]
        cosine, step = Decimal(1), Decimal(1)
        while abs(step) > Decimal(10) ** (12 - _DIGITS):
            value, slope = _value_and_slope(weights, d, cosine)
            step = value / slope
            cosine -= step
        return cosine


def tight_degree(n: int, d: int) -> int:
    """The degree of Levenshtein's polynomial for n points: n lies between the sizes of two tight designs."""
    return bisect_right(range(2, _MAX_DEGREE), n, key=lambda degree: design_bound(d, degree)) + 1


def design_bound(d: int, degree: int) -> int:
    """The minimum size of a spherical design of a degree (Delsarte, Goethals and Seidel 1977).

    Example:
        >>> from unclump.codes.bounds.levenshtein import design_bound
        >>> design_bound(8, 7), design_bound(24, 11)
        (240, 196560)
    """
    k = degree // 2
    if degree % 2 == 1:
        return 2 * math.comb(d + k - 1, k)
    return math.comb(d + k - 1, k) + math.comb(d + k - 2, k - 1)


def angle_rounded_up(cosine: Decimal) -> float:
    """The arccosine, rounded up by a relative 2e-15 at most."""
    return 2 * math.atan2(math.sqrt(1 - cosine), math.sqrt(1 + cosine)) * (1 + 2**-50)


def _value_and_slope(weights: list[Decimal], d: int, t: Decimal) -> tuple[Decimal, Decimal]:
    """The sum of weighted Gegenbauer polynomials and its derivative."""
    value = slope = Decimal(0)
    previous, current, previous_slope, current_slope = Decimal(0), Decimal(1), Decimal(0), Decimal(0)
    for k, weight in enumerate(weights):
        value += weight * current
        slope += weight * current_slope
        a, b, c = (2 * k + d - 2, k, k + d - 2) if k > 0 else (1, 0, 1)  # P_1 = t, also where d = 2
        previous, current, previous_slope, current_slope = (
            current,
            (a * t * current - b * previous) / c,
            current_slope,
            (a * (current + t * current_slope) - b * previous_slope) / c,
        )
    return value, slope
