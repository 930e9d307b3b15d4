"""The synthetic experiment's rates: all of them from one start, the best from every start."""

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
    options = {"--objectives": ["KoLeo", "Lloyd 512"], "--lazy": [], "--peers": [], "--rates": [0.0001, 0.01, 0.1]}
    asked = [word for pair in options.items() for word in (pair[0], json.dumps(pair[1]))]
    return synthetic.main(["--output", str(tmp_path), *asked, "--seeds", "3", "--seeds-uniform", "2"]), ran


def test_rates_are_tried_from_one_start_and_the_best_is_run_from_all(experiment):
    summary, ran = experiment
    elsewhere = [one for one in ran if one[3] != 0.001]
    assert {one for one in elsewhere if one[2] == 0} == {
        (start, objective, 0, lr, 2)
        for start in ("clumped", "uniform")
        for objective in ("KoLeo", "Lloyd 512")
        for lr in (0.0001, 0.01, 0.1)
    }
    assert sorted(one for one in elsewhere if one[2] > 0) == [
        ("clumped", "KoLeo", 1, 0.01, 2),
        ("clumped", "KoLeo", 2, 0.01, 2),
        ("uniform", "KoLeo", 1, 0.1, 2),
    ]
    assert len(elsewhere) == len(set(elsewhere)) == 15
    for (start, objective), lr in BEST.items():
        found = summary["best_rates"][start][objective]
        assert found["lr"] == lr
        assert found["values"] == pytest.approx([0.5, 0.51, 0.52][: 2 if start == "uniform" else 3])
        assert found["inside"] == (lr != 0.1)
