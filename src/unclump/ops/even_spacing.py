r"""The distance of angles on circles from even spacing, with its gradient.

.. math:: \frac1n \sum_i \tfrac12 (\theta_i - \hat\theta_i)^2, \qquad \nabla_{x_i} = \frac1n (\theta_i - \hat\theta_i)
    \frac{\langle x_i, p \rangle q - \langle x_i, q \rangle p}{\langle x_i, p \rangle^2 + \langle x_i, q \rangle^2}

Angles do not depend on the norms of the points, and this is the gradient for any norm, so that neither a table of unit
vectors nor a graph through the sort is needed. The backward pass saves the coefficients of p and q, not the gradient.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import exact_products
from unclump.geometry.circles import Circles, circle_coordinates, great_circles, unevenness
from unclump.geometry.draws import standard_normal
from unclump.ops.dispatch import has_native, has_triton, register
from unclump.ops.native import circles as loops


def draw_circles(count: int, x: Float[Tensor, "*sets n d"], generator: torch.Generator | None) -> Circles:
    """`great_circles` with the dimension, dtype and device of the points."""
    d = x.shape[-1]
    if not has_native(x):
        return great_circles(count, d, generator=generator, dtype=x.dtype, device=x.device)
    return loops.orthonormalise_(standard_normal(count, 2, d, generator=generator, dtype=x.dtype, device=x.device))


def coordinates(x: Float[Tensor, "*sets n d"], circles: Circles) -> Float[Tensor, "*sets k 2 n"]:
    """The inner products of the points with both vectors of each circle."""
    if has_native(x):  # rounds like the fused loop, which matters near the axis of a circle
        return loops.coordinates(x, circles)
    with exact_products(x.device):
        return circle_coordinates(x, circles)


def angles_of(along: Float[Tensor, "*sets k 2 n"]) -> Float[Tensor, "*sets k n"]:
    """The angles of points with these coordinates."""
    return torch.atan2(along[..., 1, :], along[..., 0, :])


def _fake(angles: Tensor, weight: Tensor | None) -> Tensor:
    return torch.empty_like(angles)


@register("even_spacing(Tensor angles, Tensor? weight) -> Tensor", _fake)
def gaps(
    angles: Float[Tensor, "*sets k n"], weight: Float[Tensor, "*sets n"] | Bool[Tensor, "*sets n"] | None
) -> Float[Tensor, "*sets k n"]:
    """The difference of each angle from its place in the nearest evenly spaced configuration; zero for weight zero."""
    return unevenness(angles, None if weight is None else weight.unsqueeze(-2))


def coefficients(
    largest: Float[Tensor, "*sets n 1"], along: Float[Tensor, "*sets k 2 n"], weight: Float[Tensor, "*sets k n"]
) -> Float[Tensor, "*sets k 2 n"]:
    """The gradient of the weighted sum of all angles, as coefficients of both vectors of every circle.

    Within rounding error of a circle's axis, the angle is undefined: there the gradient is bounded.

    Args:
        largest: The largest absolute entry of every point.
        along: The coordinates of the points on the circles.
        weight: The weight of every angle.
    """
    limits = torch.finfo(along.dtype)
    # Rows of zeros and masked rows have zero coordinates.
    precision = (largest * limits.eps).nan_to_num_().clamp_min_(16 / limits.max).mT
    radius = torch.maximum(torch.hypot(along[..., 0, :], along[..., 1, :]), precision)
    turned = (along / radius.unsqueeze(-2)).flip(-2)  # q and p
    turned.mul_((weight / radius).unsqueeze(-2))[..., 0, :].neg_()
    return turned


def _fake_combine(coefficients: Tensor, circles: Tensor, d: int, scale: Tensor) -> Tensor:
    return coefficients.new_empty((*coefficients.shape[:-3], coefficients.shape[-1], d))


@register("combine(Tensor coefficients, Tensor circles, SymInt d, Tensor scale) -> Tensor", _fake_combine)
def combine(
    coefficients: Float[Tensor, "*sets k 2 n"], circles: Circles, d: int, scale: Float[Tensor, "..."]
) -> Float[Tensor, "*sets n d"]:
    """The linear combinations of the vectors of all circles with these coefficients, times a scale."""
    if scale.numel() == 1 and has_native(coefficients, scale):
        return loops.combine(coefficients, circles, d, scale.item())
    if has_triton(coefficients, scale.reshape(-1)):
        from unclump.ops.triton import circles as kernels

        return kernels.combine(coefficients, circles, d, scale)
    rows, vectors = coefficients.flatten(-3, -2), circles.flatten(end_dim=1)  # (..., 2k, n), and (2k, d) or (2k,)
    if circles.is_floating_point():
        with exact_products(rows.device):
            return rows.mT @ (scale * vectors)
    rows = scale * rows
    return rows.new_zeros(*rows.shape[:-2], rows.shape[-1], d).index_add_(-1, vectors, rows.mT)


def fused_distance(
    x: Float[Tensor, "*sets n d"], circles: Circles, *, factor: float, offset: float
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets k 2 n"]] | None:
    """Half the mean squared distance from even spacing, over points and circles, times a factor, plus an offset.

    Also returns the coefficients of the gradient. None if there is no compiled loop, or if a row is all zeros.
    """
    return loops.even_spacing(x, circles, factor, offset) if has_native(x) else None


def _fake_squares(
    x: Tensor, circles: Tensor, largest: Tensor, mask: Tensor | None, needs_grad: bool, is_weighted: bool = True
) -> tuple[Tensor, Tensor]:
    sets, n = x.shape[:-2], x.shape[-2]
    return x.new_empty(sets), x.new_empty((*sets, circles.shape[0], 2, n) if needs_grad else 0)


@register(
    "squares_of_gaps(Tensor x, Tensor circles, Tensor largest, Tensor? mask, bool needs_grad, bool is_weighted=True) "
    "-> (Tensor, Tensor)",
    _fake_squares,
)
def squares_of_gaps(
    x: Float[Tensor, "*sets n d"],
    circles: Circles,
    largest: Float[Tensor, "*sets n 1"],
    mask: Bool[Tensor, "*sets n"] | None,
    needs_grad: bool,
    is_weighted: bool = True,
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets k 2 n"] | Float[Tensor, " 0"]]:
    """The sum of the squared `gaps` of the points that are not masked, and, if needed, their `coefficients`.

    `largest` has the largest absolute entry of every point, and `is_weighted` is whether masked ones may be other than
    zeros.
    """
    if has_triton(x, largest):
        from unclump.ops.triton import circles as kernels

        squares, vectors = kernels.even_spacing(x, circles, largest, mask)
        return squares, vectors if needs_grad else x.new_empty(0)
    along = coordinates(x, circles)
    if mask is not None and is_weighted:
        along = torch.where(mask[..., None, None, :], along, 0)
    gap = gaps(angles_of(along), mask)
    squares = vector_norm(gap, dim=(-2, -1)).square_()
    return squares, coefficients(largest, along, gap) if needs_grad else x.new_empty(0)
