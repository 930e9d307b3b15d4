"""The smallest angle to the last digit, contacts, and rattlers."""

import math

import mpmath
import numpy as np
import pytest

from unclump.codes.catalogue import SHIPPED, read
from unclump.codes.constructions.exact import exact_code
from unclump.codes.verify import contacts, minimal_angle


def in_fifty_digits(points):
    """The definition, pair by pair."""
    with mpmath.workdps(50):
        rows = [mpmath.matrix([mpmath.mpf(float(value)) for value in row]) for row in points]
        units = [row / mpmath.norm(row) for row in rows]
        pairs = [(a, b) for i, a in enumerate(units) for b in units[:i]]
        return float(min(2 * mpmath.atan2(mpmath.norm(a - b), mpmath.norm(a + b)) for a, b in pairs))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (7, 2), (20, 3), (12, 40)])
def test_the_smallest_angle_is_right_to_the_last_digit(n, d):
    for scale in (1e-12, 1e-6, 1.0):
        points = np.random.default_rng(n).standard_normal((n, d))
        points[1] = points[0] + scale * points[1]
        assert minimal_angle(points) == pytest.approx(in_fifty_digits(points), rel=3e-16)


def test_rows_need_not_be_unit():
    points = np.random.default_rng(0).standard_normal((9, 4))
    assert minimal_angle(points * np.logspace(-3, 3, 9, base=2)[:, None]) == minimal_angle(points)


def test_coinciding_and_opposite_points():
    assert minimal_angle(np.array([[1.0, 2.0], [1.0, 2.0]])) == 0
    assert minimal_angle(np.array([[1.0, 2.0], [-1.0, -2.0]])) == math.pi


@pytest.mark.parametrize(
    ("n", "d", "pairs"), [(4, 3, 6), (6, 3, 12), (12, 3, 30), (24, 3, 60), (24, 4, 96), (240, 8, 6720), (27, 6, 216)]
)
def test_contacts_of_known_codes(n, d, pairs):
    found = contacts(exact_code(n, d).points)
    assert len(found.pairs) == pairs
    assert len(found.rattlers) == 0
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()


def test_of_nineteen_points_one_rattles():
    found = contacts(read(SHIPPED, 19, 3).points)
    assert len(found.pairs) == 34
    assert len(found.rattlers) == 1
    assert not (found.pairs == found.rattlers[0]).any()


def test_a_point_that_touches_nobody_rattles():
    cross = np.vstack([np.eye(4), -np.eye(4)])[:7]
    lonely = np.array([[0.6, 0.0, 0.0, 0.8], [1.0, 0, 0, 0], [-1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    assert len(contacts(lonely).rattlers) > 0
    assert len(contacts(cross).pairs) == 7 * 6 // 2 - 3


@pytest.mark.parametrize("bad", [np.zeros((3, 2)), np.array([[1.0, np.nan], [0.0, 1.0]])])
def test_rows_without_a_direction_are_refused(bad, at_the_door):
    with pytest.raises(ValueError, match="row"):
        minimal_angle(bad)
