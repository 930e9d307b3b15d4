"""The search without a compiled library: the same problems by SciPy."""

import math

import numpy as np
import pytest

from unclump import Gaussian, Riesz
from unclump import _library as library
from unclump.codes.search import loops, reference
from unclump.codes.search.solver import minimal_energy, solve
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing
from unclump.codes.search.starts import make_start

GO, STOPPED = np.zeros(1, np.uint8), np.ones(1, np.uint8)
ICOSAHEDRON = math.acos(1 / math.sqrt(5))


@pytest.fixture
def without_library(monkeypatch):
    monkeypatch.setattr(library, "choose", lambda: (None, "switched off"))


def random_points(n, d, seed=0):
    return make_start(n, d, "random", np.random.default_rng(seed))


@pytest.mark.usefixtures("without_library")
def test_the_icosahedron_is_found_and_the_search_stops_there():
    solution = solve(12, 3, init=random_points(12, 3), restarts=1, target=ICOSAHEDRON)
    assert solution.angle == pytest.approx(ICOSAHEDRON, abs=1e-13)
    assert np.linalg.norm(solution.points, axis=1) == pytest.approx(1, abs=1e-15)


@pytest.mark.usefixtures("without_library")
def test_thomsons_problem_of_five_electrons():
    solution = minimal_energy(5, 3, Riesz(s=1.0), restarts=1)
    assert solution.energy == pytest.approx(1 / 2 + 6 / math.sqrt(2) + math.sqrt(3), rel=1e-13)


def test_a_set_flag_ends_every_loop():
    x = random_points(10, 4)
    before = x.copy()
    reference.anneal(x, 4.0, 2048.0, 50, 1e-3, 0.5, STOPPED)
    reference.polish(x, 1.25, 50, STOPPED)
    assert np.array_equal(x, before)
    value = reference.minimise_energy(x, Gaussian(2.0), 1000, 0.0, 0.5, STOPPED)  # one step, then the flag is seen
    y = before.copy()
    assert reference.minimise_energy(y, Gaussian(2.0), 1000, 0.0, 0.5, GO) < value


@pytest.mark.skipif(not loops.has_native(), reason="no compiled library to compare with")
@pytest.mark.parametrize(("n", "d"), [(9, 3), (12, 3)])
def test_both_find_the_same_optimum(n, d):
    angles = set()
    for implementation in (loops, reference):
        x = random_points(n, d, seed=1)
        implementation.anneal(x, 4.0, 2048.0, 100, 1e-4, estimate_spacing(n, d), GO)
        square = implementation.polish(x, 1.25, 50, GO)
        assert square == pytest.approx(implementation.smallest_squared_chord(x), rel=1e-15)
        angles.add(round(angle_of_squared_chord(square), 12))
    assert len(angles) == 1
