"""Rates that are tried from one start, as long as the next is better, and the best from more starts."""

import importlib
import json

import pytest

pytest.importorskip("matplotlib")

RATES = [0.0001, 0.001, 0.01, 0.1]
BEST = {("clumped", "KoLeo"): 0.01, ("clumped", "Lloyd 512"): 0.001, ("uniform", "KoLeo"): 0.1}


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """main() with made-up runs, whose measures fall with the distance to the best rate; and what ran."""
    synthetic = importlib.import_module("synthetic")
    ran = []

    def run(*, start, objective, seed, lr, records, **_):
        ran.append((start, objective, seed, lr, records))
        end = 0.5 + seed / 100 - abs(RATES.index(lr) - RATES.index(BEST.get((start, objective), 0.001))) / 10
        values = [0.0] * (records - 1) + [end]
        return {"step": list(range(records)), "variance": values, "min_degrees": values, "lost_at": None}

    monkeypatch.setattr(synthetic, "run", run)
    monkeypatch.setattr(synthetic, "draw", lambda *_: None)
    options = {"--objectives": ["KoLeo", "Lloyd 512"], "--lazy": [], "--peers": [], "--rates": RATES}
    asked = [word for pair in options.items() for word in (pair[0], json.dumps(pair[1]))]
    return synthetic.main(["--output", str(tmp_path), *asked, "--seeds", "4", "--seeds-uniform", "2"]), ran


def test_rates_are_tried_from_one_start_and_the_best_is_run_from_more(experiment):
    """Upwards first; where the paper's rate is the best, both neighbours have been tried."""
    summary, ran = experiment
    elsewhere = [one for one in ran if one[3] != 0.001]
    assert sorted(one for one in elsewhere if one[2] == 0) == [
        ("clumped", "KoLeo", 0, 0.01, 2),
        ("clumped", "KoLeo", 0, 0.1, 2),
        ("clumped", "Lloyd 512", 0, 0.0001, 2),
        ("clumped", "Lloyd 512", 0, 0.01, 2),
        ("uniform", "KoLeo", 0, 0.01, 2),
        ("uniform", "KoLeo", 0, 0.1, 2),
        ("uniform", "Lloyd 512", 0, 0.0001, 2),
        ("uniform", "Lloyd 512", 0, 0.01, 2),
    ]
    assert sorted(one for one in elsewhere if one[2] > 0) == [
        ("clumped", "KoLeo", 1, 0.01, 2),
        ("clumped", "KoLeo", 2, 0.01, 2),
        ("uniform", "KoLeo", 1, 0.1, 2),
    ]
    assert len(elsewhere) == len(set(elsewhere))
    for (start, objective), lr in BEST.items():
        found = summary["best_rates"][start][objective]
        assert found["lr"] == lr
        assert found["values"] == pytest.approx([0.5, 0.51, 0.52][: 2 if start == "uniform" else 3])
        assert found["inside"] == (lr != 0.1)
    assert set(summary["best_rates"]["clumped"]["Lloyd 512"]["tried"]) == {"0.0001", "0.001", "0.01"}


@pytest.mark.parametrize(
    ("tried", "wanted"),
    [
        ({0.001: 0.5}, 0.01),
        ({0.001: 0.5, 0.01: 0.6}, 0.1),
        ({0.001: 0.5, 0.01: 0.4}, 0.0001),
        ({0.001: 0.5, 0.01: 0.4, 0.0001: 0.6}, None),
        ({0.001: 0.5, 0.01: 0.4, 0.0001: 0.4}, None),
        ({0.001: 0.5, 0.01: 0.6, 0.1: 0.7}, None),
    ],
)
def test_the_next_rate_is_beside_the_best(tried, wanted):
    assert importlib.import_module("synthetic").next_rate(RATES, tried) == wanted


def test_large_tables_are_tuned_by_the_first_start_and_rates_are_added_to_one_objective(monkeypatch, tmp_path):
    """Of 100 points all choices have all starts; SSW's root, best at the last rate, gets one more, and nothing else."""
    sliced_ssw = importlib.import_module("sliced_ssw")
    ran = []

    def run(*, objectives, lrs, n, circles, seed, again, **_):
        ran.extend((n, name, circles, lr, seed, again) for name, lr in zip(objectives, lrs, strict=True))
        best = {name: 0.02 if name == "SSW root" else 0.005 for name in objectives}
        ends = [circles - abs(lr - best[name]) + seed for name, lr in zip(objectives, lrs, strict=True)]
        return [{"min_degrees": end, "variance": 1.0} for end in ends]

    monkeypatch.setattr(sliced_ssw, "run", run)
    monkeypatch.setattr(sliced_ssw, "draw", lambda *_: None)
    options = {"--points": [100, 1000], "--dimensions": [512], "--follow": [], "--seeds": 3}
    asked = [word for pair in options.items() for word in (pair[0], json.dumps(pair[1]))]
    summary = sliced_ssw.main(["--output", str(tmp_path), *asked])
    assert len(ran) == len(set(ran))
    rates = {"Sliced": [0.001, 0.005, 0.02], "SSW": [0.001, 0.005, 0.02], "SSW root": [0.001, 0.005, 0.02, 0.08]}
    best = {"Sliced": 0.005, "SSW": 0.005, "SSW root": 0.02}
    for n in (100, 1000):
        found = summary["tuned"][f"{n} in 512"]
        for name, its in rates.items():
            tried = {(circles, lr) for circles in (1, 13) for lr in its}
            for seed in range(3):
                wanted = tried if n == 100 or seed == 0 else {(13, best[name])}
                assert {one[2:4] for one in ran if one[:2] == (n, name) and one[4:] == (seed, 0)} == wanted
            assert (found[name]["circles"], found[name]["lr"], found[name]["inside"]) == (13, best[name], True)
            assert found[name]["values"] == [13, 14, 15]
        assert [one[1:5] for one in ran if one[0] == n and one[5]] == [("Sliced", 13, 0.005, seed) for seed in range(3)]
