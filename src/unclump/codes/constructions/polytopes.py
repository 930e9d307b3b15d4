"""Codes with simple coordinates: polygons, simplices, and a few regular polytopes."""

import itertools
import math

import numpy as np
from jaxtyping import Float64, Integer

Points = Float64[np.ndarray, "n d"]


GOLDEN = (1 + math.sqrt(5)) / 2


def unit_rows(x: Points) -> Points:
    """Divide every row by its norm."""
    unit: Points = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit


def sign_patterns(count: int, *, even: bool = False) -> Integer[np.ndarray, "k {count}"]:
    """All rows of 1 and -1, or those with an even number of minus signs."""
    signs = np.array(list(itertools.product((1, -1), repeat=count)))
    return signs[signs.prod(axis=1) > 0] if even else signs


def ring(count: int, height: float = 0.0, turn: float = 0.0) -> Points:
    """A regular polygon of `count` points around the third axis, at `height`, rotated by `turn` radians."""
    azimuth = turn + 2 * np.pi * np.arange(count) / count
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(azimuth), radius * np.sin(azimuth), np.full(count, height)])


def polygon(n: int) -> Points:
    """The regular polygon: n points in two dimensions."""
    return ring(n)[:, :2]


def simplex(n: int) -> Points:
    """The regular simplex: n points in n - 1 dimensions with all cosines -1/(n - 1).

    The columns before normalisation are Helmert's basis of the vectors in n dimensions with sum zero: k ones, then -k,
    divided by the square root of k(k + 1).
    """
    k = np.arange(1, n)
    basis = np.triu(np.ones((n, n - 1)), 0)
    basis[k, k - 1] = -k
    return unit_rows(basis / np.sqrt(k * (k + 1.0)))


def orthogonal_simplices(n: int, d: int) -> Points:
    """An optimum for n <= 2d: regular simplices in orthogonal subspaces, of sizes as equal as possible.

    For n <= d + 1 it is one simplex; for n = d + k it is k simplices, with the optimal cosine 0; n = 2d is the
    cross-polytope. Of the many optima in between, this one is centred at the origin.
    """
    points = np.zeros((n, d))
    row = column = 0
    for part in np.array_split(np.arange(n), max(1, n - d)):
        size = len(part)
        points[row : row + size, column : column + size - 1] = simplex(size)
        row, column = row + size, column + size - 1
    return points


def petersen() -> Points:
    """The 10 edge midpoints of the regular simplex in 4 dimensions; its distant pairs form the Petersen graph."""
    corners = simplex(5)
    return unit_rows(np.stack([corners[i] + corners[j] for i, j in itertools.combinations(range(5), 2)]))


def half_cube(d: int) -> Points:
    """The corners of the cube with an even number of minus signs."""
    even: Points = sign_patterns(d, even=True) / np.sqrt(d)
    return even


def cell_24() -> Points:
    """The 24-cell as the unit Hurwitz quaternions: the axes and the corners of the cube."""
    return np.concatenate([np.eye(4), -np.eye(4), 0.5 * sign_patterns(4)])


def cell_600() -> Points:
    """The 600-cell as the 120 unit icosians: the 24-cell and the even permutations of (golden, 1, 1/golden, 0) / 2."""
    signed = np.pad(sign_patterns(3) * np.array([GOLDEN / 2, 0.5, 0.5 / GOLDEN]), ((0, 0), (0, 1)))
    even = [p for p in itertools.permutations(range(4)) if _inversions(p) % 2 == 0]
    return unit_rows(np.concatenate([cell_24(), *(signed[:, p] for p in even)]))


def _inversions(permutation: tuple[int, ...]) -> int:
    return sum(a > b for a, b in itertools.combinations(permutation, 2))
