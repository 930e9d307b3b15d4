r"""Spherical variance as an objective: it centres the points, and does no more."""

from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_points
from unclump.geometry.sphere import full_precision
from unclump.objectives._base import Objective, Others


def negative_spherical_variance(x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Minus the spherical variance, :math:`\lVert \mu \rVert - 1` with :math:`\mu = \frac1n \sum_i x_i`.

    Its Riemannian gradient :math:`(\mu - \langle x_i, \mu \rangle x_i) / (n \lVert \mu \rVert)` is in general not
    zero, so it can be optimised; but the optimum asks only that the points balance. Coinciding rows stay together.

    Args:
        x: Points on the unit sphere. Not checked to be unit: see `project`.

    References:
        Mardia. Statistics of directional data. 1975.

    Example:
        >>> negative_spherical_variance(torch.eye(4))  # the mean has length 1/2
        tensor(-0.5000)
    """
    check_points(x)
    length: Tensor = vector_norm(full_precision(x).mean(dim=0))
    return length - 1


class SphericalVariance(Objective):
    """`negative_spherical_variance` of raw embeddings."""

    of_weights = True

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return negative_spherical_variance(x)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        table, weight = others.with_fixed(x)
        total = others.ranks.sum(table.sum(dim=0) if weight is None else weight @ table)
        length: Tensor = vector_norm(total / (others.mass(x) + others.fixed))
        return length - 1
