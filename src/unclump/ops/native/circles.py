"""Distance to even spacing on circles, and the coefficients of its gradient."""

import math

from jaxtyping import Float
from torch import Tensor

from unclump.geometry.circles import Circles, check_axes, matched
from unclump.ops.native import NO_DIRECTION, Loop, empty, failure, threads

_A_THREAD = 2**10  # angles, or rows of a table, that are worth a thread

_COORDINATES, _SPACING = Loop("coordinates", "ppppiiii"), Loop("even_spacing", "pppppiiiddi")
_COMBINE, _ORTHONORMALISE = Loop("combine", "ppppiiidi"), Loop("orthonormalise", "pii")


def orthonormalise_(pairs: Float[Tensor, "k 2 d"]) -> Circles:
    """Great circles of contiguous pairs of Gaussian vectors, in place."""
    count, _, d = pairs.shape
    if status := _ORTHONORMALISE[pairs.itemsize](pairs.data_ptr(), count, d):
        raise failure(status)
    return pairs


def coordinates(x: Float[Tensor, "*sets n d"], circles: Circles) -> Float[Tensor, "*sets k 2 n"]:
    """The inner products of the points with both vectors of each circle."""
    *sets, n, d = x.shape
    x, vectors, products = x.contiguous(), _vectors(circles, x, d), x.new_empty(*sets, len(circles), 2, n)
    sizes = n, d, 2 * len(circles), threads(n, at_least=_A_THREAD)
    for table, target in zip(_each(x, 2), _each(products, 3), strict=True):
        if status := _COORDINATES[x.itemsize](table, *_addresses(vectors), target, *sizes):
            raise failure(status)
    return products


def even_spacing(
    x: Float[Tensor, "*sets n d"], circles: Circles, factor: float = 1.0, offset: float = 0.0
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets k 2 n"]] | None:
    """The objective of `unclump.objectives.sliced` times a factor, plus an offset; the coefficients of its gradient.

    None where a row has no direction.
    """
    *sets, n, d = x.shape
    x, vectors, coefficients = x.contiguous(), _vectors(circles, x, d), x.new_empty(*sets, len(circles), 2, n)
    values = x.new_empty(sets)
    sizes = n, d, 2 * len(circles), factor, offset, threads(n * len(circles), at_least=_A_THREAD)
    for table, target, value in zip(_each(x, 2), _each(coefficients, 3), _each(values, 0), strict=True):
        status = _SPACING[x.itemsize](table, *_addresses(vectors), target, value, *sizes)
        if status == NO_DIRECTION:
            return None
        if status:
            raise failure(status)
    return values, coefficients


def combine(
    coefficients: Float[Tensor, "*sets k 2 n"], circles: Circles, d: int, factor: float
) -> Float[Tensor, "*sets n d"]:
    """The vectors with these coefficients of both vectors of every circle, times the factor: the gradient."""
    *sets, _, _, n = coefficients.shape
    coefficients, vectors = coefficients.contiguous(), _vectors(circles, coefficients, d)
    gradient = empty((*sets, n, d), coefficients.dtype)
    sizes = n, d, 2 * len(circles), factor, threads(n, at_least=_A_THREAD)
    for rows, target in zip(_each(coefficients, 3), _each(gradient, 2), strict=True):
        if status := _COMBINE[coefficients.itemsize](rows, *_addresses(vectors), target, *sizes):
            raise failure(status)
    return gradient


def _each(x: Tensor, dimensions: int) -> list[int]:
    """The addresses of the parts of a tensor that have so many dimensions."""
    leading = x.ndim - dimensions
    size = x.itemsize * math.prod(x.shape[leading:])
    return [x.data_ptr() + part * size for part in range(math.prod(x.shape[:leading]))]


def _vectors(circles: Circles, x: Tensor, d: int) -> Tensor:
    """The vectors of all circles in one table, or the numbers of their axes, which must exist."""
    check_axes(circles, d)
    return matched(circles, x, d)


def _addresses(vectors: Tensor) -> tuple[int | None, int | None]:
    """Of vectors, or of axes."""
    address = vectors.data_ptr()
    return (address, None) if vectors.is_floating_point() else (None, address)
