"""A primal-dual interior-point method for small semidefinite programs, in NumPy.

Minimise the sum of <C, X> over blocks X, symmetric and positive semidefinite, such that A(X) + B y = b with y free. The
directions are those of Helmberg, Rendl, Vanderbei and Wolkowicz, with Mehrotra's corrector; in the end the solution is
moved onto the constraints. What it returns is only a proposal: `proof` does not trust it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

_PATIENCE = 4  # iterations without progress


@dataclass
class Solution:
    """A solution of the program, its objective and that of the dual, and the largest entry of A(X) + B y - b."""

    x: list
    y: np.ndarray
    primal: float
    dual: float
    residual: float


@dataclass
class _Iterate:
    """A primal and a dual point: X and y, Z and the weights of the constraints, for which Z = C - A*(weights)."""

    x: list
    y: np.ndarray
    z: list
    weights: np.ndarray

    def moved(self, step, primal, dual):
        """The iterate a multiple of a step away."""
        return _Iterate(
            [a + primal * b for a, b in zip(self.x, step.x, strict=True)],
            self.y + primal * step.y,
            [a + dual * b for a, b in zip(self.z, step.z, strict=True)],
            self.weights + dual * step.weights,
        )

    def longest(self, step):
        """The longest multiples of a step that keep X and Z positive."""
        return min(map(_longest, self.x, step.x)), min(map(_longest, self.z, step.z))

    @property
    def gap(self):
        return sum((a * b).sum() for a, b in zip(self.x, self.z, strict=True))


class InteriorPoint:
    """The method for a program of blocks, see `blocks`, with the right-hand side b and the matrix B."""

    def __init__(self, blocks, right, free):
        self.blocks, self.right, self.free = blocks, right, free
        self.size = sum(block.size for block in blocks)

    def solve(self, *, start=1.0, tolerance=1e-9, iterations=70, log=None):
        """The solution from a multiple of the identity: the iterate with the least gap and violation."""
        at = _Iterate(
            [start * np.eye(block.size) for block in self.blocks],
            np.zeros(self.free.shape[1]),
            [np.eye(block.size) for block in self.blocks],
            np.zeros(len(self.right)),
        )
        best, best_merit, age = at, np.inf, 0
        for _ in range(iterations):
            violations = self._residual(at), self._dual_residuals(at)
            violation = max(abs(part).max() for part in (violations[0], *violations[1]))
            merit = abs(at.gap) + 1e3 * violation
            age += 1
            if merit < best_merit:
                best, best_merit, age = at, merit, 0
            if log:
                log(f"gap {at.gap:.1e}, objective {self._objective(at.x):.9f}, violation {violation:.1e}")
            if merit < tolerance or (age >= _PATIENCE and best_merit < 1e-2):
                break
            try:
                step = self._step(at, *violations, least_centring=0.05 if violation > 1e-6 else 1e-3)
                primal, dual = (min(1.0, 0.95 * longest) for longest in at.longest(step))
            except np.linalg.LinAlgError:
                break
            if max(primal, dual) < 1e-4:
                break
            at = at.moved(step, primal, dual)
        dual = float(self.right @ best.weights)
        best = self._onto_constraints(best)
        return Solution(best.x, best.y, float(self._objective(best.x)), dual, float(abs(self._residual(best)).max()))

    def _step(self, at, residual, dual_residuals, *, least_centring):
        """A step towards the optimum, then again with what is known from it: the centring, and second-order terms."""
        inverses = [_symmetric(np.linalg.inv(z)) for z in at.z]
        normal = _Normal(self.blocks, self.free, at.x, inverses)

        def towards(target, corrections):
            parts = list(zip(inverses, at.x, corrections, strict=True))

            def change_of_x(changes_of_z):
                pairs = zip(parts, changes_of_z, strict=True)
                return [_symmetric(target * i - x - (x @ change + c) @ i) for (i, x, c), change in pairs]

            right = residual - self._apply(change_of_x(dual_residuals))
            weights, y = normal(right, -self.free.T @ at.weights)
            z = [r - block.adjoint(weights) for r, block in zip(dual_residuals, self.blocks, strict=True)]
            return _Iterate(change_of_x(z), y, z, weights)

        step = towards(0.0, [0.0] * len(self.blocks))
        ahead = at.moved(step, *(min(1.0, longest) for longest in at.longest(step)))
        centring = min(1.0, max(least_centring, (ahead.gap / at.gap) ** 2))
        return towards(centring * at.gap / self.size, [x @ z for x, z in zip(step.x, step.z, strict=True)])

    def _onto_constraints(self, at):
        """The iterate moved to A(X) + B y = b, by steps X W X with the least W: small ones keep X positive."""
        for _ in range(4):
            residual = self._residual(at)
            try:
                weights, y = _Normal(self.blocks, self.free, at.x, at.x)(residual, np.zeros(self.free.shape[1]))
                x = [_symmetric(a @ block.adjoint(weights) @ a) for block, a in zip(self.blocks, at.x, strict=True)]
                step = _Iterate(x, y, [0.0] * len(x), 0.0)
                if min(map(_longest, at.x, x)) < 1.5:
                    break
            except np.linalg.LinAlgError:
                break
            moved = at.moved(step, 1.0, 0.0)
            if abs(self._residual(moved)).max() > 0.9 * abs(residual).max():
                break
            at = moved
        return at

    def _apply(self, x):
        out = np.zeros(len(self.right))
        for block, a in zip(self.blocks, x, strict=True):
            block.apply(a, out)
        return out

    def _residual(self, at):
        return self.right - self.free @ at.y - self._apply(at.x)

    def _dual_residuals(self, at):
        return [block.cost - block.adjoint(at.weights) - z for block, z in zip(self.blocks, at.z, strict=True)]

    def _objective(self, x):
        return sum((block.cost * a).sum() for block, a in zip(self.blocks, x, strict=True))


class _Normal:
    """The equations A(left A*(w) right) + B y = r, B^T w = s, solved with refinement."""

    def __init__(self, blocks, free, left, right):
        self.free, count = free, len(free)
        self.matrix = np.zeros((count, count))
        for block, a, b in zip(blocks, left, right, strict=True):
            block.add_schur(a, b, self.matrix)
        self.matrix = (self.matrix + self.matrix.T) / 2
        diagonal = np.diag(self.matrix)
        if not np.isfinite(self.matrix).all() or diagonal.min() <= 0:
            raise np.linalg.LinAlgError("not positive")
        self.scale = 1 / np.sqrt(diagonal)
        scaled, damping = self.matrix * self.scale[:, None] * self.scale, 1e-16
        while True:
            try:
                self.factor = cho_factor(scaled + damping * np.eye(count))
                break
            except np.linalg.LinAlgError:
                damping *= 10
        self.of_free = self._solve(free)
        self.small = free.T @ self.of_free

    def __call__(self, r, s):
        weights = self._solve(r)
        y = np.linalg.solve(self.small, self.free.T @ weights - s)
        return weights - self.of_free @ y, y

    def _solve(self, r):
        scale = self.scale if r.ndim == 1 else self.scale[:, None]
        result = np.zeros_like(r)
        for _ in range(3):
            result += scale * cho_solve(self.factor, scale * (r - self.matrix @ result), check_finite=False)
        return result


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


def _longest(matrix, step):
    """The longest multiple of the step that keeps the matrix positive semidefinite."""
    if len(matrix) == 1:
        if matrix[0, 0] <= 0:
            raise np.linalg.LinAlgError("not positive")
        return np.inf if step[0, 0] >= 0 else -matrix[0, 0] / step[0, 0]
    root = np.linalg.cholesky(matrix)
    half = solve_triangular(root, step, lower=True, check_finite=False)
    scaled = solve_triangular(root, half.T, lower=True, check_finite=False)
    least = np.linalg.eigvalsh((scaled + scaled.T) / 2)[0]
    return np.inf if least >= 0 else -1 / least
