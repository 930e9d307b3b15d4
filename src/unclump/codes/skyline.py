r"""Cholesky factors of symmetric matrices stored by rows from their first nonzero: the fill stays within.

Points sorted along an axis have their neighbours near them in the order, so that a row of the normal equations of a
thousand points on the sphere in 3-D starts shortly before its diagonal.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from unclump._numba.compiler import compiled, compiled_in_any_order

Values = Float[np.ndarray, " k"]
Numbers = Int[np.ndarray, " m"]

_HUGE = 1e150  # in the place of a pivot that is all rounding: its unknown becomes zero


@compiled
def rows_from(first: Numbers) -> Numbers:
    """Where column 0 of each row would lie in the values: entry (i, j) is at `place[i] + j`, for j >= first[i]."""
    place = np.empty(len(first) + 1, np.int64)
    length = 0
    for i in range(len(first)):
        place[i] = length - first[i]
        length += i + 1 - first[i]
    place[len(first)] = length
    return place


@compiled_in_any_order
def _product(a: Values, at: int, b: Values, bt: int, count: int) -> float:
    total = 0.0
    for k in range(count):
        total += a[at + k] * b[bt + k]
    return total


@compiled_in_any_order
def factorise(a: Values, first: Numbers, place: Numbers, least: float) -> bool:
    """Replace the lower triangle by its Cholesky factor; False, with the values spoilt, if it is not semidefinite.

    A pivot below `least` of its diagonal entry is rounding: where points may rotate all together, or move freely.
    """
    n = len(first)
    for i in range(n):
        row = place[i]
        diagonal = a[row + i]
        for j in range(first[i], i):
            low = max(first[i], first[j])
            a[row + j] = (a[row + j] - _product(a, row + low, a, place[j] + low, j - low)) / a[place[j] + j]
        pivot = diagonal - _product(a, row + first[i], a, row + first[i], i - first[i])
        if pivot > least * diagonal:
            a[row + i] = math.sqrt(pivot)
        elif pivot > -least * max(diagonal, 0.0):
            a[row + i] = _HUGE
        else:
            return False
    return True


@compiled_in_any_order
def solve(a: Values, first: Numbers, place: Numbers, b: Values) -> None:
    """Replace b by the solution, given the factor."""
    n = len(first)
    for i in range(n):
        row = place[i]
        b[i] = (b[i] - _product(a, row + first[i], b, first[i], i - first[i])) / a[row + i]
    for i in range(n - 1, -1, -1):
        row = place[i]
        b[i] /= a[row + i]
        for k in range(first[i], i):
            b[k] -= a[row + k] * b[i]
