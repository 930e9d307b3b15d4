"""The symmetry group of a code: point groups by their names, polytopes by the orders of their groups."""

import math

import numpy as np
import pytest

from unclump.codes import spherical_code
from unclump.codes.search.groups import AXIAL, POLYHEDRAL, point_group
from unclump.codes.symmetry import symmetry

ALIASES = {"C1h": "Cs", "C1v": "Cs", "S2": "Ci", "D1": "C2", "D1h": "C2v", "D1d": "C2h"}


def random_points(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture
def all_count(monkeypatch):
    """Points that are no code at all are all rattlers: here, none is."""
    monkeypatch.setattr("unclump.codes.symmetry.contacts", lambda _: type("Contacts", (), {"rattlers": []}))


@pytest.mark.parametrize("name", AXIAL + POLYHEDRAL)
def test_orbits_of_points_in_general_position_have_the_symmetry_of_their_group(name, all_count):
    elements = point_group(name).elements
    group = symmetry((random_points(4, 3) @ elements).reshape(-1, 3))
    assert (group.order, group.name) == (len(elements), ALIASES.get(name, name))


def test_points_in_general_position_have_none(all_count):
    assert str(symmetry(random_points(9, 3))) == "C1, order 1"
    assert str(symmetry(random_points(30, 7))) == "order 1"


def test_a_turned_code_has_the_same_symmetry():
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    assert str(symmetry(spherical_code(24, 3).points.numpy() @ turn)) == "O, order 24"


@pytest.mark.parametrize(
    ("n", "d", "order"),
    [
        (6, 5, math.factorial(6)),  # the simplex
        (10, 5, 2**5 * math.factorial(5)),  # the cross-polytope
        (16, 5, 2**4 * math.factorial(5)),  # the demicube
        (24, 4, 1152),  # the 24-cell
        (120, 4, 14400),  # the 600-cell
        (27, 6, 51840),  # the 27 lines on a cubic surface
        (240, 8, 696729600),  # the roots of E8
    ],
)
def test_orders_of_the_groups_of_polytopes(n, d, order):
    assert spherical_code(n, d).symmetry.order == order


def test_rattlers_do_not_count():
    code = spherical_code(20, 3)
    moved = code.points.clone()
    moved[code.contacts.rattlers[0], 0] += 1e-3
    assert str(symmetry(moved.numpy())) == "D3h, order 12"


def test_a_point_moved_by_more_than_the_tolerance_breaks_it(all_count):
    points = spherical_code(24, 3).points.numpy().copy()
    points[0, 0] += 1e-5
    assert symmetry(points).order == 1


def test_lines_have_the_symmetry_of_both_directions():
    assert str(spherical_code(6, 3, antipodal=True).symmetry) == "Ih, order 120"  # diagonals of the icosahedron


def test_none_where_it_takes_too_long(monkeypatch):
    monkeypatch.setattr("unclump.codes.symmetry._MOST_TRIALS", 3)
    assert spherical_code(24, 3).symmetry is None
