r"""SIGReg: pulls embeddings towards a standard normal sample, by the characteristic functions of their projections."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_positive
from unclump.distributed.ranks import Gather
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.objectives._slices import Directions, RawObjective, inner_products, pull_back_products


def sigreg(
    x: Float[Tensor, "*sets n d"],
    directions: Directions,
    *,
    knots: int = 17,
    t_max: float = 3.0,
    times_n: bool = True,
) -> Float[Tensor, "*sets"]:
    r"""Sketched isotropic Gaussian regularisation: the mean Epps-Pulley statistic of the projections.

    .. math:: \frac1k \sum_a n \int \lvert \hat\varphi_a(t) - e^{-t^2/2} \rvert^2 \, e^{-t^2/2} \, dt, \quad
        \hat\varphi_a(t) = \frac1n \sum_{j=1}^n e^{i t \langle x_j, a \rangle}

    over the unit directions a, with the trapezoidal rule on evenly spaced t from 0 to `t_max`, doubled for negative t.
    The rows are not projected onto the sphere. For standard normal rows, the mean of the statistic is
    `SIGReg.null_mean`, about 1.05, for any n and d.

    Args:
        x: Embeddings, not normalised, n >= 1, in separate sets.
        directions: Unit vectors, for example from `uniform`.
        knots: The number of values of t. The authors' code has 17, up to 3; Algorithm 1 of the paper, 17 points from -5
            to 5, is ``knots=9, t_max=5.0``.
        t_max: The largest t.
        times_n: False omits the factor n, so that the value does not grow with the number of rows.

    References:
        Balestriero and LeCun. LeJEPA: provable and scalable self-supervised learning without the heuristics. 2025.
        Epps and Pulley. A test for normality based on the empirical characteristic function. Biometrika 1983.

    Example:
        >>> sigreg(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0]]))  # one row at the origin
        tensor(0.4020)
    """
    return SIGReg(len(directions), knots=knots, t_max=t_max, times_n=times_n).with_directions(x, directions)


class SIGReg(RawObjective):
    """`sigreg` of embeddings, which are not projected onto the sphere, with new random directions at every call.

    With weights, n is the effective number of rows, the squared sum of the weights divided by the sum of their squares.

    Args:
        slices: The number of directions per call.
        knots: The number of values of t in the integral.
        t_max: The largest t.
        times_n: Whether the value is the statistic, n times the distance; False for the distance alone. The weights
            that the authors recommend, 0.01 to 0.1, are for the statistic.
        generator: Draws the directions. Under activation checkpointing, see `unclump.replay`.
    """

    choices = ("slices", "knots", "t_max", "times_n")
    supports_weights = True
    fewest = 1

    def __init__(
        self,
        slices: int = 1024,
        *,
        knots: int = 17,
        t_max: float = 3.0,
        times_n: bool = True,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(slices, generator, gather)
        check_count("knots", knots, at_least=2)
        check_positive("t_max", t_max)
        self.knots, self.t_max, self.times_n = knots, t_max, times_n

    @property
    def null_mean(self) -> float:
        r"""The mean for standard normal rows, since :math:`n E \lvert \hat\varphi - \varphi \rvert^2 = 1 - \varphi^2`.

        Without `times_n`, the mean is this divided by n.

        Example:
            >>> round(SIGReg().null_mean, 4)  # over all t: sqrt(2 pi) (1 - 1 / sqrt(3)) = 1.0594
            1.0525
        """
        return sum(weight * (1 - normal**2) for _, normal, weight in self._quadrature())

    def _quadrature(self) -> list[tuple[float, float, float]]:
        """The knots t > 0 (at t = 0 the difference vanishes), the normal characteristic function, and the weights."""
        step = self.t_max / (self.knots - 1)
        normal = [math.exp(-((k * step) ** 2) / 2) for k in range(self.knots)]
        return [
            (k * step, normal[k], (1 if k == self.knots - 1 else 2) * step * normal[k]) for k in range(1, self.knots)
        ]

    def loss(
        self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: Directions, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        x = inner_products(embeddings, draw)
        fixed = None if others.against is None else inner_products(others.against, draw)
        mass = others.mass + others.fixed
        share = _as_column(1 / mass if others.weight is None else others.weight / _as_column(mass))  # of every row
        size = (mass * mass / (others.power_sum(2) + others.fixed) if self.times_n else 1.0) / len(draw)
        value, gradient = x.new_zeros(x.shape[:-2]), torch.zeros_like(x) if needs_grad else None
        sums_over_ranks = None
        if others.ranks.size > 1:  # one message for all knots: recomputing sines and cosines is cheaper than waiting
            own = [_weighted_sums(share, (t * x).cos(), (t * x).sin()) for t, _, _ in self._quadrature()]
            sums_over_ranks = others.ranks.sum(torch.stack(own))
        for knot, (t, normal, weight) in enumerate(self._quadrature()):
            cosine, sine = (t * x).cos(), (t * x).sin()
            real, imaginary = _weighted_sums(share, cosine, sine) if sums_over_ranks is None else sums_over_ranks[knot]
            if fixed is not None:
                real = real + (t * fixed).cos().sum(dim=-2) / _as_column(mass)
                imaginary = imaginary + (t * fixed).sin().sum(dim=-2) / _as_column(mass)
            real = real - normal
            value = value + weight * (real.square() + imaginary.square()).sum(dim=-1)
            if gradient is not None:
                slope = imaginary.unsqueeze(-2) * cosine - real.unsqueeze(-2) * sine
                gradient = gradient + 2 * weight * t * slope
        by_set = size * torch.ones_like(value)
        pull = None if gradient is None else Pull(pull_back_products(share * gradient, draw), by_set[..., None, None])
        return by_set * value, pull


def _weighted_sums(share: Any, cosine: Tensor, sine: Tensor) -> Float[Tensor, "2 *sets k"]:
    """The weighted sums over rows of cosines and sines."""
    return torch.stack([(share * part).sum(dim=-2) for part in (cosine, sine)])


def _as_column(value: Any) -> Any:
    """Add a trailing dimension to a tensor of values per set, for broadcasting; return a number unchanged."""
    return value.unsqueeze(-1) if isinstance(value, Tensor) else value
