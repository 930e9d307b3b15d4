r"""Polish: the best code near a given one, to the last digit, by a primal-dual interior-point method.

The largest cosine is the least :math:`\tau` with :math:`\langle x_i, x_j \rangle \le \tau` for all near pairs. With
slacks :math:`s`, multipliers :math:`\lambda`, :math:`A` the rows of tangent gradients of the cosines and
:math:`D = \Lambda S^{-1}`, a step solves

.. math::
    \Bigl( \begin{bmatrix} H & 0 \\ 0 & 0 \end{bmatrix} + [A, -1]^\top D \, [A, -1] \Bigr)
    \begin{bmatrix} \delta \\ \Delta\tau \end{bmatrix}
    = \begin{bmatrix} -A^\top \mu S^{-1} 1 \\ 1^\top \mu S^{-1} 1 - 1 \end{bmatrix}.

H is the Lagrangian's Hessian on the product of spheres, left out where it makes the matrix indefinite: a rigid code is
a vertex and needs none. Slacks are measured, never extrapolated.
"""

import math

import numpy as np
from jaxtyping import Float, Int, UInt8

from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump.codes.anneal import columns
from unclump.codes.descent import normalise
from unclump.codes.pair_sums import largest_cosine, near_pairs
from unclump.codes.skyline import block_starts, factorise, row_places, solve

Points = Float[np.ndarray, "n d"]
Values = Float[np.ndarray, " m"]
Numbers = Int[np.ndarray, " m"]

_ROUNDING = 1e-13


@compiled
def least_square(x: Points) -> float:
    """The least squared chord, by differences of coordinates among the nearest pairs."""
    largest = largest_cosine(columns(x))
    start, partner = near_pairs(columns(x), largest - 1e-9)
    least = 4.0
    for i in range(len(x)):
        for place in range(start[i], start[i + 1]):
            least = min(least, _square(x, i, partner[place]))
    return least


@compiled_in_any_order
def _square(x: Points, i: int, j: int) -> float:
    square = 0.0
    for k in range(x.shape[1]):
        square += (x[i, k] - x[j, k]) ** 2
    return square


@compiled
def tangent_bases(x: Points) -> np.ndarray:
    """For each point, d - 1 orthonormal vectors at right angles to it: a reflection's columns."""
    n, d = x.shape
    bases = np.empty((n, d - 1, d))
    for i in range(n):
        sign = 1.0 if x[i, d - 1] >= 0 else -1.0
        for a in range(d - 1):  # I - v v^T / (1 + |x_d|) with v = x + sign e_d takes x to -sign e_d
            for k in range(d - 1):
                bases[i, a, k] = (1.0 if a == k else 0.0) - x[i, a] * x[i, k] / (1 + abs(x[i, d - 1]))
            bases[i, a, d - 1] = -x[i, a] * sign
    return bases


@compiled_in_any_order
def _assemble(
    x: Points,
    bases: np.ndarray,
    first: Numbers,
    second: Numbers,
    weight: Values,
    multiplier: Values,
    convexity: float,
    matrix: Values,
    place: Numbers,
) -> np.ndarray:
    """Add up the matrix of a step, its last row that of tau; return the rows of A, both halves of each pair's."""
    n, d = x.shape
    t = d - 1
    m = len(first)
    last = place[n * t]
    gradients = np.empty((m, 2, t))
    matrix[:] = 0.0
    for e in range(m):
        i, j, w = first[e], second[e], weight[e]
        cosine = 0.0
        for k in range(d):
            cosine += x[i, k] * x[j, k]
        here, there = gradients[e, 0], gradients[e, 1]
        for a in range(t):
            here[a] = there[a] = 0.0
            for k in range(d):
                here[a] += bases[i, a, k] * x[j, k]
                there[a] += bases[j, a, k] * x[i, k]
        for a in range(t):
            row, other = place[i * t + a] + i * t, place[j * t + a]
            for b in range(a + 1):
                matrix[row + b] += w * here[a] * here[b]
                matrix[other + j * t + b] += w * there[a] * there[b]
            for b in range(t):
                matrix[other + i * t + b] += w * there[a] * here[b]
            matrix[last + i * t + a] -= w * here[a]
            matrix[last + j * t + a] -= w * there[a]
            bend = multiplier[e] * (convexity * (1 + cosine) - cosine)
            matrix[row + a] += bend
            matrix[other + j * t + a] += bend
            for b in range(t):
                inner = 0.0
                for k in range(d):
                    inner += bases[j, a, k] * bases[i, b, k]
                matrix[other + i * t + b] += multiplier[e] * inner
        matrix[last + n * t] += w
    return gradients


@compiled
def _pairs(x: Points, reach: float) -> tuple[Numbers, Numbers]:
    """Pairs within `reach` times the least chord."""
    square = reach * reach * least_square(x)
    start, partner = near_pairs(columns(x), 1 - square / 2)
    first = np.empty(len(partner), np.int64)
    for i in range(len(x)):
        first[start[i] : start[i + 1]] = i
    return first, partner.astype(np.int64)


@compiled
def _slacks(x: Points, tau: float, first: Numbers, second: Numbers) -> Values:
    """How far each cosine is below tau, where tau is given as half a squared chord: 1 - cosine."""
    slack = np.empty(len(first))
    for e in range(len(first)):
        slack[e] = _square(x, first[e], second[e]) / 2 - tau
    return slack


@compiled
def polish(x: Points, reach: float, steps: int, stop: UInt8[np.ndarray, "1"]) -> float:
    """Improve a code in place, or leave it as it is.

    Args:
        x: The points, of length one, near a local optimum.
        reach: Pairs within this multiple of the least chord take part; no point moves far enough to bring in others.
        steps: At most; about 25 are enough.
        stop: Nonzero to end early.

    Returns:
        The least squared chord.
    """
    n, d = x.shape
    t = d - 1
    best, best_square = x.copy(), least_square(x)
    if best_square < 1e-12:  # coinciding points have no gradient
        return best_square
    order = np.argsort(x[:, d - 1])
    y = x[order].copy()
    first, second = _pairs(y, reach)
    m = len(first)
    begin = np.arange(n)
    for e in range(m):
        begin[second[e]] = min(begin[second[e]], first[e])
    starts = np.zeros(n * t + 1, np.int64)
    for i in range(n):
        starts[i * t : (i + 1) * t] = begin[i] * t
    starts = block_starts(starts)
    place = row_places(starts)
    size_of = len(starts)
    matrix = np.empty(place[size_of])
    room = (reach - 1) * math.sqrt(best_square) / 4
    tau = best_square / 2  # 1 - the bound on the cosines, which keeps the digits
    tau -= 0.003 * tau
    slack = _slacks(y, tau, first, second)
    mu = 1 / np.sum(1 / slack)
    multiplier = mu / slack
    for _ in range(steps):
        if stop[0] != 0:
            break
        bases = tangent_bases(y)
        weight = multiplier / slack
        solved = False
        for convexity in (0.0, 1.0):
            gradients = _assemble(y, bases, first, second, weight, multiplier, convexity, matrix, place)
            for i in range(n * t):
                matrix[place[i] + i] += 1e-9
            for i in range(n * t + 1, size_of):
                matrix[place[i] + i] = 1.0
            if factorise(matrix, starts, place, _ROUNDING):
                solved = True
                break
        if not solved:
            break
        step = np.zeros(size_of)
        for e in range(m):
            pull = mu / slack[e]
            step[n * t] += pull
            for a in range(t):
                step[first[e] * t + a] -= pull * gradients[e, 0, a]
                step[second[e] * t + a] -= pull * gradients[e, 1, a]
        step[n * t] -= 1
        solve(matrix, starts, place, step)
        moves = np.zeros((n, d))
        longest = 0.0
        for i in range(n):
            square = 0.0
            for a in range(t):
                square += step[i * t + a] ** 2
                for k in range(d):
                    moves[i, k] += step[i * t + a] * bases[i, a, k]
            longest = max(longest, math.sqrt(square))
        if not longest < np.inf:
            break
        size = min(1.0, room / longest) if longest > 0 else 1.0
        moved = False
        for _ in range(12):
            trial = y + size * moves
            normalise(trial)
            trial_slack = _slacks(trial, tau - size * step[n * t], first, second)
            if np.min(trial_slack / slack) > 0.01:
                moved = True
                break
            size *= 0.6
        if not moved:
            break
        # the multipliers take their own step: towards mu / s - D (dtau - A delta)
        dual = 1.0
        change = np.empty(m)
        for e in range(m):
            along = step[n * t]
            for a in range(t):
                along -= gradients[e, 0, a] * step[first[e] * t + a] + gradients[e, 1, a] * step[second[e] * t + a]
            change[e] = mu / slack[e] - multiplier[e] - weight[e] * along
            if change[e] < 0:
                dual = min(dual, -0.99 * multiplier[e] / change[e])
        multiplier = multiplier + dual * change
        y, slack, tau = trial, trial_slack, tau - size * step[n * t]
        square = least_square(y)
        if square > best_square:
            best_square = square
            best[order] = y
        gap = np.dot(multiplier, slack) / m
        if gap < 1e-17 or (size > 0.9 and dual > 0.9 and gap * m < 1e-16):
            break
        mu = gap * (0.1 if min(size, dual) > 0.7 else 0.5)
    x[:] = best
    return best_square
