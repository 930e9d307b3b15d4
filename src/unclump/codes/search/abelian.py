"""Random permutations of n points: translations of an abelian group on copies of it, and automorphisms."""

import math

import numpy as np
from jaxtyping import Int

Permutation = Int[np.ndarray, " n"]

_COPIES, _COPY_WEIGHTS = (1, 2, 3, 4, 5, 6, 8), (0.25, 0.25, 0.15, 0.15, 0.08, 0.06, 0.06)
_FIXED, _FIXED_WEIGHTS = (0, 1, 2, 3, 4), (0.5, 0.25, 0.15, 0.05, 0.05)
_LEAST_ORDER = 3  # of the translations, where there are few copies
_SMALL_ORDERS = (2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12)  # of the translations, where there are many
_CYCLES = (2, 3, 4, 5, 6, 7)  # lengths of the cycles in which copies are permuted
_MAPS = 10  # tries


def random_permutations(n: int, generator: np.random.Generator) -> list[Permutation]:
    """Translations of an abelian group on copies of it, automorphisms that may permute the copies, and fixed points.

    Half of the time a large group has few copies, half of the time a small one has many: the best codes of some sizes
    have hundreds of symmetries, those of others three.
    """
    is_small = generator.random() < 0.5 and n >= 2 * min(_SMALL_ORDERS)
    order, copies = (_many_copies if is_small else _few_copies)(n, generator)
    group = AbelianGroup(random_factors(order, generator))
    rest = np.arange(copies * order, n)

    def on_copies(images: Int[np.ndarray, " order"], places: Int[np.ndarray, " copies"]) -> Permutation:
        return np.concatenate([(order * places[:, None] + images).ravel(), rest])

    permutations = [on_copies(images, np.arange(copies)) for images in group.translations()]
    for _ in range(generator.integers(3)):
        images = group.random_automorphism(generator)
        places = _random_cycles(copies, generator) if generator.random() < 0.6 else np.arange(copies)
        permutations.append(on_copies(images, places))
    return permutations


def _few_copies(n: int, generator: np.random.Generator) -> tuple[int, int]:
    """A random order, and the number of copies; up to four points are left over."""
    if n < _LEAST_ORDER + max(_FIXED):
        return n, 1
    while True:
        copies = int(generator.choice(_COPIES, p=_COPY_WEIGHTS))
        fixed = int(generator.choice(_FIXED, p=_FIXED_WEIGHTS))
        order, remainder = divmod(n - fixed, copies)
        if remainder == 0 and order >= _LEAST_ORDER:
            return order, copies


def _many_copies(n: int, generator: np.random.Generator) -> tuple[int, int]:
    """A random small order, and as many copies as there is room for."""
    order = int(generator.choice([order for order in _SMALL_ORDERS if 2 * order <= n]))
    return order, n // order


def _random_cycles(count: int, generator: np.random.Generator) -> Int[np.ndarray, " count"]:
    """A permutation in cycles of one random length, as many as there is room for: it has few other powers."""
    permuted, lengths = np.arange(count), [length for length in _CYCLES if length <= count]
    if not lengths:
        return permuted
    places, length = generator.permutation(count), int(generator.choice(lengths))
    for cycle in places[: count - count % length].reshape(-1, length):
        permuted[cycle] = np.roll(cycle, 1)
    return permuted


class AbelianGroup:
    """A product of cyclic groups; permutations of its elements, numbered from zero."""

    def __init__(self, factors: list[int]) -> None:
        self.factors = np.array(factors)
        self.elements = np.indices(factors).reshape(len(factors), -1).T

    def images(self, elements: Int[np.ndarray, "n k"]) -> Permutation:
        """The numbers of elements."""
        numbers: Permutation = np.ravel_multi_index(tuple((elements % self.factors).T), tuple(self.factors))
        return numbers

    def translations(self) -> list[Permutation]:
        return [self.images(self.elements + step) for step in np.eye(len(self.factors), dtype=np.int64)]

    def random_automorphism(self, generator: np.random.Generator) -> Permutation:
        """A random power of the negation, of the multiplication by a unit, or of a linear map."""
        identity = np.eye(len(self.factors), dtype=np.int64)
        kind, exponent = generator.integers(3), int(np.lcm.reduce(self.factors))
        if kind == 0:
            return self.images(-self.elements)
        if kind == 1 or len(self.factors) == 1:
            units = [unit for unit in range(1, exponent) if math.gcd(unit, exponent) == 1]
            return random_power(self.images(self.elements @ (identity * generator.choice(units))), generator)
        common = np.gcd(self.factors[:, None], self.factors)  # a factor's generator goes to elements of its order
        for _ in range(_MAPS):
            images = self.images(self.elements @ (self.factors // common * generator.integers(common)))
            if len(np.unique(images)) == len(images):
                return random_power(images, generator)
        return self.images(self.elements)


def random_factors(order: int, generator: np.random.Generator) -> list[int]:
    """Random orders of cyclic groups with this product, powers of primes."""
    factors, prime = [], 2
    while order > 1:
        exponent = 0
        while order % prime == 0:
            order, exponent = order // prime, exponent + 1
        while exponent > 0:
            power = int(generator.integers(1, exponent + 1)) if generator.random() < 0.7 else 1
            factors.append(prime**power)
            exponent -= power
        prime += 1
    return factors


def random_power(images: Permutation, generator: np.random.Generator) -> Permutation:
    """The permutation, or a power of it whose order is a random divisor."""
    if generator.random() < 0.5:
        return images
    powers, identity = [images], np.arange(len(images))
    while not np.array_equal(powers[-1], identity):
        powers.append(images[powers[-1]])
    divisors = [k for k in range(1, len(powers)) if len(powers) % k == 0]
    return powers[int(generator.choice(divisors or [1])) - 1]
