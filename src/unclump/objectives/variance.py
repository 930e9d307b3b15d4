r"""Spherical variance as an objective, which only centres the points."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump.geometry.sphere import tangent
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops.project import project


def negative_spherical_variance(x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets"]:
    r"""Minus the spherical variance, :math:`\lVert \mu \rVert - 1` with :math:`\mu = \frac1n \sum_i x_i`.

    A loss, with a gradient. The measure, a number that is larger for more dispersed points, is `spherical_variance`.

    Its Riemannian gradient :math:`(\mu - \langle x_i, \mu \rangle x_i) / (n \lVert \mu \rVert)` is in general not
    zero, so it can be optimised; but the optimum only requires that the mean vanishes. Coinciding rows stay together.

    Args:
        x: Points, in separate sets; only their directions count.

    References:
        Mardia. Statistics of directional data. 1975.

    Example:
        >>> negative_spherical_variance(torch.eye(4))  # the mean has length 1/2
        tensor(-0.5000)
    """
    objective = SphericalVariance()
    objective.fewest = 1
    result: Tensor = objective(x)
    return result


class SphericalVariance(Objective):
    """`negative_spherical_variance` of raw embeddings: lower is more dispersed, as for all objectives."""

    supports_weights = True
    supports_second_derivatives = True

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        mean = self._mean(x, others)
        length = vector_norm(mean, dim=-1, keepdim=True)
        if not needs_grad:
            return length.squeeze(-1) - 1, None
        direction = mean / length.masked_fill(length == 0, torch.inf)
        gradient = self._weights(others) * direction.unsqueeze(-2)
        return length.squeeze(-1) - 1, Pull(tangent(x, gradient.expand_as(x)), others.scale)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: None) -> Float[Tensor, "*sets"]:
        length: Tensor = vector_norm(self._mean(project(embeddings), others), dim=-1)
        return length - 1

    def _weights(self, others: Others) -> Float[Tensor, "*sets n 1"] | float:
        """The weight of every point in the mean of all points, including the fixed ones."""
        mass = others.mass_with_fixed
        if others.weight is None or not isinstance(mass, Tensor):
            return 1 / mass
        return (others.weight / mass.unsqueeze(-1)).unsqueeze(-1)

    def _mean(self, x: Float[Tensor, "*sets n d"], others: Others) -> Float[Tensor, "*sets d"]:
        """The mean of all points, including the fixed ones and those of other ranks."""
        own = (self._weights(others) * x).sum(dim=-2)
        own = own if others.ranks.size == 1 else others.ranks.sum(own)
        if others.against is None:
            return own
        mass = others.mass_with_fixed
        return own + others.against.sum(dim=-2) / (mass.unsqueeze(-1) if isinstance(mass, Tensor) else mass)
