r"""Skyline Cholesky: rows of a symmetric matrix are stored from their first nonzero, which also bounds the fill-in.

Points sorted along an axis are close to their neighbours in this order, so that a row of the normal equations of a
thousand points on the sphere in 3-D starts shortly before its diagonal. Rows are processed in blocks of four with a
common start, so that loads are shared.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from unclump.ops.native.compiler import compiled, compiled_in_any_order

Values = Float[np.ndarray, " k"]
Numbers = Int[np.ndarray, " m"]

BLOCK = 4
_HUGE = 1e150  # replaces a pivot that is only rounding error, so that its unknown becomes zero


@compiled
def block_starts(first: Numbers) -> Numbers:
    """Row starts rounded down to multiples of four, common to each block of four rows; pads the last block."""
    size = -(-len(first) // BLOCK) * BLOCK
    starts = np.empty(size, np.int64)
    for block in range(0, size, BLOCK):
        first_start = block
        for i in range(block, min(block + BLOCK, len(first))):
            first_start = min(first_start, first[i])
        starts[block : block + BLOCK] = first_start // BLOCK * BLOCK
    return starts


@compiled
def row_offsets(starts: Numbers) -> Numbers:
    """Entry (i, j) is stored at `offset[i] + j`, for j >= starts[i]; the last offset is the total size."""
    offset = np.empty(len(starts) + 1, np.int64)
    length = 0
    for i in range(len(starts)):
        offset[i] = length - starts[i]
        length += i // BLOCK * BLOCK + BLOCK - starts[i]
    offset[len(starts)] = length
    return offset


@compiled_in_any_order
def _products(a: Values, p: int, p_step: int, q: int, q_step: int, count: int, out: Float[np.ndarray, "4 4"]) -> None:
    """Inner products of four rows with four others, two columns at a time."""
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
def factorise(a: Values, starts: Numbers, offset: Numbers, threshold: float) -> bool:
    """Replace the lower triangle by its Cholesky factor; False, with invalid values, if it is not semidefinite.

    A pivot below `threshold` times its diagonal entry is rounding error, as for a common rotation or a free point.
    """
    sums = np.empty((BLOCK, BLOCK))
    diagonal = np.empty(BLOCK)
    for i in range(0, len(starts), BLOCK):
        i_step = offset[i + 1] - offset[i] if i + 1 < len(starts) else 0
        for r in range(BLOCK):
            diagonal[r] = a[offset[i + r] + i + r]
        for j in range(starts[i], i + 1, BLOCK):
            j_step = offset[j + 1] - offset[j]
            low = max(starts[i], starts[j])
            _products(a, offset[i] + low, i_step, offset[j] + low, j_step, j - low, sums)
            for c in range(BLOCK):
                column = offset[j + c] + j
                for r in range(c if i == j else 0, BLOCK):
                    row = offset[i + r] + j
                    value = a[row + c] - sums[r, c]
                    for k in range(c):
                        value -= a[row + k] * a[column + k]
                    if i != j or r != c:
                        a[row + c] = value / a[column + c]
                    elif value > threshold * diagonal[c]:
                        a[row + c] = math.sqrt(value)
                    elif value > -threshold * max(diagonal[c], 0.0):
                        a[row + c] = _HUGE
                    else:
                        return False
    return True


@compiled_in_any_order
def solve(a: Values, starts: Numbers, offset: Numbers, b: Values) -> None:
    """Replace b by the solution, from the Cholesky factor."""
    for i in range(len(starts)):
        row = offset[i]
        total = b[i]
        for k in range(starts[i], i):
            total -= a[row + k] * b[k]
        b[i] = total / a[row + i]
    for i in range(len(starts) - 1, -1, -1):
        row = offset[i]
        b[i] /= a[row + i]
        for k in range(starts[i], i):
            b[k] -= a[row + k] * b[i]
