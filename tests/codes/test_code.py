"""Spherical codes from the door: where they come from, how good they are, and what is refused."""

import math

import numpy as np
import pytest
import torch

import unclump as uc
from unclump.codes.verify import minimal_angle


def test_a_code_in_closed_form_is_recognised_and_proved():
    code = uc.spherical_code(24, 3)
    assert (code.source, code.proof, code.optimal, code.gap) == ("snub cube", "Robinson 1961", True, 0.0)
    assert math.degrees(code.min_angle) == pytest.approx(43.690767107676, abs=1e-12)
    assert code.points.dtype is torch.float64
    assert len(code.contacts.pairs) == 60
    assert len(code.contacts.rattlers) == 0


def test_a_code_of_the_catalogue_comes_with_the_command_that_found_it():
    code = uc.spherical_code(15, 3)
    assert code.source.startswith("catalogue: unclump code 15 3 ")
    assert math.degrees(code.min_angle) == pytest.approx(53.6578501299, abs=1e-9)
    assert not code.optimal
    assert code.gap == pytest.approx(uc.upper_bound(15, 3) - code.min_angle)


def test_a_search_finds_what_the_catalogue_has_and_says_what_it_took():
    code = uc.spherical_code(16, 3, fresh=True, restarts=2)
    assert code.min_angle == pytest.approx(uc.spherical_code(16, 3).min_angle, abs=1e-12)
    assert code.source.startswith("search with seed 0: ")


def test_the_angle_is_that_of_the_points():
    for n, d in [(2, 2), (5, 3), (15, 3), (100, 22), (17, 40)]:
        code = uc.spherical_code(n, d)
        assert code.points.shape == (n, d)
        assert code.min_angle == minimal_angle(code.points.numpy())
        assert code.min_angle <= code.upper_bound + 1e-12


def test_a_search_that_meets_its_bound_is_proved_optimal():
    code = uc.spherical_code(12, 3, fresh=True, restarts=2)
    assert code.proof == "meets the bound of Fejes Tóth"
    assert code.gap < 1e-10


def test_a_search_is_not_below_what_is_left_of_a_larger_code():
    code = uc.spherical_code(230, 8, restarts=1, time_limit=0.5)
    assert math.degrees(code.min_angle) >= 60 - 1e-9


def test_a_search_improves_the_points_it_is_given():
    start = uc.uniform(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    code = uc.spherical_code(12, 3, init=start, fresh=True, restarts=1)
    assert code.min_angle > minimal_angle(start.numpy())


def test_electrons_on_a_sphere_have_thomsons_energy():
    code = uc.spherical_code(5, 3, kernel=uc.Riesz(s=1.0), restarts=2)
    assert code.energy == pytest.approx(6.474691494688, rel=1e-11)  # the triangular bipyramid
    pairs = torch.pdist(code.points)
    assert code.energy == pytest.approx((1 / pairs).sum().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "choices", "message"),
    [
        ((1, 3), {}, "expected n >= 2, got 1"),
        ((0, 3), {}, "expected n >= 2, got 0"),
        ((4, 1), {}, "expected d >= 2, got 1"),
        ((4.0, 3), {}, "n"),
        ((15, 3), {"init": "spiral"}, "expected init"),
        ((24, 3), {"init": "spiral"}, "expected init"),  # which has a closed form
        ((24, 3), {"antipodal": True, "init": "random"}, "expected no init"),
        ((15, 3), {"init": np.zeros((15, 3))}, "zeros"),
        ((15, 3), {"init": np.ones((14, 3))}, r"\(15, 3\)"),
        ((15, 3), {"restarts": 0}, "expected restarts >= 1, got 0"),
        ((15, 3), {"time_limit": -1.0}, "time_limit"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, choices, message, at_the_door):
    with pytest.raises((ValueError, TypeError), match=message):
        uc.spherical_code(*arguments, **choices)
