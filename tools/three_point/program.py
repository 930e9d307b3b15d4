"""The semidefinite program of Bachoc and Vallentin's three-point bound, and certificates from its solutions."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from blocks import Dense, Squares
from interior_point import InteriorPoint
from scipy.linalg import qr, solve_triangular

from unclump.codes.bounds.gegenbauer import gegenbauer

_PENALTY = 1e-6  # on the traces of F_k, without which they may grow beyond all bounds where few points are enough
_LEAST_PAIR_DEGREE = 24  # of the polynomials in one cosine, which cost little
MULTIPLIER_DEGREES = (0, 2, 4, 6, 3)


@dataclass
class Certificate:
    """What proves that n points in d dimensions have a cosine above `cosine`; see `proof`.

    Products of Chebyshev polynomials have the argument x in [-1, 1], u = (1 + cosine) / 2 x + (cosine - 1) / 2.
    """

    n: int
    d: int
    degree: int
    cosine: float
    pair: np.ndarray  # a_k, k = 1, 2, ...
    factors: list  # G_k, of F_k = G_k G_k^T in the basis of Gegenbauer polynomials of d + 2k dimensions
    squares: list  # of every multiplier: (terms, count) coefficients of Chebyshev products
    constant: float  # q


def multipliers(u, v, t, s):
    """Polynomials that are nonnegative on the domain: symmetric functions of (u + 1)(s - u), and Gram's determinant."""
    a, b, c = ((x + 1) * (s - x) for x in (u, v, t))
    return [1 + 0 * u, a + b + c, a * b + a * c + b * c, a * b * c, 1 + 2 * u * v * t - u * u - v * v - t * t]


def exponents(degree):
    """Those of monomials in three variables up to a degree."""
    return [e for e in itertools.product(range(degree + 1), repeat=3) if sum(e) <= degree]


def half_degree(degree, multiplier):
    """The degree of polynomials whose squares times a multiplier are of twice the degree at most."""
    return degree - (MULTIPLIER_DEGREES[multiplier] + 1) // 2


def isotypic(degree):
    """Coefficients of Chebyshev products that span three spaces of polynomials: what permutations of the variables do
    not change; what they change by a sign only; and, of the two-dimensional representation, what the exchange of the
    last two variables does not change.
    """
    index = {e: i for i, e in enumerate(exponents(degree))}
    columns = [], [], []
    for e in index:
        if e != tuple(sorted(e, reverse=True)):
            continue
        orders = list(itertools.permutations(range(3)))
        images = [index[tuple(e[i] for i in order)] for order in orders]
        _add(columns[0], len(index), images, [1 / 6] * 6)
        if len(set(e)) == 3:
            _add(columns[1], len(index), images, [round(np.linalg.det(np.eye(3)[list(order)])) / 6 for order in orders])
        for first in sorted(set(e))[:-1]:  # of the functions with this exponent first, less their mean
            j, k = sorted(e, reverse=True)[: e.index(first)] + sorted(e, reverse=True)[e.index(first) + 1 :]
            images = [(first, j, k), (first, k, j), (j, first, k), (k, first, j), (j, k, first), (k, j, first)]
            _add(columns[2], len(index), [index[i] for i in images], [1 / 3, 1 / 3, *[-1 / 6] * 4])
    return [np.array(c).reshape(-1, len(index)).T for c in columns]


def _add(columns, size, rows, values):
    column = np.zeros(size)
    np.add.at(column, rows, values)
    columns.append(column)


def products(points, cosine, degree):
    """The Chebyshev products at points, (points, terms)."""
    x = (2 * points + 1 - cosine) / (1 + cosine)
    t = np.polynomial.chebyshev.chebvander(x, degree)  # (points, 3, degree + 1)
    return np.stack([t[:, 0, a] * t[:, 1, b] * t[:, 2, c] for a, b, c in exponents(degree)], axis=1)


def zonal(points, d, degree):
    """Bachoc and Vallentin's symmetrised zonal matrices S_k at points, for k = 0, ..., degree: (points, b, b) each."""
    result = []
    for k in range(degree + 1):
        size = degree - k + 1
        basis = [gegenbauer(x, d + 2 * k, size - 1).T for x in points.T]
        total = np.zeros((len(points), size, size))
        for i, j in ((0, 1), (0, 2), (1, 2)):
            u, v, t = points[:, i], points[:, j], points[:, 3 - i - j]
            product = basis[i][:, :, None] * basis[j][:, None, :] * _zonal_factor(u, v, t, d, k)[:, None, None]
            total += (product + product.swapaxes(1, 2)) / 6
        result.append(total)
    return result


def _zonal_factor(u, v, t, d, k):
    """((1 - u^2) (1 - v^2))^(k/2) P_k((t - uv) / ((1 - u^2) (1 - v^2))^(1/2)), P_k of d - 1 dimensions."""
    x, w = t - u * v, (1 - u * u) * (1 - v * v)
    previous, current = np.zeros_like(x), np.ones_like(x)
    for i in range(k):
        a, b, c = (2 * i + d - 3, i, i + d - 3) if i > 0 else (1, 0, 1)
        previous, current = current, (a * x * current - b * w * previous) / c
    return current


class Program:
    """Minimise F(1, 1, 1) + sum a_k such that F <= q on the domain and sum a_k P_k(u) + 3 F(u, u, 1) <= -1 - (n - 2) q.

    If the minimum is below n - 1, no n points have all their cosines in [-1, s]. Both inequalities are made to hold by
    sums of squares; identities of polynomials by equality at as many points as they have coefficients.
    """

    def __init__(self, n, d, degree, cosine):
        self.n, self.d, self.degree, self.cosine = n, d, degree, cosine
        candidates = self._candidates()
        invariants = products(candidates, cosine, 2 * degree) @ isotypic(2 * degree)[0]
        q, _ = np.linalg.qr(invariants)
        _, _, pivots = qr(q.T, pivoting=True, mode="economic")
        self.points = candidates[pivots[: invariants.shape[1]]]
        self.pair_degree = max(2 * degree, _LEAST_PAIR_DEGREE)
        self.pairs = _chebyshev_points(self.pair_degree + 1, cosine)
        triples, count = len(self.points), len(self.points) + len(self.pairs)
        self.right = np.concatenate([np.zeros(triples), -np.ones(len(self.pairs))])
        self.free = np.concatenate([-np.ones(triples), np.full(len(self.pairs), n - 2.0)])[:, None]
        polynomials = gegenbauer(self.pairs, d, self.pair_degree)[1:]
        self.blocks = [
            Dense(np.concatenate([np.zeros(triples), values])[:, None, None], np.ones((1, 1))) for values in polynomials
        ]
        self._add_zonal()
        self._add_squares(candidates)
        x = (2 * self.pairs + 1 - cosine) / (1 + cosine)
        for multiplier_degree, factor in ((0, np.ones_like(x)), (2, 1 - x**2)):
            half = (self.pair_degree - multiplier_degree) // 2
            vectors = np.polynomial.chebyshev.chebvander(x, half) * np.sqrt(factor)[:, None]
            self.blocks.append(Squares(vectors[:, None, :], slice(triples, count)))

    def _candidates(self):
        count = 2 * self.degree + 8
        x = _chebyshev_points(count, self.cosine)
        points = x[np.array(list(itertools.combinations_with_replacement(range(count), 3)))]
        return points[multipliers(*points.T, self.cosine)[4] > 1e-9]

    def _add_zonal(self):
        u = self.pairs
        at_points = zonal(self.points, self.d, self.degree)
        at_pairs = zonal(np.stack([u, u, np.ones_like(u)], axis=1), self.d, self.degree)
        at_one = zonal(np.ones((1, 3)), self.d, self.degree)
        self.scales = []
        for triple, pair, one in zip(at_points, at_pairs, at_one, strict=True):
            matrices = np.concatenate([triple, 3 * pair])
            scale = 1 / np.sqrt(abs(np.einsum("mii->mi", matrices)).max(0))
            self.scales.append(scale)
            cost = one[0] * scale[:, None] * scale + _PENALTY * np.eye(len(scale))
            self.blocks.append(Dense(matrices * scale[:, None] * scale, cost))

    def _add_squares(self, candidates):
        """Sums of squares times each multiplier, in bases that are orthonormal on the candidates."""
        self.bases = []
        values = multipliers(*self.points.T, self.cosine)
        candidate_values = multipliers(*candidates.T, self.cosine)
        for i, (value, candidate_value) in enumerate(zip(values, candidate_values, strict=True)):
            half = half_degree(self.degree, i)
            at_points, at_candidates = (products(x, self.cosine, half) for x in (self.points, candidates))
            bases = []
            for j, span in enumerate(isotypic(half)):
                if span.shape[1] == 0:
                    continue
                parts = [span] if j < 2 else [span, self._partner(span, half)]
                weighted = [at_candidates @ part * np.sqrt(candidate_value)[:, None] for part in parts]
                triangle = np.linalg.qr(np.concatenate(weighted) / math.sqrt(len(candidates)), mode="r")
                base = solve_triangular(triangle, span.T, trans="T").T
                parts = [base] if j < 2 else [base, self._partner(base, half)]
                vectors = [at_points @ part * np.sqrt(value)[:, None] for part in parts]
                bases.append(base * math.sqrt(len(parts)))
                self.blocks.append(Squares(np.stack(vectors, axis=1), slice(0, len(self.points))))
            self.bases.append(bases)

    @staticmethod
    def _partner(span, degree):
        """The second function of each two-dimensional representation: a difference of images over the root of three."""
        index = {e: i for i, e in enumerate(exponents(degree))}
        turned = [[index[e[2], e[0], e[1]] for e in index], [index[e[1], e[2], e[0]] for e in index]]
        return (span[turned[0]] - span[turned[1]]) / math.sqrt(3)

    def solve(self, **options):
        """The solution, and a certificate, which proves something if the objective is below n - 1."""
        solution = InteriorPoint(self.blocks, self.right, self.free).solve(start=float(self.n), **options)
        matrices = iter(solution.x)
        pair = np.array([next(matrices).item() for _ in range(self.pair_degree)])
        factors = [scale[:, None] * _root(next(matrices)) for scale in self.scales]
        squares = [np.concatenate([base @ _root(next(matrices)) for base in bases], axis=1) for bases in self.bases]
        certificate = Certificate(
            self.n, self.d, self.degree, self.cosine, pair, factors, squares, float(solution.y[0])
        )
        return solution, certificate


def _chebyshev_points(count, cosine):
    """Points between -1 and the cosine."""
    return cosine - (1 + cosine) * np.sin(np.pi / 4 * (2 * np.arange(count) + 1) / count) ** 2


def _root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0))
