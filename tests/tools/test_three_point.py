"""Three-point bounds: what they rest on, known sizes, and that no certificate is believed that proves nothing."""

import dataclasses
import itertools
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools/three_point"))

from program import Certificate, Program, zonal
from proof import _three_point_function, gegenbauer_coefficients, polynomial_slack, slack_of_proof
from threshold import threshold


def certificate(n, d, degree, angle):
    """What the program at an angle, in degrees, finds, and its certificate."""
    solution, found = Program(n, d, degree, math.floor(math.cos(math.radians(angle)) * 2**40) / 2**40).solve()
    return solution.primal, found


@pytest.fixture(scope="module")
def petersen():
    """A certificate that no ten points in four dimensions are 80.5 degrees apart; the best are 80.406."""
    return certificate(10, 4, 4, 80.5)[1]


@pytest.mark.parametrize("d", [3, 4, 7])
def test_sums_of_zonal_matrices_over_triples_are_positive(d):
    x = np.random.default_rng(0).standard_normal((6, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosines = np.clip(x @ x.T, -1, 1)
    triples = np.array(list(itertools.product(range(6), repeat=3)))
    i, j, k = triples.T
    for matrices in zonal(np.stack([cosines[i, j], cosines[i, k], cosines[j, k]], axis=1), d, 5):
        assert np.linalg.eigvalsh(matrices.sum(0)).min() > -1e-10


def test_zonal_matrices_know_the_dimension():
    """Points of four dimensions violate what holds in three."""
    x = np.eye(4)
    cosines = np.concatenate([x, -x]) @ np.concatenate([x, -x]).T
    i, j, k = np.array(list(itertools.product(range(8), repeat=3))).T
    points = np.stack([cosines[i, j], cosines[i, k], cosines[j, k]], axis=1)
    assert min(np.linalg.eigvalsh(m.sum(0)).min() for m in zonal(points, 4, 5)) > -1e-10
    assert min(np.linalg.eigvalsh(m.sum(0)).min() for m in zonal(points, 3, 5)) < -1


@pytest.mark.parametrize("d", [3, 5])
def test_the_exact_polynomial_is_that_of_the_program(d):
    random = np.random.default_rng(1)
    degree, point = 4, random.uniform(-1, 0.5, 3)
    factors = [random.standard_normal((degree - k + 1, 2)) for k in range(degree + 1)]
    exact = _three_point_function(Certificate(9, d, degree, 0.5, np.ones(8), factors, [], 0.0))
    u, v, t = (Fraction(value) for value in point.tolist())
    value = sum(c * u**i * v**j * t**k for (i, j, k), c in np.ndenumerate(exact))
    expected = sum(np.sum((f @ f.T) * m[0]) for f, m in zip(factors, zonal(point[None], d, degree), strict=True))
    assert float(value) == pytest.approx(expected, rel=1e-10)


def test_exact_gegenbauer_polynomials():
    assert gegenbauer_coefficients(3, 2)[2] == [Fraction(-1, 2), 0, Fraction(3, 2)]  # Legendre's
    assert gegenbauer_coefficients(4, 3)[3] == [0, -1, 0, 2]  # Chebyshev's of the second kind, over four
    assert all(sum(row) == 1 for row in gegenbauer_coefficients(7, 6))


# The largest numbers of spheres that touch one are 12, 24 and 240.
@pytest.mark.parametrize(("n", "d", "degree"), [(13, 3, 6), (25, 4, 8), (241, 8, 4)])
def test_one_sphere_more_cannot_touch_another(n, d, degree):
    value, found = certificate(n, d, degree, 60)
    assert value < n - 1
    assert slack_of_proof(found) < 1e-4


@pytest.mark.parametrize(
    ("n", "d", "degree", "angle"), [(12, 3, 4, 63.43), (24, 4, 4, 60), (240, 8, 4, 60), (10, 4, 5, 80.405)]
)
def test_codes_that_exist_are_not_refuted(n, d, degree, angle):
    value, found = certificate(n, d, degree, angle)
    assert value >= (n - 1) * (1 - 1e-7)
    assert slack_of_proof(found) is None


def test_the_proof_holds(petersen):
    assert 0 < slack_of_proof(petersen) < 1e-4


def spoil(name, petersen):
    squares = [part.copy() for part in petersen.squares]
    factors = [part.copy() for part in petersen.factors]
    pair = petersen.pair.copy()
    if name == "weights":
        pair[2] = -1.0
    elif name == "squares":
        squares[1][0, 0] += 0.5
    elif name == "factors":
        factors[1][0, 0] += 0.5
    return dataclasses.replace(
        petersen,
        pair=pair,
        squares=squares,
        factors=factors,
        cosine=0.25 if name == "cosine" else petersen.cosine,
        n=petersen.n - 2 if name == "points" else petersen.n,
        d=petersen.d + 1 if name == "dimension" else petersen.d,
    )


@pytest.mark.parametrize("name", ["weights", "squares", "factors", "cosine", "points", "dimension"])
def test_a_spoilt_certificate_is_refused(name, petersen):
    assert slack_of_proof(spoil(name, petersen)) is None


@pytest.mark.parametrize("shift", [-0.5, 0.5])
def test_another_constant_brings_a_larger_slack_and_no_lower_bound(shift, petersen):
    bound = petersen.constant + polynomial_slack(petersen)
    shifted = dataclasses.replace(petersen, constant=petersen.constant + shift)
    assert shifted.constant + polynomial_slack(shifted) > bound - 1e-4


def test_the_threshold_is_petersens_angle():
    """Ten points in four dimensions: the bound is sharp at degree 4, but for a margin of up to 2e-6 for the proof."""
    found = threshold(10, 4, 4, math.radians(80.4), math.radians(80.42))
    assert math.acos(1 / 6) <= found.angle < math.acos(1 / 6) + 2e-6
    assert math.cos(found.angle) == pytest.approx(found.cosine, abs=1e-11)


def test_there_is_no_threshold_below_a_code():
    assert threshold(12, 3, 4, math.radians(60), math.radians(63.4)) is None
