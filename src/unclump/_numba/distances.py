"""Distances in float32 to points whose numbers are given, what is made of those to the nearest, and their gradients."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.nearest import nearest, nearest_to
from unclump._numba.forces import add_escape
from unclump._numba.rows import project, project_rows_backward

Points = Float32[np.ndarray, "n d"]
Lengths = Float32[np.ndarray, " n"]
Numbers = Int[np.ndarray, " n"]


def mean_of_nearest(
    embeddings: Float32[Tensor, "n d"],
    blocks: Iterator[tuple[slice, slice]],
    *,
    kind: str,
    logarithm: bool,
    apart: float,
    wanted: bool,
) -> tuple[Float32[Tensor, ""], Float32[Tensor, "n d"] | None]:
    """Minus the mean distance of the embeddings' directions to the nearest other one, or minus that of its logarithm.

    The gradient, where it is wanted, is that by the embeddings.
    """
    x, inverse_norms = project(embeddings)
    index, gradient = nearest(x, blocks), torch.zeros_like(x if wanted else x[:0])
    arrays = *_arrays(x, inverse_norms), index, kind == "geodesic", kind == "squared", logarithm, apart
    return x.new_tensor(_mean_of_nearest(*arrays, gradient.numpy())), gradient if wanted else None


def mean_square_to_nearest(
    embeddings: Float32[Tensor, "n d"], samples: Float32[Tensor, "m d"], *, wanted: bool
) -> tuple[Float32[Tensor, ""], Float32[Tensor, "n d"] | None]:
    """Half the mean squared angle between the samples and the nearest of the embeddings' directions; its gradient."""
    x, inverse_norms = project(embeddings)
    index, gradient = nearest_to(samples, x), torch.zeros_like(x if wanted else x[:0])
    value = _mean_square_to_nearest(*_arrays(samples, x, inverse_norms), index, gradient.numpy())
    return x.new_tensor(value), gradient if wanted else None


def distances(samples: Tensor, x: Tensor, index: Tensor, kind: str, apart: float) -> Tensor:
    """Distances of the samples to the points with these numbers: "chordal", "geodesic" or "squared".

    Coinciding ones are taken to be `apart`; samples are the points themselves where it is not zero.
    """
    result = samples.new_empty(len(samples))
    _distances(*_arrays(samples, x, index), kind == "geodesic", apart, result.numpy())
    return result.square() if kind == "squared" else result


def distances_backward(
    samples: Tensor, x: Tensor, index: Tensor, kind: str, apart: float, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the weighted sum of `distances` by samples and points."""
    by_samples, by_points = torch.zeros_like(samples), torch.zeros_like(x)
    arrays = *_arrays(samples, x, index), kind == "geodesic", kind == "squared", apart
    _distances_backward(*arrays, *_arrays(weights, by_samples, by_points))
    return by_samples, by_points


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
def _distances(samples: Points, x: Points, index: Numbers, geodesic: bool, apart: float, result: Lengths) -> None:
    for i in range(len(samples)):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = apart if r2 == 0 else math.sqrt(r2)
        result[i] = 2 * math.atan2(chord, math.sqrt(s2)) if geodesic else chord


@compiled
def _distances_backward(
    samples: Points, x: Points, index: Numbers, geodesic: bool, squared: bool, apart: float,
    weights: Lengths, by_samples: Points, by_points: Points,
) -> None:  # fmt: skip
    for i in range(len(samples)):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = apart if r2 == 0 else math.sqrt(r2)
        around, along = _slopes(chord, s2, weights[i], geodesic, squared)
        _add_both(samples, i, x, index[i], apart if r2 == 0 else 0.0, around, along, by_samples, by_points)


@compiled
def _mean_of_nearest(
    x: Points, inverse_norms: Lengths, index: Numbers, geodesic: bool, squared: bool, logarithm: bool, apart: float,
    gradient: Points,
) -> float:  # fmt: skip
    n, total = len(x), 0.0
    for i in range(n):
        r2, s2 = _squares(x, i, x, index[i])
        chord = apart if r2 == 0 else math.sqrt(r2)
        distance = 2 * math.atan2(chord, math.sqrt(s2)) if geodesic else chord * chord if squared else chord
        total -= math.log(distance) if logarithm else distance
        if len(gradient) > 0:
            weight = -1 / (n * distance) if logarithm else -1 / n
            around, along = _slopes(chord, s2, weight, geodesic, squared)
            _add_both(x, i, x, index[i], apart if r2 == 0 else 0.0, around, along, gradient, gradient)
    project_rows_backward(x, inverse_norms, gradient, gradient, 0, len(gradient))
    return total / n


@compiled
def _mean_square_to_nearest(
    samples: Points, x: Points, inverse_norms: Lengths, index: Numbers, gradient: Points
) -> float:
    m, total = len(samples), 0.0
    for i in range(m):
        r2, s2 = _squares(samples, i, x, index[i])
        chord = math.sqrt(r2)
        angle = 2 * math.atan2(chord, math.sqrt(s2))
        total += angle * angle / 2
        if len(gradient) > 0:
            around, along = _slopes(chord, s2, angle / m, True, False)
            _add(samples, i, x, index[i], np.float32(-around), np.float32(along), gradient, index[i])
    project_rows_backward(x, inverse_norms, gradient, gradient, 0, len(gradient))
    return total / m


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
def _add_both(
    samples: Points, i: int, x: Points, k: int, apart: float, around: float, along: float,
    by_samples: Points, by_points: Points,
) -> None:  # fmt: skip
    """Add the gradients by a sample and by its point; those that coincide are taken `apart`, where it is not zero."""
    if apart == 0:
        _add(samples, i, x, k, np.float32(around), np.float32(along), by_samples, i)
        _add(samples, i, x, k, np.float32(-around), np.float32(along), by_points, k)
    else:
        side = (apart if i > k else -apart) * around
        add_escape(x, i, side, by_samples, i)
        add_escape(x, i, -side, by_points, k)
        _add(x, i, x, i, np.float32(0), np.float32(along), by_samples, i)
        _add(x, i, x, i, np.float32(0), np.float32(along), by_points, k)


@compiled
def _add(samples: Points, i: int, x: Points, k: int, around: float, along: float, gradient: Points, row: int) -> None:
    for j in range(x.shape[1]):
        difference, total = samples[i, j] - x[k, j], samples[i, j] + x[k, j]
        gradient[row, j] += around * difference + along * total
