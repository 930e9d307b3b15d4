"""Moves of orbits keep the symmetry, and the searches of a restart only ever gain."""

import math

import numpy as np
import pytest

from unclump.codes.search.groups import point_group, random_group
from unclump.codes.search.loops import smallest_squared_chord
from unclump.codes.search.orbit_moves import move_orbits, promising_orbits
from unclump.codes.search.orbits import Orbits, orbit_types, random_orbits
from unclump.codes.search.pool import Candidate
from unclump.codes.search.restart import CodeSearch
from unclump.codes.search.spacing import angle_of_squared_chord

GO = np.zeros(1, np.uint8)


def is_invariant(points, group):
    images = np.einsum("gij,nj->gni", group.elements, points)
    distances = np.linalg.norm(images[:, :, None] - points, axis=3).min(axis=2)
    return distances.max() < 1e-9


def orbits_of(name, counts, generator):
    """So many orbits of each type of a point group."""
    types = [kind for kind, count in zip(orbit_types(point_group(name)), counts, strict=True) for _ in range(count)]
    representatives = np.stack([np.ones(3) if kind.axis is None else kind.axis for kind in types])
    matrices = np.concatenate([kind.matrices for kind in types])
    sizes = np.array([kind.size for kind in types])
    return Orbits(representatives, matrices, sizes, point_group(name)).randomised(generator)


@pytest.mark.parametrize(("n", "d"), [(20, 3), (33, 3), (24, 4), (20, 7)])
def test_a_move_keeps_the_symmetry_and_the_old_orbits(n, d):
    for seed in range(8):
        generator = np.random.default_rng(seed)
        orbits = random_orbits(n, d, generator)
        before = orbits.representatives.copy()
        moved = move_orbits(orbits, generator)
        assert is_invariant(moved.points, orbits.group)
        np.testing.assert_array_equal(orbits.representatives, before)


def test_points_on_axes_stay_and_others_move():
    generator = np.random.default_rng(0)
    orbits = orbits_of("C3", (5, 1, 1), generator)
    for _ in range(10):
        moved = move_orbits(orbits, generator)
        is_moved = np.abs(moved.representatives - orbits.representatives).max(axis=1) > 1e-9
        assert not is_moved[orbits.sizes == 1].any()
        assert is_moved[orbits.sizes == 3].any()


def test_an_orbit_moves_where_others_are_far():
    generator = np.random.default_rng(0)
    orbits = orbits_of("C2", (8, 0, 0), generator)
    ranks = []
    for _ in range(60):
        moved = move_orbits(orbits, generator)
        [*changed] = np.flatnonzero(np.abs(moved.representatives - orbits.representatives).max(axis=1) > 1e-9)
        if len(changed) == 1:  # not shaken
            others = np.delete(orbits.points, [2 * changed[0], 2 * changed[0] + 1], axis=0)
            anywhere = generator.standard_normal((500, 3))
            anywhere = (anywhere / np.linalg.norm(anywhere, axis=1, keepdims=True) @ others.T).max(axis=1)
            ranks.append((anywhere < (others @ moved.representatives[changed[0]]).max()).mean())
    assert len(ranks) > 10
    assert np.mean(ranks) < 0.15  # among the farthest; 1/2 at random


def test_what_is_promising_grows_and_is_symmetric():
    generator = np.random.default_rng(1)
    squares = []
    for orbits in promising_orbits(orbits_of("D3", (5, 1, 0, 0), generator), 20, generator, GO):
        assert is_invariant(orbits.points, orbits.group)
        squares.append(smallest_squared_chord(orbits.points))
    assert max(squares) > squares[0]
    assert min(squares) > 0.99 * squares[0]


def test_a_search_within_the_octahedral_group_finds_the_snub_cube():
    search = CodeSearch(24, 3, 0, None, math.inf)
    generator = np.random.default_rng(0)
    types = (1,) + (len(orbit_types(point_group("O"))) - 1) * (0,)
    code = search.search_orbits(orbits_of("O", types, generator), generator, GO)
    assert math.degrees(code.score) == pytest.approx(43.690767107676, abs=1e-9)


def test_every_third_restart_searches_within_symmetries():
    code = CodeSearch(24, 3, 0, None, math.inf)(2, GO, lambda _: None)
    assert math.degrees(code.score) == pytest.approx(43.690767107676, abs=1e-9)


def test_a_walk_by_overlaps_leaves_a_poor_basin():
    search, generator = CodeSearch(38, 3, 0, None, math.inf), np.random.default_rng(2)
    code = search.start("random", (4.0, 50, 1e-3), generator, GO)
    search.improve(code, GO, rounds=1)
    before = Candidate(code.points.copy(), code.score)
    search.reduce_overlap(code, 20, generator, GO)
    assert math.degrees(before.score) < 34  # a poor start
    assert code.hops >= 100  # five times the patience
    assert code.score == pytest.approx(angle_of_squared_chord(smallest_squared_chord(code.points)), abs=1e-12)
    assert math.degrees(code.score) == pytest.approx(34.250660672, abs=1e-8)  # the best known


def test_most_random_point_groups_consist_of_rotations():
    generator = np.random.default_rng(0)
    groups = [random_group(100, 3, generator) for _ in range(300)]
    proper = [np.linalg.det(group.elements).min() > 0 for group in groups]
    assert 0.5 < np.mean(proper) < 0.95
