r"""VISReg: pulls embeddings towards a standard normal sample, by means, deviations and quantiles of projections."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_number
from unclump._precision import apart
from unclump.distributed.ranks import Gather
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.objectives._slices import Directions, RawObjective, inner_products, pull_back_products


def visreg(
    x: Float[Tensor, "*sets n d"],
    directions: Directions,
    *,
    scale: float = 1.0,
    shape: float = 1.0,
    centre: float = 1.0,
) -> Float[Tensor, "*sets"]:
    r"""Variance-invariance-sketching regularisation without the invariance term: scale, shape and centre of the rows.

    .. math:: \text{scale} \cdot \frac1d \sum_j (1 - \sigma_j)^2 + \text{centre} \cdot \frac1d \sum_j \mu_j^2
        + \text{shape} \cdot \frac{1}{k n} \sum_a \sum_{i=1}^n \big(\langle z, a \rangle_{(i)} - q_i\big)^2, \quad
        z = \frac{x - \mu}{\bar\sigma}, \quad q_i = \Phi^{-1}\Big(\frac{i}{n + 1}\Big)

    with means :math:`\mu` and standard deviations :math:`\sigma` of every dimension, :math:`\bar\sigma` the detached
    :math:`\sigma`, and the sorted projections onto the unit directions a: the last term is their squared Wasserstein
    distance to the normal distribution. The rows are not projected onto the sphere. In :math:`\bar\sigma`, deviations
    are at least sqrt(eps) (1e-6 in the authors' code), so that coinciding rows separate, with a large gradient.

    The quantiles of few rows vary less than a normal sample (their mean square is 0.89 for 64 rows, 0.99 for 1,024), so
    that the shape term shrinks the rows a little. If it has a much larger weight than the scale, they may collapse.

    Args:
        x: Embeddings, not normalised, n >= 2, in separate sets.
        directions: Unit vectors, for example from `uniform`.
        scale: The weight of the distance of the deviations from one.
        shape: The weight of the distance of the projections from a normal sample.
        centre: The weight of the distance of the means from zero.

    References:
        Wu, Balestriero and Levine. VISReg: variance-invariance-sketching regularization for JEPA training. 2026.

    Example:
        >>> x = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])  # mean 0 and deviation 1, at 1 and -1 along an axis
        >>> round(visreg(x, torch.eye(2)).item(), 4)  # quantiles of 1/3 and 2/3: (1 - 0.4307)^2
        0.3241
    """
    return VISReg(len(directions), scale=scale, shape=shape, centre=centre).with_directions(x, directions)


class VISReg(RawObjective):
    """`visreg` of embeddings, which are not projected onto the sphere, with new random directions at every call.

    Args:
        slices: The number of directions per call; 256, as in the authors' code.
        scale: The weight of the distance of the deviations from one.
        shape: The weight of the distance of the projections from a normal sample.
        centre: The weight of the distance of the means from zero.
        generator: Draws the directions. Under activation checkpointing, see `unclump.replay`.
    """

    choices = ("slices", "scale", "shape", "centre")

    def __init__(
        self,
        slices: int = 256,
        *,
        scale: float = 1.0,
        shape: float = 1.0,
        centre: float = 1.0,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(slices, generator, gather)
        for name, weight in (("scale", scale), ("shape", shape), ("centre", centre)):
            check_number(name, weight)
            if not 0 <= weight < float("inf"):
                raise ValueError(f"expected {name} >= 0 and finite, got {weight!r}")
        self.scale, self.shape, self.centre = scale, shape, centre

    def loss(
        self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: Directions, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        x, ranks, d = others.with_fixed(embeddings), others.ranks, embeddings.shape[-1]
        count = x.new_full((), ranks.total + others.fixed)
        if others.mask is not None:
            count = (ranks.sum(others.mask.sum(dim=-1)) + others.fixed).to(x.dtype)[..., None, None]
        mean = _total(x, others) / count
        centred = x - mean
        if others.mask_with_fixed is not None:
            centred = torch.where(others.mask_with_fixed.unsqueeze(-1), centred, 0)
        deviation = (_total(centred.square(), others) / count).sqrt()
        divisor = deviation.clamp_min(apart(x.dtype))
        gap = self._gaps(inner_products(centred / divisor, draw).mT, others, count)
        value = (
            self.scale * (1 - deviation).square().mean(dim=(-2, -1))
            + self.shape * (gap.square() / count).sum(dim=(-2, -1)) / len(draw)
            + self.centre * mean.square().mean(dim=(-2, -1))
        )
        if not needs_grad:
            return value, None
        own = centred[..., others.fixed :, :]
        first = others.fixed + ranks.before
        by_shape = pull_back_products(gap[..., first : first + own.shape[-2]].mT, draw) / divisor
        by_scale = (1 - deviation) * own / torch.where(deviation > 0, deviation, torch.inf)
        gradient = self.shape / len(draw) * by_shape + (self.centre * mean - self.scale * by_scale) / d
        if others.mask is not None:
            gradient = torch.where(others.mask.unsqueeze(-1), gradient, 0)
        return value, Pull(2 * gradient / count)

    def _gaps(self, own: Float[Tensor, "*sets k n"], others: Others, count: Tensor) -> Float[Tensor, "*sets k m"]:
        """The differences between the projections of all points, fixed ones first, and the normal quantiles."""
        ranks = others.ranks
        points = torch.cat([own[..., : others.fixed], ranks.columns(own[..., others.fixed :])], dim=-1)
        position = torch.arange(1, points.shape[-1] + 1, dtype=own.dtype, device=own.device).expand_as(points)
        # By symmetry, compute quantiles on the half where they are accurate.
        quantile = torch.special.ndtri(torch.minimum(position, count + 1 - position) / (count + 1))
        quantile = torch.where(2 * position > count + 1, -quantile, quantile)
        if others.weight is None:
            order = points.argsort(dim=-1, stable=True)
            return points - torch.empty_like(points).scatter_(-1, order, quantile)
        is_included = others.after_fixed(ranks.columns(others.weight)).unsqueeze(-2) > 0
        order = torch.where(is_included, points, torch.inf).argsort(dim=-1, stable=True)
        return torch.where(is_included, points - torch.empty_like(points).scatter_(-1, order, quantile), 0)


def _total(x: Float[Tensor, "*sets nm d"], others: Others) -> Float[Tensor, "*sets 1 d"]:
    """The sum of all points; fixed ones come first, and are on all ranks; masked ones are zero."""
    fixed, own = x[..., : others.fixed, :], x[..., others.fixed :, :]
    return fixed.sum(dim=-2, keepdim=True) + others.ranks.sum(own.sum(dim=-2, keepdim=True))
