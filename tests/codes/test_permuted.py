"""Starts that a group of permutations leaves as they are."""

import math

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unclump.codes.search.permuted import _SMALL_ORDERS, permuted_start, random_permutations
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


def test_a_start_is_permuted_by_isometries(monkeypatch):
    groups = []

    def remember(n, generator):
        groups.append(random_permutations(n, generator))
        return groups[-1]

    monkeypatch.setattr("unclump.codes.search.permuted.random_permutations", remember)
    for seed in range(20):
        x = permuted_start(24, 7, np.random.default_rng(seed))
        assert x.shape == (24, 7)
        assert np.linalg.norm(x, axis=1) == pytest.approx(1, abs=1e-14)
        for permutation in groups[-1]:
            np.testing.assert_allclose(x[permutation] @ x[permutation].T, x @ x.T, atol=1e-9)


def test_permuted_starts_find_the_pairs_of_a_conference_matrix_and_random_ones_do_not():
    search, stop = CodeSearch(26, 12, 0, None, math.inf), np.zeros(1, np.uint8)

    def is_found(kind):
        generator = np.random.default_rng(0)
        codes = (search.start(kind, (8.0, 50, 1e-3), generator, stop) for _ in range(250))
        return any(math.cos(code.score) < 1 / 14 + 2e-4 for code in codes)  # annealed, not polished

    assert is_found("permuted")
    assert not is_found("random")
