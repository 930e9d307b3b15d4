r"""A code looked at by itself: its smallest angle in extended precision, its contacts, and the points that rattle.

Points are rows of any norm but zero, and mean their directions: coordinates in double precision are almost never of
norm one, and dividing by the norm in double precision would move them by more than the digits that are asked for.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import nnls

from unclump._checks import check_points, check_positive, check_rows
from unclump.ops.blocks import upper_triangle

_BLOCK = 1024
_TIES = 256  # how many pairs that cannot be told apart are looked at exactly


def minimal_angle(points: Float[np.ndarray, "n d"]) -> float:
    r"""The smallest angle between two of the points, in radians, right to about the last digit.

    All cosines are computed by matrix products in double precision. Where they come within rounding of the largest,
    they are computed again to :math:`2^{-70}`: of unit vectors in twice the precision, the leading 26 bits multiply
    without error, and the rest adds what is missing. The pairs that win are measured with integers, as doubles are
    fractions:

    .. math:: \tan \theta = \sqrt{|x|^2 |y|^2 - \langle x, y \rangle^2} \, / \, \langle x, y \rangle

    Example:
        >>> from unclump.codes.verify import minimal_angle
        >>> minimal_angle(np.array([[3.0, 4.0], [-4.0, 3.0], [0.0, -1.0]])) == math.pi / 2
        True
        >>> minimal_angle(np.array([[1.0, 0.0], [1.0, 1e-20]]))
        1e-20
    """
    x = _rows(points)
    return min(_exact_angle(x[i], x[j]) for i, j in _closest_pairs(x))


@dataclass(frozen=True)
class Contacts:
    """The contact graph of a code: pairs at the smallest angle, and points that nothing holds in place."""

    pairs: Int[np.ndarray, "m 2"]
    rattlers: Int[np.ndarray, " k"]


def contacts(points: Float[np.ndarray, "n d"], *, tolerance: float = 1e-9) -> Contacts:
    r"""The pairs that touch, and the rattlers: points that can move without coming nearer to any that they touch.

    A point is held where no nonzero tangent vector v has :math:`\langle v, g_j \rangle \le 0` for the directions
    :math:`g_j` of all its contacts: along such a v, a great circle leads nearer to none of them, if the smallest angle
    is at most a right one. So a point is held if its contacts' directions span the tangent space and balance with
    positive weights, :math:`\sum_j w_j g_j = 0`, :math:`w_j > 0`. With an obtuse smallest angle, as in a simplex, they
    need not span it: sideways, everything is nearer. A contact with a rattler holds nobody, so rattlers are taken out
    until those that remain hold each other; `pairs` tells of all contacts.

    Points that are held one by one may still move together.

    Args:
        points: Rows, of any norm but zero.
        tolerance: How much larger than the smallest angle that of a contact may be, in radians.

    Example:
        >>> from unclump.codes.verify import contacts
        >>> octahedron = np.concatenate([np.eye(3), -np.eye(3)])
        >>> found = contacts(octahedron)
        >>> len(found.pairs), len(found.rattlers)
        (12, 0)
    """
    x = _rows(points)
    check_positive("tolerance", tolerance)
    smallest = minimal_angle(x)
    x = _unit(x)[0]
    pairs = _pairs_up_to(x, smallest + tolerance)
    held = np.ones(len(x), dtype=bool)
    while True:
        touching = pairs[held[pairs].all(axis=1)]
        neighbours = _neighbours(touching, len(x))
        still = held.copy()
        for i in np.flatnonzero(held):
            still[i] = _is_held(x[i], x[neighbours[i]], may_be_flat=smallest > math.pi / 2)
        if (still == held).all():
            return Contacts(pairs, np.flatnonzero(~held))
        held = still


def _rows(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The door: rows that have a direction, in double precision."""
    x = np.array(points, dtype=np.float64)  # a copy: torch does not like arrays that cannot be written to
    check_points(torch.from_numpy(x), at_least=2)
    check_rows(torch.from_numpy(x))
    return x


def _closest_pairs(x: Float[np.ndarray, "n d"]) -> list[tuple[int, int]]:
    """The pairs with the largest cosine, and those that come within 2^-70 or so of it."""
    n, d = x.shape
    unit, rest = _unit(x)
    head = np.round(unit * 2**26) / 2**26  # products of these, and their sums, are whole multiples of 2^-52 below two
    tail = (unit - head) + rest
    blocks = []
    for rows, columns in upper_triangle(n, _BLOCK):
        blocks.append((rows, columns, _upper(unit[rows] @ unit[columns].T, same=rows == columns).max()))
    best = max(largest for _, _, largest in blocks)
    finest = d**1.5 * 2.0**-78  # of the sum of both parts of a cosine
    closest, pairs = -math.inf, np.empty((0, 2), dtype=int)
    for rows, columns, largest in blocks:
        if largest < best - _rounding(d):
            continue
        missing = head[rows] @ tail[columns].T + tail[rows] @ unit[columns].T
        excess = _upper((head[rows] @ head[columns].T - best) + missing, same=rows == columns)
        if excess.max() > closest + finest:
            pairs = pairs[:0]
        closest = max(closest, excess.max())
        if len(pairs) < _TIES:
            pairs = np.concatenate([pairs, _places(excess >= closest - finest, rows, columns)[:_TIES]])
    return [(int(i), int(j)) for i, j in pairs]


def _upper(matrix: Float[np.ndarray, "n m"], *, same: bool) -> Float[np.ndarray, "n m"]:
    """The matrix, with minus infinity where a point would meet itself, or a pair itself the other way round."""
    if same:
        matrix[np.tril_indices(len(matrix))] = -np.inf
    return matrix


def _unit(x: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """The rows over their norms, in twice the precision: a double, and what it lacks."""
    x = np.ldexp(x, -np.frexp(np.abs(x).max(axis=1, keepdims=True))[1])
    squares, errors = _product(x, x)
    total, lacks = np.zeros(len(x)), errors.sum(axis=1)
    for column in squares.T:
        previous, total = total, total + column
        other = total - previous
        lacks += (previous - (total - other)) + (column - other)
    inverse = 1 / np.sqrt(total)
    square, error = _product(inverse, inverse)
    product, product_error = _product(total, square)
    # Newton's step for the inverse root: half of what (total + lacks) * inverse^2 lacks to one
    correction = inverse / 2 * ((1 - product) - product_error - total * error - lacks * square)
    unit, rest = _product(x, inverse[:, None])
    return unit, rest + x * correction[:, None]


def _product(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
    """The product of doubles and its rounding error, exactly (Dekker 1971)."""
    product = a * b
    (a_head, a_tail), (b_head, b_tail) = _halves(a), _halves(b)
    return product, ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


def _halves(a: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
    """The leading 26 bits of doubles, and the others."""
    shifted = (2**27 + 1) * a
    head = shifted - (shifted - a)
    return head, a - head


def _exact_angle(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    """The angle of two vectors, from integers: only the last steps, which are harmless, round."""
    a, b = _integers(x), _integers(y)
    inner = sum(p * q for p, q in zip(a, b, strict=True))
    norms = sum(p * p for p in a) * sum(q * q for q in b)
    sine, cosine = math.sqrt((norms - inner * inner) / norms), math.sqrt(inner * inner / norms)
    return math.atan2(sine, math.copysign(cosine, inner))


def _integers(x: Float[np.ndarray, " d"]) -> list[int]:
    """The vector times a power of two that makes it whole."""
    fractions = [value.as_integer_ratio() for value in x.tolist()]
    common = max(denominator for _, denominator in fractions)
    return [numerator * (common // denominator) for numerator, denominator in fractions]


def _pairs_up_to(x: Float[np.ndarray, "n d"], largest: float) -> Int[np.ndarray, "m 2"]:
    """The pairs of unit vectors whose angle is not above the given one; measured where the cosine cannot tell."""
    lowest, rounding = math.cos(min(largest, math.pi)), _rounding(x.shape[1])
    found = [np.empty((0, 2), dtype=int)]
    for rows, columns in upper_triangle(len(x), _BLOCK):
        excess = _upper(x[rows] @ x[columns].T, same=rows == columns) - lowest
        unsure = _places(np.abs(excess) <= rounding, rows, columns)
        a, b = x[unsure[:, 0]], x[unsure[:, 1]]
        angles = 2 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
        found += [_places(excess > rounding, rows, columns), unsure[angles <= largest]]
    pairs = np.concatenate(found)
    return pairs[np.lexsort(pairs.T[::-1])]


def _places(mask: Bool[np.ndarray, "n m"], rows: slice, columns: slice) -> Int[np.ndarray, "k 2"]:
    """The pairs of points that a block of the matrix marks."""
    places: Int[np.ndarray, "k 2"] = np.argwhere(mask) + np.array([rows.start, columns.start])
    return places


def _rounding(d: int) -> float:
    """How far off cosines of double-precision vectors may be."""
    return 4 * (d + 8) * 2.0**-53


def _neighbours(pairs: Int[np.ndarray, "m 2"], n: int) -> list[Int[np.ndarray, " k"]]:
    """For every point, those that it is paired with."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, n)))


def _is_held(x: Float[np.ndarray, " d"], others: Float[np.ndarray, "k d"], *, may_be_flat: bool) -> bool:
    """Whether the directions from x to the others balance with positive weights, and span the tangent space."""
    if len(others) == 0:
        return False
    tangents = others - np.outer(others @ x, x)
    lengths = np.linalg.norm(tangents, axis=1)
    if lengths.min() < 1e-6:  # every way leads away from a point that coincides, and nearer to an opposite one
        return bool(others[lengths.argmin()] @ x < 0)
    tangents /= lengths[:, None]
    spans = np.linalg.matrix_rank(tangents, tol=1e-6) == len(x) - 1
    # With weights 1 + w, w >= 0: minus the sum of all directions is a nonnegative sum of them.
    return bool((spans or may_be_flat) and nnls(tangents.T, -tangents.sum(axis=0))[1] < 1e-6 * len(others))
