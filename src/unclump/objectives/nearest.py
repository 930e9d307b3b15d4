r"""Nearest-neighbour objectives: each point is pushed away from its nearest neighbour, or from the k nearest."""

from jaxtyping import Float
from torch import Tensor

from unclump.distributed.ranks import Gather
from unclump.objectives._neighbours import OfNeighbours


def max_min(
    x: Float[Tensor, "*sets n d"],
    *,
    k: int = 1,
    group_size: int | None = None,
    distance: str = "geodesic",
    neighbours: str = "exact",
) -> Float[Tensor, "*sets"]:
    r"""Minus the mean distance from each point to its nearest neighbours.

    .. math:: \mathcal{L}_{MM}(x) = -\frac1{nk} \sum_{i=1}^n \sum_{j \in N_k(i)} d(x_i, x_j)

    with the k nearest other points N_k(i); for k = 1, the mean of the smallest distances.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        k: The number of nearest neighbours from which every point is pushed away.
        group_size: Search neighbours within groups of this many consecutive rows, which must divide the number of rows;
            None for all rows.
        distance: ``"geodesic"`` (the angle; MMA of [1]), ``"chordal"`` or ``"squared"``, the squared chord, which is
            twice the cosine distance of [2].
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed.

    References:
        [1] Wang et al. MMA Regularization: Decorrelating Weights of Neural Networks by Maximizing the Minimal Angles.
        NeurIPS 2020.
        [2] Mettes et al. Hyperspherical Prototype Networks. NeurIPS 2019.

    Example:
        >>> max_min(torch.eye(3), distance="geodesic")  # all points are a right angle apart
        tensor(-1.5708)
    """
    result: Tensor = MaxMin(k=k, group_size=group_size, distance=distance, neighbours=neighbours)(x)
    return result


def koleo(
    x: Float[Tensor, "*sets n d"],
    *,
    k: int = 1,
    group_size: int | None = None,
    distance: str = "chordal",
    neighbours: str = "exact",
) -> Float[Tensor, "*sets"]:
    r"""Minus the mean logarithm of the distances to the nearest neighbours.

    .. math:: \mathcal{L}_{KoLeo}(x) = -\frac1{nk} \sum_{i=1}^n \sum_{j \in N_k(i)} \log d(x_i, x_j)

    with the k nearest other points N_k(i). For k = 1, up to a constant, this is minus the Kozachenko-Leonenko estimate
    of the differential entropy [1]. The closer a pair, the stronger the repulsion. DINOv3 [2] uses several neighbours,
    and groups within a batch.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        k: The number of nearest neighbours from which every point is pushed away.
        group_size: Search neighbours within groups of this many consecutive rows, which must divide the number of rows;
            None for all rows.
        distance: ``"chordal"`` or ``"geodesic"``.
        neighbours: ``"exact"``, or ``"faiss"`` for an approximate search of large tables, whose recall is printed.

    References:
        [1] Sablayrolles et al. Spreading vectors for similarity search. ICLR 2019.
        [2] Siméoni et al. DINOv3. 2025.

    Example:
        >>> koleo(torch.eye(3))  # -log sqrt(2)
        tensor(-0.3466)
    """
    result: Tensor = KoLeo(k=k, group_size=group_size, distance=distance, neighbours=neighbours)(x)
    return result


class MaxMin(OfNeighbours):
    """`max_min` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`.

    The options and the formula are those of `max_min`. See `Objective.forward` for queues, masks and reductions.

    With `gather`, groups consist of consecutive rows over all ranks, in order. If a mask leaves a point fewer than k
    others, only these count.
    """

    distances = ("geodesic", "chordal", "squared")

    def __init__(
        self,
        *,
        k: int = 1,
        group_size: int | None = None,
        distance: str = "geodesic",
        neighbours: str = "exact",
        gather: Gather = False,
    ) -> None:
        super().__init__(k, group_size, distance, neighbours, gather)


class KoLeo(OfNeighbours):
    """`koleo` of raw embeddings. With ``neighbours="faiss"`` the recall of the latest search is in `recall`.

    The options and the formula are those of `koleo`. See `Objective.forward` for queues, masks and reductions.

    With `gather`, groups consist of consecutive rows over all ranks, in order. If a mask leaves a point fewer than k
    others, only these count.
    """

    distances = ("chordal", "geodesic")
    logarithm = True

    def __init__(
        self,
        *,
        k: int = 1,
        group_size: int | None = None,
        distance: str = "chordal",
        neighbours: str = "exact",
        gather: Gather = False,
    ) -> None:
        super().__init__(k, group_size, distance, neighbours, gather)
