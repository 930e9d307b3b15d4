"""Codes among words: subsets of a set, vectors of signs and zeros, words over an alphabet; unions of orbits.

Many of the best codes in eight or more dimensions are codes of coding theory: the 132 hexads of the Steiner system
S(5, 6, 12) are as many points in eleven dimensions, with cosines of at most 1/3. Descents from random points miss them.
A cosine is chosen, and a random group that permutes positions and letters; orbits with pairs that are closer are left
out, and of the others the largest union without such pairs is searched for by tabu search, in a graph that is smaller
than that of the words by about the order of the group.

References:
    Brouwer, Shearer, Sloane and Smith. A new table of constant weight codes. IEEE Trans. Information Theory 36, 1990.
    Ericson and Zinoviev. Codes on Euclidean Spheres. 2001.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unclump.codes.constructions.polytopes import simplex, unit_rows

Points = Float[np.ndarray, "n d"]
Isometry = tuple[Int[np.ndarray, " length"], Int[np.ndarray, " length"]]
"""An isometry of words: position i takes the letter of a position, changed by one of the words' `changes`."""

_TOLERANCE = 1e-9  # of cosines
_LARGEST_SPACE, _LARGEST_ALPHABET = 12_000, 5
_LARGEST_GRAPH = 1500  # orbits
_TABU_STEPS, _TABU_PATIENCE, _TABU_LENGTHS = 1500, 250, (4, 12)


@dataclass(frozen=True, eq=False)
class Words:
    """Words of one length, the unit points that they stand for, and the changes of letters that are isometries."""

    name: str
    letters: Int[np.ndarray, "n length"]
    points: Points
    changes: Int[np.ndarray, "k q"]
    """Row k takes the letter a to `changes[k, a]`; the first row is the identity."""


def subsets(v: int, w: int) -> Words:
    """The subsets of w elements among v, in v - 1 dimensions: their indicators, centred."""
    letters = np.zeros((math.comb(v, w), v), dtype=np.int64)
    for row, chosen in zip(letters, itertools.combinations(range(v), w), strict=True):
        row[list(chosen)] = 1
    return Words(f"{w}-subsets of {v}", letters, unit_rows(letters @ simplex(v)), np.arange(2)[None])


def signed_subsets(d: int, *weights: int) -> Words:
    """The vectors of d dimensions whose nonzero entries are equal but for signs, as many as one of the weights."""
    words = []
    for weight in weights:
        for chosen in itertools.combinations(range(d), weight):
            block = np.zeros((2**weight, d), dtype=np.int64)
            block[:, chosen] = np.array(list(itertools.product((1, 2), repeat=weight)))
            words.append(block)
    letters = np.concatenate(words)
    points = unit_rows(np.array([0.0, 1.0, -1.0])[letters])
    name = f"signs on {' or '.join(map(str, weights))} of {d} places"
    return Words(name, letters, points, np.array([[0, 1, 2], [0, 2, 1]]))


def words_over(q: int, length: int) -> Words:
    """All words over q letters, which are the corners of a regular simplex, in (q - 1) length dimensions."""
    letters = np.indices((q,) * length).reshape(length, -1).T
    points = unit_rows(simplex(q)[letters].reshape(len(letters), -1))
    shifts = (np.arange(q) + np.arange(q)[:, None]) % q
    return Words(f"words of {length} among {q} letters", letters, points, shifts)


def spaces(d: int) -> Iterator[Words]:
    """Spaces of words in d dimensions that are small enough to search."""
    for w in range(2, (d + 1) // 2 + 1):
        if math.comb(d + 1, w) <= _LARGEST_SPACE:
            yield subsets(d + 1, w)
    for weights in dict.fromkeys([*((w,) for w in range(2, 7)), (d,), (1, 3), (1, d), (2, d), (4, d)]):
        is_space = max(weights) <= d and len(set(weights)) == len(weights)
        if is_space and sum(math.comb(d, w) * 2**w for w in weights) <= _LARGEST_SPACE:
            yield signed_subsets(d, *weights)
    for q in range(3, _LARGEST_ALPHABET + 1):
        length, remainder = divmod(d, q - 1)
        if remainder == 0 and length > 1 and q**length <= _LARGEST_SPACE:
            yield words_over(q, length)


def cosines(words: Words) -> Float[np.ndarray, " m"]:
    """The cosines of two words, between 0 and 1, without either, increasing."""
    _, firsts = np.unique((words.letters > 0).sum(axis=1), return_index=True)  # of all weights: the rest is symmetry
    products = np.unique(np.round(words.points[firsts] @ words.points.T, 9))
    return products[(products > _TOLERANCE) & (products < 1 - _TOLERANCE)]


def union_of_orbits(words: Words, cosine: float, at_least: int, generator: np.random.Generator) -> Points | None:
    """Points among the words with no larger cosine, a union of orbits of a random group.

    Args:
        words: Where to choose from.
        cosine: The largest that two points may have.
        at_least: The number of points that is worth the search.
        generator: For the group and the search.

    Returns:
        The most points that were found, or None if `at_least` cannot be reached: the group is too small for the
        graph of its orbits to be searched, or so large that few orbits are left.
    """
    isometries = [_random_isometry(words, generator) for _ in range(generator.integers(1, 4))]
    orbit = _orbits(words, isometries)
    first, size = np.unique(orbit, return_index=True, return_counts=True)[1:]
    if len(first) > _LARGEST_GRAPH or size.min() >= 4 * at_least:
        return None
    close = words.points[first] @ words.points.T > cosine + _TOLERANCE  # one word of an orbit decides for all
    close[np.arange(len(first)), first] = False
    conflicts = np.zeros((len(first), len(first)), dtype=bool)
    rows, columns = np.nonzero(close)
    conflicts[rows, orbit[columns]] = True
    possible = np.flatnonzero(~conflicts.diagonal())
    if size[possible].sum() < at_least:
        return None
    chosen = possible[_heaviest_independent(conflicts[np.ix_(possible, possible)], size[possible], generator)]
    return words.points[np.isin(orbit, chosen)]


def _random_isometry(words: Words, generator: np.random.Generator) -> Isometry:
    """Cycles of one length on random positions, or none, and random changes of letters, or none."""
    length = words.letters.shape[1]
    positions = np.arange(length)
    if len(words.changes) == 1 or generator.random() < 0.7:
        cycle = int(generator.integers(2, length + 1))
        order, most = generator.permutation(length), length // cycle
        count = most if generator.random() < 0.7 else int(generator.integers(1, most + 1))
        for places in order[: count * cycle].reshape(count, cycle):
            positions[places] = np.roll(places, 1)
    kinds = len(words.changes) if generator.random() < 0.6 else 1
    change: Int[np.ndarray, " length"] = generator.integers(kinds, size=(length,))
    return positions, change


def _orbits(words: Words, isometries: list[Isometry]) -> Int[np.ndarray, " n"]:
    """The number of the orbit of every word."""
    n, length = words.letters.shape
    place = words.changes.shape[1] ** np.arange(length, dtype=np.int64)
    codes = words.letters @ place
    order = np.argsort(codes)
    images = [words.changes[change, words.letters[:, positions]] @ place for positions, change in isometries]
    targets = np.concatenate([order[np.searchsorted(codes, image, sorter=order)] for image in images])
    sources = np.tile(np.arange(n), len(images))
    graph = coo_array((np.ones(len(targets), dtype=bool), (sources, targets)), shape=(n, n))
    orbit: Int[np.ndarray, " n"] = connected_components(graph, directed=False)[1]
    return orbit


def _heaviest_independent(
    conflicts: Bool[np.ndarray, "m m"], weights: Int[np.ndarray, " m"], generator: np.random.Generator
) -> Int[np.ndarray, " k"]:
    """Vertices without edges between them, of much weight: tabu search, where one comes in and its neighbours leave."""
    inside, best = np.zeros(len(weights), dtype=bool), np.zeros(len(weights), dtype=bool)
    lost = np.zeros(len(weights), dtype=np.int64)  # the weight of the neighbours inside
    until = np.zeros(len(weights), dtype=np.int64)  # a vertex that has left stays outside for some steps
    improved = 0
    for step in range(_TABU_STEPS):
        candidates = np.flatnonzero(~inside & (until <= step))
        if len(candidates) == 0:
            continue
        gain = weights[candidates] - lost[candidates]
        vertex = generator.choice(candidates[gain == gain.max()])
        leaving = np.flatnonzero(inside & conflicts[vertex])
        until[leaving] = step + generator.integers(*_TABU_LENGTHS, size=len(leaving))
        inside[leaving], inside[vertex] = False, True
        lost += weights[vertex] * conflicts[vertex] - weights[leaving] @ conflicts[leaving]
        if weights[inside].sum() > weights[best].sum():
            best, improved = inside.copy(), step
        if step - improved > _TABU_PATIENCE:
            break
    return np.flatnonzero(best)
