r"""Proof that a polynomial stays below zero, in integers.

A polynomial in Bernstein's basis of an interval is negative there if all its coefficients are. Where they are not, the
interval is halved, and the coefficients follow by de Casteljau's averages. Integers stand for fixed-point numbers, and
every rounding goes up, so that what is proved negative lies above the polynomial in question: no error can turn "no"
into "yes".
"""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float

_BITS = 160  # of the fixed-point coefficients, after the point of the largest
_HALVINGS = 60


def proves_fewer(coefficients: Float[np.ndarray, " terms"], n: int, d: int, cosine: float) -> bool:
    r"""Whether the polynomial proves that fewer than n points in d dimensions have no cosine above the given one.

    Delsarte, Goethals and Seidel: let :math:`g = \sum_k g_k P_k` with :math:`g_0 > 0`, all other :math:`g_k \ge 0` and
    g < 0 on [-1, s]. Then m points with no cosine above s have

    .. math:: m^2 g_0 \le \sum_{i,j} g(\langle x_i, x_j \rangle) \le m \, g(1), \quad\text{strictly where } m \ge 2,

    so that m < g(1) / g_0. The constant coefficient is set such that this is n; what remains is the sign.

    Args:
        coefficients: Of the Gegenbauer polynomials, as they are: doubles are fractions. The first is not read.
        n: Number of points, at least two.
        d: Dimensions.
        cosine: s, above -1.
    """
    exact = [Fraction(value) for value in coefficients.tolist()]
    exact[0] = sum(exact[1:], Fraction(0)) / (n - 1)
    if exact[0] <= 0 or min(exact) < 0:
        return False
    return _is_negative(_to_bernstein(_to_powers(exact, d, Fraction(cosine))))


def _to_powers(coefficients: list[Fraction], d: int, cosine: Fraction) -> list[int]:
    """A positive multiple of the polynomial, by powers of u, where t = -1 + (1 + cosine) u goes from -1 to the cosine.

    The k-th polynomial is held as integers over a denominator, which the recurrence multiplies by (k + d - 2) q.
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
    for weight, row, own in zip(coefficients, rows, scales, strict=True):
        factor = weight.numerator * (common // weight.denominator) * (scales[-1] // own)
        for i, entry in enumerate(row):
            total[i] += factor * entry
    return total


def _to_bernstein(powers: list[int]) -> list[int]:
    r"""Bernstein's coefficients, :math:`\sum_{i \le j} \binom{j}{i} a_i / \binom{m}{i}`, in fixed point, rounded up."""
    degree = len(powers) - 1
    common = math.lcm(*(math.comb(degree, i) for i in range(degree + 1)))
    exact = [value * (common // math.comb(degree, i)) for i, value in enumerate(powers)]
    for start in range(degree, 0, -1):  # Pascal's triangle in place: the binomial transform
        for i in range(start, degree + 1):
            exact[i] += exact[i - 1]
    largest = max(abs(value) for value in exact)
    return [-((-value << _BITS) // largest) for value in exact]


def _is_negative(coefficients: list[int]) -> bool:
    waiting = [(np.array(coefficients, dtype=object), 0)]
    while waiting:
        left, depth = waiting.pop()
        if left.max() < 0:
            continue
        if left[0] >= 0 or left[-1] >= 0 or depth == _HALVINGS:  # the ends are values of the polynomial
            return False
        right = left.copy()
        for i in range(1, len(left)):
            left[i:] = (left[i:] + left[i - 1 : -1] + 1) >> 1
            right[-1 - i] = left[-1]
        waiting += [(left, depth + 1), (right, depth + 1)]
    return True
