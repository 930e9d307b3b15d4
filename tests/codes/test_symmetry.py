"""Groups, orbits and their annealing: sizes in closed form, exact symmetry, the icosahedral code of 120 points."""

import math
import subprocess
import sys

import numpy as np
import pytest

from unclump import _library as library
from unclump.codes.search import loops, reference
from unclump.codes.search.groups import AXIAL, POLYHEDRAL, point_group
from unclump.codes.search.orbits import Orbits, orbit_types, random_orbits
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing

GO = np.zeros(1, np.uint8)


def orders(m):
    return {
        f"C{m}": m,
        f"C{m}h": 2 * m,
        f"C{m}v": 2 * m,
        f"D{m}": 2 * m,
        f"D{m}h": 4 * m,
        f"D{m}d": 4 * m,
        f"S{2 * m}": 2 * m,
    }


ORDERS = {name: order for m in range(1, 13) for name, order in orders(m).items()}
ORDERS |= {"T": 12, "Td": 24, "Th": 24, "O": 24, "Oh": 48, "I": 60, "Ih": 120}


@pytest.mark.parametrize("name", AXIAL + POLYHEDRAL)
def test_point_groups_are_groups_of_their_order(name):
    elements = point_group(name).elements
    assert len(elements) == ORDERS[name]
    np.testing.assert_allclose(elements @ elements.transpose(0, 2, 1), len(elements) * [np.eye(3)], atol=1e-12)
    for element in elements[:24]:  # closed under products
        differences = (element @ elements)[:, None] - elements
        assert np.abs(differences).max(axis=(2, 3)).min(axis=1).max() < 1e-9
    determinants = np.round(np.linalg.det(elements))
    is_proper = name[-1] not in "hvd" and name[0] != "S"
    assert is_proper == bool((determinants == 1).all())


@pytest.mark.parametrize("name", AXIAL + POLYHEDRAL)
def test_inversion_is_where_it_should_be(name):
    order = int("".join(filter(str.isdigit, name)) or 0)
    expected = {"h": order % 2 == 0, "d": order % 2 == 1, "v": False}.get(name[-1], name[0] == "S" and order % 4 == 2)
    if name in POLYHEDRAL:
        expected = name.endswith("h")
    assert any(np.allclose(element, -np.eye(3)) for element in point_group(name).elements) == expected


@pytest.mark.parametrize(
    ("name", "axes", "circles"),
    [
        ("C3", [1, 1], 0),  # two poles
        ("C3v", [1, 1], 1),  # of the three mirrors, each circle is cut by the poles; they are conjugate
        ("C4v", [1, 1], 2),
        ("D3", [2, 3, 3], 0),
        ("S4", [2], 0),
        ("S2", [], 0),
        ("T", [4, 4, 6], 0),
        ("O", [6, 8, 12], 0),
        ("I", [12, 20, 30], 0),
        ("Ih", [12, 20, 30], 1),
    ],
)
def test_orbit_types_of_point_groups(name, axes, circles):
    types = orbit_types(point_group(name))
    assert types[0].size == ORDERS[name]
    assert sorted(kind.size for kind in types if kind.freedom == 1) == axes
    assert [kind.size for kind in types if kind.freedom == 2] == circles * [ORDERS[name] // 2]


@pytest.mark.parametrize(("n", "d"), [(17, 3), (60, 3), (20, 4), (33, 5), (24, 8), (9, 2)])
def test_random_orbits_are_symmetric_before_and_after_annealing(n, d):
    for seed in range(8):
        orbits = random_orbits(n, d, np.random.default_rng(seed))
        assert orbits.points.shape == (n, d)
        loops.anneal_orbits(orbits, 4.0, 2048.0, 50, 1e-3, estimate_spacing(n, d), GO)
        images = orbits.points @ orbits.group.elements.transpose(0, 2, 1)  # (k, n, d)
        nearest = np.linalg.norm(images[:, :, None] - orbits.points, axis=3).min(axis=2)
        assert nearest.max() < 1e-9


@pytest.mark.parametrize("implementation", [loops, reference])
def test_two_icosahedral_orbits_are_the_best_known_120_points(implementation):
    elements = point_group("I").elements
    best = 0.0
    for seed in range(10 if implementation is loops else 4):
        start = np.random.default_rng(seed).standard_normal((2, 3))
        orbits = Orbits(start, np.concatenate([elements, elements]), np.array([60, 60]), point_group("I"))
        square = implementation.anneal_orbits(orbits, 4.0, 2.0**17, 100, 1e-4, estimate_spacing(120, 3), GO)
        best = max(best, angle_of_squared_chord(square))
    assert math.degrees(best) == pytest.approx(19.324020067, abs=1e-4)  # Hardin, Sloane and Smith


@pytest.mark.parametrize("implementation", [loops, reference])
def test_points_on_mirrors_and_axes_stay_there(implementation):
    types = orbit_types(point_group("C3v"))
    chosen = [types[0], *(kind for kind in types[1:])]
    matrices = np.concatenate([kind.matrices for kind in chosen])
    sizes = np.array([kind.size for kind in chosen])
    start = np.stack([np.zeros(3) if kind.axis is None else kind.axis for kind in chosen])
    orbits = Orbits(start, matrices, sizes, point_group("C3v")).randomised(np.random.default_rng(0))
    before = orbits.representatives.copy()
    implementation.anneal_orbits(orbits, 4.0, 256.0, 50, 1e-3, 0.9, GO)
    for kind, old, new in zip(chosen, before, orbits.representatives, strict=True):
        np.testing.assert_allclose(kind.matrices[0] @ new, new, atol=1e-12)
        assert (kind.freedom == 1) == bool(np.allclose(old, new))


@pytest.mark.skipif(library.choose()[0] is None, reason="no compiled library to compare with")
def test_both_reduce_overlap_to_the_same():
    start = np.random.default_rng(3).standard_normal((20, 3))
    found = []
    for implementation in (loops, reference):
        x = start / np.linalg.norm(start, axis=1, keepdims=True)
        found.append(implementation.minimise_overlap(x, 0.7, 2000, 0.0, GO))
        squares = np.array([((x[i] - x[j]) ** 2).sum() for i in range(20) for j in range(i)])
        assert found[-1] == pytest.approx((np.maximum(0.7 - squares, 0) ** 2).sum(), rel=1e-9)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_overlaps_count_between_points_that_were_far_apart():
    x = np.random.default_rng(0).standard_normal((150, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    overlap = loops.minimise_overlap(x, 0.09, 2000, 0.0, GO)
    squares = np.array([((x[i] - x[j]) ** 2).sum() for i in range(150) for j in range(i)])
    assert squares.min() > 0.08  # from 1e-4: they have moved far
    assert overlap == pytest.approx((np.maximum(0.09 - squares, 0) ** 2).sum(), rel=1e-9)


@pytest.mark.skipif(library.choose()[0] is None, reason="the limit is the compiled loop's")
def test_a_descent_ends_early_only_if_the_overlap_stays_above_the_limit():
    start = np.random.default_rng(3).standard_normal((60, 3))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    least = loops.minimise_overlap(start.copy(), 0.3, 2000, 0.0, GO)
    assert loops.minimise_overlap(start.copy(), 0.3, 2000, 0.0, GO, limit=2 * least) == least
    stopped = loops.minimise_overlap(start.copy(), 0.3, 2000, 0.0, GO, limit=least / 2)
    assert least < stopped < 2 * least


def test_folders_can_be_imported_before_the_public_names():
    subprocess.run([sys.executable, "-c", "from unclump.codes import catalogue"], check=True, capture_output=True)
