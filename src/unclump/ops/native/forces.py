"""Near pairs: measured exactly, and the forces between them, in double precision."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.team import team

Points = Float32[np.ndarray, "n d"]
Lengths = Float64[np.ndarray, " n"]
Numbers = Int[np.ndarray, "t k"]
Reals = Float64[np.ndarray, "t k"]
Gradients = Float64[np.ndarray, "t n d"]


class Near(NamedTuple):
    """Near pairs that every thread has found."""

    first: Numbers
    """The earlier of both points."""
    second: Numbers
    """The later one."""
    r2: Reals
    """Their squared chord, exact; or what those that coincide are taken to have."""
    coincide: Bool[np.ndarray, "t k"]


@compiled_in_any_order
def squared_chord(x: Float[np.ndarray, "n d"], i: int, k: int) -> float:
    """By differences in double precision; the order of a sum of squares does not matter."""
    total = 0.0
    for j in range(x.shape[1]):
        difference = np.float64(x[i, j]) - np.float64(x[k, j])
        total += difference * difference
    return total


@compiled_in_any_order
def squared_chord_of_directions(x: Points, inverse_norms: Lengths, i: int, k: int) -> float:
    """Between the points as unit as double precision can make them, by their differences or, near antipodes, sums."""
    apart, together = 0.0, 0.0
    for j in range(x.shape[1]):
        a, b = inverse_norms[i] * np.float64(x[i, j]), inverse_norms[k] * np.float64(x[k, j])
        apart += (a - b) * (a - b)
        together += (a + b) * (a + b)
    return apart if apart <= together else 4 - together


@compiled
def add_near_forces_by_team(
    x: Points, inverse_norms: Lengths, counts: Int[np.ndarray, " t"], first: Numbers, second: Numbers, r2: Reals,
    coincide: Bool[np.ndarray, "t k"], weights: Reals, apart: float, gradients: Gradients,
) -> None:  # fmt: skip
    r"""Add to each gradient half that of :math:`\sum w \lVert x_i - x_j \rVert^2` over its pairs, as unit points."""
    given = (x, inverse_norms, counts, first, second, r2, coincide, weights, apart, gradients)
    team(_add_near_forces, given, len(counts), len(counts))


@compiled
def _add_near_forces(
    x: Points, inverse_norms: Lengths, counts: Int[np.ndarray, " t"], first: Numbers, second: Numbers, r2: Reals,
    coincide: Bool[np.ndarray, "t k"], weights: Reals, apart: float, gradients: Gradients,
    start: int, stop: int,
) -> None:  # fmt: skip
    for member in range(start, stop):
        for k in range(counts[member]):
            pair = first[member, k], second[member, k], r2[member, k], coincide[member, k], weights[member, k]
            add_force(x, inverse_norms, *pair, apart, gradients, member)


@compiled
def add_force(
    x: Points, inverse_norms: Lengths, a: int, b: int, r2: float, coincide: bool, weight: float, apart: float,
    gradients: Gradients, member: int,
) -> None:  # fmt: skip
    """That between two points; those that coincide are taken apart."""
    if coincide:
        add_escape(x, a, -weight * apart, gradients[member], a)
        add_escape(x, b, weight * apart, gradients[member], b)
        return
    # Towards an antipode the same force, without its part that is normal to the sphere, has small numbers.
    side = 1.0 if r2 < 2 else -1.0
    own, other = inverse_norms[a], side * inverse_norms[b]
    for j in range(x.shape[1]):
        force = weight * (own * np.float64(x[a, j]) - other * np.float64(x[b, j]))
        gradients[member, a, j] += side * force
        gradients[member, b, j] -= force


@compiled
def add_escape(x: Points, i: int, weight: float, gradient: Float[np.ndarray, "n d"], row: int) -> None:
    """Add a tangent vector towards the axis most nearly orthogonal to the point among the first; see `push_aside`."""
    axis, squared = 0, 0.0
    for j in range(x.shape[1]):
        squared += np.float64(x[i, j]) * np.float64(x[i, j])
        if j < 8 and abs(x[i, j]) < abs(x[i, axis]):
            axis = j
    across = np.float64(x[i, axis])
    scale = weight / math.sqrt(1 + across * across * (squared - 2))  # the length of axis - across * x, at any norm of x
    for j in range(x.shape[1]):
        gradient[row, j] -= scale * across * np.float64(x[i, j])
    gradient[row, axis] += scale
