"""The health of a table: closed forms of uniform points, duplicates, neighbours, verdicts."""

import json
import math
import sys

import numpy as np
import pytest
import scipy.stats
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.figures.plots import uniform_density
from unclump.geometry.uniform_law import UniformLaw, cap_angle, cap_fraction
from unclump.measures.pairs import uniformity
from unclump.tables.neighbours import neighbours


@pytest.fixture(autouse=True)
def few_simulations(monkeypatch, request):
    """Tables below 20 rows are compared with 19 uniform ones, which is quicker."""
    if "all_simulations" not in request.fixturenames:
        monkeypatch.setattr(sys.modules["unclump.tables.health"], "_SIMULATIONS", 19)


@pytest.fixture
def all_simulations():
    """As many as there are outside of tests."""


# --- what uniform points give --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_nearest_angles_on_the_circle_have_their_closed_form(n):
    law = UniformLaw(n, 2)
    assert law.mean_nearest_angle == pytest.approx(math.pi / n, rel=1e-9)
    assert law.median_nearest_angle == pytest.approx(math.pi * (1 - 0.5 ** (1 / (n - 1))), rel=1e-9)
    second = 2 * math.pi**2 / (n * (n + 1))  # the mean square of pi times a Beta(1, n - 1)
    assert law.std_nearest_angle == pytest.approx(math.sqrt(second - (math.pi / n) ** 2), rel=1e-7)


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_the_mean_nearest_angle_on_the_sphere_is_an_integral_of_wallis(n):
    wallis = math.pi * math.exp(math.lgamma(2 * n - 1) - 2 * math.lgamma(n) - (2 * n - 2) * math.log(2))
    assert UniformLaw(n, 3).mean_nearest_angle == pytest.approx(wallis, rel=1e-9)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (15, 2), (15, 3), (15, 50)])
def test_closed_forms_agree_with_simulated_tables(n, d, generator):
    law, tables = UniformLaw(n, d), 3000
    x = torch.nn.functional.normalize(torch.randn(tables, n, d, generator=generator, dtype=torch.float64), dim=-1)
    cosine = (x @ x.mT).clamp(-1, 1)
    cosine[:, range(n), range(n)] = -2
    nearest = torch.acos(cosine.amax(dim=-1).clamp_min(-1))  # (tables, n)
    _agrees(nearest.mean(dim=1), law.mean_nearest_angle)
    _agrees((nearest > law.median_nearest_angle).double().mean(dim=1), 0.5)
    smallest = nearest.amin(dim=1)
    for quantile in (0.2, 0.5, 0.8):
        angle = smallest.quantile(quantile).item()
        allowed = 0.03 if law.smallest_is_exact else 0.05
        assert law.smallest_survival(angle) == pytest.approx(1 - quantile, abs=allowed)
    assert law.smallest_survival(law.median_smallest_angle) == pytest.approx(0.5)
    lengths = x.mean(dim=1).norm(dim=-1)
    assert law.resultant_length == pytest.approx(lengths.mean().item(), rel=0.02 if n > 2 else 0.05)  # a limit


def _agrees(values, expected):
    error = values.std() / math.sqrt(len(values))
    assert abs(values.mean() - expected) < 4 * error


@pytest.mark.parametrize("d", [3, 20])
def test_the_smallest_of_three_points_is_known_within_a_few_percent(d, generator):
    x = torch.nn.functional.normalize(torch.randn(5000, 3, d, generator=generator, dtype=torch.float64), dim=-1)
    cosine = torch.stack([(x[:, i] * x[:, j]).sum(dim=1) for i, j in ((0, 1), (0, 2), (1, 2))]).amax(dim=0)
    share = (torch.acos(cosine) > UniformLaw(3, d).median_smallest_angle).double().mean().item()
    assert share == pytest.approx(0.5, abs=0.04 + 0.02)


@pytest.mark.parametrize(("n", "d"), [(400, 3), (60, 40), (40, 60), (50, 50)])
def test_the_effective_rank_of_uniform_points_is_that_of_marchenko_and_pastur(n, d, generator):
    ranks = [uc.effective_rank(uc.uniform(n, d, generator=generator, dtype=torch.float64)) for _ in range(20)]
    assert UniformLaw(n, d).effective_rank == pytest.approx(np.mean(ranks), rel=0.02)


@pytest.mark.parametrize(("n", "d"), [(2, 1000), (50_000, 1000), (100_000, 2), (100_000, 3), (10**7, 4096)])
def test_the_laws_hold_in_every_dimension(n, d):
    law = UniformLaw(n, d)
    assert 0 < law.median_smallest_angle <= law.median_nearest_angle <= math.pi / 2 + 1e-12
    assert law.nearest_survival(law.median_nearest_angle) == pytest.approx(0.5, rel=1e-6)
    assert law.smallest_survival(law.median_smallest_angle) == pytest.approx(0.5, rel=1e-6)
    assert law.mean_nearest_angle == pytest.approx(law.median_nearest_angle, abs=2 * law.std_nearest_angle)


@pytest.mark.parametrize("d", [2, 3, 10, 1000])
def test_caps_and_their_angles_are_inverse_and_have_the_known_density(d):
    share = np.array([1e-12, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(cap_fraction(cap_angle(share, d), d), share, rtol=1e-8)
    middle = cap_angle(np.array([0.2, 0.4, 0.7]), d)
    slope = (cap_fraction(middle + 1e-5, d) - cap_fraction(middle - 1e-5, d)) / 2e-5
    np.testing.assert_allclose(slope, uniform_density(middle, d), rtol=1e-5)


def test_the_density_of_nearest_angles_is_minus_the_slope_of_the_survival():
    law, angle = UniformLaw(200, 5), np.array([0.2, 0.4, 0.6])
    slope = (law.nearest_survival(angle - 1e-6) - law.nearest_survival(angle + 1e-6)) / 2e-6
    np.testing.assert_allclose(law.nearest_density(angle), slope, rtol=1e-6)


# --- one pass over the pairs ---------------------------------------------------------------------------------------


def all_angles(x):
    angles = uc.angle(x.unsqueeze(1), x)
    return angles.fill_diagonal_(math.inf)


def components(near):
    """Connected components by walking, as sets."""
    left, found = set(range(len(near))), set()
    while left:
        todo, seen = [left.pop()], set()
        while todo:
            here = todo.pop()
            seen.add(here)
            todo += [j for j in near[here].nonzero().flatten().tolist() if j not in seen]
        left -= seen
        found.add(frozenset(seen))
    return found


def as_sets(labels):
    return {frozenset((labels == label).nonzero().flatten().tolist()) for label in labels.unique()}


@pytest.mark.parametrize(("n", "d"), [(2, 2), (12, 3), (150, 2), (150, 3), (333, 40)])
def test_neighbours_are_those_of_a_loop(n, d, points):
    x, k = points(n, d), min(10, n - 1)
    angles = all_angles(x)
    within = angles.min(dim=1).values.median().item()
    found = neighbours(x, k=k, within=within)
    assert_close(found.nearest_angle, angles.min(dim=1).values)
    assert torch.equal(found.index.sort().values, angles.topk(k, largest=False).indices.sort().values)
    assert as_sets(found.clump) == components(angles <= within)


@pytest.mark.parametrize("d", [3, 40])
def test_crowds_larger_than_the_list_of_neighbours_are_joined_where_they_touch(d, points):
    """Every neighbour in the list is of the own crowd; the one pair that joins two crowds is in no list."""
    start, step = points(2, d)
    step = uc.project(step - (step @ start) * start)
    at = [*[0.0] * 15, *[1e-3] * 15, *[2.5e-3] * 15]  # the third is out of reach
    x = torch.stack([math.cos(t) * start + math.sin(t) * step for t in at])
    x = uc.project(torch.cat([x, points(50, d)]))
    found = neighbours(x, k=10, within=1.2e-3)
    groups = {frozenset(range(30)), frozenset(range(30, 45))}
    assert groups <= as_sets(found.clump)
    assert as_sets(found.clump) == components(all_angles(x) <= 1.2e-3)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6])
def test_nearest_angles_of_a_collapsed_table_keep_their_digits(size, points):
    x = uc.project(points(1, 30) + size * points(100, 30))
    x = torch.cat([x, -x[:1]])  # and one that is opposite: the mean is not in the middle of the others
    angles = all_angles(x)
    found = neighbours(x, k=10, within=1e-9)
    assert_close(found.nearest_angle, angles.min(dim=1).values, rtol=1e-9, atol=0)


def test_the_nearest_of_many_that_are_equally_far_in_single_precision_is_found(points):
    x = uc.project(torch.eye(40, dtype=torch.float64) + 1e-9 * points(40, 40))
    found = neighbours(x, k=5, within=1e-3)
    assert_close(found.nearest_angle, all_angles(x).min(dim=1).values, rtol=1e-14, atol=0)


def test_blocks_change_nothing(points, monkeypatch):
    x = points(100, 20)
    whole = neighbours(x, k=5, within=1.0)
    monkeypatch.setattr("unclump.tables.neighbours.block_entries", lambda x: 700)
    parts = neighbours(x, k=5, within=1.0)
    assert torch.equal(whole.index, parts.index)
    assert torch.equal(whole.clump, parts.clump)


# --- the table's health --------------------------------------------------------------------------------------------


def test_measures_are_those_of_the_library(points):
    x = 3 * points(60, 7) + 0.5
    found = uc.health(x)
    assert found.min_angle == pytest.approx(uc.min_angle(x), rel=1e-12)
    assert found.mean_nearest_angle == pytest.approx(uc.nearest_angles(x).mean().item(), rel=1e-12)
    assert found.median_nearest_angle == pytest.approx(np.median(uc.nearest_angles(x)), rel=1e-12)
    assert found.spherical_variance == pytest.approx(uc.spherical_variance(x), rel=1e-12)
    assert found.effective_rank == pytest.approx(uc.effective_rank(x), rel=1e-9)
    mean = uc.project(uc.project(x).mean(dim=0))
    assert found.cone_angle == pytest.approx(uc.angle(uc.project(x), mean).mean().item(), rel=1e-12)
    for name, test in (("rayleigh", uc.rayleigh_test), ("bingham", uc.bingham_test)):
        assert found.tests[name] == pytest.approx(test(x), rel=1e-12)  # from moments, which are summed in another order
    assert (found.n, found.d, found.dtype) == (60, 7, "float64")


def test_norms_count_for_the_spectrum_of_raw_rows(points):
    x = 5 * points(60, 7) * torch.linspace(0.1, 3, 60).unsqueeze(1) + 0.2
    found = uc.health(torch.cat([x, torch.zeros(1, 7)]))
    law, shown = uc.IsotropicLaw(60, 7), found.to_dict()
    for name in ("rankme", "isoscore", "mean_cosine"):
        assert getattr(found, name) == pytest.approx(getattr(uc, name)(x), rel=1e-12)
        assert shown[name] == getattr(found, name)
        assert shown["uniform"][name] == getattr(law, name)
    for name, measure in (("alpha_req", uc.alpha_req), ("uniformity", uniformity)):
        assert getattr(found, name) == pytest.approx(measure(x), rel=1e-9)
        assert shown[name] == getattr(found, name)
        assert shown["uniform"][name] == getattr(law, name)()
    for text in (f"{found.rankme:.1f}", f"{found.isoscore:.4f}", f"{found.alpha_req:.3f}", f"{found.uniformity:.3f}"):
        assert text in str(found)


def test_a_spectrum_that_ends_has_no_exponent_and_is_saved(points, tmp_path):
    """JSON knows no infinity."""
    found = uc.health(torch.cat([points(30, 3), torch.zeros(30, 17)], dim=1))
    assert found.alpha_req is found.to_dict()["alpha_req"] is None
    assert "(alpha-ReQ) infinite" in " ".join(str(found).split())
    found.save(tmp_path / "found.json")
    assert uc.Health.load(tmp_path / "found.json").alpha_req is None


def test_the_uniformity_of_a_large_table_is_that_of_rows_at_equal_distances(points, monkeypatch):
    x = points(100, 5) + 0.3
    monkeypatch.setattr(sys.modules["unclump.tables.health"], "_UNIFORMITY_ROWS", 25)
    assert uc.health(x).uniformity == pytest.approx(uniformity(x[::4]), rel=1e-9)


def test_hubness_is_that_of_a_loop(points):
    x = torch.cat([points(79, 12) + 0.6, -torch.ones(1, 12)])  # the last is far from all
    angles, counts = all_angles(uc.project(x)), [0] * 80
    for row in angles:
        for other in sorted(range(80), key=row.tolist().__getitem__)[:10]:
            counts[other] += 1
    found = uc.health(x)
    assert found.k == 10
    assert found.hubness == pytest.approx(scipy.stats.skew(counts))
    assert found.orphans == counts.count(0) / 80
    assert found.orphans > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_planted_duplicates_are_all_found(dtype, points):
    x = points(200, 24).to(dtype)
    x[150], x[17], x[199], x[3] = x[20], x[5], x[5], 2 * x[8]  # the last is a near duplicate, at no angle
    x[60] = -x[61]  # not a duplicate at all
    found = uc.health(x)
    assert [group.rows for group in found.duplicates] == [(5, 17, 199), (20, 150)]
    assert {group.rows for group in found.clumps} == {(5, 17, 199), (20, 150), (3, 8)}
    assert all(group.angle == 0 for group in found.clumps)
    assert found.verdict.kind == "duplicates"
    assert found.verdict.findings == ("duplicates", "near-duplicates")


def test_minus_zero_is_zero():
    x = torch.tensor([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]])
    assert [group.rows for group in uc.health(x).duplicates] == [(0, 1)]


@pytest.mark.parametrize(("d", "cap"), [(10, math.radians(1)), (3, math.inf)])
def test_near_duplicates_are_closer_than_rounding_or_a_tenth_of_what_uniform_points_have(d, cap, points):
    x = points(300, d)
    near = min(UniformLaw(301, d).median_smallest_angle / 10, cap)
    side = uc.project(x[7:8] - x[7:8] @ x[4:5].mT * x[4:5])
    for angle, rows in ((0.99 * near, [(4, 300)]), (1.01 * near, [])):
        found = uc.health(torch.cat([x, math.cos(angle) * x[4:5] + math.sin(angle) * side]))
        assert [group.rows for group in found.clumps] == rows
        assert found.min_angle == pytest.approx(angle)


@pytest.mark.parametrize("n", [2, 10, 1000, 10**6])
def test_uniform_points_rarely_have_near_duplicates(n):
    for d in (2, 3, 10, 1000):
        near = uc.duplicate_angle(n, d)
        assert cap_fraction(near, d) * math.comb(n, 2) <= 0.01 * (1 + 1e-9)  # the expected number of pairs
        assert 0 < near <= math.radians(1)


def test_order_rotation_and_norms_change_nothing(points, rotation):
    x = uc.project(points(120, 20) + 0.3)
    x[5] = x[7]
    found = uc.health(x)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(1))
    shuffled = uc.health(x[order])
    assert sorted(order[list(shuffled.duplicates[0].rows)].tolist()) == [5, 7]
    for other in (shuffled, uc.health(x @ rotation(20)), uc.health(x * torch.arange(1, 121).unsqueeze(1))):
        for name in ("mean_nearest_angle", "median_nearest_angle", "spherical_variance", "cone_angle",
                     "effective_rank", "centred_rank", "hubness", "orphans"):  # fmt: skip
            assert getattr(other, name) == pytest.approx(getattr(found, name), rel=1e-9), name
        assert other.min_angle == pytest.approx(0, abs=1e-15)
        assert other.tests["bingham"].pvalue == pytest.approx(found.tests["bingham"].pvalue)


def test_rows_without_a_direction_are_reported_and_left_out(points):
    x = points(40, 5)
    x[9] = x[30]
    good = torch.ones(43, dtype=torch.bool)
    good[[0, 20, 42]] = False
    table = torch.zeros(43, 5, dtype=x.dtype)
    table[good] = x
    table[20], table[42, 1] = math.nan, math.inf
    names = [f"word {row}" for row in range(43)]
    found, alone = uc.health(table, names=names), uc.health(x)
    assert [(bad.row, bad.name, bad.fault) for bad in found.bad_rows] == [
        (0, "word 0", "zero"),
        (20, "word 20", "NaN"),
        (42, "word 42", "infinite"),
    ]
    assert found.duplicates[0].rows == (10, 32)  # by the rows of the whole table
    assert found.n == 43
    assert found.mean_nearest_angle == alone.mean_nearest_angle
    assert found.uniform == alone.uniform
    assert "0 'word 0' (zero), 20 'word 20' (NaN), 42 'word 42' (infinite)" in str(found)
    assert "3 rows have no direction" in found.verdict.text


# --- printing and refusing -----------------------------------------------------------------------------------------


def test_names_from_outside_are_shown_as_text(points):
    x = points(30, 4)
    x[1], x[3] = x[0], 0
    names = ["\x1b[31mred\x1b[0m", "two\nlines", *["plain"] * 28]
    names[3] = "\x9b2J\u202e\udcff"
    found = uc.health(x, names=names)
    assert all(c.isprintable() or c == "\n" for c in str(found))
    assert r"0 '\x1b[31mred\x1b[0m', 1 'two\nlines'" in str(found)
    assert found.to_dict()["duplicates"][0]["names"] == names[:2]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()


def test_all_that_is_measured_is_in_the_dictionary_in_degrees(points):
    found = uc.health(points(50, 3))
    said = found.to_dict()
    assert said["min_angle_degrees"] == math.degrees(found.min_angle)
    assert said["uniform"]["min_angle_law"] == "limit law"
    assert uc.health(points(50, 2)).to_dict()["uniform"]["min_angle_law"] == "exact"
    assert said["verdict"]["text"] in str(found)
    for name, value in (
        ("min", found.uniform.median_smallest_angle),
        ("median_nearest", found.uniform.median_nearest_angle),
        ("mean_nearest", found.uniform.mean_nearest_angle),
    ):
        assert said["uniform"][f"{name}_angle_degrees"] == math.degrees(value)


def test_small_tables_have_simulated_pvalues_that_can_be_repeated(points, all_simulations):
    x = points(6, 3)
    first, again = (uc.health(x, generator=torch.Generator().manual_seed(4)).tests for _ in range(2))
    assert first == again
    assert first["rayleigh"] == uc.rayleigh_test(x, simulations=999, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(
    ("table", "choices", "message"),
    [
        (torch.ones(1, 3), {}, "n >= 2"),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0], [math.nan, 1.0]]), {}, "at least 2 rows with a direction, got 1 of 3"),
        (torch.eye(3), {"names": ["a"]}, "expected 3 names"),
    ],
)
def test_what_cannot_be_measured_is_refused(table, choices, message, at_the_door):
    with pytest.raises(ValueError, match=message):
        uc.health(table, **choices)
