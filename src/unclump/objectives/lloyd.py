r"""Lloyd's objective: the points quantise the sphere, or any other domain one can draw samples from."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_points, check_same_dimension
from unclump.distributed.ranks import Gather
from unclump.geometry.draws import standard_normal
from unclump.geometry.sphere import full_precision, project, without_autocast
from unclump.objectives._base import Objective, Others
from unclump.ops.one_pass import Fused, Plain
from unclump.ops.pairs import distances_to, mean_square_to_nearest, nearest_to

Sampler = Callable[[int], Tensor]
Distance = Callable[[Tensor, Tensor], Tensor]


def lloyd(
    x: Float[Tensor, "n d"], samples: Float[Tensor, "m d"], *, distance: Distance | None = None
) -> Float[Tensor, ""]:
    r"""Half the mean squared distance of the samples to their nearest points.

    .. math:: \mathcal{L}_{Lloyd}(x) = \frac1m \sum_{r=1}^m \min_j \tfrac12 d^2(y_r, x_j)

    With samples drawn uniformly from a domain this is an unbiased estimate of its quantisation error. Minus its
    gradient pulls each point towards the samples in its Voronoi cell, as one step of stochastic k-means does; points
    without samples stay.

    Args:
        x: Points on the unit sphere, or of the domain that `distance` measures.
        samples: Draws from the domain. On the sphere: `uniform`.
        distance: Maps samples and points, broadcast against each other, to distances over their last dimension. None
            is the angle, with the nearest points found by one matrix product.

    References:
        Lloyd. Least squares quantization in PCM. 1982. Le Brigant and Puechmorel. Quantization and clustering on
        Riemannian manifolds with an application to air traffic analysis. JMVA 2019.

    Example:
        >>> lloyd(torch.eye(2), torch.tensor([[-1.0, 0.0]])) / torch.pi**2  # a quarter turn away
        tensor(0.1250)
    """
    check_points(x)
    check_points(samples)
    check_same_dimension(x, samples, "samples")
    return _to_nearest(full_precision(x), full_precision(samples), distance).square().mean() / 2


def _to_nearest(x: Tensor, samples: Tensor, distance: Distance | None) -> Tensor:
    """The distances of the samples to their nearest points."""
    with without_autocast(x.device):
        if distance is None:
            return distances_to(samples, x, nearest_to(samples, x))
        with torch.no_grad():
            near = torch.stack([distance(sample, x).argmin() for sample in samples])
        return distance(samples, x[near])


class Lloyd(Objective):
    """`lloyd` of raw embeddings, with new samples at every call.

    Args:
        samples: How many samples a call draws.
        sampler: None is the sphere, onto which the embeddings are projected first. For another domain,
            `sampler(count)` draws that many samples, of shape (count, d).
        distance: The distance of that domain; see `lloyd`. With a finite data set as domain this is k-means.
        generator: For the samples on the sphere.

    Example:
        >>> data = torch.randn(1000, 2)
        >>> k_means = Lloyd(
        ...     samples=100,
        ...     sampler=lambda count: data[torch.randint(len(data), (count,))],
        ...     distance=lambda y, x: torch.linalg.vector_norm(y - x, dim=-1),
        ... )
        >>> k_means(torch.randn(5, 2)).shape
        torch.Size([])
    """

    choices = ("samples",)

    def __init__(
        self,
        samples: int = 512,
        *,
        sampler: Sampler | None = None,
        distance: Distance | None = None,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(gather=gather)
        check_count("samples", samples)
        check_generator(generator)
        if (sampler is None) != (distance is None):
            raise ValueError("expected sampler and distance together, got one of them; a domain needs both")
        self.samples, self.sampler, self.distance, self.generator = samples, sampler, distance, generator

    def points(self, embeddings: Float[Tensor, "n d"], *, at_least: int) -> Float[Tensor, "n d"]:
        if self.sampler is None:
            return super().points(embeddings, at_least=at_least)
        check_points(embeddings, at_least=min(1, at_least))
        return full_precision(embeddings)

    def one_pass(self, embeddings: Float[Tensor, "n d"]) -> tuple[Fused, Plain] | None:
        if self.sampler is not None:
            return None
        check_points(embeddings, at_least=2)
        normal = self._normal(embeddings)  # of which the loops take the directions
        return partial(mean_square_to_nearest, samples=normal), lambda x: lloyd(x, project(normal))

    def draw(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
        """Samples for the points' dimension, dtype and device."""
        if self.sampler is not None:
            return self.sampler(self.samples)
        return project(self._normal(x))  # as `uniform` does

    def _normal(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
        return standard_normal(self.samples, x.shape[1], generator=self.generator, dtype=x.dtype, device=x.device)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return lloyd(x, self.draw(x), distance=self.distance)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        table, _ = others.with_fixed(x)
        samples = others.ranks.agree(full_precision(self.draw(x)))
        no_one = (x.sum() + torch.inf).expand(len(samples))  # a sum over no rows; but it lets the gradient through
        least = _to_nearest(table, samples, self.distance) if len(table) > 0 else no_one
        return others.ranks.minimum(least).square().mean() / 2
