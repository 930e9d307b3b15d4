"""Moves keep points unit and do what their names say."""

import math

import numpy as np
import pytest

from unclump.codes.search.moves import (
    MOVES,
    into_deepest_holes,
    into_hole_nearby,
    move,
    overlapping_into_holes,
    reflect_cap,
    shake_cap,
    turn_cap,
)


def random_points(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", MOVES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("n", "d"), [(3, 3), (20, 3), (20, 7)])
def test_moves_give_other_unit_points_and_leave_the_old(kind, n, d):
    x = random_points(n, d)
    before = x.copy()
    y = kind(x, np.random.default_rng(0))
    assert np.linalg.norm(y, axis=1) == pytest.approx(1, abs=1e-14)
    assert not np.array_equal(y, before)
    np.testing.assert_array_equal(x, before)


def test_up_to_three_points_move_into_holes():
    x = random_points(20, 3)
    moved = [(into_deepest_holes(x, np.random.default_rng(seed)) != x).any(axis=1).sum() for seed in range(30)]
    assert set(moved) == {1, 2, 3}


def test_a_hole_is_where_nothing_is():
    cap = random_points(200, 3)
    cap = cap[cap[:, 2] < 0.5]  # nothing within sixty degrees of the pole
    y = into_deepest_holes(cap, np.random.default_rng(0))
    moved = (y != cap).any(axis=1)
    assert y[moved][:, 2].max() > math.cos(math.radians(25))
    assert (into_hole_nearby(cap, np.random.default_rng(0)) != cap).any(axis=1).sum() == 1


def test_what_overlaps_is_moved():
    x = np.concatenate([random_points(30, 5), random_points(4, 5), random_points(4, 5) + 1e-3])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    moved = np.zeros(len(x))
    for seed in range(300):
        moved += (overlapping_into_holes(x, 0.01, np.random.default_rng(seed)) != x).any(axis=1)
    assert moved[-8:].mean() > 2 * moved[:-8].mean()


@pytest.mark.parametrize("kind", [turn_cap, reflect_cap])
def test_caps_move_as_a_whole(kind):
    x = random_points(40, 4)
    y = kind(x, np.random.default_rng(1))
    moved = (np.abs(y - x) > 1e-12).any(axis=1)
    assert 5 <= moved.sum() <= 20
    np.testing.assert_allclose(y[moved] @ y[moved].T, x[moved] @ x[moved].T, atol=1e-12)
    assert shake_cap(x, np.random.default_rng(1)) is not x


def test_all_moves_are_drawn_and_in_the_plane_only_those_into_holes():
    x = random_points(30, 3)
    counts = {(move(x, np.random.default_rng(seed)) != x).any(axis=1).sum() for seed in range(60)}
    assert {1, 2, 3, 30} <= counts
    circle = random_points(30, 2)
    assert {(move(circle, np.random.default_rng(seed)) != circle).any(axis=1).sum() for seed in range(60)} == {1, 2, 3}
