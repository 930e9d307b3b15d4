"""Random moves from a code to others nearby: of points into holes, of caps, or of all points."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from unclump.codes.search.spacing import estimate_spacing

Points = Float[np.ndarray, "n d"]
Move = Callable[[Points, np.random.Generator], Points]

_SAMPLES = 200


def into_deepest_holes(x: Points, generator: np.random.Generator) -> Points:
    """Move one to three points, each to the one of 200 random positions that is farthest from all others."""
    return _into_holes(x, _choose(x, generator), 1, generator)


def into_holes(x: Points, generator: np.random.Generator) -> Points:
    """Move one to three points, each into one of the five deepest holes."""
    return _into_holes(x, _choose(x, generator), 5, generator)


def overlapping_into_holes(x: Points, square: float, generator: np.random.Generator) -> Points:
    """The same for points among the twelve that overlap most at this squared chord or, half of the time, any points."""
    if generator.random() < 0.5:
        return into_holes(x, generator)
    overlaps = np.square(np.maximum(square - 2 + 2 * x @ x.T, 0)).sum(axis=1)
    return _into_holes(x, _choose(x, generator, among=np.argsort(-overlaps)[:12]), 5, generator)


def lines_into_holes(x: Points, generator: np.random.Generator) -> Points:
    """Move one to three lines, given by their directions, each into one of the three deepest holes."""
    x = x.copy()
    moved = _choose(x, generator)
    kept = np.delete(np.arange(len(x)), moved)
    for line in moved:
        x[line] = generator.choice(_holes(np.concatenate([x[kept], -x[kept]]), 3, generator))
        kept = np.append(kept, line)
    return x


def into_hole_nearby(x: Points, generator: np.random.Generator) -> Points:
    """Move a point into one of the four closest of the twelve deepest holes."""
    x = x.copy()
    moved = generator.integers(len(x))
    holes = _holes(np.delete(x, moved, axis=0), 12, generator)
    x[moved] = generator.choice(holes[np.argsort(-(holes @ x[moved]))[:4]])
    return x


def shake(x: Points, generator: np.random.Generator) -> Points:
    """Move all points by a tenth to four tenths of the spacing."""
    return _unit(x + generator.uniform(0.1, 0.4) * _noise(x, generator))


def shake_cap(x: Points, generator: np.random.Generator) -> Points:
    """Move the points of a cap, up to 24, by a fifth to a half of the spacing."""
    x = x.copy()
    _, cap = _cap(x, 24, generator)
    x[cap] += generator.uniform(0.2, 0.5) * _noise(x, generator)[cap]
    return _unit(x)


def turn_cap(x: Points, generator: np.random.Generator) -> Points:
    """Rotate the points of a cap about its centre, in a random plane, relative to the others."""
    x = x.copy()
    centre, cap = _cap(x, len(x) // 2, generator)
    plane = np.linalg.qr(np.column_stack([centre, generator.standard_normal((x.shape[1], 2))])).Q[:, 1:]  # (d, 2)
    angle = generator.uniform(0, 2 * math.pi)
    turned = np.array([[math.cos(angle) - 1, -math.sin(angle)], [math.sin(angle), math.cos(angle) - 1]])
    x[cap] += x[cap] @ plane @ turned @ plane.T
    return _unit(x)


def reflect_cap(x: Points, generator: np.random.Generator) -> Points:
    """Reflect the points of a cap in a random hyperplane through its centre."""
    x = x.copy()
    centre, cap = _cap(x, len(x) // 2, generator)
    normal = np.linalg.qr(np.column_stack([centre, generator.standard_normal(x.shape[1])])).Q[:, 1]
    x[cap] -= 2 * np.outer(x[cap] @ normal, normal)
    return _unit(x)


MOVES: tuple[Move, ...] = (
    into_deepest_holes,
    into_holes,
    into_hole_nearby,
    shake,
    shake_cap,
    turn_cap,
    reflect_cap,
)


def move(x: Points, generator: np.random.Generator) -> Points:
    """Apply one of the `MOVES`; in two dimensions, where caps cannot rotate, always into the deepest holes."""
    kind = MOVES[generator.integers(len(MOVES))] if x.shape[1] > 2 else into_deepest_holes
    return kind(x, generator)


def _unit(x: Points) -> Points:
    projected: Points = x / np.linalg.norm(x, axis=1, keepdims=True)
    return projected


def _noise(x: Points, generator: np.random.Generator) -> Points:
    """Normal vectors whose length is about the spacing."""
    n, d = x.shape
    noise: Points = estimate_spacing(n, d) * math.sqrt(3 / d) * generator.standard_normal(x.shape)
    return noise


def _choose(
    x: Points, generator: np.random.Generator, among: Int[np.ndarray, " k"] | None = None
) -> Int[np.ndarray, " m"]:
    among = np.arange(len(x)) if among is None else among
    count = min(int(generator.integers(1, 4)), len(among) - 1)
    return generator.choice(among, size=count, replace=False)


def _into_holes(x: Points, moved: Int[np.ndarray, " m"], holes: int, generator: np.random.Generator) -> Points:
    """Move points one by one into one of the deepest holes between the others."""
    x = x.copy()
    kept = np.delete(np.arange(len(x)), moved)
    for point in moved:
        x[point] = generator.choice(_holes(x[kept], holes, generator))
        kept = np.append(kept, point)
    return x


def _holes(x: Points, count: int, generator: np.random.Generator) -> Float[np.ndarray, "k d"]:
    """The deepest of 200 random positions, followed by the next deepest in other holes."""
    positions = _unit(generator.standard_normal((_SAMPLES, x.shape[1])))
    nearest = (positions @ x.T).max(axis=1)
    order = np.argsort(nearest)
    if count == 1:
        return positions[order[:1]]
    same = math.cos(math.acos(nearest[order[0]]) / 2)  # positions within half the depth of the deepest hole
    chosen: list[int] = []
    for candidate in order:
        if not chosen or (positions[chosen] @ positions[candidate]).max() < same:
            chosen.append(candidate)
        if len(chosen) == count:
            break
    return positions[chosen]


def _cap(x: Points, largest: int, generator: np.random.Generator) -> tuple[Float[np.ndarray, " d"], np.ndarray]:
    """A random centre, and the points closest to it: from five to `largest`."""
    centre = _unit(generator.standard_normal((1, x.shape[1])))[0]
    count = int(generator.integers(min(5, len(x)), max(largest, 5) + 1))
    return centre, np.argsort(-(x @ centre))[:count]
