r"""Proof in exact arithmetic that n points in d dimensions have a cosine above s, from a three-point certificate.

Let :math:`F(u, v, t) = \sum_k \langle F_k, S_k(u, v, t) \rangle` with positive semidefinite :math:`F_k` and Bachoc and
Vallentin's zonal matrices :math:`S_k`, and let :math:`a_k \ge 0` for k >= 1. For any points :math:`x_1, \dots, x_n` of
the sphere, with cosines :math:`u_{ij}`, the sum of :math:`F(u_{ij}, u_{il}, u_{jl})` over all i, j, l is not negative,
nor is that of :math:`\sum_k a_k P_k(u_{ij})` over all i, j. With the terms of equal indices set apart,

.. math::
    0 \le n \Bigl(F(1, 1, 1) + \sum_k a_k\Bigr)
    + \sum_{i \ne j} \Bigl(\sum_k a_k P_k(u_{ij}) + 3 F(u_{ij}, u_{ij}, 1)\Bigr)
    + \sum_{i, j, l \text{ distinct}} F(u_{ij}, u_{il}, u_{jl}).

If F <= q wherever u, v and t are in [-1, s] and entries of a Gram matrix, and if for all u in [-1, s]

.. math:: \sum_k a_k P_k(u) + 3 F(u, u, 1) < -\frac{F(1, 1, 1) + \sum_k a_k}{n - 1} - (n - 2) \, q,

then this is a contradiction where all cosines are at most s (n >= 2): some cosine is above s.

Nothing of the solver is trusted. :math:`F_k = G_k G_k^T` is positive semidefinite for whatever numbers are in G_k, and
:math:`\sum_i g_i \sigma_i` is not negative on the domain for whatever squares are in :math:`\sigma_i`, where g_i are
the `multipliers`. All these numbers are doubles, hence fractions. So

.. math:: F = q_0 - \sum_i g_i \sigma_i - r \le q_0 + \max |r| =: q,

where the polynomial r, what rounding left of the identity, is computed exactly. |r| is at most its *slack*, the sum of
the absolute values of its coefficients in products of Chebyshev polynomials whose arguments go from -1 to 1 as the
cosines go from -1 to s. The inequality on pairs is proved by Bernstein coefficients, in the integer arithmetic of
`unclump.codes.bounds.certificate`.
"""

import math
from fractions import Fraction

import numpy as np
from program import exponents, half_degree, multipliers

from unclump.codes.bounds.certificate import is_negative_on

_BITS = 56  # of the coefficients of squares after the binary point


def slack_of_proof(certificate):
    """The slack of a certificate that proves that its n points in d dimensions have a cosine above its own, or None."""
    slack = polynomial_slack(certificate)
    return float(slack) if pairs_hold(certificate, Fraction(certificate.constant) + slack) else None


def polynomial_slack(certificate):
    """The sum of the absolute Chebyshev coefficients of the polynomial r."""
    s = Fraction(certificate.cosine)
    total = _in_unit_box(_three_point_function(certificate), s)
    size = 2 * certificate.degree + 1
    residual = np.full((size,) * 3, Fraction(0), dtype=object)
    residual[tuple(slice(0, k) for k in total.shape)] -= total
    residual[0, 0, 0] += Fraction(certificate.constant)
    variables = [_variable(axis, s) for axis in range(3)]
    for i, (multiplier, coefficients) in enumerate(zip(_multipliers(variables, s), certificate.squares, strict=True)):
        squares = _sum_of_squares(coefficients, half_degree(certificate.degree, i))
        product = _multiply(multiplier, squares)
        residual[tuple(slice(0, k) for k in product.shape)] -= product
    return sum(abs(value) for value in _to_chebyshev(residual).flat)


def pairs_hold(certificate, q):
    """Whether the inequality on pairs holds for F <= q."""
    s, n, d = Fraction(certificate.cosine), certificate.n, certificate.d
    pair = [Fraction(value) for value in certificate.pair.tolist()]
    if min(pair) < 0:
        return False
    function = _three_point_function(certificate)
    at_one = function.sum()
    size = max(2 * certificate.degree, len(pair)) + 1
    polynomial = [Fraction(0)] * size
    for (i, j, _), value in np.ndenumerate(function):
        polynomial[i + j] += 3 * value
    for value, row in zip(pair, gegenbauer_coefficients(d, len(pair))[1:], strict=True):
        for i, entry in enumerate(row):
            polynomial[i] += value * entry
    polynomial[0] += (at_one + sum(pair)) / (n - 1) + (n - 2) * q
    return is_negative_on(polynomial, s)


def gegenbauer_coefficients(d, degree):
    """Of P_0, ..., P_degree, in powers of the argument: exact fractions."""
    rows = [[Fraction(1)], [Fraction(0), Fraction(1)]]
    for k in range(1, degree):
        row = [Fraction(0), *(Fraction(2 * k + d - 2, k + d - 2) * value for value in rows[-1])]
        for i, value in enumerate(rows[-2]):
            row[i] -= Fraction(k, k + d - 2) * value
        rows.append(row)
    return rows[: degree + 1]


def _three_point_function(certificate):
    """F in powers of u, v and t: an array of fractions, symmetric."""
    d, degree = certificate.d, certificate.degree
    total = np.full((2 * degree + 1,) * 3, Fraction(0), dtype=object)
    for k, factor in enumerate(certificate.factors):
        exact = _fractions(factor)
        basis = np.full((len(factor), len(factor)), Fraction(0), dtype=object)
        for i, row in enumerate(gegenbauer_coefficients(d + 2 * k, len(factor) - 1)):
            basis[i, : len(row)] = row
        in_powers = basis.T @ exact
        product = _multiply((in_powers @ in_powers.T)[:, :, None], _zonal_coefficients(d, k))
        total[tuple(slice(0, size) for size in product.shape)] += product
    total = sum(total.transpose(order) for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
    return _trim(total / Fraction(6))


def _zonal_coefficients(d, k):
    """((1 - u^2) (1 - v^2))^(k/2) P_k((t - uv) / ((1 - u^2) (1 - v^2))^(1/2)), P_k of d - 1 dimensions, in powers."""
    argument = np.full((2, 2, 2), Fraction(0), dtype=object)
    argument[0, 0, 1], argument[1, 1, 0] = Fraction(1), Fraction(-1)
    weight = np.full((3, 3, 1), Fraction(0), dtype=object)
    weight[0, 0, 0] = weight[2, 2, 0] = Fraction(1)
    weight[2, 0, 0] = weight[0, 2, 0] = Fraction(-1)
    total = np.full((k + 1,) * 3, Fraction(0), dtype=object)
    for power, value in enumerate(gegenbauer_coefficients(d - 1, k)[k]):
        if value == 0:
            continue
        term = np.full((1, 1, 1), value, dtype=object)
        for _ in range(power):
            term = _multiply(term, argument)
        for _ in range((k - power) // 2):
            term = _multiply(term, weight)
        total[tuple(slice(0, size) for size in term.shape)] += term
    return total


def _sum_of_squares(coefficients, degree):
    """The sum of squares of polynomials, given by doubles, averaged over permutations of the variables, in powers of x.

    The doubles are rounded to multiples of a power of two, which are other squares, and no less nonnegative.
    """
    terms = exponents(degree)
    integers = np.array([[round(v * 2**_BITS) for v in row] for row in coefficients.tolist()], dtype=object)
    chebyshev = _chebyshev_powers(degree)
    dense = np.zeros((degree + 1,) * 3 + (integers.shape[1],), dtype=object)
    for (a, b, c), row in zip(terms, integers, strict=True):
        dense[a, b, c] = row
    for axis in range(3):
        dense = np.moveaxis(np.tensordot(chebyshev.T, dense, axes=(1, axis)), 0, axis)
    rows = np.array([dense[e] for e in terms])
    gram = rows @ rows.T
    total = np.zeros((2 * degree + 1,) * 3, dtype=object)
    indices = np.array(terms)
    for e, row in zip(terms, gram, strict=True):
        a, b, c = (indices + e).T
        total[a, b, c] += row
    total = sum(total.transpose(order) for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
    return _fractions(total) / Fraction(6 * 4**_BITS)


def _multipliers(variables, s):
    """The multipliers of `program` in powers of x, where u = (1 + s) / 2 x + (s - 1) / 2."""
    return [_trim(polynomial.coefficients) for polynomial in multipliers(*(_Polynomial(v) for v in variables), s)]


class _Polynomial:
    """Enough of an algebra of polynomials in three variables to evaluate `multipliers`."""

    def __init__(self, coefficients):
        self.coefficients = coefficients

    def __add__(self, other):
        a, b = self.coefficients, _lift(other)
        total = np.full(tuple(map(max, a.shape, b.shape)), Fraction(0), dtype=object)
        for part in (a, b):
            total[tuple(slice(0, size) for size in part.shape)] += part
        return _Polynomial(total)

    def __mul__(self, other):
        return _Polynomial(_multiply(self.coefficients, _lift(other)))

    def __neg__(self):
        return self * Fraction(-1)

    def __sub__(self, other):
        return self + (-_Polynomial(_lift(other)))

    def __rsub__(self, other):
        return -self + other

    __radd__, __rmul__ = __add__, __mul__


def _lift(value):
    return value.coefficients if isinstance(value, _Polynomial) else np.full((1, 1, 1), Fraction(value), dtype=object)


def _variable(axis, s):
    shape = [1, 1, 1]
    shape[axis] = 2
    return np.array([(s - 1) / 2, (s + 1) / 2], dtype=object).reshape(shape)


def _multiply(a, b):
    total = np.full([i + j - 1 for i, j in zip(a.shape, b.shape, strict=True)], Fraction(0), dtype=object)
    small, large = (a, b) if a.size <= b.size else (b, a)
    for index, value in np.ndenumerate(small):
        if value != 0:
            total[tuple(slice(i, i + size) for i, size in zip(index, large.shape, strict=True))] += value * large
    return total


def _in_unit_box(powers, s):
    """A polynomial in u, v, t rewritten in powers of x, where u = (1 + s) / 2 x + (s - 1) / 2, and so on."""
    degree = max(powers.shape) - 1
    change = np.full((degree + 1, degree + 1), Fraction(0), dtype=object)
    for i in range(degree + 1):
        for j in range(i + 1):
            change[i, j] = math.comb(i, j) * ((s + 1) / 2) ** j * ((s - 1) / 2) ** (i - j)
    return _change_basis(powers, change)


def _to_chebyshev(powers):
    """Coefficients of products of Chebyshev polynomials: x^i = 2^(1-i) sum_j C(i, j) T_{i-2j}, with half of T_0."""
    degree = max(powers.shape) - 1
    change = np.full((degree + 1, degree + 1), Fraction(0), dtype=object)
    for i in range(degree + 1):
        for j in range(i + 1):
            change[i, abs(i - 2 * j)] += Fraction(math.comb(i, j), 2**i)
    return _change_basis(powers, change)


def _change_basis(powers, change):
    for axis, size in enumerate(powers.shape):
        powers = np.moveaxis(np.tensordot(powers, change[:size], axes=(axis, 0)), -1, axis)
    return powers


def _chebyshev_powers(degree):
    """Row k: T_k in powers, integers."""
    rows = np.zeros((degree + 1, degree + 1), dtype=object)
    for k in range(degree + 1):
        values = np.polynomial.chebyshev.cheb2poly([0] * k + [1])
        rows[k, : k + 1] = [round(value) for value in values.tolist()]
    return rows


def _fractions(array):
    return np.array([Fraction(v) for v in np.asarray(array).ravel().tolist()], dtype=object).reshape(np.shape(array))


def _trim(array):
    used = np.argwhere(array != 0).max(0, initial=0)
    return array[tuple(slice(0, degree + 1) for degree in used)]
