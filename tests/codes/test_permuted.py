"""Starts that a group of permutations leaves as they are."""

import itertools
import math

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unclump.codes.search.abelian import _SMALL_ORDERS, random_permutations
from unclump.codes.search.actions import _projective, _signed, _symmetric, random_actions
from unclump.codes.search.permuted import _DRAWS, _KEPT, PermutedStarts
from unclump.codes.search.restart import CodeSearch


@pytest.mark.parametrize("n", [2, 3, 7, 26, 40, 63])
def test_permutations_are_of_all_points(n):
    generator = np.random.default_rng(n)
    for _ in range(30):
        for permutation in random_permutations(n, generator):
            assert np.array_equal(np.sort(permutation), np.arange(n))


def test_groups_move_all_but_a_few_points_and_differ():
    generator = np.random.default_rng(0)
    groups = [random_permutations(40, generator) for _ in range(50)]
    moved = [np.any([permutation != np.arange(40) for permutation in group], axis=0).sum() for group in groups]
    assert min(moved) > 40 - max(_SMALL_ORDERS)
    assert len(set(moved)) > 2
    assert len({permutation.tobytes() for group in groups for permutation in group}) > 50


def test_some_groups_are_small_and_others_permute_all_points_alike():
    generator = np.random.default_rng(1)
    orbits = []
    for _ in range(100):
        permutations = random_permutations(60, generator)
        edges = np.concatenate([np.stack([np.arange(60), permutation]) for permutation in permutations], axis=1)
        orbits.append(connected_components(coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(60, 60)))[0])
    assert min(orbits) == 1
    assert max(orbits) >= 20


def elements(generators):
    """All elements of the group, by closure."""
    known = {tuple(range(len(generators[0])))}
    new = list(known)
    while new:
        products = {tuple(images[list(one)]) for one in new for images in generators}
        new = list(products - known)
        known |= products
    return known


@pytest.mark.parametrize(
    ("family", "orders"),
    [
        (lambda generator: _projective(9, generator), {12, 60, 120, 168, 336, 504, 1512, 360, 720, 1440, 24}),
        (lambda generator: _symmetric(5, generator), {3, 6, 12, 24, 60, 120}),
        (lambda generator: _signed(3, generator), {4, 8, 2**3 * 3, 2**3 * 6, 2**2 * 3, 2**2 * 6}),
    ],
    ids=["projective", "symmetric", "signed"],
)
def test_families_of_groups_have_the_orders_of_their_members(family, orders):
    generator = np.random.default_rng(0)
    found = {len(elements(family(generator))) for _ in range(60)}
    assert found <= orders
    assert len(found) >= 3


def orbit_sizes(permutations):
    n = len(permutations[0])
    edges = np.concatenate([np.stack([np.arange(n), images]) for images in permutations], axis=1)
    labels = connected_components(coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n)))[1]
    return sorted(np.bincount(labels).tolist())


def test_actions_have_orbits_of_several_sizes_with_stabilisers():
    actions = random_actions(40, np.random.default_rng(2))
    drawn = [next(actions) for _ in range(60)]
    for permutations in drawn:
        for images in permutations:
            assert np.array_equal(np.sort(images), np.arange(40))
        assert orbit_sizes(permutations).count(1) <= 4
    sizes = [orbit_sizes(permutations) for permutations in drawn]
    assert sum(len({size for size in one if size > 1}) > 1 for one in sizes) >= 15
    small = [one for one in drawn if len(one) <= 3 and max(orbit_sizes(one)) <= 20]
    has_stabiliser = [len(elements(permutations)) > max(orbit_sizes(permutations)) for permutations in small[:20]]
    assert sum(has_stabiliser) >= 5


@pytest.mark.parametrize("kind", ["regular", "actions"])
def test_a_start_is_permuted_by_isometries(kind, monkeypatch):
    groups = []

    def remember(n, generator):
        groups.append(random_permutations(n, generator) if kind == "regular" else next(random_actions(n, generator)))
        return groups[-1]

    monkeypatch.setattr("unclump.codes.search.permuted.random_permutations", remember)
    actions = (remember(24, np.random.default_rng(seed)) for seed in itertools.count())
    monkeypatch.setattr("unclump.codes.search.permuted.random_actions", lambda n, generator: actions)
    for seed in range(20):
        x = PermutedStarts(24, 7, np.random.default_rng(seed)).draw()
        assert x.shape == (24, 7)
        assert np.linalg.norm(x, axis=1) == pytest.approx(1, abs=1e-14)
        for permutation in groups[-1]:
            np.testing.assert_allclose(x[permutation] @ x[permutation].T, x @ x.T, atol=1e-9)


def test_half_of_the_starts_are_of_the_best_groups_and_none_too_often():
    starts = PermutedStarts(24, 7, np.random.default_rng(0))
    drawn = []
    for number in range(600):
        starts.draw()
        group = starts._last
        drawn.append(group)
        starts.note(max(group.angle, 1 + 1e-4 * number % 0.01))
    draws = {id(group): sum(other is group for other in drawn) for group in drawn}
    again = len(drawn) - len(draws)
    assert 200 < again < 400
    assert len(starts._kept) <= _KEPT
    assert max(draws.values()) <= _DRAWS


def test_the_groups_of_the_best_codes_are_kept_and_one_for_each_code():
    starts = PermutedStarts(24, 7, np.random.default_rng(0))
    for number in range(60):
        starts.draw()
        starts.note(0.5 if number == 0 else 1 + 0.01 * (number % 30))
    angles = [group.angle for group in starts._kept]
    assert min(angles) > 1.1
    assert len(set(angles)) == len(angles) >= _KEPT - 1  # one that reaches another's code leaves


def test_permuted_starts_find_the_pairs_of_a_conference_matrix_and_random_ones_do_not():
    search, stop = CodeSearch(26, 12, 0, None, math.inf), np.zeros(1, np.uint8)

    def is_found(kind):
        generator = np.random.default_rng(0)
        codes = (search.start(kind, (8.0, 50, 1e-3), generator, stop) for _ in range(250))
        return any(math.cos(code.score) < 1 / 14 + 2e-4 for code in codes)  # annealed, not polished

    assert is_found("permuted")
    assert not is_found("random")
