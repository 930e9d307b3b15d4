r"""Distributions of points around a mean direction.

`PowerSpherical` and `VonMisesFisher` are `torch.distributions`: a random angle to the mean direction `loc`, and a
uniform direction around it. Densities are with respect to the surface measure. Inner products with `loc` are
computed from the chord, which stays accurate at high concentration.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.linalg import vector_norm
from torch.types import _size

from unclump._checks import check_generator
from unclump._precision import full_precision, widen
from unclump.geometry.draws import standard_normal
from unclump.geometry.special_functions import (
    bessel_ratio_complement,
    log_normalised_bessel,
    standard_gamma,
    von_mises_fisher_angles,
)
from unclump.geometry.sphere import chord, unit

_UNIT_TOLERANCE = 1e-4


class _UnitVectors(constraints.Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        norm: Tensor = vector_norm(full_precision(value), dim=-1)
        return (norm - 1).abs() < max(_UNIT_TOLERANCE, torch.finfo(value.dtype).eps)


class _SymmetricAboutMean(Distribution, ABC):
    """A distribution that is symmetric about the mean direction `loc`."""

    loc: Tensor
    has_rsample = True
    support = _UnitVectors()

    @property
    @abstractmethod
    def mean_resultant_length(self) -> Tensor:
        """The length of the mean, which is the expected inner product with `loc`, in [0, 1)."""

    @abstractmethod
    def _sample_about_first_axis(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """Draw samples of shape (*shape, d) whose mean direction is the first axis."""

    @property
    def mean(self) -> Float[Tensor, "*batch d"]:
        """The expected value, a point inside the sphere."""
        return self.mean_resultant_length.unsqueeze(-1) * self.loc

    def rsample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape d"]:
        """Draw samples that are differentiable with respect to both parameters."""
        check_generator(generator)
        shape = self._extended_shape(sample_shape)[:-1]
        return _map_first_axis_to(self.loc, self._sample_about_first_axis(shape, generator))

    def sample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape d"]:
        """Draw samples without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    def _check_value(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"expected points as a torch.Tensor, got {type(value).__name__}")
        if value.shape[-1:] != self.event_shape:
            raise ValueError(f"expected points in {self.loc.shape[-1]} dimensions, like loc, got {tuple(value.shape)}")
        if self._validate_args:
            _check_unit("points", value)


class PowerSpherical(_SymmetricAboutMean):
    r"""The power spherical distribution: like von Mises-Fisher, but sampled without rejection.

    .. math::
        p(x) = \frac{(1 + \langle \mu, x \rangle)^\kappa}{N}, \quad
        N = 2^{\alpha + \beta} \pi^\beta \frac{\Gamma(\alpha)}{\Gamma(\alpha + \beta)}, \quad
        \alpha = \tfrac{d-1}2 + \kappa, \quad \beta = \tfrac{d-1}2

    A sample is the inverse stereographic projection of a Student t vector, and therefore differentiable. The derivative
    with respect to the scale uses torch's Gamma samples, and is accurate to four digits. Scale 0 is the uniform
    distribution.

    Args:
        loc: Mean directions :math:`\mu`, unit vectors.
        scale: Concentrations :math:`\kappa \ge 0`, one number or one per mean direction.
        validate_args: Whether values are checked, as in every torch distribution.

    References:
        De Cao and Aziz. The Power Spherical distribution. 2020, arXiv:2006.04437.

    Example:
        >>> from unclump.geometry.distributions import PowerSpherical
        >>> p = PowerSpherical(torch.tensor([0.0, 0.0, 1.0]), 8.0)
        >>> p.mean  # scale / (scale + d - 1) of the way
        tensor([0.0000, 0.0000, 0.8000])
        >>> p.rsample((5,)).shape
        torch.Size([5, 3])
    """

    scale: Tensor
    arg_constraints: ClassVar = {"loc": _UnitVectors(), "scale": constraints.nonnegative}

    def __init__(
        self,
        loc: Float[Tensor, "*#batch d"],
        scale: Float[Tensor, "*#batch"] | float,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale = _broadcast_parameters(loc, scale, "scale", validate_args)
        super().__init__(self.scale.shape, self.loc.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: _size, _instance: Any = None) -> "PowerSpherical":
        loc, scale = self.loc.expand(*batch_shape, -1), self.scale.expand(batch_shape)
        return PowerSpherical(loc, scale, validate_args=self._validate_args)

    @property
    def mean_resultant_length(self) -> Float[Tensor, "*batch"]:
        return self.scale / (self.scale + self.loc.shape[-1] - 1)

    def log_prob(self, value: Float[Tensor, "*shape d"]) -> Float[Tensor, "..."]:
        self._check_value(value)
        near, far = chord(value, self.loc).square(), chord(value, -self.loc).square()
        is_opposite = far == 0
        # log((1 + t) / 2) = log(far / (near + far)), which is accurate at both ends
        power = -self.scale * torch.log1p(near / torch.where(is_opposite, torch.inf, far))
        power = torch.where(is_opposite & (self.scale > 0), -torch.inf, power)
        return power - self._log_normaliser().to(power.dtype)

    def entropy(self) -> Float[Tensor, "*batch"]:
        a, b = self._beta_parameters()
        expected_power = self.scale * (torch.digamma(a) - torch.digamma(a + b))
        return (self._log_normaliser() - expected_power).to(self.loc.dtype)

    def _beta_parameters(self) -> tuple[Tensor, float]:
        """Return a and b in double precision, where (1 + t) / 2 has the distribution Beta(a, b)."""
        b = (self.loc.shape[-1] - 1) / 2
        return widen(self.scale) + b, b

    def _log_normaliser(self) -> Tensor:
        """Return the log normaliser of ((1 + t) / 2)^scale in float64: log N without its term scale log 2."""
        a, b = self._beta_parameters()
        return b * math.log(4 * math.pi) + torch.lgamma(a) - torch.lgamma(a + b)

    def _sample_about_first_axis(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        d, dtype, device = self.loc.shape[-1], self.loc.dtype, self.loc.device
        normals = standard_normal(*shape, d - 1, generator=generator, dtype=dtype, device=device)
        b = normals.square().sum(dim=-1, keepdim=True) / 2  # ~ Gamma((d - 1) / 2), independent of their direction
        a = standard_gamma((self.scale + (d - 1) / 2).expand(shape).unsqueeze(-1), generator)
        return torch.cat([a - b, torch.sqrt(2 * a) * normals], dim=-1) / (a + b)


class VonMisesFisher(_SymmetricAboutMean):
    r"""The von Mises-Fisher distribution, the analogue of the normal distribution on the sphere.

    .. math::
        p(x) = \frac{\kappa^{d/2-1}}{(2 \pi)^{d/2} I_{d/2-1}(\kappa)} \exp(\kappa \langle \mu, x \rangle)

    Samples come from Wood's rejection sampler; their derivative with respect to the concentration is implicit, at fixed
    quantiles. Concentration 0 is the uniform distribution.

    Args:
        loc: Mean directions :math:`\mu`, unit vectors.
        concentration: :math:`\kappa \ge 0`, one number or one per mean direction.
        validate_args: Whether values are checked, as in every torch distribution.

    References:
        Wood. Simulation of the von Mises Fisher distribution. Communications in Statistics, 1994.

    Example:
        >>> from unclump.geometry.distributions import VonMisesFisher
        >>> p = VonMisesFisher(torch.tensor([0.0, 0.0, 1.0]), 5.0)
        >>> p.mean  # coth(5) - 1 / 5 of the way
        tensor([0.0000, 0.0000, 0.8001])
        >>> p.log_prob(p.loc)  # log(5 / (4 pi sinh(5))) + 5
        tensor(-0.2284)
    """

    concentration: Tensor
    arg_constraints: ClassVar = {"loc": _UnitVectors(), "concentration": constraints.nonnegative}

    def __init__(
        self,
        loc: Float[Tensor, "*#batch d"],
        concentration: Float[Tensor, "*#batch"] | float,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.concentration = _broadcast_parameters(loc, concentration, "concentration", validate_args)
        super().__init__(self.concentration.shape, self.loc.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: _size, _instance: Any = None) -> "VonMisesFisher":
        loc, concentration = self.loc.expand(*batch_shape, -1), self.concentration.expand(batch_shape)
        return VonMisesFisher(loc, concentration, validate_args=self._validate_args)

    @property
    def mean_resultant_length(self) -> Float[Tensor, "*batch"]:
        return (1 - self._expected_deficit()).to(self.loc.dtype)

    def log_prob(self, value: Float[Tensor, "*shape d"]) -> Float[Tensor, "..."]:
        self._check_value(value)
        exponent = -self.concentration * chord(value, self.loc).square() / 2  # k (t - 1)
        return exponent - self._log_normaliser().to(exponent.dtype)

    def entropy(self) -> Float[Tensor, "*batch"]:
        return (self._log_normaliser() + self.concentration * self._expected_deficit()).to(self.loc.dtype)

    def _log_normaliser(self) -> Tensor:
        """Return the log normaliser of exp(k (t - 1)) in float64: the area of the sphere times the mean over it."""
        half = self.loc.shape[-1] / 2
        log_area = math.log(2) + half * math.log(math.pi) - math.lgamma(half)
        return log_area + log_normalised_bessel(half - 1, widen(self.concentration))

    def _expected_deficit(self) -> Tensor:
        """Return E[1 - t] in float64."""
        return bessel_ratio_complement(self.loc.shape[-1] / 2 - 1, widen(self.concentration))

    def _sample_about_first_axis(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        d, dtype, device = self.loc.shape[-1], self.loc.dtype, self.loc.device
        angle = von_mises_fisher_angles(widen(self.concentration).expand(shape), d, generator).unsqueeze(-1)
        around = unit(standard_normal(*shape, d - 1, generator=generator, dtype=dtype, device=device))
        return torch.cat([torch.cos(angle).to(dtype), torch.sin(angle).to(dtype) * around], dim=-1)


def _map_first_axis_to(loc: Tensor, x: Tensor) -> Tensor:
    """Map `x` orthogonally so that the first axis goes to `loc`: a Householder reflection, up to a sign.

    The usual reflection, along e1 - loc, is 0 / 0 if the two are equal. We use the longer of loc + e1 and loc - e1.
    """
    sign = torch.where(loc[..., :1] < 0, -1.0, 1.0).to(loc.dtype)
    w = torch.cat([loc[..., :1] + sign, loc[..., 1:]], dim=-1)
    return sign * (2 * (w * x).sum(dim=-1, keepdim=True) / w.square().sum(dim=-1, keepdim=True) * w - x)


def _broadcast_parameters(
    loc: Tensor, concentration: Tensor | float, name: str, validate_args: bool | None
) -> tuple[Tensor, Tensor]:
    """Validate both parameters, and convert them to a common dtype and batch shape."""
    if not isinstance(loc, Tensor):
        raise TypeError(f"expected loc as a torch.Tensor, got {type(loc).__name__}; convert with torch.as_tensor(...)")
    if not loc.is_floating_point():
        raise TypeError(f"expected a floating-point loc, got {loc.dtype}; convert with loc.float()")
    if loc.ndim == 0 or loc.shape[-1] < 2:
        raise ValueError(
            f"expected loc of shape (..., d) with d >= 2, got {tuple(loc.shape)}: one unit vector, or a batch of them"
        )
    if not isinstance(concentration, Tensor | int | float) or isinstance(concentration, bool):
        raise TypeError(f"expected {name} to be a number or a torch.Tensor, got {type(concentration).__name__}")
    if not isinstance(concentration, Tensor):
        concentration = torch.tensor(concentration, dtype=full_precision(loc).dtype, device=loc.device)
    dtype = torch.promote_types(full_precision(loc).dtype, concentration.dtype)
    try:
        batch = np.broadcast_shapes(loc.shape[:-1], concentration.shape)
    except ValueError:
        raise ValueError(
            f"expected one {name}, or one for each of the mean directions {tuple(loc.shape[:-1])}, "
            f"got shape {tuple(concentration.shape)}"
        ) from None
    if Distribution._validate_args if validate_args is None else validate_args:
        _check_unit("loc", loc)
        invalid = concentration[~((concentration >= 0) & (concentration < torch.inf))]
        if len(invalid) > 0:
            raise ValueError(f"expected {name} >= 0 and finite, got {invalid[0].item()}; 0 is the uniform distribution")
    return loc.to(dtype).expand(*batch, -1), concentration.to(dtype).expand(batch)


def _check_unit(name: str, x: Tensor) -> None:
    invalid = ~_UnitVectors().check(x)
    if invalid.any():
        norm = vector_norm(full_precision(x[invalid][0])).item()
        raise ValueError(f"expected {name} of norm 1, got a norm of {norm:g}; normalise with unclump.project(...)")
