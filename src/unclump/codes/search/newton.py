r"""One step of the polish: the matrix of the normal equations, its solution, and what the multipliers make of it.

Every point has d - 1 coordinates, along an orthonormal basis of its tangent space; the last unknown is tau.
"""

import numpy as np
from jaxtyping import Float, Int

from unclump.codes.search.skyline import factorise, solve
from unclump.ops.native.compiler import compiled, compiled_in_any_order

Points = Float[np.ndarray, "n d"]
Bases = Float[np.ndarray, "n t d"]
Gradients = Float[np.ndarray, "m 2 t"]
Values = Float[np.ndarray, " m"]
Numbers = Int[np.ndarray, " k"]

_ROUNDING = 1e-13
_HOLD = 1e-9  # on the diagonal: keeps points in place that nothing touches


@compiled
def tangent_bases(x: Points) -> Bases:
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
def assemble(
    x: Points,
    bases: Bases,
    first: Numbers,
    second: Numbers,
    weight: Values,
    multiplier: Values,
    convexity: float,
    matrix: Values,
    place: Numbers,
) -> Gradients:
    """Add up the matrix of a step, its last row that of tau; return the rows of A, both halves of each pair's.

    With `convexity` one, enough is added to the Lagrangian's Hessian to make it positive semidefinite.
    """
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
def newton_step(
    x: Points,
    bases: Bases,
    first: Numbers,
    second: Numbers,
    slack: Values,
    multiplier: Values,
    mu: float,
    matrix: Values,
    starts: Numbers,
    place: Numbers,
) -> tuple[bool, Gradients, Values]:
    """Whether the equations could be solved, the rows of A, and the step."""
    n, d = x.shape
    t = d - 1
    step = np.zeros(len(starts))
    gradients = np.empty((0, 2, t))
    solvable = False
    for convexity in (0.0, 1.0):
        gradients = assemble(x, bases, first, second, multiplier / slack, multiplier, convexity, matrix, place)
        for i in range(n * t):
            matrix[place[i] + i] += _HOLD
        for i in range(n * t + 1, len(starts)):
            matrix[place[i] + i] = 1.0
        solvable = factorise(matrix, starts, place, _ROUNDING)
        if solvable:
            break
    for e in range(len(first)):
        pull = mu / slack[e]
        step[n * t] += pull
        for a in range(t):
            step[first[e] * t + a] -= pull * gradients[e, 0, a]
            step[second[e] * t + a] -= pull * gradients[e, 1, a]
    step[n * t] -= 1
    if solvable:
        solve(matrix, starts, place, step)
    return solvable, gradients, step


@compiled
def multiplier_step(
    gradients: Gradients,
    step: Values,
    first: Numbers,
    second: Numbers,
    slack: Values,
    multiplier: Values,
    mu: float,
    tau_change: float,
) -> tuple[float, Values]:
    r"""The multipliers after their own step towards :math:`\mu S^{-1} 1 - D (\Delta\tau - A \delta)`, and its size."""
    t = gradients.shape[2]
    size = 1.0
    change = np.empty(len(first))
    for e in range(len(first)):
        along = tau_change
        for a in range(t):
            along -= gradients[e, 0, a] * step[first[e] * t + a] + gradients[e, 1, a] * step[second[e] * t + a]
        change[e] = (mu - multiplier[e] * along) / slack[e] - multiplier[e]
        if change[e] < 0:
            size = min(size, -0.99 * multiplier[e] / change[e])
    return size, multiplier + size * change
