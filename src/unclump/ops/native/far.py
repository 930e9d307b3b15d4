r"""Kernels of far pairs in float32: values and slopes of a whole block at once.

Every function here replaces a block's inner products by slopes, and near ones by infinity; returns the sum of the
values; and leaves the sums of the slopes in `by_late` for rows, infinite where a near pair is among them, and in
`by_early` for columns. On the diagonal pairs are below it, and all above becomes zero as far as products may read.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from unclump.ops.native.compiler import compiled_in_any_order
from unclump.ops.native.product import BLOCK

# Squared chords below it, or as near to 4, are measured again: at antipodes angles are as sensitive as at twins.
NEAR = 0.1
_REACH = np.float32(2 - NEAR)  # how far from the middle of all squared chords far ones are at most

# Integers would widen the whole expression.
_ZERO, _ONE, _TWO, _THREE, _INFINITY = (np.float32(number) for number in (0, 1, 2, 3, np.inf))

Matrix = Float32[np.ndarray, "a b"]
Single = Float32[np.ndarray, " m"]
Polynomial = tuple[np.float32, ...]
OfChords = Callable[[Float64[Tensor, " k"]], Float64[Tensor, " k"]]

_COEFFICIENTS = 13  # of an exponential that is not too steep
_CUBICS = 2048


class Far(NamedTuple):
    """A kernel of squared chords that are neither near nor those of near antipodes; an exponential, of any."""

    at_zero: float
    """Of an exponential, the value at coinciding points."""
    steepness: float
    """Of an exponential, as Gaussians of the chord are, the slope over the value; zero for others."""
    polynomial: Polynomial
    """The slope of an exponential, by the squared chord brought to [-1, 1]: the highest coefficient first."""
    cubics: Float32[np.ndarray, "k 4"]
    """Of others, between equally spaced nodes, by the part of a step: the lowest coefficient first."""


def fit(value: OfChords, slope: OfChords) -> Far | None:
    """A kernel of far pairs, from its value and slope at squared chords; None where single precision is too little.

    Nothing may overflow; the rounding of squared chords, 2e-7, may be 4e-6 of the largest value; and the fit may be off
    by 1e-6 of the largest value.
    """
    nodes = torch.linspace(NEAR, 4 - NEAR, _CUBICS + 1, dtype=torch.float64)
    values, slopes = value(nodes), slope(nodes)
    largest, steepest = values.abs().max(), slopes.abs().max()
    if not (largest < 1e30 and steepest < 1e30 and steepest <= 20 * largest):
        return None
    steepness, everywhere = (slopes[0] / values[0]).item(), torch.linspace(0, 4, 129, dtype=torch.float64)
    if steepness != 0 and torch.allclose(slope(everywhere), steepness * value(everywhere), rtol=1e-9, atol=0):
        points = torch.from_numpy(np.polynomial.chebyshev.chebpts1(_COEFFICIENTS))
        polynomial = _through(points, slope(2 + (2 - NEAR) * points))
        t = (nodes - 2) / (2 - NEAR)
        found = reduce(lambda total, coefficient: total * t + coefficient, polynomial.double())
        if (found - slopes).abs().max() <= 1e-6 * steepest:
            at_zero = (values[0] * torch.exp(-steepness * nodes[0])).item()
            return Far(at_zero, steepness, tuple(polynomial.numpy()), np.empty((0, 4), np.float32))
    step = (4 - 2 * NEAR) / _CUBICS
    cubics = _hermite(values, slopes, step)
    off = (cubics.double() @ nodes.new_tensor([1, 1 / 2, 1 / 4, 1 / 8]) - value(nodes[:-1] + step / 2)).abs().max()
    return Far(0.0, 0.0, _COEFFICIENTS * (_ZERO,), cubics.numpy()) if off <= 1e-6 * largest else None


def _through(points: Float64[Tensor, " m"], values: Float64[Tensor, " m"]) -> Float32[Tensor, " m"]:
    """The polynomial with these values, its highest coefficient first."""
    fitted = np.polynomial.chebyshev.chebfit(points.numpy(), values.numpy(), len(points) - 1)
    lowest_first = torch.from_numpy(np.polynomial.chebyshev.cheb2poly(fitted))  # without zeros at its end
    return torch.cat([lowest_first, lowest_first.new_zeros(len(points) - len(lowest_first))]).flip(0).float()


def _hermite(values: Float64[Tensor, " m"], slopes: Float64[Tensor, " m"], step: float) -> Float32[Tensor, "k 4"]:
    """The cubics between equally spaced nodes that have these values and slopes, by the part of the step."""
    low, rise = values[:-1], values.diff()
    first, last = step * slopes[:-1], step * slopes[1:]
    return torch.stack([low, first, 3 * rise - 2 * first - last, first + last - 2 * rise], dim=1).float()


@compiled_in_any_order
def evaluate_exponential(
    block: Matrix, rows: int, columns: int, diagonal: bool, late_squares: Single, early_squares: Single,
    polynomial: Polynomial, steepness: float, by_late: Single, by_early: Single,
) -> float:  # fmt: skip
    """The polynomial is that of the slope, by Horner's rule; what is summed is the slope too."""
    total, scale = 0.0, _ONE / _REACH
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 = polynomial  # a loop over them would not be vectorised
    by_early[:columns] = 0
    for j in range(rows):
        own, stop = late_squares[j] - _TWO, j if diagonal else columns
        slopes, far_ones = _ZERO, _ZERO
        for i in range(stop):
            t = scale * (own + early_squares[i] - _TWO * block[j, i])
            far = abs(t) < _ONE  # NaN is not far, and is measured again
            t = t if far else _ZERO  # or the polynomial might be infinite
            high = ((((c0 * t + c1) * t + c2) * t + c3) * t + c4) * t + c5
            slope = ((((((high * t + c6) * t + c7) * t + c8) * t + c9) * t + c10) * t + c11) * t + c12
            counts = np.float32(far)  # a product, for a choice would be a store of some lanes, which takes long
            slopes += counts * slope
            by_early[i] += counts * slope
            block[j, i] = slope if far else _INFINITY
            far_ones += counts
        total += np.float64(slopes)
        by_late[j] = slopes if far_ones == np.float32(stop) else _INFINITY
        for i in range(j, min(j + 4, BLOCK)) if diagonal else range(0):
            block[j, i] = 0
    return total / steepness


@compiled_in_any_order
def evaluate_cubics(
    block: Matrix, rows: int, columns: int, diagonal: bool, late_squares: Single, early_squares: Single,
    cubics: Matrix, by_late: Single, by_early: Single,
) -> float:  # fmt: skip
    """Each row takes three loops: looking the cubics up is no work for vector instructions, all before and after is."""
    total = 0.0
    nodes, here = np.empty(BLOCK, np.int32), np.empty((BLOCK, 4), np.float32)
    per_step, last = np.float32(cubics.shape[0] / (4 - 2 * NEAR)), np.int32(cubics.shape[0] - 1)
    by_early[:columns] = 0
    for j in range(rows):
        own, stop = late_squares[j] - _TWO, j if diagonal else columns
        for i in range(stop):
            aside = own + early_squares[i] - _TWO * block[j, i]  # of the middle, 2
            block[j, i] = aside
            place = (aside + _REACH) * per_step
            nodes[i] = min(np.int32(place if abs(aside) < _REACH else _ZERO), last)
        for i in range(stop):
            node = np.uint32(nodes[i])
            c0, c1, c2, c3 = cubics[node, 0], cubics[node, 1], cubics[node, 2], cubics[node, 3]
            here[i, 0], here[i, 1], here[i, 2], here[i, 3] = c0, c1, c2, c3
        values, slopes, far_ones = _ZERO, _ZERO, _ZERO
        for i in range(stop):
            aside = block[j, i]
            far = abs(aside) < _REACH  # NaN is not far, and is measured again
            t = (aside + _REACH) * per_step - np.float32(nodes[i]) if far else _ZERO
            c0, c1, c2, c3 = here[i, 0], here[i, 1], here[i, 2], here[i, 3]
            value = c0 + t * (c1 + t * (c2 + t * c3))
            slope = per_step * (c1 + t * (_TWO * c2 + t * (_THREE * c3)))
            counts = np.float32(far)
            values += counts * value
            slopes += counts * slope
            by_early[i] += counts * slope
            block[j, i] = slope if far else _INFINITY
            far_ones += counts
        total += np.float64(values)
        by_late[j] = slopes if far_ones == np.float32(stop) else _INFINITY
        for i in range(j, min(j + 4, BLOCK)) if diagonal else range(0):
            block[j, i] = 0
    return total
