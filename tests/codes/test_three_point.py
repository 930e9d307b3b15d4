"""The table of three-point bounds: better than what is known without, and never below a code that exists."""

import itertools
import math

import pytest

from unclump import upper_bound
from unclump.codes import catalogue
from unclump.codes.bounds import three_point
from unclump.codes.bounds.upper_bound import BOUNDS, best_bound, best_line_bound, delsarte
from unclump.codes.constructions.exact import exact_code

ENTRIES = three_point.read()
DIMENSIONS = sorted({entry.d for entry in ENTRIES})


@pytest.mark.parametrize("d", DIMENSIONS)
def test_no_entry_is_below_a_code_of_the_catalogue(d):
    codes = catalogue.read_index(catalogue.SHIPPED / f"{d}.zip")
    assert codes
    for n, record in codes.items():
        assert three_point.three_point(n, d) >= record.angle


@pytest.mark.parametrize("d", DIMENSIONS)
def test_no_entry_is_below_a_closed_form(d):
    for n in range(2 * d + 1, 241):
        code = exact_code(n, d)
        if code is not None:
            assert three_point.three_point(n, d) >= math.acos(code.cosine) - 1e-14


# No more than 12 and 24 spheres touch one in these dimensions, where linear programming allows 13 and 25.
@pytest.mark.parametrize(("n", "d"), [(13, 3), (25, 4)])
def test_the_table_bounds_the_number_of_spheres_that_touch_one(n, d):
    assert three_point.three_point(n, d) < math.pi / 3 < delsarte(n, d)


def test_ten_points_in_four_dimensions_are_as_far_apart_as_can_be():
    # Petersen's code, which Bachoc and Vallentin proved optimal by this bound
    assert three_point.three_point(10, 4) == pytest.approx(math.acos(1 / 6), abs=1e-6)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.d}-{entry.n}")
def test_every_entry_is_better_than_bounds_that_take_no_table(entry):
    others = [BOUNDS[name](entry.n, entry.d) for name in BOUNDS if name not in ("Delsarte", "Bachoc and Vallentin")]
    assert entry.angle < min(others) - math.radians(1e-5)
    assert entry.slack < 1e-3


@pytest.mark.parametrize("entry", ENTRIES[:: max(1, len(ENTRIES) // 6)], ids=lambda entry: f"{entry.d}-{entry.n}")
def test_entries_are_better_than_linear_programming(entry):
    assert entry.angle < delsarte(entry.n, entry.d) - math.radians(1e-5)
    assert best_bound(entry.n, entry.d).name == "Bachoc and Vallentin"
    assert upper_bound(entry.n, entry.d) == entry.angle


def test_more_points_leave_no_more_room():
    for d in DIMENSIONS:
        angles = [three_point.three_point(n, d) for n in range(2, 300)]
        assert all(a >= b for a, b in itertools.pairwise(angles))
        assert angles[0] == math.inf
        own = [entry.angle for entry in ENTRIES if entry.d == d]
        assert all(
            a > b for a, b in itertools.pairwise(own)
        )  # an entry no better than one of fewer points is of no use


def test_dimensions_without_entries_have_no_such_bound():
    assert three_point.three_point(100, 2) == three_point.three_point(10**6, 1000) == math.inf


def test_lines_profit_too():
    d, n = next((entry.d, entry.n) for entry in ENTRIES if entry.n % 2 == 0)
    assert best_line_bound(n // 2, d).angle <= three_point.three_point(n, d)


def test_a_stronger_entry_replaces_a_weaker_one(tmp_path, monkeypatch):
    monkeypatch.setattr(three_point, "FILE", tmp_path / "table.json")
    three_point.FILE.write_text("[]\n")
    three_point.read.cache_clear()
    weak, strong, other = (three_point.Entry(4, n, c, 6, 1e-9) for n, c in ((10, 0.15), (10, 0.16), (9, 0.1)))
    for entry, expected in ((weak, [weak]), (strong, [strong]), (weak, [strong]), (other, [other, strong])):
        three_point.add(entry)
        assert list(three_point.read()) == expected
    monkeypatch.undo()
    three_point.read.cache_clear()
    assert three_point.read() == ENTRIES
