"""Gradients in double precision, one of every thread; and what becomes of them in single."""

import numpy as np
from jaxtyping import Float32

from unclump.ops.native.compiler import compiled
from unclump.ops.native.forces import Gradients
from unclump.ops.native.projection import LARGEST, project_rows_backward
from unclump.ops.native.team import team

Points = Float32[np.ndarray, "n d"]
Single = Float32[np.ndarray, " m"]


@compiled
def add_gradient(
    totals: Single, x: Points, start: int, count: int, product: Float32[np.ndarray, "a b"], gradients: Gradients,
    member: int,
) -> None:  # fmt: skip
    r"""Add :math:`\sum_j w_{ij} (x_i - x_j)` to the points."""
    for i in range(count):
        for j in range(x.shape[1]):
            gradients[member, start + i, j] += np.float64(totals[i] * x[start + i, j] - product[i, j])


@compiled
def single(number: float) -> float:
    """What is too large for single precision becomes its largest number."""
    return min(max(number, -LARGEST), LARGEST)


@compiled
def _collect(gradients: Gradients, factor: float, result: Points, start: int, stop: int) -> None:
    """The sum of the threads' gradients, times a factor."""
    for i in range(start, stop):
        for j in range(result.shape[1]):
            total = 0.0
            for member in range(len(gradients)):
                total += gradients[member, i, j]
            result[i, j] = single(factor * total)


@compiled
def collect_by_embeddings(
    gradients: Gradients, factor: float, x: Points, inverse: Single, result: Points, start: int, stop: int
) -> None:
    """`_collect`, by the embeddings instead of their directions."""
    _collect(gradients, factor, result, start, stop)
    project_rows_backward(x, inverse, result, None, start, stop)


@compiled
def collect_by_embeddings_by_team(
    gradients: Gradients, factor: float, x: Points, inverse: Single, result: Points, threads: int
) -> None:
    team(collect_by_embeddings, (gradients, factor, x, inverse, result), len(result), threads)
