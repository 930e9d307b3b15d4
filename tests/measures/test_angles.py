import itertools
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.measures import pair_chords
from unclump.ops import native


def all_angles(x):
    return [uc.angle(a, b).item() for a, b in itertools.combinations(x, 2)]


@pytest.mark.parametrize("n", [2, 3, 8, 9])  # odd and even numbers of pairs
def test_each_is_its_definition(n, points):
    x = points(n, 3)
    every = all_angles(x)
    assert_close(uc.min_angle(x), min(every), rtol=1e-12, atol=0)
    assert_close(uc.mean_angle(x), float(np.mean(every)), rtol=1e-12, atol=0)
    assert_close(uc.median_angle(x), float(np.median(every)), rtol=1e-12, atol=0)
    assert_close(uc.spherical_variance(x), 1 - x.mean(dim=0).norm().item())
    nearest = [min(uc.angle(x[i], x[j]).item() for j in range(n) if j != i) for i in range(n)]
    assert_close(uc.nearest_angles(x).tolist(), nearest)


@pytest.mark.parametrize("shape", [(50, 6), (3, 50, 6)], ids=["table", "sets"])
@pytest.mark.parametrize("measure", [uc.spherical_variance, uc.mean_cosine])
def test_sums_of_directions_are_the_same_in_blocks(measure, shape, monkeypatch):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = measure(x)
    monkeypatch.setattr("unclump.measures.rows._BLOCK", 7 * 6)
    assert_close(measure(x), whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [1100, 1201])
def test_streams_agree_with_the_matrix(n, points):
    x = points(n, 5)
    matrix = uc.angle(x.unsqueeze(1), x)
    every = matrix[torch.ones(n, n, dtype=torch.bool).triu(1)]
    assert_close(uc.mean_angle(x), every.mean().item(), rtol=1e-12, atol=0)
    assert_close(uc.median_angle(x), float(np.median(every)), rtol=1e-12, atol=0)
    assert_close(uc.min_angle(x), every.min().item(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("kind", ["spread", "in a cone", "half are equal", "all are equal"])
def test_the_mean_of_float32_points_is_that_of_float64_ones(kind, points, monkeypatch):
    """Large tables of points that are not near each other are computed in float32, others are not."""
    monkeypatch.setattr("unclump.measures.angles.SAMPLED_PAIRS", 1000)
    x = points(1500, 5)
    if kind == "in a cone":
        x = torch.tensor([1.0, 0, 0, 0, 0]) + 1e-2 * x
    elif kind != "spread":
        x[: 750 if kind == "half are equal" else 1500] = x[0].clone()
    x = x.float()
    assert_close(uc.mean_angle(x), uc.mean_angle(x.double()), rtol=1e-6 if kind == "spread" else 1e-12, atol=0)
    assert (uc.mean_angle(x) == uc.mean_angle(x.double())) == (kind != "spread")
    assert uc.summary(x, samples=10).mean_angle == uc.mean_angle(x)


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_the_median_is_exact_where_little_may_be_held(kept, points, monkeypatch):
    monkeypatch.setattr(pair_chords, "_MAX_COLLECTED", kept)
    monkeypatch.setattr(pair_chords, "_BINS", 4)
    for x in (points(10, 3), points(11, 3), torch.eye(3).repeat(4, 1).double(), torch.eye(2).double()):
        assert_close(uc.median_angle(x), float(np.median(all_angles(x))), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("native_loops", [True, False], ids=["loops", "reference"])
@pytest.mark.parametrize("room", [3_000, 60_000], ids=["in bins of the range", "at once"])
@pytest.mark.parametrize("kind", ["spread", "clusters", "equal rows"])
def test_the_median_is_exact_in_a_range_found_by_a_sample(kind, room, native_loops, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", native.ENABLED and native_loops)
    monkeypatch.setattr(pair_chords, "_MAX_COLLECTED", room)
    monkeypatch.setattr(pair_chords, "SAMPLED_PAIRS", 2**14)
    x = points(700, 5)
    if kind != "spread":
        centres = points(6, 5)[torch.arange(700) % 6]
        x = centres if kind == "equal rows" else uc.project(centres + 0.02 * x)
    every = uc.angle(x.unsqueeze(1), x)[torch.ones(700, 700, dtype=torch.bool).triu(1)]
    assert_close(uc.median_angle(x), float(np.median(every)), rtol=1e-9, atol=1e-9)


def test_a_sample_of_pairs_has_every_row_equally_often():
    """Of rows at two poles, as many sampled pairs are apart as of all pairs, whatever the order of rows."""
    poles = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(4096, 1)
    poles[:1024] *= -1
    apart = 2 * 1024 * 3072 / (4096 * 4095)
    assert abs((pair_chords.sample_chords(poles) == 4).mean() - apart) < 0.003


@pytest.mark.parametrize(("room", "counts"), [(3_000, 1), (60_000, 0)])
def test_the_median_takes_one_pass_or_two(room, counts, points, monkeypatch):
    monkeypatch.setattr(pair_chords, "_MAX_COLLECTED", room)
    monkeypatch.setattr(pair_chords, "SAMPLED_PAIRS", 2**14)
    passes = []
    for name in ("_count_chords", "_collect_chords"):
        function = getattr(pair_chords, name)
        record = lambda *args, name=name, function=function: passes.append(name) or function(*args)  # noqa: E731
        monkeypatch.setattr(pair_chords, name, record)
    uc.median_angle(points(702, 5))  # an odd number of pairs
    assert passes == ["_count_chords"] * counts + ["_collect_chords"]


def test_the_median_of_a_tight_clump_is_not_rounded_to_a_bin(points, monkeypatch):
    monkeypatch.setattr(pair_chords, "_MAX_COLLECTED", 1000)
    tilt = 1e-9 * points(100, 4)
    x = torch.cat([torch.ones(100, 1, dtype=torch.float64), tilt], dim=1)
    assert_close(uc.median_angle(x), float(np.median(torch.pdist(tilt))), rtol=1e-4, atol=0)


def test_known_configurations(icosahedron, simplex):
    assert_close(uc.min_angle(icosahedron), math.atan(2))
    assert_close(uc.min_angle(simplex(7)), math.acos(-1 / 7))
    assert_close(uc.spherical_variance(icosahedron), 1.0)
    assert_close(uc.effective_rank(icosahedron), 3.0)


def test_small_angles_are_seen_in_float32():
    x = torch.eye(3)
    x[1] = torch.tensor([1.0, 1e-6, 0.0])
    assert_close(uc.min_angle(x), 1e-6, rtol=1e-6, atol=0)


def test_rows_of_any_norm_are_directions(points):
    x = points(10, 4)
    sizes = torch.logspace(-20, 20, 10, dtype=torch.float64).unsqueeze(-1)
    assert_close(uc.min_angle(sizes * x), uc.min_angle(x))


def test_the_covering_radius_of_the_octahedron_is_the_centre_of_a_face(generator):
    octahedron = torch.cat([torch.eye(3), -torch.eye(3)])
    radius = uc.covering_radius(octahedron, samples=50_000, generator=generator)
    exact = math.acos(1 / math.sqrt(3))
    assert exact - 0.02 < radius <= exact


def test_the_effective_rank_is_the_exponential_of_the_entropy_of_singular_values(points):
    x = uc.project(points(20, 4) * torch.tensor([5.0, 2.0, 1.0, 0.5]))
    share = torch.linalg.svdvals(x) / torch.linalg.svdvals(x).sum()
    assert_close(uc.effective_rank(x), math.exp(-(share * share.log()).sum().item()))


def test_the_effective_rank_counts_used_dimensions(points):
    flat = torch.cat([points(500, 3), torch.zeros(500, 5, dtype=torch.float64)], dim=1)
    assert 2.9 < uc.effective_rank(flat) <= 3.0 + 1e-9
    assert_close(uc.effective_rank(points(1, 6).expand(4, 6)), 1.0, atol=1e-5, rtol=0)
    assert_close(uc.effective_rank(torch.eye(3, 9)), 3.0)


def test_the_summary_holds_every_measure_and_prints_degrees(points):
    x = points(12, 3)
    seeded = lambda: torch.Generator().manual_seed(1)  # noqa: E731
    found = uc.summary(x, samples=100, generator=seeded())
    assert (found.n, found.d, found.covering_samples) == (12, 3, 100)
    assert found.min_angle == uc.min_angle(x)
    assert found.median_nearest_angle == float(np.median(uc.nearest_angles(x)))
    assert found.mean_nearest_angle == uc.nearest_angles(x).mean().item()
    assert found.median_angle == uc.median_angle(x)
    assert found.mean_angle == uc.mean_angle(x)
    assert found.covering_radius == uc.covering_radius(x, samples=100, generator=seeded())
    assert f"{math.degrees(found.min_angle):.4f}°" in str(found)
    assert "12 x 3" in str(found)
