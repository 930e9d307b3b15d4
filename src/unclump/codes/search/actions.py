"""Actions of random groups: permutations of n points, in orbits of several kinds and sizes.

The group of a good code need not act regularly on parts of it: in some orbits a point has a stabiliser, and the group
need not be abelian. Here a group permutes some positions, and so the colourings of the positions. The orbit of a
colouring is permuted as the cosets of the colouring's stabiliser are. Orbits of random colourings are put together
until they have n points.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unclump.codes.constructions.fields import Field
from unclump.codes.search.abelian import AbelianGroup, Permutation, random_power

Generators = list[Int[np.ndarray, " _"]]
"""Permutations that generate a group."""
Orbit = Int[np.ndarray, "generators _"]
"""The image of each of its points under each generator."""

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
_LARGEST_FIELD, _LARGEST_CYCLIC, _LARGEST_SYMMETRIC, _LARGEST_SIGNED = 32, 13, 8, 7
_LARGEST_FACTOR = 9  # positions of a second group in a product
_COLOURINGS, _UNIONS, _OF_A_SIZE = 25, 4, 3  # tries for a group, unions, orbits of one size that are kept
_MOST_FIXED = 4  # points
_TRIES = 8


def random_actions(n: int, generator: np.random.Generator) -> Iterator[Generators]:
    """Permutations of n points that generate an action of a random group, forever; a few actions of every group.

    Example:
        >>> len(next(random_actions(40, np.random.default_rng(0)))[0])
        40
    """
    while True:
        group = random_group(n, generator)
        orbits = _random_orbits(group, n, generator)
        for _ in range(_UNIONS if max(orbits, default=1) > 1 else 0):
            sizes = _random_sizes(sorted(orbits), n, generator)
            if sizes is not None:
                yield _union([orbits[size][generator.integers(len(orbits[size]))] for size in sizes])


def random_group(n: int, generator: np.random.Generator) -> Generators:
    """Generators of a random group, which permutes up to about n positions: of a family, a product, or a subgroup."""
    group = _random_family(n, generator)
    if generator.random() < 0.35:
        group = _product(group, _random_family(min(n, _LARGEST_FACTOR), generator))
    if generator.random() < 0.4:
        group = [_random_element(group, generator) for _ in range(generator.integers(1, 4))]
    return group


def _random_family(n: int, generator: np.random.Generator) -> Generators:
    families = (_projective, _affine, _affine, _cyclic, _cyclic, _symmetric, _signed)
    return families[generator.integers(len(families))](max(n, 4), generator)


def _projective(n: int, generator: np.random.Generator) -> Generators:
    """Fractional linear maps of the projective line: all, those of square determinants, with conjugation or not."""
    fields = [(p, k) for p in _PRIMES for k in range(1, 6) if 4 <= p**k <= min(n, _LARGEST_FIELD)]
    p, k = fields[generator.integers(len(fields))]
    field = Field(p, k)
    x = np.arange(field.q)
    powers = [x]  # of all elements, up to the p-th
    for _ in range(p - 1):
        powers.append(field.product[powers[-1], x])
    multiplier = p if k > 1 else next(a for a in x if len({power[a] for power in powers}) == p - 1)
    if generator.random() < 0.7:
        multiplier = field.product[multiplier, multiplier]
    maps = [field.sum[x, p**digit] for digit in range(k)] + [field.product[x, multiplier]]
    if k > 1 and generator.random() < 0.5:
        maps.append(powers[-1])
    minus_one = np.argmax(field.sum[1] == 0)
    inversion = np.append(np.argmax(field.product == minus_one, axis=1), 0)  # x to -1 / x, infinity to 0
    inversion[0] = field.q
    return [*(np.append(images, field.q) for images in maps), inversion]


def _affine(n: int, generator: np.random.Generator) -> Generators:
    """Translations of a space over p elements, and up to two linear maps; spaces of several dimensions are likelier."""
    spaces = [(p, k) for p in _PRIMES for k in range(1, 7) if p**k <= n]
    weights = np.array([k for _, k in spaces], dtype=float)
    p, k = spaces[generator.choice(len(spaces), p=weights / weights.sum())]
    return _with_automorphisms(AbelianGroup([p] * k), int(generator.integers(3)), generator)


def _cyclic(n: int, generator: np.random.Generator) -> Generators:
    """A small cycle or, less often, any, and up to one automorphism."""
    largest = n if generator.random() < 0.3 else min(n, _LARGEST_CYCLIC)
    group = AbelianGroup([int(generator.integers(2, largest + 1))])
    return _with_automorphisms(group, int(generator.integers(2)), generator)


def _with_automorphisms(group: AbelianGroup, count: int, generator: np.random.Generator) -> Generators:
    return [*group.translations(), *(group.random_automorphism(generator) for _ in range(count))]


def _symmetric(n: int, generator: np.random.Generator) -> Generators:
    """The symmetric or the alternating group."""
    degree = int(generator.integers(3, min(n, _LARGEST_SYMMETRIC) + 1))
    if generator.random() < 0.5:
        return [_cycle(degree, [0, 1]), _cycle(degree, range(degree))]
    return [_cycle(degree, [0, k, k + 1]) for k in range(1, degree - 1)]


def _cycle(degree: int, positions: Sequence[int]) -> Permutation:
    images = np.arange(degree)
    images[list(positions)] = np.roll(positions, 1)
    return images


def _signed(n: int, generator: np.random.Generator) -> Generators:
    """Permutations of coordinates, and changes of one or two signs: two positions for every coordinate."""
    degree = int(generator.integers(2, min(n, _LARGEST_SIGNED) + 1))
    of_coordinates = (_cyclic if degree < 3 or generator.random() < 0.5 else _symmetric)(degree, generator)
    degree = len(of_coordinates[0])
    changes = np.arange(2 * degree)
    changed = np.arange(generator.integers(1, 3))
    changes[changed], changes[degree + changed] = degree + changed, changed
    return [*(np.concatenate([images, degree + images]) for images in of_coordinates), changes]


def _product(first: Generators, second: Generators) -> Generators:
    one, other = np.arange(len(first[0])), np.arange(len(second[0]))
    return [np.concatenate([images, len(one) + other]) for images in first] + [
        np.concatenate([one, len(one) + images]) for images in second
    ]


def _random_element(group: Generators, generator: np.random.Generator) -> Permutation:
    """A product of two to nine generators, or a power of it."""
    element = np.arange(len(group[0]))
    for _ in range(generator.integers(2, 10)):
        element = element[group[generator.integers(len(group))]]
    return random_power(element, generator)


def _random_orbits(group: Generators, n: int, generator: np.random.Generator) -> dict[int, list[Orbit]]:
    """Orbits of random colourings with at most n points, by their sizes; always that of a fixed point."""
    orbits: dict[int, list[Orbit]] = {1: [np.zeros((len(group), 1), dtype=np.int64)]}
    for _ in range(_COLOURINGS):
        orbit = _orbit(_random_colouring(group, generator), group, n)
        if orbit is None:
            continue
        alike = orbits.setdefault(orbit.shape[1], [])
        if len(alike) < _OF_A_SIZE and not any(np.array_equal(orbit, known) for known in alike):
            alike.append(orbit)
    return orbits


def _random_colouring(group: Generators, generator: np.random.Generator) -> Int[np.ndarray, " positions"]:
    """Often constant on the cycles of an element, which is then in the stabiliser; of two colours most often."""
    positions = len(group[0])
    cycles: Int[np.ndarray, " positions"] = np.arange(positions)
    if generator.random() < 0.6:
        edges = coo_array((np.ones(positions), (cycles, _random_element(group, generator))), shape=(positions,) * 2)
        cycles = connected_components(edges, directed=False)[1]
    count = int(cycles.max()) + 1
    colours = int(generator.choice([2, 2, 2, 3, 4, count]))
    if colours >= count:
        shuffled: Int[np.ndarray, " positions"] = generator.permutation(count)[cycles]
        return shuffled
    if generator.random() < 0.3:  # few cycles of one colour
        marked = generator.permutation(count)[: generator.integers(1, 4)]
        return np.isin(cycles, marked).astype(np.int64)
    colouring: Int[np.ndarray, " positions"] = generator.integers(colours, size=count)[cycles]
    return colouring


def _orbit(colouring: Int[np.ndarray, " positions"], group: Generators, largest: int) -> Orbit | None:
    """The orbit of a colouring; None if it is larger."""
    colourings, numbers = [colouring], {colouring.tobytes(): 0}
    images: list[list[int]] = []
    for one in colourings:
        images.append([])
        for permutation in group:
            moved = one[permutation]
            number = numbers.setdefault(moved.tobytes(), len(colourings))
            if number == len(colourings):
                colourings.append(moved)
            images[-1].append(number)
        if len(colourings) > largest:
            return None
    return np.array(images).T


def _random_sizes(sizes: list[int], n: int, generator: np.random.Generator) -> list[int] | None:
    """Random sizes of orbits with the sum n and few fixed points, or None if tries do not lead to one."""
    for _ in range(_TRIES):
        chosen: list[int] = []
        preference = 2 * generator.random()  # for large orbits
        while possible := [size for size in sizes if 1 < size <= n - sum(chosen)]:
            weights = np.array(possible, dtype=float) ** preference
            chosen.append(int(generator.choice(possible, p=weights / weights.sum())))
        fixed = n - sum(chosen)
        if fixed <= 1 or (fixed <= _MOST_FIXED and generator.random() < 0.4):
            return chosen + fixed * [1]
    return None


def _union(orbits: list[Orbit]) -> Generators:
    firsts = np.cumsum([0, *(orbit.shape[1] for orbit in orbits)])
    return list(np.concatenate([first + orbit for first, orbit in zip(firsts, orbits, strict=False)], axis=1))
