"""Groups of rows that are equal or nearly equal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """Rows that are equal or nearly equal.

    Attributes:
        rows: Their numbers, counted from 0.
        angle: The smallest angle between two of them, in radians.
    """

    rows: tuple[int, ...]
    angle: float


def connect(pairs: Int[Tensor, "2 pairs"], n: int) -> Int[Tensor, " n"]:
    """A label for each of n rows, the same for rows that pairs connect."""
    graph = coo_array((np.ones(pairs.shape[1], dtype=bool), tuple(pairs.numpy())), shape=(n, n))
    return torch.from_numpy(connected_components(graph, directed=False)[1]).long()


def groups_of_labels(labels: Int[Tensor, " n"], nearest: Float[Tensor, " n"]) -> list[Group]:
    """Group the rows with the same label; largest group first, then the smallest angle; single rows are left out."""
    order = labels.argsort(stable=True)
    groups = [
        Group(tuple(rows.tolist()), nearest[rows].min().item())
        for rows in torch.split(order, labels.bincount().tolist())
        if len(rows) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.angle))


def not_all_equal(clumps: Sequence[Group], duplicates: Sequence[Group]) -> list[Group]:
    """Return the clumps that are not just a group of equal rows."""
    equal = {frozenset(group.rows) for group in duplicates}
    return [group for group in clumps if frozenset(group.rows) not in equal]


def extent(groups: list[Group]) -> tuple[int, int]:
    """Return the number of rows and of groups."""
    return sum(len(group.rows) for group in groups), len(groups)


def renumber(groups: list[Group], numbers: Int[Tensor, " n"]) -> list[Group]:
    """Replace positions in groups by the numbers of the rows at these positions."""
    return [Group(tuple(numbers[list(group.rows)].tolist()), group.angle) for group in groups]
