r"""Sliced objectives: the projections of the points onto random great circles should be evenly spaced."""

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_choice, check_count, check_generator, check_points, check_same_dimension
from unclump._precision import full_precision
from unclump.distributed.ranks import Gather
from unclump.geometry.circles import Circles, axis_circles, check_axes
from unclump.objectives._base import Objective, is_eager
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops.even_spacing import (
    angles_of,
    coefficients,
    combine,
    coordinates,
    draw_circles,
    fused_distance,
    gaps,
    squares_of_gaps,
)
from unclump.ops.project import largest_entries


def sliced(
    x: Float[Tensor, "*sets n d"], circles: Circles, *, reduction: str = "mean"
) -> Float[Tensor, "*sets"] | Float[Tensor, "*sets n"]:
    r"""Half the mean squared distance of the angles of points projected onto great circles from even spacing.

    .. math:: \mathcal{L}_{Sliced}(x) = \frac1k \sum_{pq} \min_{\hat\theta \in D_n} \frac1n \sum_{i=1}^n \tfrac12
        (\theta_i - \hat\theta_i)^2,
        \quad \theta_i = \operatorname{atan2}(\langle x_i, q \rangle, \langle x_i, p \rangle)

    The paper sums over the points, as does ``reduction="sum"``, which grows with their number. :math:`D_n` contains all
    rotations and permutations of n evenly spaced angles; finding the nearest one takes a sort. The gradient has a
    closed form and is tangent to the sphere. It is unbounded near points orthogonal to a circle; at those points, whose
    projection is undefined, it is zero.

    Args:
        x: Points, n >= 2, of any norm: only their directions count.
        circles: Great circles, from `great_circles`, or pairs of axes, from `axis_circles`.
        reduction: How to reduce the terms of the points: ``"mean"``, ``"sum"``, or ``"none"`` for the terms themselves.

    References:
        Tokarchuk, Bakker and Niculae. Keep your distance: learning dispersed embeddings on S_m. TMLR 2025.

    Example:
        >>> sliced(torch.eye(2), torch.tensor([[0, 1]])) / torch.pi**2  # both are an eighth of a turn from their places
        tensor(0.0312)
    """
    return _with_circles(Sliced(len(circles)), x, circles, reduction)


def ssw(x: Float[Tensor, "*sets n d"], circles: Circles) -> Float[Tensor, "*sets"]:
    r"""Spherical sliced Wasserstein distance to the uniform distribution, squared, averaged over the circles.

    .. math:: \mathcal{L}_{SSW}(x) = \frac1k \sum_{pq} W_2^2(\theta_{1..n}, \text{uniform})
        = \frac{1}{(2\pi)^2} \left(2 \mathcal{L}_{Sliced}(x) + \frac{\pi^2}{3 n^2}\right)

    in units of a circle of length one, as in POT.

    Args:
        x: Points, n >= 2, of any norm: only their directions count.
        circles: Great circles, from `great_circles`, or pairs of axes, from `axis_circles`.

    References:
        Bonet et al. Spherical Sliced-Wasserstein. ICLR 2023.

    Example:
        >>> ssw(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([[0, 1]])) * 48  # evenly spaced: 1 / (12 n^2)
        tensor(1.)
    """
    return _with_circles(SSW(len(circles)), x, circles, "mean")


def _with_circles(objective: "Sliced", x: Tensor, circles: Circles, reduction: str) -> Tensor:
    """The objective with these circles instead of random ones."""
    check_points(x, at_least=0)
    if circles.is_floating_point():
        check_same_dimension(x, circles, "circles")
        circles = circles.to(full_precision(x).dtype)
    elif circles.is_cpu and is_eager(circles):  # reading the numbers would synchronise a GPU
        check_axes(circles, x.shape[-1])
    return objective.with_draw(x, circles, reduction=reduction)


_SQUARED_TURNS = 2 / (2 * math.pi) ** 2  # converts half a squared angle in radians to squared turns


class Sliced(Objective):
    """`sliced` of raw embeddings, with new random circles at every call.

    With weights, the target places are the centres of arcs whose lengths are proportional to the weights, and each term
    counts with its weight: `SSW` is then the distance of the weighted points to the uniform distribution.

    Args:
        circles: The number of circles per call.
        axis_aligned: Draw circles through two coordinate axes instead of uniform ones: cheaper, and the same on average
            for embeddings without preferred axes. Do not use it for activations: a network may rotate a clump onto one
            axis, through which only two in d circles pass, and keep it there (see the page on weights). Only the
            coordinates of these axes are read: a NaN in others goes unnoticed.
        reduction: ``"mean"`` over the points, including those of a queue, so that the same weight suits tables of any
            size. ``"sum"``, as in the paper, is n times as large. A call may override it; ``"none"`` gives the terms of
            the points, without those of a queue.
        generator: Draws the circles. Under activation checkpointing, see `unclump.replay`.
    """

    choices: tuple[str, ...] = ("circles", "axis_aligned", "reduction")
    needs_zero_rows = False
    joins_queue = False  # which would copy all rows
    supports_weights = True
    vanishes = True
    rows_of_pull = -1
    factor = 1.0
    """Of the value, and of the gradient."""

    def __init__(
        self,
        circles: int = 1,
        *,
        axis_aligned: bool = False,
        reduction: str = "mean",
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(gather=gather)
        check_count("circles", circles)
        check_generator(generator)
        check_choice("reduction", reduction, ("mean", "sum"))
        self.circles, self.axis_aligned, self.generator, self.reduction = circles, axis_aligned, generator, reduction

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Circles:
        """Random circles, with the dimension, dtype and device of the points."""
        if self.axis_aligned:
            d, device = embeddings.shape[-1], embeddings.device
            return axis_circles(self.circles, d, generator=self.generator, device=device)
        return draw_circles(self.circles, embeddings, self.generator)

    def normalise(self, x: Float[Tensor, "*sets n d"]) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets n 1"]]:
        """The rows unchanged, since angles do not depend on norms, and the largest entry of each."""
        return x, largest_entries(x)

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Circles, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        return _fused(embeddings, draw, 1.0, 0.0)

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Circles, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        share = self.factor / len(draw) / self.count(others)
        share = share if isinstance(share, Tensor) else x.new_full(x.shape[:-2], share)
        by_set = share.view(*share.shape, 1, 1)
        if others.against is None and others.ranks.size == 1 and others.is_binary:
            squares, vectors = squares_of_gaps(x, draw, others.scale, others.mask, needs_grad, others.is_weighted)
            return (squares * share).mul_(0.5), Pull(vectors, by_set) if needs_grad else None
        along, gap, factors = self._gaps(x, others, draw)
        roots = gap if factors is None or others.is_binary else factors.sqrt().unsqueeze(-2) * gap
        value = vector_norm(roots, dim=(-2, -1)).square_().mul_(share).mul_(0.5)
        if not needs_grad:
            return value, None
        own = self._local_gaps(gap, others)
        weighted = own if others.weights is None else others.weights.unsqueeze(-2) * own
        assert others.scale is not None
        return value, Pull(coefficients(others.scale, along, weighted), by_set)

    def terms(
        self,
        x: Float[Tensor, "*sets n d"],
        others: Others,
        draw: Circles,
        left: Float[Tensor, "*sets n"] | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        along, gap, _ = self._gaps(x, others, draw)
        own = self._local_gaps(gap, others)
        terms = own.square().sum(dim=-2) / (2 * len(draw))
        if left is None:
            return terms, None
        weighted = left.unsqueeze(-2) * own
        share: Tensor | float = 1 / gap.shape[-1]
        if others.weight is not None:
            share = (others.weight / others.after_fixed(others.weight).sum(dim=-1, keepdim=True)).unsqueeze(-2)
        weighted = weighted - share * weighted.sum(dim=-1, keepdim=True)  # the mean angle depends on each angle
        assert others.scale is not None
        return terms, Pull(
            coefficients(others.scale, along, weighted), terms.new_full((*terms.shape[:-1], 1, 1), 1 / len(draw))
        )

    def count(self, others: Others) -> Float[Tensor, "*sets"] | float:
        return others.mass_with_fixed

    def pull_back(
        self, pull: Pull, draw: Circles, scale: Float[Tensor, "*sets 1 1"] | Float[Tensor, ""], d: int
    ) -> Float[Tensor, "*sets n d"]:
        return combine(pull.vectors, draw, d, scale if pull.scale is None else scale * pull.scale)  # type: ignore[no-any-return]

    def _gaps(
        self, x: Tensor, others: Others, circles: Circles
    ) -> tuple[Float[Tensor, "*sets k 2 n"], Float[Tensor, "*sets k m"], Shaped[Tensor, "*sets m"] | None]:
        """The coordinates of the points on the circles, the gaps of all angles to even spacing, and all factors.

        Fixed points come first, then those of all ranks. Coordinates and gaps are zero if the factor is.
        """
        along = coordinates(x, circles)
        if others.is_weighted and others.mask is not None:  # otherwise rows of weight zero are zeros already
            along = torch.where(others.mask[..., None, None, :], along, 0)
        angles, factors = others.ranks.columns(angles_of(along)), others.all_factors
        if others.against is not None:
            angles = torch.cat([angles_of(coordinates(others.against, circles)), angles], dim=-1)
        return along, gaps(angles, factors), factors

    def _local_gaps(self, gap: Float[Tensor, "*sets k m"], others: Others) -> Float[Tensor, "*sets k n"]:
        """The gaps of the points of this process."""
        first = others.fixed + others.ranks.before
        return gap[..., first : first + others.ranks.counts[others.ranks.rank]]


class SSW(Sliced):
    """`ssw` of raw embeddings, with new random circles at every call.

    Args:
        circles: The number of circles per call.
        axis_aligned: Draw circles through two coordinate axes; see `Sliced`.
        generator: Draws the circles. Under activation checkpointing, see `unclump.replay`.
    """

    choices = ("circles", "axis_aligned")
    factor = _SQUARED_TURNS

    def __init__(
        self,
        circles: int = 1,
        *,
        axis_aligned: bool = False,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(circles, axis_aligned=axis_aligned, generator=generator, gather=gather)

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Circles, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        return _fused(embeddings, draw, _SQUARED_TURNS, 1 / (12 * embeddings.shape[-2] ** 2))

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Circles, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        value, pull = super().loss(x, others, draw, needs_grad)
        count = self.count(others)
        if others.is_binary:
            return value + count**-2 / 12, pull
        return value + (others.power_sum(3) + others.fixed_mass) / (12 * count**3), pull

    terms = Objective.terms  # raises: a squared distance to the uniform distribution is not a mean over points


def _fused(x: Tensor, circles: Circles, factor: float, offset: float) -> tuple[Tensor, Pull | None] | None:
    fused = fused_distance(x, circles, factor=factor, offset=offset)
    return None if fused is None else (fused[0], Pull(fused[1]))
