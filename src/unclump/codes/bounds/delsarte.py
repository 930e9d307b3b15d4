r"""Delsarte's bound by linear programming over Gegenbauer polynomials, with a proof in integers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from unclump.codes.bounds.certificate import proves_fewer
from unclump.codes.bounds.gegenbauer import gegenbauer
from unclump.codes.bounds.levenshtein import angle_above, levenshtein_cosine, tight_degree

_MOST = 80  # the highest degree of polynomials
_ROUNDS = 20
_NEWTON_STEPS = 12

Vector = Float[np.ndarray, "_"]


@dataclass(frozen=True)
class _Programme:
    """What is solved: n points in d dimensions, polynomials up to a degree."""

    n: int
    d: int
    degree: int

    def at(self, t: Vector, *, derivative: int = 0) -> Float[np.ndarray, "terms m"]:
        """All polynomials but the constant one."""
        return gegenbauer(t, self.d, self.degree, derivative=derivative)[1:]


@dataclass(frozen=True)
class _Solution:
    r"""A polynomial :math:`f = 1 + \sum_k f_k P_k`, not above zero up to the cosine, and the weights of its zeros.

    The zeros are sorted; the last is the cosine, the others are where f touches zero.
    """

    coefficients: Vector
    zeros: Vector
    weights: Vector

    @property
    def cosine(self) -> float:
        return float(self.zeros[-1])


@lru_cache
def delsarte(n: int, d: int, *, degree: int | None = None) -> float:
    r"""The bound of linear programming on the smallest angle of n points in d dimensions, in radians.

    Let :math:`f = 1 + \sum_{k \ge 1} f_k P_k`, :math:`f_k \ge 0`, be at most zero on [-1, s]. Then at most f(1) points
    have no cosine above s. For a given s the least f(1) is a linear programme; we look for the s at which it is n.

    It is solved in floating point: cutting planes (the peaks of f that rise above zero) and Newton's method for s,
    until it is known where f touches zero; then Newton's method on the conditions of optimality, to machine precision.
    None of this is trusted. The coefficients are doubles, that is, exact fractions, and the polynomial that they make
    is proved to be negative on [-1, s] in integer arithmetic (see `proves_fewer`); the angle is rounded up. So the
    number returned is an upper bound whatever went before. To leave room for the proof, the programme is solved for n
    less a 1e-13th part, or more where this does not suffice. Without proof the result is infinite.

    Args:
        n: Number of points.
        d: Dimensions. Where Rankin's bound is sharp, for d = 2 or n <= 2 d, there is nothing to gain: infinite.
        degree: Of the polynomials; higher is better, and slower. None: enough for the fifth digit, at most 80. Where
            Levenshtein's polynomial has a higher degree, with many points in few dimensions, the result is infinite.

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
    degree = min(2 * tight + 20, _MOST) if degree is None else degree
    if d == 2 or n <= 2 * d or tight > degree:
        return math.inf
    for found in _candidates(_Programme(n, d, degree)):
        if proves_fewer(np.append(1.0, found.coefficients), n, d, found.cosine):
            return angle_above(Decimal(found.cosine))
    return math.inf


def _candidates(programme: _Programme) -> Iterator[_Solution]:
    """Solutions, the most precise first, of which the later leave more room for the proof.

    The rough ones are for slightly fewer points: where a code attains the bound, other terms matter on either side.
    """
    roughs = [_cutting_planes(programme, programme.n * (1 - 1e-5))]
    yield from _polished(programme, roughs[0])
    roughs.append(_cutting_planes(programme, programme.n * (1 - 1e-6)))
    yield from _polished(programme, roughs[1])
    yield from (rough for rough in reversed(roughs) if rough is not None)


def _polished(programme: _Programme, rough: _Solution | None) -> Iterator[_Solution]:
    for margin in (1e-13, 1e-12, 1e-11, 1e-10):
        found = rough and _polish(programme, rough, programme.n * (1 - margin))
        if found:
            yield found


def _cutting_planes(programme: _Programme, target: float) -> _Solution | None:
    """A polynomial with f(1) = `target`, to about six digits; None where the solver gives up."""
    cosine = float(levenshtein_cosine(programme.n, programme.d))
    points, found = _grid(cosine, 4 * programme.degree), None
    for _ in range(_ROUNDS):
        solved = linprog(
            np.ones(programme.degree),
            A_ub=programme.at(points).T,
            b_ub=-np.ones(len(points)),
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if solved.status != 0 or solved.x is None:
            return found
        f, weights = solved.x, -solved.ineqlin.marginals
        peaks = _peaks(programme, f, cosine)
        found = _touching(programme, f, points, weights, peaks)
        # The derivative of the optimum by the cosine is the weight there times the slope.
        size = 1 + f.sum()
        step = size * math.log(target / size) / (weights[-1] * (f @ programme.at(points[-1:], derivative=1)).item())
        if abs(step) < 1e-8 and (1 + f @ programme.at(peaks)).max(initial=0) < 1e-8:
            return found
        cosine += step
        points = np.union1d(points[:-1], peaks)
        points = np.append(points[points < cosine], cosine)
    return found


def _grid(cosine: float, count: int) -> Vector:
    """Chebyshev's points between -1 and the cosine, both included."""
    return -1 + (1 + cosine) * np.sin(np.linspace(0, np.pi / 2, count)) ** 2


def _peaks(programme: _Programme, f: Vector, cosine: float) -> Vector:
    """Where the polynomial has its maxima between -1 and the cosine: on a grid, then by Newton's method."""
    t = _grid(cosine, 16 * programme.degree)
    values = f @ programme.at(t)
    i = 1 + np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:]))
    peaks = t[i]
    for _ in range(5):
        slope, curvature = (f @ programme.at(peaks, derivative=order) for order in (1, 2))
        concave = curvature < 0
        peaks = np.clip(peaks - concave * slope / np.where(concave, curvature, 1), t[i - 1], t[i + 1])
    return peaks


def _touching(programme: _Programme, f: Vector, points: Vector, weights: Vector, peaks: Vector) -> _Solution:
    """The zeros of the polynomial: the weights of the points on both sides of a peak are gathered at it."""
    places = np.concatenate([[-1.0], peaks, points[-1:]])
    gathered = np.zeros(len(places))
    np.add.at(gathered, np.abs(points[:, None] - places).argmin(axis=1), weights)
    matter = gathered > 1e-6 * programme.n
    matter[-1] = True
    return _Solution(f, places[matter], gathered[matter])


def _polish(programme: _Programme, start: _Solution, size: float) -> _Solution | None:
    r"""Newton's method on the conditions of optimality, with f(1) = `size`.

    The unknowns are the coefficients that are not zero, the zeros :math:`t_i` of f (but -1, where f need not touch) and
    their weights. The conditions: f is zero at them and touches zero at those in between, every coefficient that is not
    zero has :math:`1 + \sum_i w_i P_k(t_i) = 0`, and f(1) = `size`.
    """
    f, zeros, weights = start.coefficients.copy(), start.zeros.copy(), start.weights.copy()
    used = f > 0
    free = np.flatnonzero(zeros > -1)
    inner = free[:-1]
    for _ in range(_NEWTON_STEPS):
        p, slopes, curvatures = (programme.at(zeros, derivative=order)[used] for order in range(3))
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
        used &= f > 0  # a coefficient that would turn negative belongs to the zeros
        if not (np.abs(zeros) <= 1).all():
            return None
    f = np.where(used, f, 0)
    # Where the programme is degenerate, f is not quite zero at the last.
    zeros[-1] -= (1 + f @ programme.at(zeros[-1:])).item() / (f @ programme.at(zeros[-1:], derivative=1)).item()
    return _Solution(f, zeros, weights)


def _ranges(*sizes: int) -> list[slice]:
    """Slices of these lengths, one after the other."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _damped_step(matrix: Float[np.ndarray, "m m"], right: Vector) -> Vector | None:
    """Levenberg's step, with rows and then columns scaled to norm one, damped by what is left; None where nothing is.

    Newton's method would leap along the solutions of a degenerate programme, of which there are many. The system of
    residual and step keeps the digits that the normal equations would lose.
    """
    rows = np.linalg.norm(matrix, axis=1, keepdims=True)
    columns = np.linalg.norm(matrix / rows, axis=0)
    columns[columns == 0] = 1
    scaled, right = matrix / rows / columns, right / rows[:, 0]
    left = float(np.linalg.norm(right))
    if left < 1e-12:
        return None
    one = np.eye(len(right))
    system = np.block([[one, scaled], [scaled.T, -(max(left, 1e-8) ** 2) * one]])
    step: Vector = np.linalg.solve(system, np.append(right, np.zeros_like(right)))[len(right) :] / columns
    return step
