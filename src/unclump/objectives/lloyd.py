r"""Lloyd's objective: the points quantise the sphere, or any other domain that can be sampled."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_points, check_same_dimension, check_table
from unclump._precision import exact_products, full_precision, take_rows
from unclump.distributed.ranks import Gather
from unclump.geometry.draws import standard_normal, unit_normal
from unclump.geometry.sphere import angle, tangent
from unclump.objectives._arguments import Inputs, checked_queue, checked_weight
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops.add_rows import sum_rows
from unclump.ops.measure import measure
from unclump.ops.native.nearest import fused_quantisation_error
from unclump.ops.nearest import select_nearest
from unclump.ops.project import project, unit_rows

Sampler = Callable[[int], Tensor]
Distance = Callable[[Tensor, Tensor], Tensor]


def lloyd(
    x: Float[Tensor, "*sets n d"], samples: Float[Tensor, "m d"], *, distance: Distance | None = None
) -> Float[Tensor, "*sets"]:
    r"""Half the mean squared distance of the samples to their nearest points.

    .. math:: \mathcal{L}_{Lloyd}(x) = \frac1m \sum_{r=1}^m \min_j \tfrac12 d^2(y_r, x_j)

    With samples drawn uniformly from a domain, this is an unbiased estimate of its quantisation error. A gradient step
    moves each point towards the samples in its Voronoi cell, like a step of stochastic k-means; points without samples
    do not move.

    Args:
        x: Points on the sphere, of which only the directions count; or points of the domain of `distance`.
        samples: Samples of the domain; on the sphere, from `uniform`.
        distance: Maps samples and points, broadcast against each other, to distances over their last dimension. None
            is the angle, with the nearest points found by a matrix product.

    References:
        Lloyd. Least squares quantization in PCM. 1982. Le Brigant and Puechmorel. Quantization and clustering on
        Riemannian manifolds with an application to air traffic analysis. JMVA 2019.

    Example:
        >>> lloyd(torch.eye(2), torch.tensor([[-1.0, 0.0]])) / torch.pi**2  # a quarter turn away
        tensor(0.1250)
    """
    check_points(x)
    check_table(samples)
    check_same_dimension(x, samples, "samples")
    if distance is not None:
        return (
            _distances_to_nearest(full_precision(x), full_precision(samples), distance, None).square().mean(dim=-1) / 2
        )
    objective = Lloyd(len(samples))
    objective.fewest = 1
    return objective.with_draw(x, unit_rows(full_precision(samples.detach()).to(full_precision(x).dtype))[0])


def _distances_to_nearest(
    x: Float[Tensor, "*sets n d"], samples: Float[Tensor, "m d"], distance: Distance, mask: Bool[Tensor, " n"] | None
) -> Float[Tensor, "*sets m"]:
    """The distances of the samples to their nearest points, except masked ones."""
    with exact_products(x.device):
        with torch.no_grad():
            distances = torch.stack([distance(sample, x) for sample in samples], dim=-2)  # (..., m, n)
            near = (distances if mask is None else distances.masked_fill(~mask, torch.inf)).argmin(dim=-1, keepdim=True)
        return distance(samples, x.gather(-2, near.expand(*near.shape[:-1], x.shape[-1])))


class Lloyd(Objective):
    """`lloyd` of raw embeddings, with new samples at every call.

    Args:
        samples: The number of samples per call.
        sampler: None for the sphere, onto which the embeddings are projected first. For another domain,
            `sampler(count)` draws samples of shape (count, d).
        distance: The distance of that domain; see `lloyd`. If the domain is a finite data set, this is k-means.
        generator: Draws the samples on the sphere. Under activation checkpointing, see `unclump.replay`.

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
    supports_second_derivatives = True

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
            raise ValueError("expected sampler and distance together, got only one; a domain needs both")
        self.samples, self.sampler, self.distance, self.generator = samples, sampler, distance, generator

    def value_and_gradient(
        self, embeddings: Float[Tensor, "*sets n d"]
    ) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"]]:
        if self.sampler is None:
            return super().value_and_gradient(embeddings)
        embeddings = embeddings.detach().requires_grad_()
        value = self(embeddings)
        return value.detach(), torch.autograd.grad(value, embeddings)[0]

    def _run(self, inputs: Inputs, reduction: str | None = None, sets: tuple[int, ...] = ()) -> Tensor:
        if self.sampler is None or self.distance is None:
            return super()._run(inputs, reduction, sets)
        embeddings, against, weight, draw = inputs
        check_points(embeddings, at_least=1)
        if self.gather is not False or embeddings.ndim > 2 or reduction not in (None, "mean"):
            raise ValueError(
                "expected one table on one process and reduction='mean' with a sampler, "
                f"got shape {tuple(embeddings.shape)}, gather={self.gather!r} and reduction={reduction!r}"
            )
        table, mask = full_precision(embeddings), None
        if weight is not None:
            mask = checked_weight(self, weight, table, supports_weights=False) > 0
        if against is not None:
            table = torch.cat([checked_queue(against, table), table])
            mask = None if mask is None else torch.cat([mask.new_ones(len(against)), mask])
        samples = full_precision(self.draw(embeddings) if draw is None else draw)
        value = _distances_to_nearest(table, samples, self.distance, mask).square().mean() / 2
        return value if mask is None else torch.where(mask.any(), value, 0)

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Float[Tensor, "m d"]:
        """Samples with the dimension, dtype and device of the points; on the sphere, only their directions count."""
        if self.sampler is not None:
            return self.sampler(self.samples)
        return standard_normal(
            self.samples,
            embeddings.shape[-1],
            generator=self.generator,
            dtype=embeddings.dtype,
            device=embeddings.device,
        )

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Float[Tensor, "m d"], needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        fused = fused_quantisation_error(embeddings, draw, needs_grad=needs_grad)
        return None if fused is None else (fused[0], None if fused[1] is None else Pull(fused[1]))

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Float[Tensor, "m d"], needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        samples = unit_normal(draw).expand(*x.shape[:-2], -1, -1)
        table, mask = others.table, others.mask_with_fixed
        assert table is not None
        if table.shape[-2] == 0:  # a rank without rows, which is nearest to no sample
            least = others.ranks.minimum(samples.new_full(samples.shape[:-1], torch.inf))
            value = least.square().mean(dim=-1) / 2
            if not needs_grad:
                return value, None
            others.ranks.is_first(least.isinf())
            return value, Pull(torch.zeros_like(x))
        near, r2 = select_nearest(samples, table, mask=mask)
        assert r2 is not None
        measured = measure(samples, take_rows(table, near.squeeze(-1)), r2, distance="geodesic")
        distance = measured.value
        if others.ranks.size > 1:
            distance = torch.where(r2.isinf(), torch.inf, distance)  # if all rows of a rank are masked
        least = others.ranks.minimum(distance)
        value = least.square().mean(dim=(-2, -1)) / 2
        if not needs_grad:
            return value, None
        slope = measured.slope * measured.side * least
        if others.against is not None or others.ranks.size > 1:
            is_nearest_here = others.ranks.is_first(distance == least) & (near >= others.fixed)
            slope, near = torch.where(is_nearest_here, slope, 0), (near - others.fixed).clamp_min(0)
        gradient = sum_rows(x.shape[-2], near.squeeze(-1), measured.vector.mul_(slope))
        assert others.scale is not None
        return value, Pull(tangent(x, gradient), others.scale / -samples.shape[-2])

    def definition(
        self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: Float[Tensor, "m d"]
    ) -> Float[Tensor, "*sets"]:
        table = others.with_fixed(project(embeddings))
        samples = unit_normal(draw).expand(*table.shape[:-2], -1, -1)
        near, _ = select_nearest(samples, table.detach(), mask=others.mask_with_fixed)
        return angle(samples, take_rows(table, near.squeeze(-1))).square().mean(dim=-1) / 2
