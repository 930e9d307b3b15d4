r"""Proof in integer arithmetic that a polynomial is negative on an interval.

A polynomial is negative on an interval if all its Bernstein coefficients are. If they are not, the interval is halved,
and de Casteljau's algorithm gives the coefficients of both halves. Coefficients are fixed-point integers rounded
up, so that the polynomial proved negative lies above the original one: rounding can only make a proof fail.
"""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float

_BITS = 160  # fractional bits of the coefficients, scaled so that the largest is one
_MAX_DEPTH = 60  # halvings of the interval


def proves_fewer_points(coefficients: Float[np.ndarray, " terms"], n: int, d: int, cosine: float) -> bool:
    r"""Whether the polynomial proves that fewer than n points in d dimensions can have all cosines at most `cosine`.

    Delsarte, Goethals and Seidel: let :math:`g = \sum_k g_k P_k` with :math:`g_0 > 0`, all other :math:`g_k \ge 0` and
    g < 0 on [-1, s]. Then m points with all cosines at most s satisfy

    .. math:: m^2 g_0 \le \sum_{i,j} g(\langle x_i, x_j \rangle) \le m \, g(1), \quad\text{strictly where } m \ge 2,

    so that m < g(1) / g_0. The constant coefficient is chosen such that g(1) / g_0 = n; it remains to prove g < 0.

    Args:
        coefficients: Of the Gegenbauer polynomials, taken as exact fractions. The first is ignored.
        n: Number of points, at least two.
        d: Dimensions.
        cosine: s, above -1.
    """
    exact = [Fraction(value) for value in coefficients.tolist()]
    exact[0] = sum(exact[1:], Fraction(0)) / (n - 1)
    if exact[0] <= 0 or min(exact) < 0:
        return False
    return _is_negative(_to_bernstein(_to_powers(exact, d, Fraction(cosine))))


def is_negative_on(powers: list[Fraction], cosine: Fraction) -> bool:
    """Whether a polynomial, given by the coefficients of powers of t, is proved to be negative on [-1, cosine].

    Example:
        >>> from unclump.codes.bounds.certificate import is_negative_on
        >>> quadratic = [Fraction(-1, 3), Fraction(0), Fraction(1)]  # t^2 - 1/3
        >>> is_negative_on(quadratic, Fraction(1, 2)), is_negative_on([Fraction(-2), *quadratic[1:]], Fraction(1, 2))
        (False, True)
    """
    shifted = [Fraction(0)] * len(powers)  # powers of u, where t = -1 + (1 + cosine) u goes from -1 to the cosine
    for i, value in enumerate(powers):
        for j in range(i + 1):
            shifted[j] += value * math.comb(i, j) * (1 + cosine) ** j * (-1) ** (i - j)
    common = math.lcm(*(value.denominator for value in shifted))
    return _is_negative(_to_bernstein([value.numerator * (common // value.denominator) for value in shifted]))


def _to_powers(coefficients: list[Fraction], d: int, cosine: Fraction) -> list[int]:
    """A positive multiple of the polynomial in powers of u, where t = -1 + (1 + cosine) u goes from -1 to the cosine.

    The k-th Gegenbauer polynomial is stored as integers over a denominator, which grows by (k + d - 2) q per step.
    """
    degree = len(coefficients) - 1
    p, q = (1 + cosine).as_integer_ratio()
    previous, current = [0], [1]
    scale, scales, rows = 1, [], []
    for k in range(degree + 1):
        rows.append(current)
        scales.append(scale)
        a, b, c = (2 * k + d - 2, k * (k + d - 3) if k > 1 else k, k + d - 2) if k > 0 else (1, 0, 1)
        following = [0] * (k + 2)
        for i, value in enumerate(current):
            following[i] -= a * q * value
            following[i + 1] += a * p * value
        for i, value in enumerate(previous):
            following[i] -= b * q * q * value
        previous, current, scale = current, following, scale * c * q
    common = math.lcm(*(weight.denominator for weight in coefficients))
    total = [0] * (degree + 1)
    for weight, row, row_scale in zip(coefficients, rows, scales, strict=True):
        factor = weight.numerator * (common // weight.denominator) * (scales[-1] // row_scale)
        for i, entry in enumerate(row):
            total[i] += factor * entry
    return total


def _to_bernstein(powers: list[int]) -> list[int]:
    r"""Bernstein coefficients, :math:`\sum_{i \le j} \binom{j}{i} a_i / \binom{m}{i}`, in fixed point, rounded up."""
    degree = len(powers) - 1
    common = math.lcm(*(math.comb(degree, i) for i in range(degree + 1)))
    exact = [value * (common // math.comb(degree, i)) for i, value in enumerate(powers)]
    for start in range(degree, 0, -1):  # Pascal's triangle in place: the binomial transform
        for i in range(start, degree + 1):
            exact[i] += exact[i - 1]
    largest = max(abs(value) for value in exact)
    return [-((-value << _BITS) // largest) for value in exact]


def _is_negative(coefficients: list[int]) -> bool:
    pending = [(np.array(coefficients, dtype=object), 0)]
    while pending:
        left, depth = pending.pop()
        if left.max() < 0:
            continue
        if left[0] >= 0 or left[-1] >= 0 or depth == _MAX_DEPTH:  # the end coefficients are values of the polynomial
            return False
        right = left.copy()
        for i in range(1, len(left)):
            left[i:] = (left[i:] + left[i - 1 : -1] + 1) >> 1
            right[-1 - i] = left[-1]
        pending += [(left, depth + 1), (right, depth + 1)]
    return True
