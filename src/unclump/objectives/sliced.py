r"""Sliced objectives: points are dispersed when their shadows on great circles are evenly spaced, on average.

`Sliced` and `SSW` are one objective in two units: on every circle, with angles in radians, the squared Wasserstein
distance to the uniform distribution is :math:`\frac2n d^2(\Theta, D_n) + \frac{\pi^2}{3 n^2}`.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._checks import check_count, check_generator, check_points, check_same_dimension
from unclump._once import once_differentiable
from unclump.distributed.ranks import Gather
from unclump.geometry.circles import axis_circles, circle_angles, circle_coordinates, great_circles, unevenness
from unclump.geometry.sphere import full_precision, inverse_norms, without_autocast
from unclump.objectives._base import Objective, Others
from unclump.ops import native

Circles = Float[Tensor, "k 2 d"] | Int[Tensor, "k 2"]


def sliced(x: Float[Tensor, "n d"], circles: Circles) -> Float[Tensor, ""]:
    r"""Squared distance of the points' projections on great circles to even spacing, averaged over the circles.

    .. math:: \mathcal{L}_{Sliced}(x) = \frac1k \sum_{pq} \min_{\hat\theta \in D_n} \sum_{i=1}^n \tfrac12
        (\theta_i - \hat\theta_i)^2,
        \quad \theta_i = \operatorname{atan2}(\langle x_i, q \rangle, \langle x_i, p \rangle)

    :math:`D_n` holds all rotations and orders of n evenly spaced angles; the nearest of them takes the time of a sort.
    The gradient has a closed form, tangent to the sphere. It is unbounded near the points orthogonal to a circle; at
    those points, which have no place on the circle, it is zero.

    Args:
        x: Points, n >= 2. They need not be unit: only their directions count.
        circles: Great circles, from `great_circles`, or pairs of axes, from `axis_circles`.

    References:
        Tokarchuk, Bakker and Niculae. Keep your distance: learning dispersed embeddings on S_m. TMLR 2025.

    Example:
        >>> sliced(torch.eye(2), torch.tensor([[0, 1]])) / torch.pi**2  # both are an eighth of a turn out of place
        tensor(0.0625)
    """
    check_points(x, at_least=2)
    return _scaled(x, circles, 1.0, 0.0)


def ssw(x: Float[Tensor, "n d"], circles: Circles) -> Float[Tensor, ""]:
    r"""Spherical sliced Wasserstein distance to the uniform distribution, squared, averaged over the circles.

    .. math:: \mathcal{L}_{SSW}(x) = \frac1k \sum_{pq} W_2^2(\theta_{1..n}, \text{uniform})
        = \frac{1}{(2\pi)^2} \left(\frac2n \mathcal{L}_{Sliced}(x) + \frac{\pi^2}{3 n^2}\right)

    in units of a circle of length one, as POT has it.

    Args:
        x: Points, n >= 2. They need not be unit: only their directions count.
        circles: Great circles, from `great_circles`, or pairs of axes, from `axis_circles`.

    References:
        Bonet et al. Spherical Sliced-Wasserstein. ICLR 2023.

    Example:
        >>> ssw(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([[0, 1]])) * 48  # evenly spaced: 1 / (12 n^2)
        tensor(1.)
    """
    check_points(x, at_least=2)
    return _scaled(x, circles, *_to_ssw(len(x)))


def _to_ssw(n: int) -> tuple[float, float]:
    """Factor and summand that make `ssw` of `sliced`."""
    return 2 / (n * (2 * math.pi) ** 2), 1 / (12 * n**2)


def _scaled(x: Tensor, circles: Circles, factor: float, summand: float) -> Tensor:
    """`sliced`, times a factor and plus a summand."""
    check_count("the number of circles", len(circles))
    x = full_precision(x)
    if circles.is_floating_point():
        check_same_dimension(x, circles, "circles")
    with without_autocast(x.device):
        return _to_even_spacing(x, circles, factor, summand)


class _ToEvenSpacing(torch.autograd.Function):
    r"""The distance to even spacing, times a factor and plus a summand, with its gradient in closed form.

    .. math:: (\theta_i - \hat\theta_i) \frac{\langle x_i, p \rangle q - \langle x_i, q \rangle p}
        {\langle x_i, p \rangle^2 + \langle x_i, q \rangle^2}

    Angles do not change with the points' lengths, and this is the gradient at any length: no table of unit vectors is
    needed, there or back; nor a graph over the sort.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, circles: Tensor, factor: float, summand: float) -> Tensor:
        ctx.d, ctx.factor, ctx.fused = x.shape[1], factor, x.dtype is torch.float32 and native.usable(x)
        # Nearer to the circle's axis than the points' precision the angle is not known: the gradient stays bounded.
        smallest = torch.finfo(x.dtype).eps ** 2
        if ctx.fused:
            from unclump.ops.native import circle as loops

            distance, coefficients = loops.even_spacing(x, circles, smallest)
            value = x.new_tensor(factor * distance + summand)
        else:
            coordinates = circle_coordinates(x.detach(), circles)
            along, across = coordinates.unbind(dim=1)
            gap = unevenness(torch.atan2(across, along))
            value = gap.square().sum() * (factor / (2 * len(circles))) + summand
            coefficients = _coefficients(coordinates, gap, inverse_norms(x), smallest)
        ctx.save_for_backward(coefficients, circles)
        ctx.inputs = (x,)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        coefficients, circles = ctx.saved_tensors
        with without_autocast(grad_output.device):
            if ctx.fused:
                from unclump.ops.native import circle as loops

                gradient = loops.combine(coefficients, circles, ctx.d, ctx.factor * grad_output.item())
            else:
                gradient = _combine(ctx.factor * grad_output * coefficients, circles, ctx.d)
        return gradient, None, None, None


_to_even_spacing: Callable[[Tensor, Tensor, float, float], Tensor] = _ToEvenSpacing.apply


class _Angles(torch.autograd.Function):
    """`circle_angles` with the gradient in the same closed form, bounded where a point has no place on the circle."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, circles: Tensor) -> Tensor:
        ctx.d, ctx.fused = x.shape[1], x.dtype is torch.float32 and native.usable(x)
        if ctx.fused:  # so that rounding, which counts near the axis of a circle, is that of one process
            from unclump.ops.native import circle as loops

            products, inverse_norm = loops.coordinates_of(x, circles)
            coordinates = products.view(len(circles), 2, len(x))
        else:
            coordinates, inverse_norm = circle_coordinates(x.detach(), circles), inverse_norms(x)
        ctx.save_for_backward(coordinates, inverse_norm, circles)
        ctx.inputs = (x,)
        return torch.atan2(coordinates[:, 1], coordinates[:, 0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        coordinates, inverse_norm, circles = ctx.saved_tensors
        smallest = torch.finfo(coordinates.dtype).eps ** 2
        along = _coefficients(coordinates, len(circles) * grad_output, inverse_norm, smallest)
        if ctx.fused:
            from unclump.ops.native import circle as loops

            return loops.combine(along.flatten(end_dim=1), circles, ctx.d, 1.0), None
        with without_autocast(grad_output.device):
            return _combine(along, circles, ctx.d), None


_angles: Callable[[Tensor, Tensor], Tensor] = _Angles.apply


def _coefficients(
    coordinates: Float[Tensor, "k 2 n"], gap: Float[Tensor, "k n"], inverse_norm: Float[Tensor, " n"], smallest: float
) -> Float[Tensor, "k 2 n"]:
    """The gradient, in terms of both vectors of every circle."""
    along, across = (coordinates * inverse_norm).unbind(dim=1)
    turn = gap * inverse_norm / ((along.square() + across.square()).clamp_min(smallest) * len(gap))
    return torch.stack([-turn * across, turn * along], dim=1)


def _combine(coefficients: Float[Tensor, "k 2 n"], circles: Circles, d: int) -> Float[Tensor, "n {d}"]:
    """The vectors with the given coefficients of both vectors of every circle, summed over circles."""
    rows, vectors = coefficients.flatten(end_dim=1), circles.flatten(end_dim=1)  # (2k, n), and (2k, d) or (2k,)
    if circles.is_floating_point():
        return rows.mT @ vectors
    return rows.new_zeros(d, rows.shape[1]).index_add(0, vectors, rows).mT


class Sliced(Objective):
    """`sliced` of raw embeddings, with new random circles at every call.

    Args:
        circles: How many circles a call draws.
        axis_aligned: Draw circles through two coordinate axes instead of uniform ones: cheaper, the same on average
            for embeddings without preferred axes.
        generator: For the circles.
    """

    choices = ("circles", "axis_aligned")

    def __init__(
        self,
        circles: int = 1,
        *,
        axis_aligned: bool = False,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(gather=gather)
        check_count("circles", circles)
        check_generator(generator)
        self.circles, self.axis_aligned, self.generator = circles, axis_aligned, generator

    def draw(self, x: Float[Tensor, "n d"]) -> Circles:
        """Circles for the points' dimension, dtype and device."""
        if self.axis_aligned:
            return axis_circles(self.circles, x.shape[1], generator=self.generator, device=x.device)
        return great_circles(self.circles, x.shape[1], generator=self.generator, dtype=x.dtype, device=x.device)

    def points(self, embeddings: Float[Tensor, "n d"], *, at_least: int) -> Float[Tensor, "n d"]:
        check_points(embeddings, at_least=at_least)
        return full_precision(embeddings)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return sliced(x, self.draw(x))

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        return self._gaps(x, others).square().sum() / (2 * self.circles)

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        return self._gaps(x, others)[:, others.fixed :].square().sum(dim=0) / (2 * self.circles)

    def _gaps(self, x: Tensor, others: Others) -> Tensor:
        """How far all angles are from even spacing: fixed points first, then those of the ranks."""
        circles = others.ranks.agree(self.draw(x))
        with without_autocast(x.device):
            angles = others.ranks.rows(_angles(x, circles).mT).mT
            if others.against is not None:
                angles = torch.cat([circle_angles(others.against, circles), angles], dim=1)
            return unevenness(angles)


class SSW(Sliced):
    """`ssw` of raw embeddings, with new random circles at every call; its choices are those of `Sliced`."""

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return ssw(x, self.draw(x))

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        factor, summand = _to_ssw(others.ranks.total + others.fixed)
        return super().value_among(x, others) * factor + summand

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        return Objective.terms_among(self, x, others)
