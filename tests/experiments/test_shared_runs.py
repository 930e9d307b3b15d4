"""Starts that share a run end where they would alone, and large tables where the optimiser takes them."""

import importlib
import json
from functools import partial

import pytest
import torch

import unclump as uc

pytest.importorskip("matplotlib")


@pytest.fixture
def results(tmp_path):
    common = importlib.import_module("_common")
    return lambda *options: common.Results("some", "", ["--output", str(tmp_path), *options], full={}, quick={})


def settings(seeds):
    return [{"objective": o, "seed": seed, "steps": 5} for o in ("KoLeo", "Sliced 1") for seed in seeds]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_settings_that_differ_in_their_seed_alone_share_a_run(results, tmp_path, jobs):
    """Those that are held already are left out, and every seed has a record of its own."""
    log = tmp_path / "log"

    def run(*, objective, seeds, steps):
        with log.open("a") as file:
            file.write(f"{objective} {seeds}\n")
        return [{"found": [len(objective), seed, steps]} for seed in seeds]

    shares = importlib.import_module("tammes").shares
    results().complete(settings([1]), run, shares=shares)
    records = results("--jobs", jobs).complete(settings(range(4)), run, shares=shares)
    assert [(r["objective"], r["seed"], r["found"]) for r in records] == [
        (o, seed, [len(o), seed, 5]) for o in ("KoLeo", "Sliced 1") for seed in range(4)
    ]
    ran = log.read_text().splitlines()
    assert sorted(ran[:2]) == ["KoLeo [1]", "Sliced 1 [1]"]
    assert sorted(ran[2:]) == ["KoLeo [0, 2, 3]", "Sliced 1 [0]", "Sliced 1 [2]", "Sliced 1 [3]"]
    kept = json.loads((tmp_path / "some.json").read_text())["runs"]
    assert len(kept) == 8
    assert all(set(r) == {"objective", "seed", "steps", "found", "seconds"} for r in kept)


def test_a_run_that_returns_too_few_is_refused(results):
    with pytest.raises(ValueError, match="shorter"):
        results().complete(settings([0, 1]), lambda **_: [{}], shares=lambda setting: True)


@pytest.mark.parametrize("decay", [False, True], ids=["constant rate", "falling rate"])
@pytest.mark.parametrize("optimizer", [uc.SphereAdam, torch.optim.Adam], ids=["Riemannian", "projected"])
@pytest.mark.parametrize("objective", ["MHE Riesz chordal", "MM geodesic", "KoLeo", "Lloyd 300", "SSW 50", "Sliced 1"])
def test_sets_end_where_disperse_takes_each_to_the_bit(objective, optimizer, decay):
    common, objectives, tammes = (importlib.import_module(name) for name in ("_common", "_objectives", "tammes"))
    seeds = [0] if objectives.draws(objective) else [0, 1, 2]
    start, schedule = tammes.starts(24, 3, seeds), (lambda step: 1 - step / 30) if decay else None

    def make():
        return objectives.SMALL[objective](common.generator(0, 24, 1))

    found = objectives.descend(start, make(), steps=30, lr=0.005, optimizer=optimizer, schedule=schedule)
    for one, alone in zip(found, start, strict=True):
        dispersed = uc.disperse(
            alone, make(), steps=30, optimizer=partial(optimizer, lr=0.005), schedule=schedule, measure_every=30
        )
        assert torch.equal(one, dispersed.points)


@pytest.mark.parametrize("circles", [1, 13])
@pytest.mark.parametrize(("n", "d"), [(30, 3), (200, 16)])
def test_objectives_and_rates_that_share_circles_end_where_each_would_alone(n, d, circles):
    """But for the rounding of a sum's factor; the rates of the objectives need not be the same."""
    common, objectives, sliced_ssw = (
        importlib.import_module(name) for name in ("_common", "_objectives", "sliced_ssw")
    )
    start = common.clump(n, d, 0)
    choices = [("SSW", 0.02), ("Sliced", 0.001), ("Sliced", 0.02), ("SSW root", 0.005), ("SSW root", 0.02)]

    def make(name):
        return sliced_ssw.OBJECTIVES[name](circles, generator=common.generator(5))

    found = sliced_ssw.together(start, choices, make, steps=40)
    for (name, lr), points in zip(choices, found, strict=True):
        torch.testing.assert_close(points, objectives.descend(start, make(name), steps=40, lr=lr), rtol=0, atol=1e-5)


@pytest.mark.parametrize("objective", ["MHE RBF chordal", "MHE Riesz shifted", "MM geodesic", "MM squared", "KoLeo"])
def test_projected_adam_of_several_starts_is_that_of_each(objective):
    riemannian = importlib.import_module("riemannian")
    choice = {"n": 24, "d": 3, "way": "projected", "objective": objective, "steps": 50, "lr": 0.005}
    together = riemannian.run(seeds=[0, 1, 2], **choice)
    assert together == [riemannian.run(seeds=[seed], **choice)[0] for seed in range(3)]
    assert together[0] != together[1]


@pytest.mark.parametrize("name", ["MHE RBF chordal", "KoLeo", "SSW 13 root"])
def test_rows_of_other_libraries_follow_ours(name):
    """From one start with one sequence of batches; the circles of SSW are other ones."""
    pytest.importorskip("ot")
    pytest.importorskip("geoopt")
    synthetic = importlib.import_module("synthetic")
    setting = {"start": "clumped", "lazy": False, "seed": 0, "n": 300, "d": 8, "batch": 32, "lr": 0.01}
    setting |= {"steps": 60, "kappa": 100.0, "records": 2}
    ours, theirs = (synthetic.run(objective=objective, **setting) for objective in (name, f"peer: {name}"))
    assert theirs["variance"][-1] == pytest.approx(ours["variance"][-1], abs=0.03 if "SSW" in name else 1e-4)
    assert theirs["variance"][-1] > theirs["variance"][0] + 0.02


@pytest.mark.parametrize("lr", [0.001, 0.05])
@pytest.mark.parametrize("lazy", [False, True], ids=["dense", "lazy"])
@pytest.mark.parametrize("objective", ["MHE RBF chordal", "KoLeo", "Lloyd 512", "Sliced 13 axes", "SSW 13 root"])
def test_steps_of_a_large_table_are_those_of_the_optimiser_with_gradients_of_autograd(objective, lazy, lr):
    """Of the same draws; rows that are not in a batch go on by momentum, or stay, until they are drawn again."""
    common, objectives, steps = (importlib.import_module(name) for name in ("_common", "_objectives", "_steps"))
    start = common.clump(300, 8, 0, dtype=torch.float64)
    tables = [torch.nn.Parameter(start.clone()) for _ in range(2)]
    made = [objectives.LARGE[objective](common.generator(1)) for _ in tables]
    optimizer = uc.SphereAdam([tables[1]], lr=lr, lazy=lazy)
    ways = [
        steps.steps_of(tables[0], objective, made[0], lr=lr, batch=20, seed=3, lazy=lazy),
        steps.steps_by_autograd(tables[1], optimizer, objective, made[1], batch=20, seed=3),
    ]
    count = 2 if objectives.sees_all(objective) else 40  # of all rows, a few show it, before ranks change by rounding
    for _ in range(3):
        for step, _ in ways:
            for _ in range(count):
                step()
        torch.testing.assert_close(*(points() for _, points in ways), rtol=0, atol=1e-11)
    assert not torch.allclose(ways[0][1](), start, atol=lr)
