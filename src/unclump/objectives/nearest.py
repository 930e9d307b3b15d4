r"""Objectives of the nearest neighbour: each point is pushed away from the one closest to it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_choice
from unclump._precision import take_rows
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Gather
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.ops import faiss_search
from unclump.ops.measure import measure
from unclump.ops.native.nearest import fused_mean_of_nearest
from unclump.ops.project import project, unit_rows, unit_rows_backward


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
        self, embeddings: Float[Tensor, "b n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n d"] | None]:
        if others.is_alone and self.neighbours == "exact":
            fused = fused_mean_of_nearest(
                embeddings, distance=self.distance, logarithm=self.logarithm, needs_grad=needs_grad
            )
            if fused is not None:
                return fused
        shares = others.shares(embeddings)
        terms, gradient = self.terms(embeddings, others, draw, shares if needs_grad else None)
        if others.mask is not None:
            terms = torch.where(others.mask, terms, 0)
        return others.ranks.sum((shares * terms).sum(dim=1)), gradient

    def terms(
        self, embeddings: Float[Tensor, "b n d"], others: Others, draw: None, left: Float[Tensor, "b n"] | None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n d"] | None]:
        x, inverse_norms = unit_rows(embeddings)
        points, numbers, side = self._search(x, others)
        measured = measure(x, points, distance=self.distance, side=side)
        terms = self._term(measured.distance)
        if left is None:
            return terms, None
        slope = -left / measured.distance if self.logarithm else -left
        gradient = measured.by_point.mul_(slope.unsqueeze(-1))
        by_others = gradient * measured.sign
        if others.against is not None:
            by_others.masked_fill_((numbers < 0).unsqueeze(-1), 0)
            numbers = numbers.clamp_min(0)
        gradient = others.ranks.add_back(gradient, numbers, by_others)
        return terms, unit_rows_backward(x, inverse_norms, gradient)

    def definition(self, embeddings: Float[Tensor, "b n d"], others: Others, draw: None) -> Float[Tensor, " b"]:
        x = project(embeddings)
        points, numbers, side = self._search(x.detach(), others)
        points = torch.where((numbers < 0).unsqueeze(-1), points, take_rows(x, numbers.clamp_min(0)))
        difference = x - points
        escape = measure(x.detach(), points.detach(), distance="squared", side=side).by_point / 2 - difference.detach()
        chord = vector_norm(difference + escape, dim=-1)  # coinciding rows are taken apart
        if self.distance == "squared":
            chord = chord.square()
        elif self.distance == "geodesic":
            chord = 2 * torch.atan2(chord, vector_norm(x + points, dim=-1))
        terms = self._term(chord)
        if others.mask is not None:
            terms = torch.where(others.mask, terms, 0)
        return (others.shares(x) * terms).sum(dim=1)

    def _term(self, distance: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """What is averaged, of the distance of every point to its nearest."""
        return -torch.log(distance) if self.logarithm else -distance

    def _search(
        self, x: Float[Tensor, "b n d"], others: Others
    ) -> tuple[Float[Tensor, "b n d"], Int[Tensor, "b n"], Int[Tensor, "b n"]]:
        """The nearest of every point: where it is, its number through all ranks, and on which side.

        Fixed points have the number -1. The side is 1 where the nearest is an earlier row, -1 where a later one.
        """
        own = torch.arange(others.ranks.before, others.ranks.before + x.shape[1], device=x.device)
        if self.neighbours != "exact":
            if not others.is_alone:
                raise ValueError(
                    f"expected neighbours='exact' with against, weight or gather, got {self.neighbours!r}, "
                    "which looks through one table only"
                )
            near, self.recall = faiss_search.nearest(x[0])
            return x[:, near], near.unsqueeze(0), torch.sign(own - near).unsqueeze(0)
        points, numbers = nearest_among(x, others.ranks, fixed=others.against, mask=others.mask)
        return points, numbers, torch.sign(own - numbers)


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
