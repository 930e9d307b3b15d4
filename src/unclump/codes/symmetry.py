r"""The symmetry group of a code: the isometries that permute its points.

An isometry is determined by the images of a *base* :math:`b_1, \ldots, b_d`, points that span the space. Images are
chosen one by one; their cosines with the previous images must be those of the base points. The order of the group is a
product over the base, of the sizes of the orbits under the isometries that fix the previous base points:

.. math:: |G| = \prod_i |\{g(b_i) : g \in G,\ g(b_1) = b_1, \ldots, g(b_{i-1}) = b_{i-1}\}|
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from unclump.codes.verify import contacts

_MAX_POINTS = 5_000
_MOST_TRIALS = 20_000  # images of points; high-dimensional codes with few different angles may need more


@dataclass(frozen=True)
class Symmetry:
    """A finite group of isometries.

    Attributes:
        order: The number of isometries.
        name: The Schoenflies symbol in three dimensions; "" in others.
    """

    order: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}, order {self.order}" if self.name else f"order {self.order}"


def symmetry(points: Float[np.ndarray, "n d"], *, tolerance: float = 1e-7) -> Symmetry | None:
    """The symmetry group of a code without its rattlers, in the space that it spans.

    Args:
        points: Unit rows.
        tolerance: The largest distance of an image from a point of the code.

    Returns:
        The group, or None if it would take too long to find.

    Example:
        >>> from unclump.codes.symmetry import symmetry
        >>> print(symmetry(np.concatenate([np.eye(3), -np.eye(3)])))
        Oh, order 48
    """
    if len(points) > _MAX_POINTS:
        return None
    x = np.delete(points, contacts(points).rattlers, axis=0)
    if len(x) == 0:
        return Symmetry(1, "C1" if points.shape[1] == 3 else "")
    try:
        isometries = _Isometries(x, tolerance)
        if isometries.rank == 3 == x.shape[1]:
            elements = np.stack([isometries.matrix(images) for images in isometries.extend([])])
            return Symmetry(len(elements), schoenflies(elements))
        return Symmetry(isometries.order(), "")
    except TimeoutError:
        return None


class _Isometries:
    """The isometries that permute the points, as lists of the images of a base."""

    def __init__(self, x: Float[np.ndarray, "n d"], tolerance: float) -> None:
        self.x, self.tolerance, self.trials = x, tolerance, 0
        self.cosines = x @ x.T
        self.profiles = np.sort(self.cosines, axis=1)
        self.rank = int(np.linalg.matrix_rank(x, tol=1e-6))
        self.base = self._choose_base()
        self.alike = {i: self._has_same_profile(i) for i in self.base}
        self.coordinates = x @ np.linalg.pinv(x[self.base])  # of all points, in terms of the base

    def _choose_base(self) -> list[int]:
        """Choose independent points. Points near each other leave the fewest choices for their images."""
        sizes = np.zeros(len(self.x), dtype=int)  # the number of points with the same profile
        for i in range(len(self.x)):
            if sizes[i] == 0:
                alike = self._has_same_profile(i)
                sizes[alike] = alike.sum()
        base = [int(sizes.argmin())]
        while len(base) < self.rank:
            span = np.linalg.qr(self.x[base].T)[0]
            heights = np.linalg.norm(self.x - self.x @ span @ span.T, axis=1)
            nearness = self.cosines[base].sum(axis=0)
            base.append(int(np.where(heights > heights.max() / 2, nearness, -np.inf).argmax()))
        return base

    def _has_same_profile(self, i: int) -> Bool[np.ndarray, " n"]:
        """The mask of the points with the same sorted cosines as point i."""
        alike: Bool[np.ndarray, " n"] = np.abs(self.profiles - self.profiles[i]).max(axis=1) < self.tolerance
        return alike

    def order(self) -> int:
        """The number of isometries."""
        orbits = []
        for i in range(self.rank):
            fixed = self.base[:i]
            images = self._images(fixed)
            orbits.append(sum(next(self.extend([*fixed, j]), None) is not None for j in images))
        return math.prod(orbits)

    def extend(self, images: list[int]) -> Iterator[list[int]]:
        """All isometries that map the first points of the base to these."""
        if len(images) < self.rank:
            for j in self._images(images):
                yield from self.extend([*images, j])
        elif self._permutes(images):
            yield images

    def _images(self, images: list[int]) -> list[int]:
        """Candidate images of the next base point: their cosines with these images match those in the base."""
        self.trials += 1
        if self.trials > _MOST_TRIALS:
            raise TimeoutError
        new = self.base[len(images)]
        candidates = self.alike[new].copy()
        for original, image in zip(self.base, images, strict=False):
            candidates &= np.abs(self.cosines[image] - self.cosines[original, new]) < self.tolerance
        return [int(j) for j in np.flatnonzero(candidates)]

    def _permutes(self, images: list[int]) -> bool:
        """Whether the isometry maps every point to one of the points."""
        y = self.coordinates @ self.x[images]
        distances = np.linalg.norm(y - self.x[(y @ self.x.T).argmax(axis=1)], axis=1)
        return bool(distances.max() < self.tolerance * self.rank)

    def matrix(self, images: list[int]) -> Float[np.ndarray, "d d"]:
        """The isometry as a matrix, to be multiplied from the right."""
        matrix: Float[np.ndarray, "d d"] = np.linalg.pinv(self.x[self.base]) @ self.x[images]
        return matrix


def schoenflies(elements: Float[np.ndarray, "k 3 3"]) -> str:
    """The name of a point group by Schoenflies, such as "D3h" or "Ih"."""
    is_rotation = np.linalg.det(elements) > 0
    traces = np.trace(elements, axis1=1, axis2=2)
    rotations, mirrors = int(is_rotation.sum()), int((~is_rotation & (traces > 1 - 1e-3)).sum())
    turns = np.arccos(np.clip((traces[is_rotation] - 1) / 2, -1, 1))
    m = max(round(2 * math.pi / turn) if turn > 1e-3 else 1 for turn in turns)  # order of the main axis
    polyhedral = {(12, 3): "T", (24, 4): "O", (60, 5): "I"}.get((rotations, m))
    proper = polyhedral or (f"C{m}" if rotations == m else f"D{m}")
    if rotations == len(elements):
        return proper
    if polyhedral:
        has_inversion = bool((~is_rotation & (traces < -3 + 1e-3)).any())
        return f"{polyhedral}{'h' if has_inversion else 'd'}"
    if proper == "C1":
        return "Cs" if mirrors else "Ci"
    if proper[0] == "C":
        return {0: f"S{2 * m}", 1: f"C{m}h"}.get(mirrors, f"C{m}v")
    return f"D{m}h" if mirrors > m else f"D{m}d"
