r"""Special functions for the distributions: Bessel functions, and differentiable von Mises-Fisher angles.

All are computed with torch, in double precision where the device has it.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump._once import refuse_second_derivative
from unclump._precision import widen
from unclump.geometry.draws import unit_interval

_SWITCH = 30.0  # above this, Debye's expansion replaces the series: both have full precision here, for every order >= 0
_SERIES_TERMS = 50
_DEBYE_TERMS = 12
_NEGLIGIBLE = 40.0  # exp(-40) is 4e-18
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_normalised_bessel(order: float, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return the log of the modified Bessel function, divided by its growth at zero and at infinity, for x >= 0.

    .. math:: \log \left( e^{-x} \, \Gamma(\nu + 1) \left( \tfrac{2}{x} \right)^\nu I_\nu(x) \right)

    For :math:`\nu = d/2 - 1` it is :math:`\log E[\exp(x (t - 1))]`, with t a coordinate of a uniform point in d
    dimensions. It is zero at zero, and neither underflows nor overflows: the power series is used for small x, Debye's
    expansion (`DLMF 10.41 <https://dlmf.nist.gov/10.41>`_) for the rest.

    Example:
        >>> from unclump.geometry.special_functions import log_normalised_bessel
        >>> x = torch.tensor([0.0, 1.0, 1000.0])
        >>> log_normalised_bessel(0.5, x)  # log((1 - exp(-2 x)) / (2 x))
        tensor([ 0.0000, -0.8386, -7.6009])
    """
    y = widen(x)
    value = torch.where(y < _SWITCH, _series(order, y.clamp(max=_SWITCH)), _debye(order, y.clamp(min=_SWITCH)))
    return value.to(x.dtype)


def bessel_ratio_complement(order: float, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return one minus the ratio of consecutive Bessel functions, :math:`1 - I_{\nu+1}(x) / I_\nu(x)`, in (0, 1].

    The ratio is the derivative of :math:`\log(x^{-\nu} I_\nu(x))`. The complement, about :math:`(2 \nu + 1) / (2 x)`,
    stays accurate where the ratio rounds to one.

    Example:
        >>> from unclump.geometry.special_functions import bessel_ratio_complement
        >>> bessel_ratio_complement(0.5, torch.tensor([0.0, 1e5]))  # 1 - coth(x) + 1 / x
        tensor([1.0000e+00, 1.0000e-05])
    """
    slope: Tensor = torch.func.grad(lambda y: log_normalised_bessel(order, y).sum())(x)
    return -slope


def standard_gamma(
    shape_parameter: Float[Tensor, "*shape"], generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Draw differentiable Gamma samples, like `torch.distributions.Gamma`, but with a generator."""
    source = shape_parameter.device if generator is None else generator.device
    return torch._standard_gamma(shape_parameter.to(source), generator).to(shape_parameter.device)


def von_mises_fisher_angles(
    concentration: Float[Tensor, "*shape"], d: int, generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Draw the angles of von Mises-Fisher samples to their mean, in float64, differentiable in the concentration."""
    attach_gradient: Any = _AngleWithGradient.apply
    angles: Tensor = attach_gradient(_sample_wood(concentration.detach(), d, generator), concentration, d)
    return angles


def _sample_wood(concentration: Tensor, d: int, generator: torch.Generator | None) -> Tensor:
    """Wood's rejection sampler, in the tangent of half the angle, which stays accurate at high concentration."""
    flat = concentration.flatten()
    angles = torch.empty_like(flat)
    pending = torch.arange(len(flat), device=flat.device)
    while len(pending) > 0:
        k = flat[pending]
        b = (d - 1) / (2 * k + torch.sqrt(4 * k * k + (d - 1) ** 2))
        first, second = standard_gamma(k.new_full((2, len(k)), (d - 1) / 2), generator)
        angles[pending] = 2 * torch.atan2(torch.sqrt(b * first), torch.sqrt(second))
        u = 2 * b * first / (b * first + second)  # 1 - cos(angle)
        best = 2 * b / (1 + b)  # the u that is never rejected
        log_acceptance = k * (best - u) + (d - 1) * torch.log((best + (1 - best) * u) / (best * (2 - best)))
        draw = unit_interval(len(k), generator=generator, dtype=k.dtype, device=k.device)
        pending = pending[torch.log(draw) > log_acceptance]
    return angles.reshape(concentration.shape)


class _AngleWithGradient(torch.autograd.Function):
    """Identity on the angles, with `angle_derivative` as their derivative with respect to the concentration."""

    @staticmethod
    def forward(ctx: Any, angles: Tensor, concentration: Tensor, d: int) -> Tensor:
        ctx.save_for_backward(angles, concentration)
        ctx.d = d
        return angles.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        angles, concentration = ctx.saved_tensors
        with torch.no_grad():
            grad_concentration = gradient * angle_derivative(angles, concentration, ctx.d)
        if torch.is_grad_enabled():
            grad_concentration = refuse_second_derivative(grad_concentration, concentration, gradient)
        return None, grad_concentration, None


def angle_derivative(
    angle: Float[Tensor, "*shape"], concentration: Float[Tensor, "*shape"], d: int
) -> Float[Tensor, "*shape"]:
    r"""Return the derivative of a von Mises-Fisher angle with respect to the concentration, at a fixed quantile.

    The angle to the mean direction has the density :math:`h(\varphi) \propto e^{\kappa \cos \varphi} \sin^{d-2}
    \varphi`. With H its distribution function, implicit differentiation of :math:`H(\theta) = \text{const}` gives

    .. math::
        \frac{d\theta}{d\kappa} = -\frac{\partial_\kappa H(\theta)}{h(\theta)}
        = \int_\theta^\pi (\cos \varphi - E \cos) \frac{h(\varphi)}{h(\theta)} \, d\varphi
        = -\int_0^\theta (\cos \varphi - E \cos) \frac{h(\varphi)}{h(\theta)} \, d\varphi

    by Gauss-Legendre quadrature, on the side of the angle where h decreases, until h is negligible.

    References:
        Figurnov, Mohamed and Mnih. Implicit Reparameterization Gradients. NeurIPS 2018.
    """
    exponent = d - 2
    complement = bessel_ratio_complement(exponent / 2, concentration)
    width = _tail_end(angle, concentration, exponent) - angle
    total = torch.zeros_like(angle)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        phi = angle + width * (1 + node) / 2
        # k (cos phi - cos theta), without cancellation
        log_ratio = -2 * concentration * torch.sin((phi + angle) / 2) * torch.sin((phi - angle) / 2)
        ratio = torch.exp(log_ratio + exponent * torch.log(torch.sin(phi) / torch.sin(angle)))
        total += weight * (complement - 2 * torch.sin(phi / 2) ** 2) * ratio
    return total * width / 2


def _tail_end(angle: Tensor, concentration: Tensor, exponent: int) -> Tensor:
    """Return an angle on the decreasing side where h < exp(-40) h(angle), or the end of the range."""
    # Below the mode, -(log h)'' is at least its value at the mode:
    curvature = torch.sqrt(exponent**2 + 4 * concentration**2)
    below = (angle - torch.sqrt(2 * _NEGLIGIBLE / curvature)).clamp(min=0)
    # Above the mode, with y = 2 sin^2(phi/2) and c = cos(phi), each of two terms of the slope bounds the decrease:
    # |d log h / dy| >= k (y - y_mode) / y,  and  |d log h / dc| >= (d - 2) / 2 * (c_mode - c).
    by_concentration = torch.sin(angle / 2) + torch.sqrt(_NEGLIGIBLE / 2 / concentration)
    by_dimension = torch.cos(angle) - (2 * math.sqrt(_NEGLIGIBLE / exponent) if exponent else math.inf)
    above = torch.minimum(2 * torch.asin(by_concentration.clamp(max=1)), torch.acos(by_dimension.clamp(min=-1)))
    is_below_mode = (exponent + curvature) / 2 * torch.cos(angle) > concentration
    return torch.where(is_below_mode, below, above)


def _series(order: float, x: Tensor) -> Tensor:
    """Power series by Horner's rule; all terms are positive. The leading one is split off for log1p."""
    quarter = x * x / 4
    tail = torch.zeros_like(x)
    for j in range(_SERIES_TERMS, 0, -1):
        tail = quarter / (j * (order + j)) * (1 + tail)
    return torch.log1p(tail) - x


def _debye(order: float, x: Tensor) -> Tensor:
    """Debye's uniform expansion, in p = sqrt(order^2 + x^2), so that order = 0 is not a special case."""
    p = torch.sqrt(order * order + x * x)
    powers = torch.arange(_DEBYE_TERMS + 1, dtype=x.dtype, device=x.device)
    coefficients = torch.as_tensor(_DEBYE_COEFFICIENTS, dtype=x.dtype, device=x.device)
    columns = ((1 / p).unsqueeze(-1) ** powers @ coefficients).unbind(dim=-1)
    correction = torch.zeros_like(x)
    for column in reversed(columns):  # Horner's rule again: the second derivative of 0 ** 1 would be NaN
        correction = correction * (order / p) ** 2 + column
    leading = order * order / (p + x) - order * torch.log((order + p) / 2) - torch.log(2 * torch.pi * p) / 2
    return leading + math.lgamma(order + 1) + torch.log(correction)


def _debye_coefficients() -> Float[np.ndarray, "terms terms"]:
    r"""Return a (k, j) table of the coefficients of :math:`t^{k+2j}` in Debye's :math:`u_k(t)`, DLMF 10.41.9.

    .. math:: u_{k+1}(t) = \tfrac12 t^2 (1 - t^2) u_k'(t) + \tfrac18 \int_0^t (1 - 5 s^2) u_k(s) \, ds
    """
    table = np.zeros((_DEBYE_TERMS + 1, _DEBYE_TERMS + 1))
    table[0, 0] = 1
    for k in range(_DEBYE_TERMS):
        for j in range(k + 1):
            m = k + 2 * j
            table[k + 1, j] += (m / 2 + 1 / (8 * (m + 1))) * table[k, j]
            table[k + 1, j + 1] -= (m / 2 + 5 / (8 * (m + 3))) * table[k, j]
    return table


_DEBYE_COEFFICIENTS = _debye_coefficients()
