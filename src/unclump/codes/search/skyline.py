r"""Cholesky factors of symmetric matrices whose rows are stored from their first nonzero: the fill stays within.

Points sorted along an axis have their neighbours near them in the order, so that a row of the normal equations of a
thousand points on the sphere in 3-D starts shortly before its diagonal. Rows come in blocks of four that start
together, which share what they read.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from unclump.ops.native.compiler import compiled, compiled_in_any_order

Values = Float[np.ndarray, " k"]
Numbers = Int[np.ndarray, " m"]

BLOCK = 4
_HUGE = 1e150  # in the place of a pivot that is all rounding: its unknown becomes zero


@compiled
def block_starts(first: Numbers) -> Numbers:
    """The starts of the rows, made multiples of four and the same for each four rows, with rows added to fill them."""
    size = -(-len(first) // BLOCK) * BLOCK
    starts = np.empty(size, np.int64)
    for block in range(0, size, BLOCK):
        least = block
        for i in range(block, min(block + BLOCK, len(first))):
            least = min(least, first[i])
        starts[block : block + BLOCK] = least // BLOCK * BLOCK
    return starts


@compiled
def row_places(starts: Numbers) -> Numbers:
    """Where column 0 of each row would lie: entry (i, j) is at `place[i] + j`, for j >= starts[i]. Last: the size."""
    place = np.empty(len(starts) + 1, np.int64)
    length = 0
    for i in range(len(starts)):
        place[i] = length - starts[i]
        length += i // BLOCK * BLOCK + BLOCK - starts[i]
    place[len(starts)] = length
    return place


@compiled_in_any_order
def _products(a: Values, p: int, p_step: int, q: int, q_step: int, count: int, out: Float[np.ndarray, "4 4"]) -> None:
    """Inner products of four runs of the values with four others, two by two."""
    for c in range(0, BLOCK, 2):
        r, s = a[q + c * q_step : q + c * q_step + count], a[q + (c + 1) * q_step : q + (c + 1) * q_step + count]
        e, f = a[p : p + count], a[p + p_step : p + p_step + count]
        g, h = a[p + 2 * p_step : p + 2 * p_step + count], a[p + 3 * p_step : p + 3 * p_step + count]
        er = es = fr = fs = gr = gs = hr = hs = 0.0
        for k in range(count):
            er += e[k] * r[k]
            es += e[k] * s[k]
            fr += f[k] * r[k]
            fs += f[k] * s[k]
            gr += g[k] * r[k]
            gs += g[k] * s[k]
            hr += h[k] * r[k]
            hs += h[k] * s[k]
        out[0, c], out[0, c + 1], out[1, c], out[1, c + 1] = er, es, fr, fs
        out[2, c], out[2, c + 1], out[3, c], out[3, c + 1] = gr, gs, hr, hs


@compiled_in_any_order
def factorise(a: Values, starts: Numbers, place: Numbers, least: float) -> bool:
    """Replace the lower triangle by its Cholesky factor; False, with the values spoilt, if it is not semidefinite.

    A pivot below `least` of its diagonal entry is rounding: where points may rotate all together, or move freely.
    """
    sums = np.empty((BLOCK, BLOCK))
    diagonal = np.empty(BLOCK)
    for i in range(0, len(starts), BLOCK):
        i_step = place[i + 1] - place[i] if i + 1 < len(starts) else 0
        for r in range(BLOCK):
            diagonal[r] = a[place[i + r] + i + r]
        for j in range(starts[i], i + 1, BLOCK):
            j_step = place[j + 1] - place[j]
            low = max(starts[i], starts[j])
            _products(a, place[i] + low, i_step, place[j] + low, j_step, j - low, sums)
            for c in range(BLOCK):
                column = place[j + c] + j
                for r in range(c if i == j else 0, BLOCK):
                    row = place[i + r] + j
                    value = a[row + c] - sums[r, c]
                    for k in range(c):
                        value -= a[row + k] * a[column + k]
                    if i != j or r != c:
                        a[row + c] = value / a[column + c]
                    elif value > least * diagonal[c]:
                        a[row + c] = math.sqrt(value)
                    elif value > -least * max(diagonal[c], 0.0):
                        a[row + c] = _HUGE
                    else:
                        return False
    return True


@compiled_in_any_order
def solve(a: Values, starts: Numbers, place: Numbers, b: Values) -> None:
    """Replace b by the solution, given the factor."""
    for i in range(len(starts)):
        row = place[i]
        total = b[i]
        for k in range(starts[i], i):
            total -= a[row + k] * b[k]
        b[i] = total / a[row + i]
    for i in range(len(starts) - 1, -1, -1):
        row = place[i]
        b[i] /= a[row + i]
        for k in range(starts[i], i):
            b[k] -= a[row + k] * b[i]
