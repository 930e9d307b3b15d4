"""Bounds are attained where they are known to be, and never below a code that exists."""

import csv
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from unclump import upper_bound
from unclump.codes import catalogue
from unclump.codes.bounds.certificate import proves_fewer_points
from unclump.codes.bounds.gegenbauer import gegenbauer, harmonic_dimension
from unclump.codes.bounds.upper_bound import (
    BOUNDS,
    best_bound,
    boroczky,
    delsarte,
    fejes_toth,
    levenshtein,
    proved_optimal,
    rankin,
)
from unclump.codes.constructions.exact import exact_code

KNOWN = Path(__file__).parents[3] / "shared" / "data" / "codes"

# (n, d, cosine) of sharp codes: Levenshtein's bound is attained
SHARP = [
    (12, 3, 1 / math.sqrt(5)),
    (16, 5, 1 / 5),
    (27, 6, 1 / 4),
    (56, 7, 1 / 3),
    (240, 8, 1 / 2),
    (162, 21, 1 / 7),
    (275, 22, 1 / 6),
    (891, 22, 1 / 4),
    (552, 23, 1 / 5),
    (4600, 23, 1 / 3),
    (196560, 24, 1 / 2),
]


@pytest.mark.parametrize(("n", "d", "cosine"), SHARP)
def test_levenshteins_bound_is_attained_by_sharp_codes(n, d, cosine):
    assert math.acos(cosine) <= levenshtein(n, d) * (1 + 1e-15)
    assert levenshtein(n, d) == pytest.approx(math.acos(cosine), abs=1e-12)
    assert proved_optimal(math.acos(cosine), n, d)


@pytest.mark.parametrize("n", [3, 4, 6, 12])
def test_fejes_toths_bound_is_attained_by_triangles_and_regular_polyhedra(n):
    assert fejes_toth(n, 3) == pytest.approx(math.acos(exact_code(n, 3).cosine), abs=1e-12)


def test_fejes_toths_bound_is_his_formula():
    for n in (5, 7, 24, 100):
        omega = n / (n - 2) * math.pi / 6
        chord = math.sqrt(4 - 1 / math.sin(omega) ** 2)
        assert fejes_toth(n, 3) == pytest.approx(2 * math.asin(chord / 2), rel=1e-12)


def test_boroczkys_bound_is_attained_by_the_600_cell():
    assert boroczky(120, 4) == pytest.approx(math.pi / 5, abs=1e-11)
    assert best_bound(120, 4).name == "Böröczky"


def test_rankins_bound_is_attained_by_simplices_and_cross_polytopes():
    for d in (2, 3, 7):
        for n in range(2, 2 * d + 1):
            assert rankin(n, d) == pytest.approx(math.acos(exact_code(n, d).cosine), abs=1e-15)


# The largest number of spheres that linear programming lets touch one.
@pytest.mark.parametrize(("d", "most"), [(3, 13), (4, 25), (5, 46), (6, 82), (7, 140), (8, 240), (24, 196560)])
def test_linear_programming_bounds_the_number_of_spheres_that_touch_one(d, most):
    assert delsarte(most, d) >= math.pi / 3 - 1e-12
    assert delsarte(most + 1, d) < math.pi / 3


def test_a_higher_degree_is_no_worse():
    angles = [delsarte(40, 4, degree=degree) for degree in (8, 12, 20)]
    assert angles[0] >= angles[1] - 1e-9 >= angles[2] - 2e-9
    assert angles[2] <= levenshtein(40, 4) + 1e-12


def test_more_points_and_fewer_dimensions_leave_less_room():
    for d in (3, 4, 6):
        angles = [upper_bound(n, d) for n in range(2, 40, 3)]
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(angles))
    for n in (20, 100):
        angles = [upper_bound(n, d) for d in (3, 4, 5, 8)]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(angles))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize(
    ("n", "d"), [(13, 3), (14, 3), (24, 3), (24, 4), (10, 4), (288, 16), (40, 5), (72, 6), (126, 7)]
)
def test_no_bound_is_below_a_code_that_exists(n, d, name):
    assert BOUNDS[name](n, d) >= math.acos(exact_code(n, d).cosine) - 1e-14


def test_no_bound_is_below_a_code_of_the_catalogue():
    for d in (3, 4, 5):
        for n, record in catalogue.read_index(catalogue.SHIPPED / f"{d}.zip").items():
            for bound in (rankin, fejes_toth, boroczky, levenshtein):
                assert bound(n, d) >= record.angle


@pytest.mark.skipif(not KNOWN.exists(), reason="the tables of known codes are not here")
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.deep)])
def test_no_bound_is_below_a_published_code(every):
    with (KNOWN / "tammes_d3_n4_60.csv").open() as file:
        for row in list(csv.DictReader(file))[::every]:
            assert math.degrees(upper_bound(int(row["n"]), 3)) >= float(row["angle_deg"]) - 1e-9


@pytest.mark.parametrize(("n", "d"), [(10**6, 1000), (10**6, 3), (1024, 32), (10**30, 24), (2, 10**6)])
def test_large_sizes_have_a_finite_bound(n, d):
    assert 0 < upper_bound(n, d) <= math.pi


@pytest.mark.parametrize(("n", "d", "message"), [(1, 3, "n >= 2"), (5, 1, "d >= 2")])
def test_what_makes_no_sense_is_refused(n, d, message, at_the_door):
    with pytest.raises(ValueError, match=message):
        upper_bound(n, d)


def test_the_polynomials_are_orthogonal_and_one_at_one():
    nodes, weights = np.polynomial.legendre.leggauss(40)
    values = gegenbauer(nodes, 3, 6)  # Legendre's, in three dimensions
    products = (values * weights) @ values.T
    np.testing.assert_allclose(products, np.diag([2 / (2 * k + 1) for k in range(7)]), atol=1e-14)
    np.testing.assert_allclose(gegenbauer(np.ones(1), 17, 9), 1)
    assert sum(harmonic_dimension(8, k) for k in range(4)) == math.comb(10, 3) + math.comb(9, 2)


def test_the_proof_refuses_a_polynomial_that_rises_above_zero():
    # f = t + s - tiny is negative up to s only where s is given honestly: 1 + f1 t <= 0 on [-1, s] means s <= -1 / f1
    coefficients = np.array([1.0, 3.0])
    assert proves_fewer_points(coefficients, 5, 3, float(Fraction(-1, 3)) - 0.1)
    assert not proves_fewer_points(coefficients, 5, 3, 0.5)
