r"""Starts that a random group of permutations leaves as they are: invariant subspaces of its permutation matrices.

Many of the best codes in eight or more dimensions come from such a group. The :math:`2q` points in :math:`q - 1`
dimensions that conference matrices give, with cosines of at most :math:`1 / (q + 1)`, are permuted by the translations
of a field of q elements, and by multiplication with its squares. A matrix that is constant on the orbits of pairs
commutes with all permutations of the group. Its eigenspaces are invariant; as many as have d dimensions in total give a
point for each row, and the group acts on the points by isometries.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unclump.codes.search.abelian import Permutation, random_permutations
from unclump.codes.search.actions import random_actions

Points = Float[np.ndarray, "n d"]

_MOST_POINTS = 512  # matrices are n x n
_GROUPS, _SUBSPACES = 10, 4  # tries
_KEPT, _DRAWS = 8, 24  # groups that are drawn again, and how often
_SAME = 1e-7  # radians between the angles of codes that count as one
_APART = 1e-8  # of eigenvalues
_SPREAD = 0.3  # of the logarithms of the eigenspaces' scales


@dataclass(eq=False)
class _Group:
    """A group of permutations: the numbers of the orbits of pairs, and the best angle of a code from it."""

    orbit: Int[np.ndarray, "n n"]
    angle: float = 0.0
    draws: int = 0


class PermutedStarts:
    """Starts with the symmetry of random groups, half of them of the groups that have led to the best codes.

    A group has many invariant subspaces, and few of them lead to its best code.

    Example:
        >>> PermutedStarts(26, 12, np.random.default_rng(0)).draw().shape
        (26, 12)
    """

    def __init__(self, n: int, d: int, generator: np.random.Generator) -> None:
        self.n, self.d, self.generator = n, d, generator
        self._actions = random_actions(n, generator)
        self._kept: list[_Group] = []
        self._last: _Group | None = None

    def draw(self) -> Points:
        """Unit points; random ones where no group with a subspace was found, or where it would take long."""
        for _ in range(_GROUPS if self.n <= _MOST_POINTS else 0):
            self._last = self._draw_group()
            start = _in_subspace(self._last.orbit, self.d, self.generator)
            if start is not None:
                return start
        self._last = None
        x = self.generator.standard_normal((self.n, self.d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return x

    def note(self, angle: float) -> None:
        """Note the angle of the code that the last start led to."""
        group = self._last
        if group is None:
            return
        others = [kept for kept in self._kept if kept is not group]
        group.angle = max(group.angle, angle)
        if group.draws < _DRAWS and all(abs(kept.angle - group.angle) > _SAME for kept in others):
            others.append(group)
        self._kept = sorted(others, key=lambda kept: -kept.angle)[:_KEPT]

    def _draw_group(self) -> _Group:
        if len(self._kept) == _KEPT and self.generator.random() < 0.5:
            group = min(self._kept, key=lambda kept: kept.draws)
        else:
            group = _Group(_orbits_of_pairs(self.n, self.random_permutations()))
        group.draws += 1
        return group

    def random_permutations(self) -> list[Permutation]:
        """Generators of a random group, which acts regularly on parts of the points, or in orbits of several kinds."""
        return random_permutations(self.n, self.generator) if self.generator.random() < 0.5 else next(self._actions)


def _in_subspace(orbit: Int[np.ndarray, "n n"], d: int, generator: np.random.Generator) -> Points | None:
    """Unit points in a random invariant subspace of d dimensions, or None if none was found."""
    for _ in range(_SUBSPACES):
        eigenvalues, vectors = np.linalg.eigh(generator.standard_normal(orbit.max() + 1)[orbit])
        spaces = np.split(vectors, np.flatnonzero(np.diff(eigenvalues) > _APART) + 1, axis=1)
        chosen = _choose_spaces(spaces, d, generator)
        if chosen is None:
            continue
        x = np.concatenate([math.exp(_SPREAD * generator.standard_normal()) * space for space in chosen], axis=1)
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        if norms.min() > 1e-6:
            return np.ascontiguousarray(x / norms)
    return None


def _orbits_of_pairs(n: int, permutations: list[Permutation]) -> Int[np.ndarray, "n n"]:
    """The number of the orbit of each pair, in either order."""
    pairs = np.arange(n * n)
    first, second = np.divmod(pairs, n)
    targets = np.concatenate([n * second + first, *(n * images[first] + images[second] for images in permutations)])
    sources = np.tile(pairs, len(permutations) + 1)
    graph = coo_array((np.ones(len(targets), dtype=bool), (sources, targets)), shape=(n * n, n * n))
    orbit: Int[np.ndarray, " pairs"] = connected_components(graph, directed=False)[1]
    return orbit.reshape(n, n)


def _choose_spaces(
    spaces: list[Float[np.ndarray, "n _"]], d: int, generator: np.random.Generator
) -> list[Float[np.ndarray, "n _"]] | None:
    """Random spaces with d dimensions in total, or None if those that were drawn do not fit."""
    chosen, remaining = [], d
    for index in generator.permutation(len(spaces)):
        if spaces[index].shape[1] <= remaining:
            chosen.append(spaces[index])
            remaining -= spaces[index].shape[1]
    return chosen if remaining == 0 else None
