r"""Delsarte's linear programming bound over Gegenbauer polynomials, with a proof in integer arithmetic."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from unclump.codes.bounds.certificate import proves_fewer_points
from unclump.codes.bounds.gegenbauer import gegenbauer
from unclump.codes.bounds.levenshtein import angle_rounded_up, levenshtein_cosine, tight_degree

_MAX_DEGREE = 80
_ROUNDS = 20
_NEWTON_STEPS = 12

Vector = Float[np.ndarray, "_"]


@dataclass(frozen=True)
class _LinearProgram:
    """The linear program for n points in d dimensions and polynomials up to a degree."""

    n: int
    d: int
    degree: int

    def at(self, t: Vector, *, derivative: int = 0) -> Float[np.ndarray, "terms m"]:
        """The values or derivatives at t of all Gegenbauer polynomials except the constant."""
        return gegenbauer(t, self.d, self.degree, derivative=derivative)[1:]


@dataclass(frozen=True)
class _Solution:
    r"""A polynomial :math:`f = 1 + \sum_k f_k P_k` that is at most zero up to the cosine, and the weights of its zeros.

    The zeros are sorted; the last is the cosine, the others are double zeros.
    """

    coefficients: Vector
    zeros: Vector
    weights: Vector

    @property
    def cosine(self) -> float:
        return float(self.zeros[-1])


@lru_cache
def delsarte(n: int, d: int, *, degree: int | None = None) -> float:
    r"""The linear programming bound on the minimal angle of n points in d dimensions, in radians.

    Let :math:`f = 1 + \sum_{k \ge 1} f_k P_k`, :math:`f_k \ge 0`, be at most zero on [-1, s]. Then at most f(1) points
    have all cosines at most s. For given s, minimising f(1) is a linear program; the bound is the s at which it is n.

    It is solved in floating point: cutting planes (at the maxima of f above zero) and Newton's method for s, until the
    zeros of f are known approximately; then Newton's method on the optimality conditions, to machine precision. None of
    this is trusted: the coefficients are doubles, hence exact fractions, and the resulting polynomial is proved to be
    negative on [-1, s] in integer arithmetic (see `proves_fewer_points`); the angle is rounded up. So the result is an
    upper bound regardless of solver errors. To leave a margin for the proof, the program is solved for n (1 - 1e-13),
    or less if the proof fails. Without a proof the result is infinite.

    Args:
        n: Number of points.
        d: Dimension. The result is infinite if Rankin's bound is already sharp: for d = 2 or n <= 2 d.
        degree: The degree of the polynomials; higher is better, and slower. None uses enough for five digits, at most
            80. The result is infinite if Levenshtein's polynomial has a higher degree, as for many points in few
            dimensions.

    References:
        Delsarte, Goethals and Seidel. Spherical codes and designs. Geometriae Dedicata 6, 1977.
        Odlyzko and Sloane. New bounds on the number of unit spheres that can touch a unit sphere in n dimensions.
        Journal of Combinatorial Theory A 26, 1979.

    Example:
        >>> from unclump.codes.bounds.upper_bound import delsarte
        >>> math.degrees(delsarte(25, 4)) > 60 > math.degrees(delsarte(26, 4))  # at most 25 spheres touch one in 4-D
        True
    """
    tight = tight_degree(n, d)
    degree = min(2 * tight + 20, _MAX_DEGREE) if degree is None else degree
    if d == 2 or n <= 2 * d or tight > degree:
        return math.inf
    for candidate in _candidates(_LinearProgram(n, d, degree)):
        if proves_fewer_points(np.append(1.0, candidate.coefficients), n, d, candidate.cosine):
            return angle_rounded_up(Decimal(candidate.cosine))
    return math.inf


def _candidates(program: _LinearProgram) -> Iterator[_Solution]:
    """Solutions, the most precise first; later ones leave a larger margin for the proof.

    The approximate ones are for slightly fewer points: where a code attains the bound, the active terms change at n.
    """
    approximations = [_cutting_planes(program, program.n * (1 - 1e-5))]
    yield from _polish_with_margins(program, approximations[0])
    approximations.append(_cutting_planes(program, program.n * (1 - 1e-6)))
    yield from _polish_with_margins(program, approximations[1])
    yield from (solution for solution in reversed(approximations) if solution is not None)


def _polish_with_margins(program: _LinearProgram, approximation: _Solution | None) -> Iterator[_Solution]:
    for margin in (1e-13, 1e-12, 1e-11, 1e-10):
        polished = approximation and _polish(program, approximation, program.n * (1 - margin))
        if polished:
            yield polished


def _cutting_planes(program: _LinearProgram, target: float) -> _Solution | None:
    """A polynomial with f(1) = `target`, to about six digits; None if the solver fails."""
    cosine = float(levenshtein_cosine(program.n, program.d))
    points, solution = _grid(cosine, 4 * program.degree), None
    for _ in range(_ROUNDS):
        optimum = linprog(
            np.ones(program.degree),
            A_ub=program.at(points).T,
            b_ub=-np.ones(len(points)),
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if optimum.status != 0 or optimum.x is None:
            return solution
        f, weights = optimum.x, -optimum.ineqlin.marginals
        peaks = _peaks(program, f, cosine)
        solution = _collect_zeros(program, f, points, weights, peaks)
        # The derivative of the optimal f(1) with respect to the cosine is the weight times the slope there.
        size = 1 + f.sum()
        step = size * math.log(target / size) / (weights[-1] * (f @ program.at(points[-1:], derivative=1)).item())
        if abs(step) < 1e-8 and (1 + f @ program.at(peaks)).max(initial=0) < 1e-8:
            return solution
        cosine += step
        points = np.union1d(points[:-1], peaks)
        points = np.append(points[points < cosine], cosine)
    return solution


def _grid(cosine: float, count: int) -> Vector:
    """Chebyshev points from -1 to the cosine, both included."""
    return -1 + (1 + cosine) * np.sin(np.linspace(0, np.pi / 2, count)) ** 2


def _peaks(program: _LinearProgram, f: Vector, cosine: float) -> Vector:
    """The local maxima of the polynomial between -1 and the cosine: on a grid, refined by Newton's method."""
    t = _grid(cosine, 16 * program.degree)
    values = f @ program.at(t)
    i = 1 + np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:]))
    peaks = t[i]
    for _ in range(5):
        slope, curvature = (f @ program.at(peaks, derivative=order) for order in (1, 2))
        concave = curvature < 0
        peaks = np.clip(peaks - concave * slope / np.where(concave, curvature, 1), t[i - 1], t[i + 1])
    return peaks


def _collect_zeros(program: _LinearProgram, f: Vector, points: Vector, weights: Vector, peaks: Vector) -> _Solution:
    """The zeros of the polynomial: each peak collects the weights of the grid points nearest to it."""
    zeros = np.concatenate([[-1.0], peaks, points[-1:]])
    zero_weights = np.zeros(len(zeros))
    np.add.at(zero_weights, np.abs(points[:, None] - zeros).argmin(axis=1), weights)
    is_significant = zero_weights > 1e-6 * program.n
    is_significant[-1] = True
    return _Solution(f, zeros[is_significant], zero_weights[is_significant])


def _polish(program: _LinearProgram, start: _Solution, size: float) -> _Solution | None:
    r"""Newton's method on the optimality conditions, with f(1) = `size`.

    The unknowns are the nonzero coefficients, the zeros :math:`t_i` of f (except -1, where f' need not vanish) and
    their weights. The conditions: f vanishes at all zeros, f' at the inner ones, every nonzero coefficient satisfies
    :math:`1 + \sum_i w_i P_k(t_i) = 0`, and f(1) = `size`.
    """
    f, zeros, weights = start.coefficients.copy(), start.zeros.copy(), start.weights.copy()
    used = f > 0
    free = np.flatnonzero(zeros > -1)
    inner = free[:-1]
    for _ in range(_NEWTON_STEPS):
        p, slopes, curvatures = (program.at(zeros, derivative=order)[used] for order in range(3))
        conditions = [1 + f[used] @ p, f[used] @ slopes[:, inner], 1 + p @ weights, [1 + f[used].sum() - size]]
        at_zeros, at_inner, at_terms, at_one = _ranges(*map(len, conditions))
        to_f, to_zeros, to_weights = _ranges(len(p), len(free), len(zeros))
        jacobian = np.zeros((at_one.stop, to_weights.stop))
        jacobian[at_zeros, to_f] = p.T
        jacobian[at_inner, to_f] = slopes[:, inner].T
        jacobian[at_one, to_f] = 1
        jacobian[at_zeros, to_zeros][free, np.arange(len(free))] = f[used] @ slopes[:, free]
        jacobian[at_inner, to_zeros][:, : len(inner)] = np.diag(f[used] @ curvatures[:, inner])
        jacobian[at_terms, to_zeros] = (weights * slopes)[:, free]
        jacobian[at_terms, to_weights] = p
        step = _damped_step(jacobian, -np.concatenate(conditions))
        if step is None:
            break
        f[used] += step[to_f]
        zeros[free] += step[to_zeros]
        weights += step[to_weights]
        used &= f > 0  # coefficients that turn negative are fixed at zero
        if not (np.abs(zeros) <= 1).all():
            return None
    f = np.where(used, f, 0)
    # In a degenerate program f may not vanish exactly at the last zero: one more Newton step.
    zeros[-1] -= (1 + f @ program.at(zeros[-1:])).item() / (f @ program.at(zeros[-1:], derivative=1)).item()
    return _Solution(f, zeros, weights)


def _ranges(*sizes: int) -> list[slice]:
    """Consecutive slices of the given lengths."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _damped_step(matrix: Float[np.ndarray, "m m"], right: Vector) -> Vector | None:
    """A Levenberg step, with rows and then columns scaled to norm one, damped by the residual; None if that is zero.

    An undamped Newton step would jump along the many solutions of a degenerate program. The augmented system for
    residual and step keeps the digits that the normal equations would lose.
    """
    rows = np.linalg.norm(matrix, axis=1, keepdims=True)
    columns = np.linalg.norm(matrix / rows, axis=0)
    columns[columns == 0] = 1
    scaled, right = matrix / rows / columns, right / rows[:, 0]
    residual = float(np.linalg.norm(right))
    if residual < 1e-12:
        return None
    identity = np.eye(len(right))
    system = np.block([[identity, scaled], [scaled.T, -(max(residual, 1e-8) ** 2) * identity]])
    step: Vector = np.linalg.solve(system, np.append(right, np.zeros_like(right)))[len(right) :] / columns
    return step
