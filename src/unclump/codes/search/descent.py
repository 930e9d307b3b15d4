r"""L-BFGS on the product of spheres, in one compiled loop: points are the directions of free vectors.

The vectors are normalised at each call and stay close to unit length, since the gradient is tangent.

References:
    Nocedal. Updating quasi-Newton matrices with limited storage. Mathematics of Computation, 1980.
"""

import math

import numpy as np
from jaxtyping import Float, Int, UInt8

from unclump.codes.search.pair_sums import kernel_sum, soft_sum, soft_sum_near
from unclump.ops.native.compiler import compiled, compiled_in_any_order

Points = Float[np.ndarray, "n d"]
Numbers = Int[np.ndarray, " k"]
Parameters = Float[np.ndarray, "4"]

SOFT, SOFT_NEAR, KERNEL = 0, 1, 2
DONE, STALE = 0, 1

_MEMORY = 10
_SUFFICIENT = 1e-4  # Armijo condition: fraction of the decrease predicted by the gradient


@compiled_in_any_order
def normalise(u: Points) -> None:
    """Divide the rows by their norms, in place."""
    for i in range(len(u)):
        square = 0.0
        for k in range(u.shape[1]):
            square += u[i, k] * u[i, k]
        scale = 1 / math.sqrt(square)
        for k in range(u.shape[1]):
            u[i, k] *= scale


@compiled_in_any_order
def evaluate(u: Points, g: Points, objective: int, parameters: Parameters, start: Numbers, partner: Numbers) -> float:
    """The objective at the directions of the rows, and its gradient with respect to the rows.

    Args:
        u: Vectors of any nonzero norm.
        g: Output: the gradient.
        objective: `SOFT`, the soft maximum of the cosines over all pairs; `SOFT_NEAR`, over the listed ones; `KERNEL`.
        parameters: Sharpness and reference of the soft maximum; or kind, distance and parameter of the kernel.
        start: With `partner`, the pairs of `near_pairs`.
        partner: See `start`.
    """
    n, d = u.shape
    x = u.copy()
    normalise(x)
    value: float = 0.0
    scale = 1.0
    if objective == KERNEL:
        value = kernel_sum(x, g, int(parameters[0]), int(parameters[1]), parameters[2])
    else:
        if objective == SOFT:
            columns, pulls = np.empty((d, n)), np.empty((d, n))
            for i in range(n):
                for k in range(d):
                    columns[k, i] = x[i, k]
            total = soft_sum(columns, pulls, parameters[0], parameters[1])
            for i in range(n):
                for k in range(d):
                    g[i, k] = pulls[k, i]
        else:
            total = soft_sum_near(x, g, parameters[0], parameters[1], start, partner)
        if not 0 < total < np.inf:
            return np.inf
        value = parameters[1] + math.log(total) / parameters[0]
        scale = 1 / total
    for i in range(n):
        radial = square = 0.0
        for k in range(d):
            radial += g[i, k] * x[i, k]
            square += u[i, k] * x[i, k]
        for k in range(d):
            g[i, k] = (g[i, k] - radial * x[i, k]) * scale / square
    return value


@compiled_in_any_order
def _longest_row(a: Points) -> float:
    longest = 0.0
    for i in range(len(a)):
        square = 0.0
        for k in range(a.shape[1]):
            square += a[i, k] * a[i, k]
        longest = max(longest, square)
    return math.sqrt(longest)


@compiled_in_any_order
def dot(a: Float[np.ndarray, " k"], b: Float[np.ndarray, " k"]) -> float:
    """The inner product."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled_in_any_order
def add(a: Float[np.ndarray, " k"], factor: float, b: Float[np.ndarray, " k"]) -> None:
    """Add factor * b to a."""
    for i in range(len(a)):
        a[i] += factor * b[i]


@compiled_in_any_order
def _direction(g: Points, steps: np.ndarray, changes: np.ndarray, curvatures: np.ndarray, count: int) -> Points:
    """Minus the approximate inverse Hessian times the gradient: the L-BFGS two-loop recursion over a ring buffer."""
    q = -g
    stored = min(count, _MEMORY)
    factors = np.empty(_MEMORY)
    for back in range(stored):
        m = (count - 1 - back) % _MEMORY
        factors[m] = dot(steps[m], q) / curvatures[m]
        add(q, -factors[m], changes[m])
    if stored > 0:
        m = (count - 1) % _MEMORY
        scale = curvatures[m] / dot(changes[m], changes[m])
        for i in range(len(q)):
            q[i] *= scale
    for back in range(stored - 1, -1, -1):
        m = (count - 1 - back) % _MEMORY
        add(q, factors[m] - dot(changes[m], q) / curvatures[m], steps[m])
    return q


@compiled
def minimise(
    u: Points,
    iterations: int,
    tolerance: float,
    spacing: float,
    skin: float,
    objective: int,
    parameters: Parameters,
    start: Numbers,
    partner: Numbers,
    stop: UInt8[np.ndarray, "1"],
) -> tuple[float, int, int]:
    """Minimise the objective, in place.

    Args:
        u: The points, normalised first.
        iterations: Maximum number.
        tolerance: Stop after three consecutive decreases below it.
        spacing: A typical distance of neighbours; the first step moves no point by more than a twentieth of it.
        skin: The listed pairs are valid until some point has moved this far.
        objective: See `evaluate`.
        parameters: See `evaluate`.
        start: See `evaluate`.
        partner: See `evaluate`.
        stop: Set to nonzero by another thread to stop.

    Returns:
        The value, `DONE` or `STALE`, and the number of iterations used.
    """
    n, d = u.shape
    normalise(u)
    origin = u.copy()
    g, trial, trial_g = np.empty((n, d)), np.empty((n, d)), np.empty((n, d))
    flat_g, flat_trial, flat_u, flat_trial_g = g.reshape(-1), trial.reshape(-1), u.reshape(-1), trial_g.reshape(-1)
    steps, changes, curvatures = np.empty((_MEMORY, n * d)), np.empty((_MEMORY, n * d)), np.empty(_MEMORY)
    value = evaluate(u, g, objective, parameters, start, partner)
    count = small = 0
    for iteration in range(iterations):
        if stop[0] != 0:
            return value, DONE, iteration
        direction = _direction(flat_g, steps, changes, curvatures, count)
        slope = dot(direction, flat_g)
        if not slope < 0:
            if count == 0:
                return value, DONE, iteration
            count = 0
            continue
        size = (0.05 if count == 0 else 0.5) * spacing / _longest_row(direction.reshape(n, d))
        if count > 0:
            size = min(1.0, size)
        trial_value = np.inf
        for _ in range(30):
            for i in range(n * d):
                flat_trial[i] = flat_u[i] + size * direction[i]
            trial_value = evaluate(trial, trial_g, objective, parameters, start, partner)
            if trial_value <= value + _SUFFICIENT * size * slope:
                break
            above = trial_value - value - slope * size
            if 0 < above < np.inf:  # to the minimum of the interpolating parabola, within limits
                size *= min(0.5, max(0.1, -slope * size / (2 * above)))
            else:
                size *= 0.2
            trial_value = np.inf
        if not trial_value < np.inf:
            if count == 0:
                return value, DONE, iteration
            count = 0
            continue
        along = steps_square = changes_square = 0.0
        for i in range(n * d):
            step, change = flat_trial[i] - flat_u[i], flat_trial_g[i] - flat_g[i]
            along += step * change
            steps_square += step * step
            changes_square += change * change
        if along > 1e-12 * math.sqrt(steps_square * changes_square):  # otherwise skip the update
            m = count % _MEMORY
            for i in range(n * d):
                steps[m, i], changes[m, i] = flat_trial[i] - flat_u[i], flat_trial_g[i] - flat_g[i]
            curvatures[m] = along
            count += 1
        flat_u[:] = flat_trial
        flat_g[:] = flat_trial_g
        small = small + 1 if value - trial_value < tolerance else 0
        value = trial_value
        if small == 3:
            return value, DONE, iteration + 1
        if objective == SOFT_NEAR and _longest_row(u - origin) > skin:
            return value, STALE, iteration + 1
    return value, DONE, iterations
