r"""One step of the polish: the matrix of the normal equations, its solution, and the step of the multipliers.

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
_REGULARISATION = 1e-9  # on the diagonal: keeps points without contacts in place


@compiled
def tangent_bases(x: Points) -> Bases:
    """For each point, d - 1 orthonormal tangent vectors: columns of a Householder reflection."""
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
    offset: Numbers,
) -> Gradients:
    """Assemble the matrix of a step, with tau in the last row; return the rows of A, as two gradients per pair.

    With `convexity` one, the Lagrangian's Hessian is shifted to be positive semidefinite.
    """
    n, d = x.shape
    t = d - 1
    m = len(first)
    last = offset[n * t]
    gradients = np.empty((m, 2, t))
    matrix[:] = 0.0
    for e in range(m):
        i, j, w = first[e], second[e], weight[e]
        cosine = 0.0
        for k in range(d):
            cosine += x[i, k] * x[j, k]
        gradient_i, gradient_j = gradients[e, 0], gradients[e, 1]
        for a in range(t):
            gradient_i[a] = gradient_j[a] = 0.0
            for k in range(d):
                gradient_i[a] += bases[i, a, k] * x[j, k]
                gradient_j[a] += bases[j, a, k] * x[i, k]
        for a in range(t):
            row, other = offset[i * t + a] + i * t, offset[j * t + a]
            for b in range(a + 1):
                matrix[row + b] += w * gradient_i[a] * gradient_i[b]
                matrix[other + j * t + b] += w * gradient_j[a] * gradient_j[b]
            for b in range(t):
                matrix[other + i * t + b] += w * gradient_j[a] * gradient_i[b]
            matrix[last + i * t + a] -= w * gradient_i[a]
            matrix[last + j * t + a] -= w * gradient_j[a]
            curvature = multiplier[e] * (convexity * (1 + cosine) - cosine)
            matrix[row + a] += curvature
            matrix[other + j * t + a] += curvature
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
    offset: Numbers,
) -> tuple[bool, Gradients, Values]:
    """Whether the system was solvable, the rows of A, and the step."""
    n, d = x.shape
    t = d - 1
    step = np.zeros(len(starts))
    gradients = np.empty((0, 2, t))
    solvable = False
    for convexity in (0.0, 1.0):
        gradients = assemble(x, bases, first, second, multiplier / slack, multiplier, convexity, matrix, offset)
        for i in range(n * t):
            matrix[offset[i] + i] += _REGULARISATION
        for i in range(n * t + 1, len(starts)):
            matrix[offset[i] + i] = 1.0
        solvable = factorise(matrix, starts, offset, _ROUNDING)
        if solvable:
            break
    for e in range(len(first)):
        force = mu / slack[e]
        step[n * t] += force
        for a in range(t):
            step[first[e] * t + a] -= force * gradients[e, 0, a]
            step[second[e] * t + a] -= force * gradients[e, 1, a]
    step[n * t] -= 1
    if solvable:
        solve(matrix, starts, offset, step)
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
    r"""Size of the step towards :math:`\mu S^{-1} 1 - D (\Delta\tau - A \delta)`, and the new multipliers."""
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
