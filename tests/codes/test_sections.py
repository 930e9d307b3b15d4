"""Sections of codes: the closed forms that they give, and that they are taken orthogonally."""

import math

import numpy as np
import pytest

from unclump.codes.constructions.exact import exact_code
from unclump.codes.search.sections import sections
from unclump.codes.verify import minimal_angle


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [((240, 8), (56, 7)), ((56, 7), (27, 6)), ((27, 6), (16, 5)), ((275, 22), (162, 21)), ((120, 4), (12, 3))],
)
def test_closed_forms_are_sections_of_closed_forms(larger, smaller):
    expected = exact_code(*smaller)
    angles = [minimal_angle(x) for x in sections(exact_code(*larger).points, smaller[0]) if x.shape == smaller]
    assert math.cos(max(angles)) == pytest.approx(expected.cosine, abs=1e-12)


def test_a_section_keeps_the_angles_between_its_points():
    x = exact_code(240, 8).points
    touching = x[np.isclose(x @ x[0], 0.5)]
    first = next(section for section in sections(x, 50) if len(section) == len(touching))
    cosines = (touching @ touching.T - 0.25) / 0.75
    np.testing.assert_allclose(np.sort(first @ first.T, axis=None), np.sort(cosines, axis=None), atol=1e-12)


def test_small_sections_are_left_out_and_no_point_is_its_own():
    x = exact_code(240, 8).points
    assert {len(section) for section in sections(x, 1)} == {56, 126}
    assert {len(section) for section in sections(x, 57)} == {126}
