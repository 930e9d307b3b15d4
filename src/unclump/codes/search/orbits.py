"""Codes with an exact symmetry: unions of orbits of a group, each given by a representative."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from unclump.codes.search.groups import Group, Matrices, random_group, rounded, with_inversion
from unclump.codes.search.spacing import estimate_spacing

Points = Float[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class OrbitType:
    """The orbits of points with the same stabiliser, up to conjugation.

    Attributes:
        matrices: Their products with a point are its orbit. The first projects onto the fixed space of the stabiliser.
        freedom: The dimension of the fixed space.
        axis: The point, if the fixed space is an axis; its antipode has this type only if it is in the orbit.
    """

    matrices: Matrices
    freedom: int
    axis: Float[np.ndarray, " d"] | None

    @property
    def size(self) -> int:
        """The number of points in an orbit."""
        return len(self.matrices)


@dataclass(frozen=True, eq=False)
class Orbits:
    """A union of orbits: their representatives, and the matrices of all images, orbit by orbit."""

    representatives: Float[np.ndarray, "m d"]
    matrices: Float[np.ndarray, "n d d"]
    sizes: Int[np.ndarray, " m"]
    group: Group

    @property
    def points(self) -> Points:
        """All points."""
        images = np.einsum("nij,nj->ni", self.matrices, np.repeat(self.representatives, self.sizes, axis=0))
        return np.ascontiguousarray(images / np.linalg.norm(images, axis=1, keepdims=True))

    def randomised(self, generator: np.random.Generator) -> "Orbits":
        """Orbits of the same types with random representatives, except those on axes."""
        d = self.representatives.shape[1]
        firsts = self.matrices[np.cumsum(self.sizes) - self.sizes]
        random = np.einsum("mij,mj->mi", firsts, generator.standard_normal((len(self.sizes), d)))
        random /= np.linalg.norm(random, axis=1, keepdims=True)
        is_axis = np.einsum("mii->m", firsts) < 1.5
        return replace(self, representatives=np.where(is_axis[:, None], self.representatives, random))


def random_orbits(n: int, d: int, generator: np.random.Generator, *, antipodal: bool = False) -> Orbits:
    """Draw n points with the symmetry of a random group: orbits of random types, with random representatives.

    With `antipodal`, the group contains -1, so that the points come in opposite pairs; n must be even.

    Example:
        >>> random_orbits(12, 3, np.random.default_rng(0)).points.shape
        (12, 3)
    """
    while True:
        group = random_group(n, d, generator)
        if antipodal:
            group = with_inversion(group)
        chosen = _choose_types(n, orbit_types(group), generator)
        if chosen is not None:
            break
    representatives = np.stack([np.zeros(d) if kind.axis is None else kind.axis for kind in chosen])
    matrices = np.ascontiguousarray(np.concatenate([kind.matrices for kind in chosen]))
    sizes = np.array([kind.size for kind in chosen], dtype=np.int64)
    return Orbits(representatives, matrices, sizes, group).randomised(generator)


def _choose_types(n: int, types: list[OrbitType], generator: np.random.Generator) -> list[OrbitType] | None:
    """Types with n points in total: random special ones, then general position; None if the rest does not fit."""
    general, remaining = types[0], n
    chosen: list[OrbitType] = []
    for kind in types[1:]:
        room = remaining // kind.size
        if kind.freedom == 1:
            room = min(room, 1)
        else:
            fitting = _capacity(n, general.freedom, kind.freedom) * general.size / kind.size  # in all fixed spaces
            room = min(room, math.ceil(fitting / kind.size) + 1)
        count = int(generator.integers(room + 1)) if generator.random() < 0.7 else 0
        chosen += count * [kind]
        remaining -= count * kind.size
    return None if remaining % general.size else chosen + remaining // general.size * [general]


@lru_cache
def _capacity(n: int, d: int, freedom: int) -> int:
    """About how many points fit into a subspace, at the spacing of n points in d dimensions."""
    spacing = estimate_spacing(n, d)
    if freedom == 2:
        return math.ceil(2 * math.pi / spacing)
    return next((m for m in range(2, n) if estimate_spacing(m + 1, freedom) < spacing), n)


@lru_cache(maxsize=128)
def orbit_types(group: Group) -> list[OrbitType]:
    """The orbit types of a group: first that of points in general position, then those of smaller orbits.

    Smaller orbits are those of points fixed by some element or, in more than three dimensions and for groups of up to
    twelve elements, by some two. In three dimensions, pairs of elements give no further types.
    """
    elements = group.elements
    d = elements.shape[1]
    generator = np.random.default_rng(0)
    types, known = [OrbitType(elements, d, None)], set[bytes]()
    fixing = [element[None] for element in elements[1:]]
    if d > 3 and len(elements) <= 12:
        fixing += [np.stack([a, b]) for i, a in enumerate(elements[1:]) for b in elements[1 : i + 1]]
    for isometries in fixing:
        space = _fixed_space(isometries)
        if space.shape[1] == 0:
            continue
        random = space @ generator.standard_normal(space.shape[1])
        random /= np.linalg.norm(random)
        for point in (random, -random) if space.shape[1] == 1 else (random,):
            images = elements @ point
            projector = elements[np.linalg.norm(images - point, axis=1) < 1e-6].mean(axis=0)
            conjugates = images if space.shape[1] == 1 else elements @ projector @ elements.transpose(0, 2, 1)
            if rounded(conjugates[0]) in known:
                continue
            known.update(map(rounded, conjugates))
            _, first = np.unique(np.round(images, 6) + 0.0, axis=0, return_index=True)
            matrices = elements[np.sort(first)] @ projector
            types.append(OrbitType(matrices, space.shape[1], point if space.shape[1] == 1 else None))
    return types


def _fixed_space(isometries: Matrices) -> Float[np.ndarray, "d f"]:
    """An orthonormal basis of the vectors that all isometries fix."""
    d = isometries.shape[1]
    _, sizes, rows = np.linalg.svd((isometries - np.eye(d)).reshape(-1, d))
    basis: Float[np.ndarray, "d f"] = rows[sizes < 1e-6].T
    return basis
