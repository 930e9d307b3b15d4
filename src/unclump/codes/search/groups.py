"""Finite groups of isometries: the point groups of three dimensions, and random groups of any dimension."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "d d"]
Matrices = Float[np.ndarray, "k d d"]

POLYHEDRAL = ("T", "Td", "Th", "O", "Oh", "I", "Ih")
AXIAL = tuple(
    name for m in range(1, 13) for name in (f"C{m}", f"C{m}h", f"C{m}v", f"D{m}", f"D{m}h", f"D{m}d", f"S{2 * m}")
)[1:]  # all but the trivial group


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group of isometries: its name, for display, and its matrices, the identity first."""

    name: str
    elements: Matrices


def generate(generators: Iterable[Matrix], *, limit: int) -> Matrices | None:
    """All products of the generators, the identity first; None if there are more than `limit`."""
    steps = list(generators)
    elements = [np.eye(len(steps[0]))]
    known = {rounded(elements[0])}
    for element in elements:
        for step in steps:
            product = element @ step
            if rounded(product) not in known:
                known.add(rounded(product))
                elements.append(product)
                if len(elements) > limit:
                    return None
    return np.stack(elements)


def rounded(a: np.ndarray) -> bytes:
    """A hashable key that is the same for arrays that are equal up to rounding error."""
    return (np.round(a, 6) + 0.0).tobytes()  # adding zero turns minus zero into zero


def random_group(n: int, d: int, generator: np.random.Generator) -> Group:
    """A random nontrivial group of at most n elements; in three dimensions a point group.

    Small groups and groups of rotations, which most of the best symmetric codes have, are more likely.
    """
    if d == 3:
        orders = np.array([len(point_group(name).elements) for name in AXIAL + POLYHEDRAL])
        is_proper = np.array([name[0] != "S" and name[-1] not in "hvd" for name in AXIAL + POLYHEDRAL])
        weights = np.where(is_proper, 6, 1) * (orders <= n) / np.sqrt(orders)
        return point_group(str(generator.choice(AXIAL + POLYHEDRAL, p=weights / weights.sum())))
    first = _random_generator(n, d, generator)
    second = _random_generator(n, d, generator)
    elements = generate([first, second], limit=n) if generator.random() < 0.5 else None
    if elements is None:
        elements = generate([first], limit=n)
    if elements is None or len(elements) == 1:
        elements = np.stack([np.eye(d), -np.eye(d)])
    return Group(f"order {len(elements)}", elements)


@lru_cache(maxsize=128)
def with_inversion(group: Group) -> Group:
    """The group extended by the inversion."""
    if any(np.allclose(element, -np.eye(len(element))) for element in group.elements):
        return group
    return Group(f"{group.name} and inversion", np.concatenate([group.elements, -group.elements]))


def _random_generator(n: int, d: int, generator: np.random.Generator) -> Matrix:
    """A rotation of coordinate planes by multiples of a fraction of a turn, a signed permutation, or minus one."""
    kind = generator.integers(5)
    if kind == 0:
        return -np.eye(d)
    if kind == 1:
        signs = generator.choice([-1.0, 1.0], size=d) if generator.random() < 0.5 else np.ones(d)
        return signs[:, None] * np.eye(d)[generator.permutation(d)]
    order = int(generator.integers(2, (min(n, 12) if generator.random() < 0.8 else n) + 1))
    matrix = np.eye(d)
    for k in range(0, d - 1, 2):
        turns = 1 if k == 0 else int(generator.integers(0, order))
        matrix[k : k + 2, k : k + 2] = _rotation(turns / order)
    if d % 2 == 1 and generator.random() < 0.3:
        matrix[-1, -1] = -1
    return matrix


def _rotation(turns: float) -> Float[np.ndarray, "2 2"]:
    c, s = math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)
    return np.array([[c, -s], [s, c]])


@lru_cache(maxsize=len(AXIAL + POLYHEDRAL) + 1)
def point_group(name: str) -> Group:
    """The group of a Schoenflies symbol, with its main axis along the last coordinate.

    Example:
        >>> [len(point_group(name).elements) for name in ("C3", "D5h", "S4", "T", "Oh", "Ih")]
        [3, 20, 4, 12, 48, 120]
    """
    elements = generate(_polyhedral(name) if name in POLYHEDRAL else _axial(name), limit=120)
    assert elements is not None
    return Group(name, elements)


def _axial(name: str) -> list[Matrix]:
    family, order, suffix = name[0], int(name[1:].rstrip("hvd")), name.lstrip("CDS0123456789")
    flip, mirror, half_turn = np.diag([1.0, 1, -1]), np.diag([1.0, -1, 1]), np.diag([1.0, -1, -1])
    if family == "S":
        return [_about_axis(1 / order) @ flip]
    extra = {"": [], "h": [flip], "v": [mirror], "d": [_about_axis(1 / (2 * order)) @ flip]}
    return [_about_axis(1 / order), *([half_turn] if family == "D" else []), *extra[suffix]]


def _about_axis(turns: float) -> Matrix:
    matrix = np.eye(3)
    matrix[:2, :2] = _rotation(turns)
    return matrix


def _polyhedral(name: str) -> list[Matrix]:
    cycle, half_turn = np.roll(np.eye(3), 1, axis=0), np.diag([-1.0, -1, 1])
    golden = (1 + math.sqrt(5)) / 2
    fifth = np.array([[1, -golden, 1 / golden], [golden, 1 / golden, -1], [1 / golden, 1, golden]]) / 2
    extra = {
        "T": [],
        "Td": [np.eye(3)[[1, 0, 2]]],
        "Th": [-np.eye(3)],
        "O": [_about_axis(1 / 4)],
        "Oh": [_about_axis(1 / 4), -np.eye(3)],
        "I": [fifth],
        "Ih": [fifth, -np.eye(3)],
    }
    return [cycle, half_turn, *extra[name]]
