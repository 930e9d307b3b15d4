"""Repairs side by side: figures by their definitions, intervals that cover, advice that never harms."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import unclump as uc
from tests.small_tables import seeded
from unclump.ops.nearest import nearest
from unclump.tables.commands import Paths
from unclump.tables.comparison import AS_IT_IS, Compared
from unclump.tables.comparison_advice import recommend, verdict
from unclump.tables.comparison_figures import (
    Changed,
    JudgedPairs,
    Labels,
    Retrieval,
    bootstrap,
    estimate,
    skewness,
)
from unclump.tables.comparison_methods import Fits, Map, Move, candidates, method_named
from unclump.tables.comparison_run import compare

PATHS = Paths(Path("t.npz"), Path("o.npz"))


def changed(points, k=10, map_queries=lambda queries: queries):
    near = nearest(uc.project(points), k=min(k, len(points) - 1))[0]
    return Changed(points, near, map_queries)


def value(figure, scores):
    return float(figure.value(scores, np.arange(len(scores))[None])[0])


def random_pairs(n, m):
    source = np.random.default_rng(0)
    first = source.integers(n, size=m)
    return first, (first + source.integers(1, n, size=m)) % n


def test_spearman_is_scipys_with_ties(points):
    x = points(50, 4)
    first, second = random_pairs(50, 200)
    judged = np.random.default_rng(1).integers(5, size=200).astype(float)
    figure = JudgedPairs(first, second, judged)
    cosines = (x[first] * x[second]).sum(dim=1)
    assert value(figure, figure.score(changed(x * torch.linspace(0.1, 7, 50).unsqueeze(1)))) == pytest.approx(
        spearmanr(cosines, judged)[0], abs=1e-12
    )


def test_recall_by_its_definition(points):
    x, queries = points(60, 3), points(5, 3)
    relevant = {0: [3, 9], 1: [4], 2: [5, 6, 7], 3: [59], 4: [0]}
    query, row = (np.array(column) for column in zip(*[(q, r) for q in relevant for r in relevant[q]], strict=True))
    figure = Retrieval(queries, query, row, 10)
    nearest_rows = (queries @ x.mT).argsort(dim=1, descending=True)[:, :10].tolist()
    expected = [len(set(relevant[q]) & set(nearest_rows[q])) / len(relevant[q]) for q in range(5)]
    scores = figure.score(changed(x))
    assert scores == pytest.approx(expected)
    assert 0 < value(figure, scores) < 1
    assert figure.name == "recall@10"


def test_queries_follow_a_map_and_not_a_move(points):
    x = points(100, 3)
    rotated = x @ torch.linalg.qr(torch.randn(3, 3, generator=seeded(4), dtype=torch.float64)).Q
    turn = torch.linalg.lstsq(x, rotated).solution
    figure = Retrieval(x[:20] * 3, np.arange(20), np.arange(20), 1)
    assert value(figure, figure.score(changed(rotated, map_queries=lambda queries: queries @ turn))) == 1
    assert value(figure, figure.score(changed(rotated))) < 0.5


def test_labels_by_a_loop(points):
    x = points(80, 3)
    label = np.random.default_rng(2).integers(3, size=80)
    table = changed(x, k=4)
    scores = Labels(label).score(table)
    for i, near in enumerate(table.near.tolist()):
        votes = [list(label[near]).count(label[j]) for j in near]
        assert scores[i] == (label[near[votes.index(max(votes))]] == label[i])


@pytest.mark.parametrize("kind", ["pairs", "retrieval", "labels"])
def test_a_sample_of_rows_has_the_same_items(kind, points):
    x = points(40, 4)
    rows = np.array([2, 3, 5, 8, 13, 21, 34, 39])
    first, second = rows[[0, 1, 2, 7]], rows[[7, 6, 5, 4]]
    figure = {
        "pairs": JudgedPairs(first, second, np.arange(4.0)),
        "retrieval": Retrieval(x[:4], np.arange(4), first, 3),
        "labels": Labels(np.arange(40) % 3),
    }[kind]
    small = figure.restrict(rows)
    if kind == "pairs":
        assert small.score(changed(x[rows])) == pytest.approx(figure.score(changed(x)))
    elif kind == "retrieval":
        assert small.row.tolist() == [0, 1, 2, 7]
    else:
        assert small.label.tolist() == (rows % 3).tolist()
    assert set(figure.rows.tolist()) <= set(rows.tolist())


def test_hubness_is_that_of_the_health_check(points):
    x = points(300, 8)
    counts = np.bincount(nearest(x, k=10)[0].flatten().numpy(), minlength=300).astype(float)
    assert float(skewness(counts, np.arange(300)[None])[0]) == pytest.approx(uc.health(x).hubness)


def test_paired_intervals_cover():
    """Of the difference of two recalls with a known truth, about 95 of a hundred times."""
    source, covered = np.random.default_rng(3), 0
    figure = Retrieval(torch.zeros(1, 2), np.zeros(1, int), np.zeros(1, int), 1)
    for _ in range(400):
        before = source.random(150) < 0.5
        after = before ^ (source.random(150) < np.where(before, 0.1, 0.3))  # 0.5 becomes 0.6
        seed = int(source.integers(2**31))
        draws = [bootstrap(figure.value, scores.astype(float), seed=seed) for scores in (before, after)]
        _, low, high = estimate(draws[1] - draws[0])
        covered += low <= 0.1 <= high
        _, wide_low, wide_high = estimate(draws[1] - draws[0], 10)
        assert wide_low < low < high < wide_high
    assert 0.92 <= covered / 400 <= 0.98


def test_pairing_makes_intervals_of_the_difference_shorter():
    source = np.random.default_rng(4)
    before = source.random(200)
    after = before + 0.01 * source.random(200)
    figure = Labels(np.zeros(200, int))
    draws = [bootstrap(figure.value, scores, seed=0) for scores in (before, after)]
    change, low, high = estimate(draws[1] - draws[0])
    assert high - low < 0.1 * (estimate(draws[0])[2] - estimate(draws[0])[1])
    assert low < change < high
    assert change == pytest.approx((after - before).mean())


def cone_hides_meaning(n=400, d=16):
    """Rows whose meaning is in small directions, beside a wide one and a mean that say nothing."""
    meaning = torch.randn(n, d - 1, generator=seeded(), dtype=torch.float64)
    nuisance = 8 * torch.randn(n, 1, generator=seeded(1), dtype=torch.float64)
    return torch.cat([nuisance, meaning], dim=1) + 3, meaning


def meaning_is_wide(n=400, d=16):
    """Rows whose meaning is in one wide direction, beside many small ones that say nothing."""
    noise = torch.randn(n, d - 2, generator=seeded(), dtype=torch.float64)
    meaning = 12 * torch.randn(n, 2, generator=seeded(1), dtype=torch.float64)
    return torch.cat([meaning, noise], dim=1), meaning


def judged_by(meaning, m=600):
    first, second = random_pairs(len(meaning), m)
    unit = uc.project(meaning)
    noise = 0.05 * np.random.default_rng(5).normal(size=m)
    return JudgedPairs(first, second, (unit[first] * unit[second]).sum(dim=1).numpy() + noise)


@pytest.fixture(scope="module")
def useful():
    x, meaning = cone_hides_meaning()
    return compare(Fits(x, seed=0), paths=PATHS, figure=judged_by(meaning), source="judged.tsv")


@pytest.fixture(scope="module")
def harmful():
    x, meaning = meaning_is_wide()
    return compare(Fits(x, seed=0), paths=PATHS, figure=judged_by(meaning), source="judged.tsv")


def test_a_repair_that_helps_is_recommended(useful):
    by_name = {method.name: method for method in useful.methods}
    chosen = by_name[useful.recommendation.method]
    assert chosen.verdict == "better"
    assert chosen.values["figure"] > by_name[AS_IT_IS].values["figure"] + 0.2
    assert chosen.values["figure"] == max(m.values["figure"] for m in useful.methods if m.kind == "map")
    assert useful.recommendation.command.startswith("unclump fit t.npz -o o.map.safetensors --method ")
    assert " && unclump apply o.map.safetensors t.npz -o o.npz" in useful.recommendation.command


def test_a_repair_that_harms_is_not(harmful):
    whitened = next(method for method in harmful.methods if method.name == "whiten, strength 1")
    assert whitened.verdict == "worse"
    assert harmful.recommendation.method == AS_IT_IS
    assert harmful.recommendation.command == ""
    assert harmful.recommendation.reason == "no method clearly raises Spearman"


@pytest.mark.parametrize("which", ["useful", "harmful"])
def test_nothing_that_lowers_the_figure_is_called_better(which, request):
    comparison = request.getfixturevalue(which)
    for method in comparison.methods[1:]:
        change, low, high = method.changes["figure"]
        assert low < change < high
        assert change == pytest.approx(method.values["figure"] - comparison.methods[0].values["figure"])
        assert method.verdict == ("better" if low > 0 else "worse" if high < 0 else "no clear change")


def test_a_comparison_lists_all_candidates_and_says_what_it_measured(useful):
    assert [m.name for m in useful.methods[1:]] == [m.name for m in candidates(16, 400)]
    assert useful.methods[0].values["overlap"] == 1
    assert [column.key for column in useful.columns] == ["figure", "overlap", "hubness", "rank", "seconds"]
    assert useful.figure.items == 600
    x, _ = cone_hides_meaning()
    centred = next(method for method in useful.methods if method.name == "centre")
    assert centred.values["overlap"] == pytest.approx(uc.neighbour_overlap(x, x - x.mean(dim=0), samples=None))
    assert centred.values["hubness"] == pytest.approx(uc.health(x - x.mean(dim=0)).hubness)
    assert centred.values["rank"] == pytest.approx(uc.effective_rank(x - x.mean(dim=0)))


def test_a_large_table_is_compared_on_a_sample_with_all_rows_of_the_figure():
    x, meaning = cone_hides_meaning()
    figure = judged_by(meaning, 60)
    result = compare(Fits(x, seed=0), paths=PATHS, figure=figure, sample=200)
    assert (result.rows, result.compared_rows) == (400, 200)
    assert any("200 of 400 rows" in note for note in result.notes)
    for compared, by in ((result.methods[0], None), (result.methods[1], Map("centre"))):
        whole = x if by is None else Fits(x, seed=0).fit(by)[0].transform(x)
        assert compared.values["figure"] == pytest.approx(value(figure, figure.score(changed(whole))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_compared_in_single(dtype, monkeypatch):
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter([Map("centre")]))
    x = cone_hides_meaning()[0].to(dtype)
    half, single = (compare(Fits(rows, seed=0), paths=PATHS) for rows in (x, x.float()))
    for key in ("overlap", "hubness", "rank"):
        assert half.methods[1].values[key] == pytest.approx(single.methods[1].values[key], abs=1e-9)


def test_a_row_that_is_the_mean_may_become_zero(monkeypatch):
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter([Map("centre")]))
    x = torch.randn(100, 4, generator=seeded()).round(decimals=1)
    x = torch.cat([x, 2 - x, torch.ones(1, 4)])  # its mean is (1, 1, 1, 1)
    assert (Fits(x, seed=0).fit(Map("centre"))[0].transform(x)[-1] == 0).all()
    compared = compare(Fits(x, seed=0), paths=PATHS).methods[1]
    assert compared.values["rank"] == pytest.approx(uc.effective_rank(x[:-1] - 1), rel=1e-5)


def result(name, kind="map", *, hubness=2.0, overlap=0.9, change=-0.5, half=0.1):
    values = {"hubness": hubness, "overlap": overlap}
    changes = {"hubness": (change, change - half, change + half)}
    return Compared(name, kind, f"do {name}", values, {}, changes, verdict(changes, None))


START = Compared(AS_IT_IS, "none", "", {"hubness": 2.0, "overlap": 1.0}, {}, {}, "")


@pytest.mark.parametrize(
    ("methods", "by_index", "expected"),
    [
        ([result("a", hubness=1.5), result("b", hubness=1.2)], False, "b"),
        ([result("a", hubness=1.5), result("b", hubness=1.2, overlap=0.69)], False, "a"),
        ([result("a", hubness=1.5, half=0.6)], False, AS_IT_IS),
        ([result("a", hubness=1.51, change=-0.49)], False, AS_IT_IS),
        ([result("a", hubness=2.5, change=0.5)], False, AS_IT_IS),
        ([result("a", "move", hubness=1.0)], False, AS_IT_IS),
        ([result("a", "move", hubness=1.0)], True, "a"),
        ([], False, AS_IT_IS),
    ],
)
def test_advice_without_a_figure(methods, by_index, expected):
    advice = recommend([START, *methods], None, by_index=by_index)
    assert advice.method == expected
    assert advice.command == ("" if expected == AS_IT_IS else f"do {expected}")


@pytest.mark.parametrize(("hubness", "after"), [(0.08, 0.02), (0.99, 0.1), (-0.4, -0.5)])
def test_a_table_without_hubs_stays_as_it_is(hubness, after):
    start = Compared(AS_IT_IS, "none", "", {"hubness": hubness, "overlap": 1.0}, {}, {}, "")
    advice = recommend([start, result("a", hubness=after)], None, by_index=False)
    assert (advice.method, advice.reason) == (AS_IT_IS, f"it has no hubs to remove (hubness {hubness:.2f})")


def test_a_fault_that_is_left_is_explained(monkeypatch):
    """`unclump measure` calls these tables a cone and collapsed, and names `unclump repair`, which leaves them."""
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter([Map("centre")]))
    even = uc.uniform(300, 3, generator=seeded())
    cone = torch.cat([even, torch.full((300, 1), 2.0)], dim=1)
    flat = torch.cat([even[:, :2], 0.001 * torch.randn(300, 9, generator=seeded(1))], dim=1)
    pairs = JudgedPairs(*random_pairs(300, 100), np.random.default_rng(4).random(100))
    for x, fault, said in (
        (cone, "cone", "a cone (mean cosine 0.80)"),
        (flat, "rank", "a collapsed rank (about 2.2 of 11"),
    ):
        assert fault in uc.health(x).verdict.findings
        found = compare(Fits(x, seed=0), paths=PATHS)
        assert found.recommendation.method == AS_IT_IS
        assert found.notes[0].startswith(said)
        assert "that neighbours and hubs show" in found.notes[0]
        assert "that Spearman shows" in compare(Fits(x, seed=0), paths=PATHS, figure=pairs).notes[0]
    assert found.notes[0] in str(found)
    command = "unclump fit t.npz -o o.map.safetensors --method centre && unclump apply o.map.safetensors t.npz -o o.npz"
    assert compare(Fits(cone, seed=0), paths=PATHS).notes[0].endswith(f"subtract the mean: {command}")
    assert not any("cone" in note for note in compare(Fits(even, seed=0), paths=PATHS).notes)


@pytest.mark.parametrize(("lean", "is_healthy"), [(2.5, True), (6.0, False)])
def test_a_repair_that_nothing_calls_for_is_called_a_choice(lean, is_healthy, monkeypatch):
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter([Map("centre")]))
    monkeypatch.setattr("unclump.tables.comparison_advice._KEPT", 0.5)
    x = torch.randn(1000, 20, generator=seeded())
    x[:, 0] += lean
    assert uc.health(x).verdict.is_healthy == is_healthy
    found = compare(Fits(x, seed=0), paths=PATHS)
    assert found.recommendation.method == "centre"
    assert any("may need no repair" in note for note in found.notes) == is_healthy
    pairs = JudgedPairs(*random_pairs(1000, 100), np.random.default_rng(4).random(100))
    assert "may need no repair" not in str(compare(Fits(x, seed=0), paths=PATHS, figure=pairs))


def test_intervals_stay_within_the_bounds_of_a_figure(monkeypatch, points):
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter([Map("centre")]))
    centres, label = 5 * points(3, 8), np.arange(120) % 3
    x = centres[label] + points(120, 8)
    label[0] = 1
    figure = Labels(label)
    for method in compare(Fits(x, seed=0), paths=PATHS, figure=figure).methods:
        low, high = method.intervals["figure"]
        assert 0.9 < low < method.values["figure"] < high == 1


def test_equal_rows_are_refused():
    with pytest.raises(ValueError, match="expected rows that differ, got equal rows"):
        compare(Fits(torch.ones(200, 4), seed=0), paths=PATHS)


def test_a_move_takes_as_many_passes_over_any_table():
    command = Move("koleo", 10).command(PATHS, 2**20, 0)
    assert command.endswith(f"--steps {200 * 2**20 // 1024}")


def test_shared_fits_are_those_of_isotropy():
    x, _ = cone_hides_meaning()
    fits = Fits(x, seed=3)
    for by in (Map("centre"), Map("all_but_the_top", directions=2), Map("whiten", 0.25)):
        alone = uc.Isotropy(by.method, strength=by.strength, directions=by.directions).fit(x)
        assert torch.equal(fits.fit(by)[0].matrix, alone.matrix)
    alone = uc.Isotropy("learn", strength=0.5, generator=seeded(3)).fit(x)
    assert torch.equal(fits.fit(Map("learn", 0.5))[0].matrix, alone.matrix)
    assert fits.fit(Map("learn", 1.0))[1] >= fits.fit(Map("learn", 0.5))[1] > 0


def test_moves_are_bounded():
    x = cone_hides_meaning()[0].float()
    for move in (Move("sliced", 10), Move("koleo", 10)):
        turned = uc.angle(uc.project(x), uc.project(move.apply(x, 0)))
        assert 0.1 < turned.max() <= np.radians(10) + 1e-6


def test_methods_are_known_by_name():
    for method in candidates(16, 400):
        assert method_named(method.name, 16, 400) == method
    assert method_named(AS_IT_IS, 16, 400) is None
    assert len({method.name for method in candidates(3, 5)}) == len(list(candidates(3, 5)))
