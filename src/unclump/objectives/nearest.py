r"""Objectives of the nearest neighbour: each point is pushed away from the one closest to it."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_points
from unclump.distributed.ranks import Gather, with_gradient
from unclump.geometry.sphere import full_precision
from unclump.objectives._base import Objective, Others
from unclump.ops import faiss_search
from unclump.ops.between import Nearest, nearest_among
from unclump.ops.one_pass import Fused, Plain
from unclump.ops.pairs import length, mean_of_nearest, nearest, nearest_distances, separation_from


def max_min(x: Float[Tensor, "n d"], *, distance: str = "geodesic", neighbours: str = "exact") -> Float[Tensor, ""]:
    r"""Minus the mean distance of the points to their nearest neighbours.

    .. math:: \mathcal{L}_{MM}(x) = -\frac1n \sum_{i=1}^n \min_{j \ne i} d(x_i, x_j)

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
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
    check_points(x, at_least=2)
    check_choice("distance", distance, ("geodesic", "chordal", "squared"))
    x = full_precision(x)
    return -nearest_distances(x, _neighbours(x, neighbours), distance=distance).mean()


def koleo(x: Float[Tensor, "n d"], *, distance: str = "chordal", neighbours: str = "exact") -> Float[Tensor, ""]:
    r"""Minus the mean logarithm of the distances to the nearest neighbours.

    .. math:: \mathcal{L}_{KoLeo}(x) = -\frac1n \sum_{i=1}^n \log \min_{j \ne i} d(x_i, x_j)

    Up to a constant this is minus the Kozachenko-Leonenko estimate of the differential entropy [1]. The closer a pair,
    the harder it is pushed.

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        distance: ``"chordal"`` or ``"geodesic"``.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed.

    References:
        [1] Sablayrolles et al. Spreading vectors for similarity search. ICLR 2019.

    Example:
        >>> koleo(torch.eye(3))  # -log sqrt(2)
        tensor(-0.3466)
    """
    check_points(x, at_least=2)
    check_choice("distance", distance, ("chordal", "geodesic"))
    x = full_precision(x)
    return -torch.log(nearest_distances(x, _neighbours(x, neighbours), distance=distance)).mean()


def _neighbours(x: Tensor, neighbours: str) -> Tensor:
    check_choice("neighbours", neighbours, faiss_search.NEIGHBOURS)
    return nearest(x) if neighbours == "exact" else faiss_search.nearest(x)[0]


class _OfNeighbours(Objective):
    """What both modules share: the search, and the mean of a term of the distance."""

    choices = ("distance", "neighbours")
    of_weights = True
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

    def term(self, distance: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """What is averaged, of the distance of every point to its nearest."""
        return -torch.log(distance) if self.logarithm else -distance

    def one_pass(self, embeddings: Float[Tensor, "n d"]) -> tuple[Fused, Plain] | None:
        if self.neighbours != "exact":
            return None
        check_points(embeddings, at_least=2)
        return partial(mean_of_nearest, distance=self.distance, logarithm=self.logarithm), self.value

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        if self.neighbours == "exact":
            near = nearest(x)
        else:
            near, self.recall = faiss_search.nearest(x)
        return self.term(nearest_distances(x, near, distance=self.distance)).mean()

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        found = self._search(x, others)
        here, there = x.detach().requires_grad_(), found.points.requires_grad_()
        with torch.enable_grad():
            terms = self._terms(here, there, found)
            share = (terms if others.weight is None else others.weight * terms).sum()
        by_points, by_nearest = torch.autograd.grad(share, (here, there))
        moving = found.numbers >= 0
        gradient = by_points + others.ranks.send_back(by_nearest[moving], found.numbers[moving])
        return with_gradient(x, others.ranks.sum(share.detach()), gradient) / others.mass(x)

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        found = self._search(x, others)
        moving = (found.numbers >= 0).unsqueeze(-1)
        return self._terms(x, torch.where(moving, x[found.numbers.clamp_min(0)], found.points), found)

    def _search(self, x: Tensor, others: Others) -> Nearest:
        if self.neighbours != "exact":
            raise ValueError(
                f"expected neighbours='exact' with against, weight, reduction or gather, got {self.neighbours!r}, "
                "which looks through one table only"
            )
        return nearest_among(x, others.against, others.ranks)

    def _terms(self, x: Tensor, points: Tensor, found: Nearest) -> Tensor:
        return self.term(length(separation_from(x, points, found.side), x + points, self.distance))


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
