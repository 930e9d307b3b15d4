"""Distances in float32 to points whose numbers are given, what is made of those to the nearest, and their gradients."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int
from torch import Tensor

from unclump.ops.native import threads
from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.forces import add_escape
from unclump.ops.native.nearest import nearest_of, nearest_to_each
from unclump.ops.native.product import cut, padded
from unclump.ops.native.projection import project_rows, project_rows_backward, squared_norm
from unclump.ops.native.team import team

_A_THREAD = 2**15  # pairs that are worth a thread

Points = Float32[np.ndarray, "n d"]
Lengths = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]


def mean_square_to_nearest(
    embeddings: Float32[Tensor, "n d"], samples: Float32[Tensor, "m d"], *, wanted: bool
) -> tuple[Float32[Tensor, ""], Float32[Tensor, "n d"] | None]:
    """Half the mean squared angle between the samples and the nearest of the embeddings' directions; its gradient."""
    given, drawn = _arrays(embeddings, samples)
    gradient = np.empty_like(given if wanted else given[:0])
    several = threads(len(given) * len(drawn), at_least=_A_THREAD)
    value = _mean_square_to_nearest_by_team(drawn, given, gradient, several)
    return embeddings.new_full((), value), torch.from_numpy(gradient) if wanted else None


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


@compiled_in_any_order
def _squares(samples: Points, i: int, x: Points, k: int) -> tuple[Any, Any]:
    """The squared lengths of the difference and of the sum."""
    r2, s2 = np.float32(0), np.float32(0)
    for j in range(x.shape[1]):
        difference, total = samples[i, j] - x[k, j], samples[i, j] + x[k, j]
        r2 += difference * difference
        s2 += total * total
    return r2, s2


@compiled
def mean_of_nearest(
    given: Points, geodesic: bool, squared: bool, logarithm: bool, apart: float, gradient: Points, threads: int
) -> float:
    """Minus the mean distance of directions to the nearest other one, or of its logarithm; the gradient by `given`."""
    n, d = given.shape
    x, inverse_norms, squares = (
        np.zeros((padded(n), d), np.float32),
        np.empty(n, np.float32),
        np.zeros(padded(n), np.float32),
    )
    team(_project_and_square, (given, x, inverse_norms, squares), n, threads)
    points = x[:n]
    index = nearest_of(points, x, squares, cut(np.array([[0, n, 0, n]])), threads)
    terms, slopes = np.empty(n), np.empty((n, 3))
    team(_terms, (points, index, geodesic, squared, logarithm, apart, terms, slopes), n, threads)
    team(_gradient_of_nearest, (points, index, slopes, inverse_norms, gradient), len(gradient), threads)
    return float(terms.mean())


@compiled_in_any_order
def _project_and_square(
    given: Points, x: Points, inverse_norms: Lengths, squares: Lengths, start: int, stop: int
) -> None:
    project_rows(given, inverse_norms, x, start, stop)
    for i in range(start, stop):
        squares[i] = squared_norm(x, i)


@compiled
def _terms(
    x: Points, index: Numbers, geodesic: bool, squared: bool, logarithm: bool, apart: float,
    terms: Float64[np.ndarray, " n"], slopes: Float64[np.ndarray, "n 3"], start: int, stop: int,
) -> None:  # fmt: skip
    """What is averaged; its slopes along the difference and the sum; and to the side, where the two coincide."""
    n = len(x)
    for i in range(start, stop):
        r2, s2 = _squares(x, i, x, index[i])
        chord = apart if r2 == 0 else math.sqrt(r2)
        distance = 2 * math.atan2(chord, math.sqrt(s2)) if geodesic else chord * chord if squared else chord
        terms[i] = -math.log(distance) if logarithm else -distance
        weight = -1 / (n * distance) if logarithm else -1 / n
        slope, slopes[i, 1] = _slopes(chord, s2, weight, geodesic, squared)
        slopes[i, 0], slopes[i, 2] = _taken_apart(slope, i, index[i], r2, apart)


@compiled
def _gradient_of_nearest(
    x: Points, index: Numbers, slopes: Float64[np.ndarray, "n 3"], inverse_norms: Lengths, gradient: Points,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Rows of it: every range goes over all pairs, so that no two threads write to one row."""
    gradient[start:stop] = 0
    for i in range(len(index)):
        k = index[i]
        if start <= i < stop:
            _add(x, i, x, k, slopes[i, 0], slopes[i, 1], gradient, i)
        if start <= k < stop:
            _add(x, i, x, k, -slopes[i, 0], slopes[i, 1], gradient, k)
    for twin in np.flatnonzero(slopes[:, 2]):
        k, aside = index[twin], slopes[twin, 2]
        if start <= twin < stop:
            add_escape(x, twin, aside, gradient, twin)
        if start <= k < stop:
            add_escape(x, twin, -aside, gradient, k)
    project_rows_backward(x, inverse_norms, gradient, None, start, stop)


@compiled
def _mean_square_to_nearest_by_team(drawn: Points, given: Points, gradient: Points, threads: int) -> float:
    n, m = len(given), len(drawn)
    x, inverse_norms = np.empty_like(given), np.empty(n, np.float32)
    samples, terms, slopes = np.empty_like(drawn), np.empty(m), np.empty((m, 2))
    team(project_rows, (given, inverse_norms, x), n, threads)
    team(project_rows, (drawn, np.empty(m, np.float32), samples), m, threads)
    index = nearest_to_each(samples, x, threads)
    team(_square_terms, (samples, x, index, terms, slopes), m, threads)
    team(_gradient_of_squares, (samples, x, index, slopes, inverse_norms, gradient), len(gradient), threads)
    return float(terms.mean())


@compiled
def _square_terms(
    samples: Points, x: Points, index: Numbers, terms: Float64[np.ndarray, " m"], slopes: Float64[np.ndarray, "m 2"],
    start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = math.sqrt(r2)
        angle = 2 * math.atan2(chord, math.sqrt(s2))
        terms[i] = angle * angle / 2
        slopes[i, 0], slopes[i, 1] = _slopes(chord, s2, angle / len(samples), True, False)


@compiled
def _gradient_of_squares(
    samples: Points, x: Points, index: Numbers, slopes: Float64[np.ndarray, "m 2"], inverse_norms: Lengths,
    gradient: Points, start: int, stop: int,
) -> None:  # fmt: skip
    """Rows of it: every range goes over all samples, so that no two threads write to one row."""
    gradient[start:stop] = 0
    for i in range(len(index)):
        if start <= index[i] < stop:
            _add(samples, i, x, index[i], -slopes[i, 0], slopes[i, 1], gradient, index[i])
    project_rows_backward(x, inverse_norms, gradient, None, start, stop)


@compiled
def _slopes(chord: float, s2: float, weight: float, geodesic: bool, squared: bool) -> tuple[float, float]:
    """The gradient by a point of its weighted distance to another, along their difference and along their sum."""
    if squared:
        return 2 * weight, 0.0
    inverse = 0.0 if chord == 0 else 1 / chord
    if not geodesic:
        return weight * inverse, 0.0
    if chord == 0 and s2 == 0:  # two rows of zeros
        return 0.0, 0.0
    turn = 2 * weight / (chord * chord + s2)
    return turn * math.sqrt(s2) * inverse, 0.0 if s2 == 0 else -turn * chord / math.sqrt(s2)


@compiled
def _taken_apart(slope: float, i: int, k: int, r2: float, apart: float) -> tuple[float, float]:
    """The slope along the difference; of points that coincide and are taken apart zero, and instead that aside."""
    if r2 != 0 or apart == 0:
        return slope, 0.0
    return 0.0, (apart if i > k else -apart) * slope


@compiled
def _add(
    samples: Points, i: int, x: Points, k: int, around: float, along: float, gradient: Points, row: int
) -> None:  # fmt: skip
    """Add multiples of a sample's difference from its point and of their sum."""
    push, pull = np.float32(around), np.float32(along)
    for j in range(x.shape[1]):
        gradient[row, j] += push * (samples[i, j] - x[k, j]) + pull * (samples[i, j] + x[k, j])
