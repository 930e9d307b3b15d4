r"""Verification of a code from its points: the minimal angle in extended precision, contacts, and rattlers.

Points are rows of any nonzero norm and stand for their directions: rows in double precision almost never have norm
exactly one, and normalising them in double precision would move them by more than the accuracy of `minimal_angle`.
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
_MAX_TIES = 256  # pairs, tied in floating point, that are measured exactly


def minimal_angle(points: Float[np.ndarray, "n d"]) -> float:
    r"""The smallest angle between two of the points, in radians, accurate to about the last digit.

    All cosines are computed by matrix products in double precision. Those within rounding error of the largest are
    computed again to :math:`2^{-70}`: unit vectors in double-double precision are split after 26 bits, so that products
    of the leading parts are exact. The closest pairs are measured in integer arithmetic, as doubles are fractions:

    .. math:: \tan \theta = \sqrt{|x|^2 |y|^2 - \langle x, y \rangle^2} \, / \, \langle x, y \rangle

    Example:
        >>> from unclump.codes.verify import minimal_angle
        >>> minimal_angle(np.array([[3.0, 4.0], [-4.0, 3.0], [0.0, -1.0]])) == math.pi / 2
        True
        >>> minimal_angle(np.array([[1.0, 0.0], [1.0, 1e-20]]))
        1e-20
    """
    x = _validate_points(points)
    return min(_exact_angle(x[i], x[j]) for i, j in _closest_pairs(x))


@dataclass(frozen=True)
class Contacts:
    """The contact graph of a code: pairs at the minimal angle, and rattlers, points that are free to move."""

    pairs: Int[np.ndarray, "m 2"]
    rattlers: Int[np.ndarray, " k"]


def contacts(points: Float[np.ndarray, "n d"], *, tolerance: float = 1e-9) -> Contacts:
    r"""The pairs in contact, and the rattlers: points that can move without approaching any of their contacts.

    A point is fixed if no nonzero tangent vector v has :math:`\langle v, g_j \rangle \le 0` for the directions
    :math:`g_j` of all its contacts: a great circle along such a v approaches none of them, if the minimal angle is at
    most :math:`\pi/2`. So a point is fixed if the directions of its contacts span the tangent space and balance with
    positive weights, :math:`\sum_j w_j g_j = 0`, :math:`w_j > 0`. If the minimal angle is obtuse, as in a simplex,
    they need not span it: any sideways move approaches the contacts. Rattlers fix no other point, so they are removed
    repeatedly until the remaining points fix each other; `pairs` includes the contacts of rattlers.

    Points that are fixed individually may still be able to move together.

    Args:
        points: Rows of any nonzero norm.
        tolerance: A contact's angle may exceed the minimal angle by this much, in radians.

    Example:
        >>> from unclump.codes.verify import contacts
        >>> octahedron = np.concatenate([np.eye(3), -np.eye(3)])
        >>> graph = contacts(octahedron)
        >>> len(graph.pairs), len(graph.rattlers)
        (12, 0)
    """
    x = _validate_points(points)
    check_positive("tolerance", tolerance)
    smallest = minimal_angle(x)
    x = _unit_rows(x)[0]
    pairs = _pairs_within(x, smallest + tolerance)
    fixed = np.ones(len(x), dtype=bool)
    while True:
        fixed_pairs = pairs[fixed[pairs].all(axis=1)]
        neighbours = _neighbours(fixed_pairs, len(x))
        still_fixed = fixed.copy()
        for i in np.flatnonzero(fixed):
            still_fixed[i] = _is_fixed(x[i], x[neighbours[i]], must_span=smallest <= math.pi / 2)
        if (still_fixed == fixed).all():
            return Contacts(pairs, np.flatnonzero(~fixed))
        fixed = still_fixed


def _validate_points(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """A copy in double precision, checked for shape and for rows without a direction."""
    x = np.array(points, dtype=np.float64)  # a copy, because torch warns about read-only arrays
    check_points(torch.from_numpy(x), at_least=2)
    check_rows(torch.from_numpy(x))
    return x


def _closest_pairs(x: Float[np.ndarray, "n d"]) -> list[tuple[int, int]]:
    """The pairs with the largest cosine, and those within about 2^-70 of it."""
    n, d = x.shape
    unit, unit_error = _unit_rows(x)
    head = np.round(unit * 2**26) / 2**26  # sums of products of these are exact: multiples of 2^-52 below two
    tail = (unit - head) + unit_error
    blocks = []
    for rows, columns in upper_triangle(n, _BLOCK):
        blocks.append((rows, columns, _mask_repeated(unit[rows] @ unit[columns].T, diagonal=rows == columns).max()))
    best = max(largest for _, _, largest in blocks)
    resolution = d**1.5 * 2.0**-78  # of `excess`
    closest, pairs = -math.inf, np.empty((0, 2), dtype=int)
    for rows, columns, largest in blocks:
        if largest < best - _cosine_error(d):
            continue
        remainder = head[rows] @ tail[columns].T + tail[rows] @ unit[columns].T
        excess = _mask_repeated((head[rows] @ head[columns].T - best) + remainder, diagonal=rows == columns)
        if excess.max() > closest + resolution:
            pairs = pairs[:0]
        closest = max(closest, excess.max())
        if len(pairs) < _MAX_TIES:
            pairs = np.concatenate([pairs, _block_pairs(excess >= closest - resolution, rows, columns)[:_MAX_TIES]])
    return [(int(i), int(j)) for i, j in pairs]


def _mask_repeated(block: Float[np.ndarray, "n m"], *, diagonal: bool) -> Float[np.ndarray, "n m"]:
    """In a diagonal block, set the lower triangle to minus infinity, so that each pair counts once."""
    if diagonal:
        block[np.tril_indices(len(block))] = -np.inf
    return block


def _unit_rows(x: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """The rows divided by their norms, as a double and its error: double-double precision."""
    x = np.ldexp(x, -np.frexp(np.abs(x).max(axis=1, keepdims=True))[1])
    squares, errors = _exact_product(x, x)
    total, total_error = np.zeros(len(x)), errors.sum(axis=1)
    for column in squares.T:
        previous, total = total, total + column
        other = total - previous
        total_error += (previous - (total - other)) + (column - other)
    inverse = 1 / np.sqrt(total)
    square, square_error = _exact_product(inverse, inverse)
    product, product_error = _exact_product(total, square)
    # One Newton step for the inverse root of total + total_error.
    correction = inverse / 2 * ((1 - product) - product_error - total * square_error - total_error * square)
    unit, unit_error = _exact_product(x, inverse[:, None])
    return unit, unit_error + x * correction[:, None]


def _exact_product(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
    """The product of doubles and its exact rounding error (Dekker 1971)."""
    product = a * b
    (a_head, a_tail), (b_head, b_tail) = _split(a), _split(b)
    return product, ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


def _split(a: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
    """The leading 26 bits of doubles, and the remaining ones."""
    shifted = (2**27 + 1) * a
    head = shifted - (shifted - a)
    return head, a - head


def _exact_angle(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    """The angle of two vectors, in integer arithmetic up to the final roots and arctangent."""
    a, b = _integers(x), _integers(y)
    inner = sum(p * q for p, q in zip(a, b, strict=True))
    norms = sum(p * p for p in a) * sum(q * q for q in b)
    sine, cosine = math.sqrt((norms - inner * inner) / norms), math.sqrt(inner * inner / norms)
    return math.atan2(sine, math.copysign(cosine, inner))


def _integers(x: Float[np.ndarray, " d"]) -> list[int]:
    """The vector scaled by a power of two to integers."""
    fractions = [value.as_integer_ratio() for value in x.tolist()]
    common = max(denominator for _, denominator in fractions)
    return [numerator * (common // denominator) for numerator, denominator in fractions]


def _pairs_within(x: Float[np.ndarray, "n d"], limit: float) -> Int[np.ndarray, "m 2"]:
    """The pairs of unit vectors with an angle of at most `limit`; borderline cosines are decided by their angles."""
    min_cosine, error = math.cos(min(limit, math.pi)), _cosine_error(x.shape[1])
    selected = [np.empty((0, 2), dtype=int)]
    for rows, columns in upper_triangle(len(x), _BLOCK):
        excess = _mask_repeated(x[rows] @ x[columns].T, diagonal=rows == columns) - min_cosine
        borderline = _block_pairs(np.abs(excess) <= error, rows, columns)
        a, b = x[borderline[:, 0]], x[borderline[:, 1]]
        angles = 2 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
        selected += [_block_pairs(excess > error, rows, columns), borderline[angles <= limit]]
    pairs = np.concatenate(selected)
    return pairs[np.lexsort(pairs.T[::-1])]


def _block_pairs(mask: Bool[np.ndarray, "n m"], rows: slice, columns: slice) -> Int[np.ndarray, "k 2"]:
    """The pairs of points selected by the mask of a block."""
    pairs: Int[np.ndarray, "k 2"] = np.argwhere(mask) + np.array([rows.start, columns.start])
    return pairs


def _cosine_error(d: int) -> float:
    """Error bound for cosines computed in double precision."""
    return 4 * (d + 8) * 2.0**-53


def _neighbours(pairs: Int[np.ndarray, "m 2"], n: int) -> list[Int[np.ndarray, " k"]]:
    """For every point, the points that it is paired with."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, n)))


def _is_fixed(x: Float[np.ndarray, " d"], others: Float[np.ndarray, "k d"], *, must_span: bool) -> bool:
    """Whether the directions from x to the others balance with positive weights, and span the tangent space."""
    if len(others) == 0:
        return False
    tangents = others - np.outer(others @ x, x)
    lengths = np.linalg.norm(tangents, axis=1)
    if lengths.min() < 1e-6:  # every move leaves a coinciding point and approaches an opposite one
        return bool(others[lengths.argmin()] @ x < 0)
    tangents /= lengths[:, None]
    spans = np.linalg.matrix_rank(tangents, tol=1e-6) == len(x) - 1
    # Weights 1 + w with w >= 0 balance if minus the sum of the directions is a nonnegative combination of them.
    return bool((spans or not must_span) and nnls(tangents.T, -tangents.sum(axis=0))[1] < 1e-6 * len(others))
