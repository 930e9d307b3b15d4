r"""Spherical variance as an objective: it centres the points, and does no more."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_points
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.ops.project import project, unit_rows, unit_rows_backward


def negative_spherical_variance(x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets"]:
    r"""Minus the spherical variance, :math:`\lVert \mu \rVert - 1` with :math:`\mu = \frac1n \sum_i x_i`.

    Its Riemannian gradient :math:`(\mu - \langle x_i, \mu \rangle x_i) / (n \lVert \mu \rVert)` is in general not
    zero, so it can be optimised; but the optimum asks only that the points balance. Coinciding rows stay together.

    Args:
        x: Points, in separate sets; only their directions count.

    References:
        Mardia. Statistics of directional data. 1975.

    Example:
        >>> negative_spherical_variance(torch.eye(4))  # the mean has length 1/2
        tensor(-0.5000)
    """
    check_points(x)
    length: Tensor = vector_norm(project(x).mean(dim=-2), dim=-1)
    return length - 1


class SphericalVariance(Objective):
    """`negative_spherical_variance` of raw embeddings."""

    supports_weights = True
    supports_second_derivatives = True

    def loss(
        self, embeddings: Float[Tensor, "b n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n d"] | None]:
        x, inverse_norms = unit_rows(embeddings)
        mean, weight = self._mean(x, others), self._weights(x, others)
        length = vector_norm(mean, dim=-1, keepdim=True)
        if not needs_grad:
            return length[:, 0] - 1, None
        direction = mean / length.masked_fill(length == 0, torch.inf)
        return length[:, 0] - 1, unit_rows_backward(x, inverse_norms, weight.unsqueeze(2) * direction.unsqueeze(1))

    def definition(self, embeddings: Float[Tensor, "b n d"], others: Others, draw: None) -> Float[Tensor, " b"]:
        length: Tensor = vector_norm(self._mean(project(embeddings), others), dim=-1)
        return length - 1

    def _weights(self, x: Float[Tensor, "b n d"], others: Others) -> Float[Tensor, "b n"]:
        """The share of every point in the mean of all, the fixed ones among them."""
        mass = others.mass(x).unsqueeze(1)
        return others.shares(x) * (mass / (mass + others.fixed)).expand(x.shape[:2])

    def _mean(self, x: Float[Tensor, "b n d"], others: Others) -> Float[Tensor, "b d"]:
        """The mean of all points."""
        own = (self._weights(x, others).unsqueeze(2) * x).sum(dim=1)
        own = own if others.ranks.size == 1 else others.ranks.sum(own)
        if others.against is None:
            return own
        return own + others.against.sum(dim=1) / (others.mass(x).unsqueeze(1) + others.fixed)
