"""Large tables: one pass over the rows, neighbours of a sample, near duplicates by hashes."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.geometry.sphere import tangent
from unclump.tables import rows as rows_module
from unclump.tables.equal_rows import equal_rows, hash_rows
from unclump.tables.moments import Moments
from unclump.tables.neighbours import neighbours
from unclump.tables.plan import make_plan
from unclump.tables.rows import Rows
from unclump.tables.sampled_search import estimate_hubness, estimate_largest_hub, mean_interval, median_interval
from unclump.tables.sign_hashes import SignHash, candidates
from unclump.tables.survey import survey

EXACT = (
    "n", "d", "near", "bad_rows", "duplicates", "spherical_variance", "resultant_length", "effective_rank",
    "centred_rank", "rankme", "isoscore", "alpha_req", "mean_cosine", "uniformity", "norm_correlation",
    "norm_variation", "dead_dimensions",
)  # fmt: skip
SAMPLED = ("median_nearest_angle", "mean_nearest_angle", "cone_angle", "hubness", "largest_hub")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def clustered(points, n=3000, d=24):
    """Clusters of about twenty rows that lean to one direction, with norms, three duplicates and two bad rows."""
    centres = points(n // 20, d)
    x = centres[torch.randint(len(centres), (n,), generator=seeded())] + 0.8 * points(n, d) + 0.05
    x *= 1 + torch.rand(n, 1, generator=seeded(1), dtype=x.dtype)
    x[70], x[2 * n // 3], x[n // 2], x[5], x[6, 2] = x[40], x[40], 2 * x[41], 0, math.nan
    return x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_sample_changes_only_what_neighbours_tell(dtype, points):
    x = clustered(points).to(dtype)
    whole, part = uc.health(x), uc.health(x, sample=800)
    for name in EXACT:
        assert getattr(part, name) == getattr(whole, name), name
    for name, test in whole.tests.items():
        assert part.tests[name] == test
    assert {group.rows for group in part.clumps} == {group.rows for group in whole.clumps} != set()
    assert part.min_angle == pytest.approx(whole.min_angle, abs=1e-7)
    assert part.verdict.findings == whole.verdict.findings
    assert part.intervals.keys() == set(SAMPLED)
    assert (whole.sampled, whole.intervals, part.orphans) == (None, {}, None)
    assert len(part.sampled) == len(part.nearest_angles) in (799, 800)
    assert "neighbours of " in str(part)


def test_intervals_hold_what_the_whole_table_gives(points):
    """Of 120 intervals some six may miss: more than fifteen with a probability of 3e-4."""
    x = clustered(points, 2000, 12)
    whole, missed = uc.health(x), dict.fromkeys(SAMPLED, 0)
    for seed in range(30):
        part = uc.health(x, sample=500, generator=seeded(seed))
        for name, (low, high) in part.intervals.items():
            missed[name] += not low <= getattr(whole, name) <= high
    del missed["largest_hub"]  # the interval is that of the row that half of the sample chose
    assert max(missed.values()) <= 6
    assert sum(missed.values()) <= 15


def test_nearest_angles_of_sampled_rows_are_those_in_the_whole_table(points):
    x = clustered(points, 1500, 40)
    whole, part = uc.health(x), uc.health(x, sample=200)
    good = torch.tensor([row for row in range(1500) if row not in (5, 6)])
    places = torch.searchsorted(good, part.sampled)
    assert_close(part.nearest_angles, whole.nearest_angles[places], rtol=0, atol=1e-7)
    assert part.nearest_angles[part.sampled == 70].tolist() in ([0.0], [])
    most = uc.health(x, sample=1400).occurrences
    assert torch.corrcoef(torch.stack([most, whole.occurrences]))[0, 1] > 0.95
    assert most.sum().item() == pytest.approx(whole.occurrences.sum().item())


def test_a_sample_of_all_rows_is_exact(points):
    x = points(300, 8)
    assert uc.health(x, sample=300) == uc.health(x, sample=10**6) == uc.health(x)


def test_exact_or_a_sample_but_not_both(points):
    with pytest.raises(ValueError, match="expected exact or a sample, got both"):
        uc.health(points(30, 4), exact=True, sample=5)
    with pytest.raises(ValueError, match="sample"):
        uc.health(points(30, 4), sample=1)


def test_a_sample_without_directions_is_refused(points):
    x = torch.zeros(3000, 4)
    x[:3] = points(3, 4)
    with pytest.raises(ValueError, match="expected 2 sampled rows with a direction"):
        uc.health(x, sample=10)


def test_large_tables_are_sampled_unless_all_rows_are_asked_for():
    assert make_plan(100_000, 100).is_exact
    assert make_plan(341_000, 100).searched == 17_595
    assert make_plan(10**7, 128).searched == 2048
    assert make_plan(10**7, 128, exact=True).is_exact
    assert make_plan(1000, 4, sample=50).searched == 50
    rows = make_plan(1000, 4, sample=50).sample(seeded())
    assert len(set(rows.tolist())) == 50
    assert torch.equal(rows, rows.sort().values)
    assert make_plan(10**6, 384).memory() < 10**9


def test_hubness_of_all_rows_is_that_of_a_loop_and_of_samples_is_right_on_average(points):
    x = uc.project(points(1200, 30) + 0.2)
    index = neighbours(x, k=10, within=0.0).index
    counts = torch.bincount(index.flatten(), minlength=1200).double()
    skewness = ((counts - 10) ** 3).mean() / ((counts - 10) ** 2).mean() ** 1.5
    assert estimate_hubness(index, 1200)[0] == pytest.approx(skewness.item())
    estimates = [
        estimate_hubness(index[torch.randperm(1200, generator=seeded(seed))[:300]], 1200)[0] for seed in range(200)
    ]
    assert np.mean(estimates) == pytest.approx(skewness.item(), rel=0.05)


def test_the_largest_hub_is_outside_of_clumps_and_judged_by_other_rows():
    index = torch.arange(400).view(100, 4) + 100
    index[:30, 0], index[:60, 1] = 3, 7
    index = index[torch.randperm(100, generator=seeded())]
    share, (low, high) = estimate_largest_hub(index, torch.tensor([7]))
    assert share == (index[1::2] == 3).sum().item() / 50
    assert low < 0.3 < high
    assert estimate_largest_hub(index, torch.tensor([], dtype=torch.long))[0] == (index[1::2] == 7).sum().item() / 50


def test_intervals_of_mean_and_median_have_their_closed_forms():
    values = torch.arange(101, dtype=torch.float64)
    low, high = mean_interval(values, 10**12)
    assert (low + high) / 2 == pytest.approx(50)
    assert high - low == pytest.approx(2 * 1.96 * values.std().item() / math.sqrt(101))
    assert median_interval(values, 10**12) == (40, 60)  # 50 -+ 0.98 sqrt(101), outwards
    assert mean_interval(values, 101) == (50, 50)  # all of them


# --- moments, hashes, blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(50, 7), (7, 50)])
@pytest.mark.parametrize("width", [1.0, 1e-6])
def test_moments_of_blocks_are_those_of_all_rows(n, d, width, points):
    x = points(1, d) + width * points(n, d)
    moments = Moments(x[0], at_most=n)
    for block in x.split(3):
        moments.add(block)
    centred = x - x.mean(dim=0)
    assert_close(moments.mean, x.mean(dim=0))
    assert_close(moments.variances, centred.square().mean(dim=0), rtol=1e-6, atol=0)
    assert_close(moments.singular_values()[:1], torch.linalg.svdvals(x)[:1])
    expected = torch.linalg.svdvals(centred)[: min(n - 1, d)]
    assert_close(moments.centred_singular_values()[: len(expected)], expected, rtol=1e-5, atol=0)
    assert moments.isoscore() == pytest.approx(uc.isoscore(x), rel=1e-5)


def test_blocks_change_nothing(points, monkeypatch):
    x = clustered(points, 500, 12)
    rows = torch.arange(3, 480, 7)
    whole = survey(Rows(x), sampled=rows, k=5)
    monkeypatch.setattr(rows_module, "BLOCK", 12 * 64)
    parts = survey(Rows(x), sampled=rows, k=5)
    assert torch.equal(whole.sample.neighbours, parts.sample.neighbours)
    assert (whole.sample.hashes == parts.sample.hashes).all()
    assert (whole.hashes == parts.hashes).all()
    assert torch.equal(whole.norms, parts.norms)
    assert whole.bad == parts.bad != ()
    assert_close(whole.unit.scatter(), parts.unit.scatter())


def test_a_crowd_of_equal_rows_is_not_among_its_own_neighbours(points):
    x = torch.cat([points(1, 6).repeat(40, 1), points(60, 6)])
    found = survey(Rows(x), sampled=torch.arange(0, 100, 3), k=5).sample
    assert (found.neighbours != found.numbers.unsqueeze(1)).all()
    assert (found.neighbours[found.numbers < 40] < 40).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_equal_rows_are_those_of_a_loop(dtype, d):
    x = torch.randint(-1, 2, (200, d), generator=seeded()).to(dtype) * 0.5
    x[3] = -x[3].abs() * 0  # minus zero
    rows_by_value: dict[tuple[float, ...], list[int]] = {}
    for row, value in enumerate(x.tolist()):
        rows_by_value.setdefault(tuple(value), []).append(row)
    expected = {tuple(rows) for rows in rows_by_value.values() if len(rows) > 1}
    assert set(equal_rows(Rows(x), torch.arange(200), hash_rows(x))) == expected
    assert set(equal_rows(Rows(x), torch.arange(200), np.zeros(200, np.uint64))) == expected  # all hashes collide


def test_rows_of_many_small_groups_are_fetched_together(points):
    x = points(3000, 4)[torch.arange(6000) % 3000]
    rows, taken = Rows(x), []
    rows.take = lambda numbers: taken.append(len(numbers)) or x[numbers]
    assert len(equal_rows(rows, torch.arange(6000), hash_rows(x))) == 3000
    assert taken == [6000]  # one message to other processes, not 3000
    rows.parts = (x.new_zeros(1, 2**11),)  # as if there were so many dimensions: about 512 rows at a time
    taken.clear()
    assert len(equal_rows(rows, torch.arange(6000), hash_rows(x))) == 3000
    assert max(taken) <= 512
    assert sum(taken) == 6000


def test_hashes_tell_rows_apart(points):
    x = points(5000, 3).half()
    assert len(np.unique(hash_rows(x))) == len(torch.unique(x, dim=0))


@pytest.mark.parametrize(("degrees", "recall"), [(0.01, 1.0), (0.3, 0.999), (1.0, 0.99)])
def test_pairs_within_a_degree_are_nearly_always_candidates(degrees, recall, points):
    x = uc.project(points(4000, 64) + 0.2)  # a cone, whose centre the hyperplanes go through
    side = uc.project(tangent(x, points(4000, 64)))
    both = torch.cat([x, math.cos(math.radians(degrees)) * x + math.sin(math.radians(degrees)) * side])
    pairs = candidates(SignHash(both.mean(dim=0))(both.float()))
    assert ((pairs[:, 1] - pairs[:, 0]) == 4000).sum() >= recall * 4000
    assert len(pairs) < 4100  # and few others


@pytest.mark.parametrize("d", [2, 3, 4])
def test_pairs_in_few_dimensions_are_candidates_where_hyperplanes_make_few_cells(d, points):
    x = uc.project(points(60_000, d))
    first, near = x[:30_000:300], uc.duplicate_angle(len(x), d)
    x[30_000::300] = uc.project(first + near / 2 * uc.project(tangent(first, points(100, d))))
    pairs = candidates(SignHash(x.mean(dim=0))(x.float())).tolist()
    planted = {(row, 30_000 + row) for row in range(0, 30_000, 300)}
    assert len(planted.intersection(map(tuple, pairs))) >= 99
    assert len(pairs) < 40 * len(x)


def test_candidates_are_all_pairs_of_a_few_rows_and_chains_of_many():
    sizes = [1, 2, 3, 31, 32, 33, 45]  # all pairs up to 32 rows with the same hash
    hashes = np.repeat(np.arange(len(sizes), dtype=np.uint32) * 7, sizes)
    order = torch.randperm(len(hashes), generator=seeded()).numpy()
    expected = set()
    for value in np.unique(hashes):
        rows = np.flatnonzero(hashes[order] == value).tolist()
        for i, first in enumerate(rows):
            for lag, second in enumerate(rows[i + 1 :], start=1):
                if len(rows) <= 32 or lag <= 8 or i == 0:
                    expected.add((first, second))
    line = np.zeros(len(hashes), dtype=np.uint32)  # all at one place, so that rows follow each other by number
    found = candidates(np.column_stack([np.repeat(hashes[order, None], 4, axis=1), line]))
    assert set(map(tuple, found.tolist())) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("flips", [0, 1, 8, 9])
def test_candidates_differ_in_eight_bits_at_most(flips):
    near = np.array([0x0F0F0F0F, 5, 2**32 - 1, 77, 0], dtype=np.uint32)
    other = near.copy()
    for bit in range(flips):  # none in the first table, in which they are found
        other[1 + bit % 3] ^= np.uint32(1 << (3 * bit))
    assert candidates(np.stack([near, other])).tolist() == ([[0, 1]] if flips <= 8 else [])


def test_a_large_crowd_has_few_candidates_that_connect_it(points):
    x = torch.cat([points(1, 16).repeat(3000, 1), points(100, 16)]).float()
    pairs = candidates(SignHash(x.double().mean(dim=0))(x))
    assert len(pairs) < 10 * 3000
    assert set(pairs.flatten().tolist()) >= set(range(3000))
    clumps = uc.health(x, sample=50).clumps
    assert [len(group.rows) for group in clumps] == [3000]
