r"""Objectives of the nearest neighbour: each point is pushed away from the one closest to it."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump import _faiss
from unclump._checks import check_choice, check_points
from unclump.objectives._base import Objective
from unclump.pairs import nearest, nearest_distances
from unclump.sphere import full_precision


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
    return _max_min(x, _neighbours(x, neighbours), distance)


def _max_min(x: Tensor, near: Tensor, distance: str) -> Tensor:
    return -nearest_distances(x, near, distance=distance).mean()


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
    return _koleo(x, _neighbours(x, neighbours), distance)


def _koleo(x: Tensor, near: Tensor, distance: str) -> Tensor:
    return -torch.log(nearest_distances(x, near, distance=distance)).mean()


def _neighbours(x: Tensor, neighbours: str) -> Tensor:
    check_choice("neighbours", neighbours, _faiss.NEIGHBOURS)
    return nearest(x) if neighbours == "exact" else _faiss.nearest(x)[0]


class _OfNeighbours(Objective):
    """What both modules share: the search."""

    choices = ("distance", "neighbours")
    distances: tuple[str, ...]

    recall = 1.0
    """The part of the nearest neighbours that the latest search found, measured on a sample."""

    def __init__(self, distance: str, neighbours: str) -> None:
        super().__init__()
        check_choice("distance", distance, self.distances)
        check_choice("neighbours", neighbours, _faiss.NEIGHBOURS)
        self.distance, self.neighbours = distance, neighbours

    def _near(self, x: Tensor) -> Tensor:
        if self.neighbours == "exact":
            return nearest(x)
        near, self.recall = _faiss.nearest(x)
        return near


class MaxMin(_OfNeighbours):
    """`max_min` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`."""

    distances = ("geodesic", "chordal", "squared")

    def __init__(self, *, distance: str = "geodesic", neighbours: str = "exact") -> None:
        super().__init__(distance, neighbours)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return _max_min(x, self._near(x), self.distance)


class KoLeo(_OfNeighbours):
    """`koleo` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`."""

    distances = ("chordal", "geodesic")

    def __init__(self, *, distance: str = "chordal", neighbours: str = "exact") -> None:
        super().__init__(distance, neighbours)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return _koleo(x, self._near(x), self.distance)
