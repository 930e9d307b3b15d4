"""Published angles beside those of the catalogue."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from unclump.codes import catalogue, spherical_code
from unclump.codes.catalogue.published import Published, published
from unclump.codes.constructions.exact import exact_code

CANDIDATE_RECORDS = {111, 119, 121, 125}


def degrees(n):
    entry = catalogue.read(catalogue.SHIPPED, n, 3)
    return math.degrees(math.acos(exact_code(n, 3).cosine) if entry is None else entry.record.angle)


def test_the_catalogue_has_what_is_published_and_the_records_that_are_listed():
    comparisons = {n: published(n, 3).compare(degrees(n)).split()[0] for n in range(4, 131)}
    assert "worse" not in comparisons.values()
    assert {n for n, word in comparisons.items() if word == "better"} == CANDIDATE_RECORDS


@pytest.mark.parametrize("n", sorted(CANDIDATE_RECORDS))
def test_candidate_records_hold_in_extended_precision(n):
    points = spherical_code(n, 3).points.numpy()
    with mp.workdps(50):
        rows = [[mpf(value) for value in row] for row in points.tolist()]
        lengths = [mp.sqrt(sum(value**2 for value in row)) for row in rows]
        units = [[value / length for value in row] for row, length in zip(rows, lengths, strict=True)]
        largest = max(sum(a * b for a, b in zip(units[i], units[j], strict=True)) for i in range(n) for j in range(i))
        angle = mp.degrees(mp.acos(largest))
        assert angle > mpf(published(n, 3).text) + mpf("1e-9")
        assert float(angle) == pytest.approx(degrees(n), abs=1e-12)
    assert np.isfinite(points).all()


def test_comparisons_respect_the_digits_that_are_known():
    assert Published("19.3257514", "").compare(19.32575144) == "equal to the published angle"
    assert Published("19.3257514", "").compare(19.32575153).startswith("better than the published angle by 1.3e-07")
    assert Published("19.325751400", "").compare(19.32575135).startswith("worse than the published angle by 5e-08")
    assert published(24, 4) is None
