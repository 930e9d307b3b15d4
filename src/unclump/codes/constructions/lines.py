"""Lines through the origin known in closed form: optimal packings, by number and dimension.

References:
    Conway, Hardin and Sloane. Packing lines, planes, etc. Experimental Mathematics 5, 1996.
    van Lint and Seidel. Equilateral point sets in elliptic geometry. Indagationes Mathematicae 28, 1966.
    Lemmens and Seidel. Equiangular lines. Journal of Algebra 24, 1973.
"""

import itertools
import math
from functools import partial

import numpy as np

from unclump._checks import check_count
from unclump.codes.constructions.conference import conference_lines
from unclump.codes.constructions.exact import ExactCode, exact_code
from unclump.codes.constructions.polytopes import Points, orthogonal_simplices, unit_rows

# Codes of 2 n points that are proved optimal and contain the antipode of each point, so that no n lines are better.
_ANTIPODAL = {
    (12, 3), (24, 4), (120, 4), (56, 7), (240, 8), (288, 16), (552, 23), (4600, 23), (196560, 24), (4224, 64),
    (66048, 256),
}  # fmt: skip
# Orders q + 1 of symmetric conference matrices, for prime powers q = 1 mod 4: 2 d lines in d = (q + 1) / 2 dimensions.
_PALEY = {(q + 1) // 2: (p, k) for p, k, q in ((3, 2, 9), (13, 1, 13), (17, 1, 17), (5, 2, 25), (29, 1, 29))}
_WELCH = "Welch 1974"


def exact_lines(n: int, d: int) -> ExactCode | None:
    """The n lines in d dimensions with the largest smallest angle if they are known in closed form, otherwise None.

    The points are a unit vector of each line, the cosine is that of the smallest angle of two lines.

    Example:
        >>> exact_lines(6, 3).name, exact_lines(28, 7).cosine, exact_lines(16, 6).points.shape
        ('diagonals of the icosahedron', 0.3333333333333333, (16, 6))
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    if n <= d:
        return ExactCode(0.0, "orthogonal lines", "elementary", partial(np.eye, n, d))
    if d == 2:
        return ExactCode(math.cos(math.pi / n), "evenly spaced lines", "elementary", partial(_fan, n))
    if n == d + 1:
        return ExactCode(1 / d, "diagonals of the simplex", _WELCH, partial(orthogonal_simplices, n, d))
    return _special_lines(n, d)


def _special_lines(n: int, d: int) -> ExactCode | None:
    if (2 * n, d) in _ANTIPODAL and (code := exact_code(2 * n, d)) is not None:
        return ExactCode(code.cosine, f"diagonals of the {code.name}", code.proof, partial(_halve, code))
    if n == 2 * d and d in _PALEY:
        return ExactCode(1 / math.sqrt(2 * d - 1), "conference matrix", _WELCH, partial(conference_lines, *_PALEY[d]))
    if (n, d) == (16, 6):
        return ExactCode(1 / 3, "16 of the 28 equiangular lines", _WELCH, _sixteen_lines)
    return None


def _fan(n: int) -> Points:
    angles = np.arange(n) * math.pi / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _halve(code: ExactCode) -> Points:
    """The points whose first nonzero coordinate is positive."""
    points = code.points
    is_zero = np.abs(points) < 1e-9
    first = np.take_along_axis(points, is_zero.argmin(axis=1)[:, None], axis=1)[:, 0]
    return points[first > 0]


def _sixteen_lines() -> Points:
    """The vectors (3, 3, -1, ..., -1), permuted, that are orthogonal to e_1 - e_2, in coordinates of their span."""
    vectors = np.full((28, 8), -1.0)
    for row, pair in zip(vectors, itertools.combinations(range(8), 2), strict=True):
        row[list(pair)] = 3
    vectors = vectors[vectors[:, 0] == vectors[:, 1]]
    basis = np.linalg.svd(vectors).Vh[:6]
    return unit_rows(vectors @ basis.T)
