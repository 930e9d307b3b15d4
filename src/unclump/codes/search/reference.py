"""The solver's loops without a compiled library: the same problems solved by SciPy, a hundred times slower.

The polish is a sequence of linear programs within a trust region, which converges as fast as an interior-point method
if contacts fix the points.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, UInt8
from scipy import optimize, sparse

from unclump.codes.search.orbits import Orbits
from unclump.kernels import Kernel

Points = Float[np.ndarray, "n d"]
Flag = UInt8[np.ndarray, "1"]


def anneal(
    x: Points, softest: float, sharpest: float, iterations: int, tolerance: float, spacing: float, stop: Flag
) -> float:
    """As `unclump.codes.search.loops.anneal`."""
    p = softest
    while p <= sharpest and not stop[0]:
        square = max(smallest_squared_chord(x), 0.4 * spacing**2)
        _descend(x, partial(_soft_maximum, sharpness=p / square), iterations, tolerance * square / p, stop)
        p *= 2
    return smallest_squared_chord(x)


def anneal_orbits(
    orbits: Orbits, softest: float, sharpest: float, iterations: int, tolerance: float, spacing: float, stop: Flag
) -> float:
    """As `unclump.codes.search.loops.anneal_orbits`."""
    owner = np.repeat(np.arange(len(orbits.sizes)), orbits.sizes)

    def of_representatives(u: Points, sharpness: float) -> tuple[float, Points]:
        value, slopes = _soft_maximum(np.einsum("nij,nj->ni", orbits.matrices, u[owner]), sharpness)
        gradient = np.zeros_like(u)
        np.add.at(gradient, owner, np.einsum("nji,nj->ni", orbits.matrices, slopes))
        return value, gradient

    p = softest
    while p <= sharpest and not stop[0]:
        square = max(smallest_squared_chord(orbits.points), 0.4 * spacing**2)
        objective = partial(of_representatives, sharpness=p / square)
        _descend(orbits.representatives, objective, iterations, tolerance * square / p, stop)
        p *= 2
    return smallest_squared_chord(orbits.points)


def minimise_overlap(x: Points, square: float, iterations: int, tolerance: float, stop: Flag) -> float:
    """As `unclump.codes.search.loops.minimise_overlap`."""
    return _descend(x, partial(_overlap, square=square), iterations, tolerance, stop)


def minimise_energy(x: Points, kernel: Kernel, iterations: int, tolerance: float, spacing: float, stop: Flag) -> float:
    """As `unclump.codes.search.loops.minimise_energy`."""
    return _descend(x, partial(_energy, kernel=kernel), iterations, tolerance, stop)


def smallest_squared_chord(x: Points, *, antipodal: bool = False) -> float:
    """As `unclump.codes.search.loops.smallest_squared_chord`."""
    i, j, signs = _near_pairs(x, 1 + 1e-6, antipodal)
    return min(4.0, float(np.square(x[i] - signs * x[j]).sum(axis=1).min()))


def polish(x: Points, reach: float, steps: int, stop: Flag, *, antipodal: bool = False) -> float:
    """As `unclump.codes.search.loops.polish`."""
    best = smallest_squared_chord(x, antipodal=antipodal)
    trust = (reach - 1) * math.sqrt(best) / 4
    for _ in range(steps):
        if stop[0] or trust < 1e-15:
            break
        trial = x + trust * _best_moves(x, reach, trust, antipodal)
        trial /= np.linalg.norm(trial, axis=1, keepdims=True)
        square = smallest_squared_chord(trial, antipodal=antipodal)
        if square > best:
            x[:], best = trial, square
        else:
            trust /= 8
    return best


def _near_pairs(x: Points, reach: float, antipodal: bool) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "m 1"]]:
    """The pairs within `reach` times the smallest chord, and the signs of their cosines, all one unless antipodal."""
    gram = x @ x.T
    cosines = np.where(np.tri(len(x), dtype=bool), -np.inf, np.abs(gram) if antipodal else gram)
    i, j = np.nonzero(1 - cosines <= max(reach**2 * (1 - cosines.max()), 1e-15))
    signs = np.where(gram[i, j] < 0, -1.0, 1.0) if antipodal else np.ones(len(i))
    return i, j, signs[:, None]


def _best_moves(x: Points, reach: float, trust: float, antipodal: bool) -> Points:
    """The tangent moves, in units of `trust`, that increase the smallest chord the most, to first order."""
    n, d = x.shape
    i, j, signs = _near_pairs(x, reach, antipodal)
    ends, others = np.stack([i, j], axis=1), np.stack([j, i], axis=1)  # (m, 2)
    half = np.square(x[i] - signs * x[j]).sum(axis=1) / 2  # one minus the cosines
    bases = np.linalg.svd(x[:, None, :]).Vh[:, 1:]  # (n, d - 1, d)
    gradients = np.einsum("meak,mek->mea", bases[ends], signs[:, :, None] * x[others]).reshape(len(i), -1)
    columns = (ends[..., None] * (d - 1) + np.arange(d - 1)).reshape(len(i), -1)
    unknowns = n * (d - 1)  # plus one: the increase of the smallest chord
    values = np.append(gradients, np.ones((len(i), 1)), axis=1)
    columns = np.append(columns, np.full((len(i), 1), unknowns), axis=1)
    matrix = sparse.csr_array((values.ravel(), columns.ravel(), np.arange(len(i) + 1) * values.shape[1]))
    cost = np.append(np.zeros(unknowns), -1.0)
    bounds = np.append(np.tile([-1.0, 1.0], (unknowns, 1)), [[-np.inf, np.inf]], axis=0)
    program = optimize.linprog(cost, A_ub=matrix, b_ub=(half - half.min()) / trust, bounds=bounds)  # type: ignore[call-overload]
    if program.x is None:
        return np.zeros_like(x)
    moves: Points = np.einsum("na,nad->nd", program.x[:-1].reshape(n, d - 1), bases)
    return moves


def _soft_maximum(x: Points, sharpness: float) -> tuple[float, Points]:
    cosines = x @ x.T
    np.fill_diagonal(cosines, -np.inf)
    largest = cosines.max()
    weights = np.exp(sharpness * (cosines - largest))
    total = weights.sum() / 2  # every pair occurs twice
    return largest + math.log(total) / sharpness, weights @ x / total


def _overlap(x: Points, square: float) -> tuple[float, Points]:
    overlaps = np.maximum(square - 2 + 2 * x @ x.T, 0)
    np.fill_diagonal(overlaps, 0)
    return float(np.square(overlaps).sum() / 2), 4 * overlaps @ x  # the gradient of the cosine form: rows are unit


def _energy(x: Points, kernel: Kernel) -> tuple[float, Points]:
    i, j = np.triu_indices(len(x), 1)
    differences = x[i] - x[j]
    squares = torch.tensor(np.square(differences).sum(axis=1), requires_grad=True)
    energy = kernel(squares).sum()
    (slopes,) = torch.autograd.grad(energy, squares)
    forces = 2 * slopes.numpy()[:, None] * differences
    gradient = np.zeros_like(x)
    np.add.at(gradient, i, forces)
    np.subtract.at(gradient, j, forces)
    return energy.item(), gradient


def _descend(
    x: Points, objective: Callable[[Points], tuple[float, Points]], iterations: int, tolerance: float, stop: Flag
) -> float:
    """Minimise an objective of unit points by L-BFGS, in place, and return it."""

    def value_and_gradient(flat: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
        lengths = np.linalg.norm(flat.reshape(x.shape), axis=1, keepdims=True)
        unit = flat.reshape(x.shape) / lengths
        value, g = objective(unit)
        return value, ((g - (g * unit).sum(axis=1, keepdims=True) * unit) / lengths).ravel()

    def check_flag(flat: Float[np.ndarray, " k"]) -> None:
        if stop[0]:
            raise StopIteration

    flat, value, _ = optimize.fmin_l_bfgs_b(
        value_and_gradient,
        x.ravel(),
        maxiter=iterations,
        factr=tolerance / np.finfo(float).eps,
        pgtol=0.0,
        callback=check_flag,
    )
    x[:] = flat.reshape(x.shape)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return float(value)
