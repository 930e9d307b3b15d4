"""Lines through the origin: closed forms meet their bounds, the search finds them, and angles are those of lines."""

import itertools
import math

import numpy as np
import pytest

import unclump as uc
from unclump.codes.bounds.lines import levenshtein_lines, orthoplex, welch
from unclump.codes.bounds.upper_bound import best_bound, best_line_bound, upper_bound
from unclump.codes.constructions.lines import exact_lines
from unclump.codes.search import loops, reference
from unclump.codes.search.groups import point_group
from unclump.codes.search.line_search import one_of_each_pair
from unclump.codes.search.orbits import random_orbits
from unclump.codes.search.solver import solve
from unclump.codes.verify import minimal_angle

GO = np.zeros(1, np.uint8)


def smallest_angle(x):
    return min(math.acos(min(1, abs(a @ b))) for a, b in itertools.combinations(x, 2))


# Lemmens and Seidel 1973 for equiangular lines; mutually unbiased bases; roots.
CLOSED_FORMS = {
    (3, 5): 0,
    (5, 2): math.cos(math.pi / 5),
    (5, 4): 1 / 4,
    (6, 3): 1 / math.sqrt(5),
    (10, 5): 1 / 3,
    (16, 6): 1 / 3,
    (28, 7): 1 / 3,
    (14, 7): 1 / math.sqrt(13),
    (18, 9): 1 / math.sqrt(17),
    (26, 13): 1 / 5,
    (30, 15): 1 / math.sqrt(29),
    (276, 23): 1 / 5,
    (12, 4): 1 / 2,
    (60, 4): (1 + math.sqrt(5)) / 4,
    (120, 8): 1 / 2,
    (144, 16): 1 / 4,
}


@pytest.mark.parametrize(("n", "d"), CLOSED_FORMS)
def test_closed_forms_have_their_cosine_and_meet_the_bound(n, d):
    code = uc.spherical_code(n, d, antipodal=True)
    assert code.points.shape == (n, d)
    assert code.points.norm(dim=1).numpy() == pytest.approx(1, abs=1e-12)
    assert smallest_angle(code.points.numpy()) == pytest.approx(math.acos(CLOSED_FORMS[n, d]), abs=1e-9)
    assert code.min_angle == pytest.approx(math.acos(CLOSED_FORMS[n, d]), abs=1e-13)
    assert code.optimal
    assert upper_bound(n, d, antipodal=True) == pytest.approx(code.min_angle, abs=1e-12)


def test_the_lines_of_leech_are_known_without_construction():
    assert exact_lines(98280, 24).cosine == 1 / 2
    assert exact_lines(20, 5) is None  # the roots of D5 are not known to be the best lines


@pytest.mark.parametrize(("n", "d"), [(6, 3), (12, 4), (16, 6), (28, 7)])
def test_the_search_finds_closed_forms(n, d):
    code = uc.spherical_code(n, d, antipodal=True, fresh=True, restarts=2)
    assert code.source.startswith("search")
    assert code.min_angle == pytest.approx(math.acos(CLOSED_FORMS[n, d]), abs=1e-12)
    assert code.proof == f"meets the bound of {best_line_bound(n, d).name}"


def test_bounds_are_the_formulas_and_in_order():
    assert math.cos(welch(28, 7)) ** 2 == pytest.approx(21 / (7 * 27), rel=1e-13)
    assert orthoplex(6, 3) == levenshtein_lines(6, 3) == math.inf
    assert math.cos(orthoplex(7, 3)) ** 2 == pytest.approx(1 / 3, rel=1e-13)
    assert math.cos(levenshtein_lines(11, 4)) ** 2 == pytest.approx((33 - 16 - 8) / (7 * 6), rel=1e-13)
    for n, d in itertools.product((4, 7, 15, 40), (3, 5)):
        assert best_line_bound(n, d).angle <= best_bound(2 * n, d).angle + 1e-12
        assert best_line_bound(n + 1, d).angle <= best_line_bound(n, d).angle + 1e-12


@pytest.mark.parametrize(("n", "d"), [(9, 3), (17, 3), (13, 4)])
def test_a_simple_restart_is_never_better(n, d):
    best = 0.0
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        both = np.concatenate([x, -x])
        loops.anneal(both, 4.0, 2048.0, 100, 1e-4, 0.5, GO)  # the gradient keeps the pairs opposite
        lines = both[:n].copy()
        loops.polish(lines, 1.25, 50, GO, antipodal=True)
        best = max(best, smallest_angle(lines))
    code = uc.spherical_code(n, d, antipodal=True, restarts=4)
    assert code.min_angle >= best - 1e-10
    assert code.min_angle <= code.upper_bound
    assert not code.optimal


@pytest.mark.parametrize("implementation", [loops, reference])
def test_polish_of_lines_does_not_depend_on_their_directions(implementation):
    optimum = uc.spherical_code(16, 6, antipodal=True).points.numpy()
    x = optimum + 1e-3 * np.random.default_rng(0).standard_normal(optimum.shape)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for signs in (np.ones(16), np.random.default_rng(1).choice([-1.0, 1.0], 16)):
        y = x * signs[:, None]
        square = implementation.polish(y, 1.25, 50, GO, antipodal=True)
        assert square == pytest.approx(2 - 2 / 3, abs=1e-12)
        assert implementation.smallest_squared_chord(y, antipodal=True) == pytest.approx(square, abs=1e-15)
        assert smallest_angle(y) == pytest.approx(math.acos(1 / 3), abs=1e-7)


def test_antipodal_orbits_come_in_opposite_pairs():
    for seed in range(6):
        x = random_orbits(14, 3, np.random.default_rng(seed), antipodal=True).points
        np.testing.assert_allclose((x @ x.T).min(axis=1), -1, atol=1e-12)
    elements = point_group("Oh").elements
    half = one_of_each_pair(elements @ np.array([0.1, 0.5, 0.8]))
    assert len(half) == 24
    assert (half @ half.T).min() > -0.999
    pole = np.array([[0.0, 0, 1]])
    np.testing.assert_array_equal(one_of_each_pair(np.concatenate([pole, -pole, -pole, pole])), [[0, 0, 1], [0, 0, -1]])


def test_contacts_are_those_of_lines():
    code = uc.spherical_code(6, 3, antipodal=True)
    assert code.contacts.pairs.tolist() == [list(pair) for pair in itertools.combinations(range(6), 2)]
    assert len(code.contacts.rattlers) == 0
    assert code.published is None


def test_given_lines_are_improved():
    x = np.random.default_rng(0).standard_normal((10, 3))
    found = solve(10, 3, init=x, restarts=1, antipodal=True)
    assert found.angle > smallest_angle(x / np.linalg.norm(x, axis=1, keepdims=True))
    assert found.angle == pytest.approx(minimal_angle(np.concatenate([found.points, -found.points])), abs=1e-14)


def test_refusals():
    with pytest.raises(ValueError, match="lines have no energies"):
        uc.spherical_code(6, 3, antipodal=True, kernel=uc.Riesz(s=1.0))
    with pytest.raises(ValueError, match=r"expected no init.*'blocks'"):
        solve(7, 3, init="blocks", antipodal=True)
