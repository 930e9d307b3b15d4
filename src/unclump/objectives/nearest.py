r"""Objectives of the nearest neighbour: each point is pushed away from the one closest to it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_choice
from unclump._precision import take_rows
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import tangent
from unclump.objectives._base import Objective, Pull
from unclump.objectives._others import Others
from unclump.ops import faiss_search
from unclump.ops.measure import measure
from unclump.ops.native.nearest import fused_mean_of_nearest
from unclump.ops.project import project, unit_rows


def max_min(
    x: Float[Tensor, "*sets n d"], *, distance: str = "geodesic", neighbours: str = "exact"
) -> Float[Tensor, "*sets"]:
    r"""Minus the mean distance of the points to their nearest neighbours.

    .. math:: \mathcal{L}_{MM}(x) = -\frac1n \sum_{i=1}^n \min_{j \ne i} d(x_i, x_j)

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        distance: ``"geodesic"`` (the angle; MMA of [1]), ``"chordal"`` or ``"squared"``, the squared chord, which is
            twice the cosine distance of [2].
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed.

    References:
        [1] Wang et al. MMA Regularization: Decorrelating Weights of Neural Networks by Maximizing the Minimal Angles.
        NeurIPS 2020.
        [2] Mettes et al. Hyperspherical Prototype Networks. NeurIPS 2019.

    Example:
        >>> max_min(torch.eye(3), distance="geodesic")  # everyone's nearest is a right angle away
        tensor(-1.5708)
    """
    result: Tensor = MaxMin(distance=distance, neighbours=neighbours)(x)
    return result


def koleo(
    x: Float[Tensor, "*sets n d"], *, distance: str = "chordal", neighbours: str = "exact"
) -> Float[Tensor, "*sets"]:
    r"""Minus the mean logarithm of the distances to the nearest neighbours.

    .. math:: \mathcal{L}_{KoLeo}(x) = -\frac1n \sum_{i=1}^n \log \min_{j \ne i} d(x_i, x_j)

    Up to a constant this is minus the Kozachenko-Leonenko estimate of the differential entropy [1]. The closer a pair,
    the harder it is pushed.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        distance: ``"chordal"`` or ``"geodesic"``.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed.

    References:
        [1] Sablayrolles et al. Spreading vectors for similarity search. ICLR 2019.

    Example:
        >>> koleo(torch.eye(3))  # -log sqrt(2)
        tensor(-0.3466)
    """
    result: Tensor = KoLeo(distance=distance, neighbours=neighbours)(x)
    return result


class _OfNeighbours(Objective):
    """What both modules share: the search, and the mean of a term of the distance."""

    choices = ("distance", "neighbours")
    supports_weights = True
    supports_second_derivatives = True
    distances: tuple[str, ...]
    logarithm = False
    """Whether the mean is that of the distances' logarithms."""

    recall = 1.0
    """The part of the nearest neighbours that the latest search found, measured on a sample."""

    def __init__(self, distance: str, neighbours: str, gather: Gather) -> None:
        super().__init__(gather=gather)
        check_choice("distance", distance, self.distances)
        check_choice("neighbours", neighbours, faiss_search.NEIGHBOURS)
        self.distance, self.neighbours = distance, neighbours

    def loss(
        self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        if others.is_alone and self.neighbours == "exact":
            fused = fused_mean_of_nearest(
                embeddings, distance=self.distance, logarithm=self.logarithm, needs_grad=needs_grad
            )
            if fused is not None:
                return fused[0], None if fused[1] is None else Pull(fused[1])
        terms, pull = self.terms(embeddings, others, draw, others.shares if needs_grad else None)
        return self._mean(terms, others), pull

    def terms(
        self,
        embeddings: Float[Tensor, "*sets n d"],
        others: Others,
        draw: None,
        left: Float[Tensor, "*sets n"] | float | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        x, inverse_norms = unit_rows(embeddings)
        points, numbers, r2 = self._search(x, others)
        measured = measure(x, points, r2, distance=self.distance, after=self._after(numbers, others))
        terms = self._term(measured.distance).squeeze(-1)
        if left is None:
            return terms, None
        slope = measured.slope / measured.distance if self.logarithm else measured.slope
        slope = slope * (-left.unsqueeze(-1) if isinstance(left, Tensor) else -left)
        gradient, by_others = measured.vector * slope, slope * measured.sign
        if others.against is not None:
            by_others = by_others * (numbers >= 0)
            numbers = numbers.clamp_min(0)
        gradient = others.ranks.add_back(gradient, numbers.squeeze(-1), measured.vector.mul_(by_others))
        return terms, Pull(tangent(x, gradient), inverse_norms)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: None) -> Float[Tensor, "*sets"]:
        x = project(embeddings)
        points, numbers, r2 = self._search(x.detach(), others)
        points = torch.where(numbers < 0, points, take_rows(x, numbers.squeeze(-1).clamp_min(0)))
        difference, after = x - points, self._after(numbers, others)
        taken_apart = measure(x.detach(), points.detach(), r2, distance="squared", after=after).vector
        chord = vector_norm(difference + (taken_apart - difference.detach()), dim=-1)
        if self.distance == "squared":
            chord = chord.square()
        elif self.distance == "geodesic":
            chord = 2 * torch.atan2(chord, vector_norm(x + points, dim=-1))
        return self._mean(self._term(chord), others)

    def _mean(self, terms: Float[Tensor, "*sets n"], others: Others) -> Float[Tensor, "*sets"]:
        if others.mask is not None:
            terms = torch.where(others.mask, terms, 0)
        return others.ranks.sum((terms * others.shares).sum(dim=-1))

    def _term(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What is averaged, of the distance of every point to its nearest."""
        return -torch.log(distance) if self.logarithm else -distance

    def _search(
        self, x: Float[Tensor, "*sets n d"], others: Others
    ) -> tuple[Float[Tensor, "*sets n d"], Int[Tensor, "*sets n 1"], Float[Tensor, "*sets n 1"]]:
        """The nearest of every point: where it is, its number through all ranks, -1 if fixed, and the squared chord."""
        if self.neighbours == "exact":
            return nearest_among(x, others.ranks, fixed=others.against, mask=others.mask, spare=0)
        if not others.is_alone:
            raise ValueError(
                f"expected neighbours='exact' with against, weight or gather, got {self.neighbours!r}, "
                "which looks through one table only"
            )
        near, self.recall = faiss_search.nearest(x)
        points = x[near]
        return points, near.unsqueeze(-1), (x - points).square().sum(dim=-1, keepdim=True)

    def _after(self, numbers: Int[Tensor, "*sets n 1"], others: Others) -> Int[Tensor, "*sets n 1"]:
        """By how many rows a point comes after its nearest, which has this number."""
        first = others.ranks.before
        return torch.arange(first, first + numbers.shape[-2], device=numbers.device).unsqueeze(-1) - numbers


class MaxMin(_OfNeighbours):
    """`max_min` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`."""

    distances = ("geodesic", "chordal", "squared")

    def __init__(self, *, distance: str = "geodesic", neighbours: str = "exact", gather: Gather = False) -> None:
        super().__init__(distance, neighbours, gather)


class KoLeo(_OfNeighbours):
    """`koleo` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`."""

    distances = ("chordal", "geodesic")
    logarithm = True

    def __init__(self, *, distance: str = "chordal", neighbours: str = "exact", gather: Gather = False) -> None:
        super().__init__(distance, neighbours, gather)
