"""Distance to even spacing on circles, and the coefficients of its gradient."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.geometry.circles import Circles
from unclump.ops.native import ERRORS, Loop, threads

_A_THREAD = 2**10  # angles, or rows of a table, that are worth a thread

_COORDINATES, _SPACING = Loop("coordinates", "ppppiiii"), Loop("even_spacing", "pppppiiii")
_COMBINE = Loop("combine", "ppppiiidi")


def coordinates(x: Float[Tensor, "b n d"], circles: Circles) -> Float[Tensor, "b k 2 n"]:
    """The inner products of the points with both vectors of each circle."""
    x, vectors = x.contiguous(), _vectors(circles, x.shape[2])
    n, d = x.shape[1:]
    found = x.new_empty(len(x), len(circles), 2, n)
    for table, there in zip(x, found, strict=True):
        sizes = n, d, 2 * len(circles), threads(n, at_least=_A_THREAD)
        if status := _COORDINATES[x.itemsize](table.data_ptr(), *_addresses(vectors), there.data_ptr(), *sizes):
            raise ERRORS[status]
    return found


def even_spacing(x: Float[Tensor, "b n d"], circles: Circles) -> tuple[Float[Tensor, " b"], Float[Tensor, "b k 2 n"]]:
    """The objective of `unclump.objectives.sliced`, and the coefficients of its gradient."""
    x, vectors = x.contiguous(), _vectors(circles, x.shape[2])
    n, d = x.shape[1:]
    values, found = x.new_empty(len(x)), x.new_empty(len(x), len(circles), 2, n)
    several = threads(n * len(circles), at_least=_A_THREAD)
    for table, value, there in zip(x, values, found, strict=True):
        results = there.data_ptr(), value.data_ptr()
        if status := _SPACING[x.itemsize](
            table.data_ptr(), *_addresses(vectors), *results, n, d, 2 * len(circles), several
        ):
            raise ERRORS[status]
    return values, found


def combine(coefficients: Float[Tensor, "b k 2 n"], circles: Circles, d: int, factor: float) -> Float[Tensor, "b n d"]:
    """The vectors with these coefficients of both vectors of every circle, times the factor: the gradient."""
    coefficients, vectors = coefficients.contiguous(), _vectors(circles, d)
    n = coefficients.shape[-1]
    gradient = coefficients.new_empty(len(coefficients), n, d)
    for given, there in zip(coefficients, gradient, strict=True):
        sizes = n, d, 2 * len(circles), factor, threads(n, at_least=_A_THREAD)
        if status := _COMBINE[given.itemsize](given.data_ptr(), *_addresses(vectors), there.data_ptr(), *sizes):
            raise ERRORS[status]
    return gradient


def _vectors(circles: Circles, d: int) -> Tensor:
    """The vectors of all circles in one table, or the numbers of their axes, which must be there."""
    if circles.is_floating_point():
        return circles.contiguous()
    circles = circles.long().contiguous()
    least, largest = torch.aminmax(circles)
    if least < 0 or largest >= d:
        raise ValueError(
            f"expected axes from 0 to {d - 1}, got {least} to {largest}; draw them with axis_circles(..., {d})"
        )
    return circles


def _addresses(vectors: Tensor) -> tuple[int | None, int | None]:
    """Of vectors, or of axes."""
    address = vectors.data_ptr()
    return (address, None) if vectors.is_floating_point() else (None, address)
