r"""Polish: the local optimum near a code, to full precision, by a primal-dual_size interior-point method.

The largest cosine is the least :math:`\tau` with :math:`\langle x_i, x_j \rangle \le \tau` for all near pairs. With
slacks :math:`s`, multipliers :math:`\lambda`, :math:`A` the rows of tangent gradients of the cosines and
:math:`D = \Lambda S^{-1}`, a step solves

.. math::
    \Bigl( \begin{bmatrix} H & 0 \\ 0 & 0 \end{bmatrix} + [A, -1]^\top D \, [A, -1] \Bigr)
    \begin{bmatrix} \delta \\ \Delta\tau \end{bmatrix}
    = \begin{bmatrix} -A^\top \mu S^{-1} 1 \\ 1^\top \mu S^{-1} 1 - 1 \end{bmatrix}.

H is the Lagrangian's Hessian on the product of spheres, made convex if the matrix is indefinite. Slacks are computed
from the points, never extrapolated.
"""

import math

import numpy as np
from jaxtyping import Float, Int, UInt8

from unclump.codes.search.anneal import columns
from unclump.codes.search.descent import normalise
from unclump.codes.search.newton import multiplier_step, newton_step, tangent_bases
from unclump.codes.search.pair_sums import largest_cosine, near_pairs
from unclump.codes.search.skyline import block_starts, row_offsets
from unclump.ops.native.compiler import compiled, compiled_in_any_order

Points = Float[np.ndarray, "n d"]
Values = Float[np.ndarray, " m"]
Numbers = Int[np.ndarray, " m"]


@compiled
def smallest_squared_chord(x: Points) -> float:
    """The smallest squared chord, from coordinate differences of the closest pairs."""
    largest = largest_cosine(columns(x))
    start, partner = near_pairs(columns(x), largest - 1e-9)
    least = 4.0
    for i in range(len(x)):
        for index in range(start[i], start[i + 1]):
            least = min(least, _squared_chord(x, i, partner[index]))
    return least


@compiled_in_any_order
def _squared_chord(x: Points, i: int, j: int) -> float:
    square = 0.0
    for k in range(x.shape[1]):
        square += (x[i, k] - x[j, k]) ** 2
    return square


@compiled
def _pairs(x: Points, reach: float) -> tuple[Numbers, Numbers]:
    """The pairs within `reach` times the smallest chord."""
    square = reach * reach * smallest_squared_chord(x)
    start, partner = near_pairs(columns(x), 1 - square / 2)
    first = np.empty(len(partner), np.int64)
    for i in range(len(x)):
        first[start[i] : start[i + 1]] = i
    return first, partner.astype(np.int64)


@compiled
def _slacks(x: Points, tau: float, first: Numbers, second: Numbers) -> Values:
    """The slack of each pair, where tau stands for one minus the bound on the cosines: half a squared chord."""
    slack = np.empty(len(first))
    for e in range(len(first)):
        slack[e] = _squared_chord(x, first[e], second[e]) / 2 - tau
    return slack


@compiled
def _layout(n: int, t: int, first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """Starts and offsets of the matrix rows; the second point of a pair is the later one."""
    earliest = np.arange(n)
    for e in range(len(first)):
        earliest[second[e]] = min(earliest[second[e]], first[e])
    rows = np.zeros(n * t + 1, np.int64)
    for i in range(n):
        rows[i * t : (i + 1) * t] = earliest[i] * t
    starts = block_starts(rows)
    return starts, row_offsets(starts)


@compiled
def _moves(step: Values, bases: Float[np.ndarray, "n t d"]) -> tuple[float, Points]:
    """The longest move, and all moves in coordinates of the space."""
    n, t, d = bases.shape
    moves = np.zeros((n, d))
    longest = 0.0
    for i in range(n):
        square = 0.0
        for a in range(t):
            square += step[i * t + a] ** 2
            for k in range(d):
                moves[i, k] += step[i * t + a] * bases[i, a, k]
        longest = max(longest, square)
    return math.sqrt(longest), moves


@compiled
def polish(x: Points, reach: float, steps: int, stop: UInt8[np.ndarray, "1"]) -> float:
    """Improve a code in place; if no step improves it, leave it unchanged.

    Args:
        x: Unit rows, near a local optimum.
        reach: Pairs within this multiple of the smallest chord are constraints. If other pairs come closer than these
            allow, it stops: call it again.
        steps: Maximum number; near an optimum, 25 are enough.
        stop: Nonzero to stop early.

    Returns:
        The smallest squared chord.
    """
    n, d = x.shape
    best_square: float = smallest_squared_chord(x)
    if best_square < 1e-12:  # coinciding points have no gradient
        return best_square
    order = np.argsort(x[:, d - 1])
    y = x[order].copy()
    first, second = _pairs(y, reach)
    starts, offset = _layout(n, d - 1, first, second)
    matrix = np.empty(offset[len(starts)])
    max_move = (reach - 1) * math.sqrt(best_square) / 4
    tau = 0.997 * best_square / 2  # one minus the bound on the cosines, without cancellation
    slack = _slacks(y, tau, first, second)
    mu = 1 / np.sum(1 / slack)
    multiplier = mu / slack
    for _ in range(steps):
        bases = tangent_bases(y)
        solvable, gradients, step = newton_step(y, bases, first, second, slack, multiplier, mu, matrix, starts, offset)
        longest, moves = _moves(step, bases)
        if stop[0] != 0 or not solvable or not 0 < longest < np.inf:
            break
        size = min(1.0, max_move / longest)
        trial, trial_slack, tau_change = y, slack, step[n * (d - 1)]
        for _ in range(12):
            trial = y + size * moves
            normalise(trial)
            trial_slack = _slacks(trial, tau - size * tau_change, first, second)
            if np.min(trial_slack / slack) > 0.01:
                break
            size *= 0.6
        else:
            break
        dual_size, multiplier = multiplier_step(gradients, step, first, second, slack, multiplier, mu, tau_change)
        y, slack, tau = trial, trial_slack, tau - size * tau_change
        square = smallest_squared_chord(y)
        if square > best_square:
            best_square = square
            x[order] = y
        gap = np.sum(multiplier * slack) / len(slack)
        if gap < 1e-17 or square / 2 < tau:  # converged, or a pair outside the constraints came too close
            break
        mu = gap * (0.1 if min(size, dual_size) > 0.7 else 0.5)
    return best_square
