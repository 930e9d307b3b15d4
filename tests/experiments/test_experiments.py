"""Every experiment runs in its quick setting, and finds there what it must; its pages say what its files say."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.deep

FOLDER = Path(__file__).parents[2] / "experiments"
FOLDERS = [path.parent.name for path in FOLDER.glob("*/__main__.py")]
NAMES = sorted({path.stem for path in FOLDER.glob("[a-z]*.py")} - {"table"} | set(FOLDERS))
ALL = f"""
import importlib, sys
sys.path.insert(0, {str(FOLDER)!r})
for name in {NAMES!r}:
    importlib.import_module(name).main(["--quick", "--output", sys.argv[1]])
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where all quick runs wrote their files: one process for all, without the shape checker, once a session."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made = base / "experiments"
    with FileLock(str(base / "experiments.lock")):
        if not made.exists():
            environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
            subprocess.run([sys.executable, "-c", ALL, str(made)], check=True, env=environment)
    return made


@pytest.fixture
def quick(folder):
    """quick(name): the summary of the experiment's quick run, and the file that it wrote."""

    def read(name):
        file = json.loads((folder / f"{name}.json").read_text())
        return file["summary"], file

    return read


def test_tammes(quick, folder):
    summary, file = quick("tammes")
    found = summary["24 in 3"]
    assert found["known"] == pytest.approx(43.690767107676)
    assert found["rows"]["spherical_code"]["mean"] == pytest.approx(found["known"], abs=1e-5)
    for name, row in found["rows"].items():
        assert row["mean"] <= found["known"] + 1e-4, name
    assert found["rows"]["KoLeo"]["decay"]["mean"] > found["rows"]["MHE Riesz shifted"]["mean"] + 3
    assert {"configuration", "versions", "seconds", "reduced"} <= file.keys()
    assert (folder / "tammes_24_3.png").stat().st_size > 10_000
    assert (folder / "tammes_24_3.svg").exists()


def test_riemannian(quick):
    summary, _ = quick("riemannian")
    for objective, row in summary["rows"].items():
        for way in ("Riemannian", "projected", "projected, tangent"):
            assert 0 < row[way]["mean"] < 43.7, (objective, way)
        assert row["Riemannian"]["mean"] > 15, objective
    assert summary["rows"]["KoLeo"]["Riemannian"] != summary["rows"]["KoLeo"]["projected"]
    assert summary["rows"]["KoLeo"]["projected"] != summary["rows"]["KoLeo"]["projected, tangent"]


def test_kernels(quick):
    summary, file = quick("kernels")
    falling = {name for name, row in summary.items() if row["falls_from_zero"]}
    assert falling == {"Laplace chordal", "Laplace geodesic", "Riesz chordal", "Riesz geodesic"}
    assert {name for name, row in summary.items() if not row["bounded"]} == {"Riesz chordal", "Riesz geodesic"}
    laplace = next(run for run in file["runs"] if run.get("kernel") == "Laplace geodesic")
    middle = len(laplace["degrees"]) // 2  # there the angle is half a step from 90 degrees
    assert laplace["norms"][middle] == pytest.approx(
        2.718281828 ** -(laplace["degrees"][middle] * 0.017453293), rel=1e-6
    )
    for row in summary.values():
        assert row["slope"] == pytest.approx(-0.5, abs=0.05)
        assert row["worst_sampling_gap"] < 0.1


def test_synthetic(quick):
    summary, _ = quick("synthetic")
    clumped = summary["starts"]["clumped"]
    sliced, near = clumped["Sliced 13 axes"], clumped["MM geodesic"]
    assert sliced["variance"]["mean"] > near["variance"]["mean"] + 0.2
    assert near["min_degrees"]["mean"] > near["start_degrees"]["mean"] + 5
    dense, lazy = clumped["MHE RBF chordal"], clumped["MHE RBF chordal (lazy)"]
    assert dense["variance"]["mean"] > lazy["variance"]["mean"] + 0.1


def test_timing(quick):
    """Steps are read where the report is made: a benchmark that is run again leaves no page behind."""
    timing = importlib.import_module("timing")
    summary, _ = quick("timing")
    assert summary.keys() == {"measures_rounds_ms"}
    rows = timing.table(summary)
    for row in rows.values():
        assert min(row[f"{part}_ms"] for part in ("objective", "optimiser", "measures")) > 0
    benchmark = json.loads((FOLDER.parent / "results/steps.json").read_text())["ms"]["ours"]
    assert [rows["KoLeo"][f"{part}_ms"] for part in ("objective", "optimiser")] == benchmark["KoLeo|dense"]
    with pytest.raises(SystemExit, match="expected --jobs 1"):
        timing.main(["--quick", "--jobs", "2"])


def test_dimensionality(quick):
    summary, _ = quick("dimensionality")
    for size in summary["sizes"].values():
        for row in size["rows"].values():
            assert row["start_degrees"]["mean"] < row["min_degrees"]["mean"] < size["bound"] < 90


def test_sliced_convergence(quick):
    summary, _ = quick("sliced_convergence")
    assert summary["mean"] == pytest.approx(summary["expected"], rel=0.25)
    assert summary["gradients"]["200"] > 0.4


def test_sliced_ssw(quick):
    summary, _ = quick("sliced_ssw")
    followed = summary["followed"]
    assert followed["100 in 3, Adam, eps = 0"]["apart"] < 1e-13
    assert 1e-8 < followed["100 in 3, Adam, eps = 1e-8"]["apart"] < 1e-3
    assert followed["100 in 3, SGD, same lr"]["apart"] > 0.1
    assert followed["100 in 3, Adam, eps = 0"]["moved"] > 0.1


def test_mmd(quick):
    summary, _ = quick("mmd")
    for name, row in summary["estimates"].items():
        assert abs(row["z"]) < 4, name
        assert row["both_orders"] == pytest.approx(row["variance"], rel=0.8), name
        assert row["drawn_variance"] > row["variance"], name
        assert row["beyond_bound"] <= 0.05
    axial = summary["power"]["axial, d = 3"]
    assert axial["Rayleigh"][-1] < 0.5 < axial["Bingham"][-1]
    assert axial["MMD, Laplace"][-1] > 0.5
    assert all(test[0] < 0.4 for case in summary["power"].values() for test in case.values())


def test_translation(quick, folder, capsys):
    summary, file = quick("translation")
    assert len(summary["discrete"]) == 5
    assert len(summary["continuous"]) == 2
    for row in (*summary["discrete"].values(), *summary["continuous"].values()):
        assert row["scores"]["test"]["bleu"]["mean"] > 90, row
        assert row["scores"]["test"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    report = importlib.import_module("translation").report(summary)
    assert len(report["table"]) == 2 + 7
    assert not any(
        finding["claim"].endswith("BLEU.") and finding["verdict"] != "open" for finding in report["findings"]
    )
    watched = next(run for run in file["runs"] if run.get("row") == "spherical")["history"]
    assert [seen["update"] for seen in watched] == [0, 90, 180]
    assert len(watched[1]["gradient"]["middle"]) == len(watched[1]["nearest"]["rank"])
    for figure in ("frequency", "dynamics"):
        assert (folder / f"translation_{figure}.png").stat().st_size > 10_000

    command = importlib.import_module("translation.command")
    for kind in ("spherical-sliced", "continuous-euclidean"):
        (model,) = (folder / "translation").glob(f"{kind}-0-*")
        assert command.main(["translate", str(model), "big dog sees old cat"]) == 0
        assert capsys.readouterr().out == "canis magnus felis vetus videt\n"


def test_prototypes(quick, folder):
    """Eight generated classes: chance is 12.5%."""
    summary, _ = quick("prototypes")
    assert summary["classes"] == 8
    assert summary["backbones"][0] > 60
    rows = summary["rows"]
    for name in ("MM squared", "spherical code", "trained, with KoLeo"):
        assert rows[name]["8"]["accuracy"]["mean"] > 60, name
    assert summary["softmax"]["frozen"]["accuracy"]["mean"] > 60
    assert summary["end"]["MM squared"]["8"]["accuracy"]["mean"] > 40
    assert rows["spherical code"]["8"]["min_angle"]["mean"] == pytest.approx(1.7141, abs=1e-3)  # a regular simplex
    assert rows["random"]["8"]["min_angle"]["mean"] < rows["MM squared"]["8"]["min_angle"]["mean"] < 1.7142
    same, fitted = (summary["gains"][f"MM squared over MM squared, projected{rate}"] for rate in (", same rate", ""))
    assert same["8"]["largest"] < fitted["8"]["largest"] / 3
    assert (folder / "prototypes.png").stat().st_size > 10_000

    report = importlib.import_module("prototypes").report(summary)
    assert "smallest angles at most" in report["got"]
    table = "\n".join(report["table"])
    assert "| MM squared | " in table
    assert "seeds of prototypes and heads on a single backbone" in table
    found = {finding["claim"]: finding["verdict"] for finding in report["findings"]}
    (fitted,) = [verdict for claim, verdict in found.items() if "(rate 0.1, momentum 0.9) separates" in claim]
    assert fitted == "open"  # two starts
    (alone,) = [verdict for claim, verdict in found.items() if "end to end" in claim]
    assert alone == "open"  # one network of each
    assert not any("column" in claim for claim in found)  # eight classes have none in the paper


@pytest.fixture
def results(tmp_path):
    """results(*options): those of an experiment with three seeds."""
    common = importlib.import_module("_common")
    full, quick = {"seeds": 3, "steps": 10, "lr": 0.1}, {"seeds": 1}
    return lambda *options: common.Results("some", "", ["--output", str(tmp_path), *options], full=full, quick=quick)


def test_a_stopped_run_goes_on(results):
    ran = []

    def run(*, seed):
        ran.append(seed)
        return {"found": seed / 2}

    settings = [{"seed": seed} for seed in range(3)]
    with pytest.raises(SystemExit, match="3 of 3 runs left"):
        results("--minutes", "1e-9").complete(settings, run)
    results().complete(settings[:2], run)
    records = results().complete(settings, run)
    assert ran == [0, 1, 2]
    assert [record["found"] for record in records] == [0, 0.5, 1]


def test_runs_in_processes_are_those_of_one(results, tmp_path):
    """The first run takes longest, so that those of two processes end in another order."""
    settings = [{"seed": seed} for seed in (2, 0, 1, 3)]

    def run(*, seed):
        time.sleep(0.4 if seed == 2 else 0.01)
        return {"found": torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist(), "by": os.getpid()}

    one = results("--output", str(tmp_path / "one")).complete(settings, run)
    two = results("--output", str(tmp_path / "two"), "--jobs", "2").complete(settings, run)
    assert [r["seed"] for r in two] == [2, 0, 1, 3]
    assert [r["found"] for r in two] == [r["found"] for r in one]
    assert {r["by"] for r in one} == {os.getpid()}
    assert os.getpid() not in {r["by"] for r in two}
    kept = json.loads((tmp_path / "two" / "some.json").read_text())["runs"]
    assert sorted(r["seed"] for r in kept) == [0, 1, 2, 3]
    assert two == results("--output", str(tmp_path / "two"), "--jobs", "2").complete(settings, None)


@pytest.mark.parametrize("error", [ValueError("no such seed"), SystemExit("no data at data/; download it")])
def test_an_error_in_a_process_is_raised_and_other_runs_are_kept(results, tmp_path, error):
    def run(*, seed):
        if seed == 0:
            raise error
        time.sleep(0.3)
        return {"found": seed}

    with pytest.raises(type(error), match=str(error)):
        results("--jobs", "2").complete([{"seed": seed} for seed in range(4)], run)
    assert [r["seed"] for r in json.loads((tmp_path / "some.json").read_text())["runs"]] == [1]


def test_another_setting_is_another_run(results):
    results().complete([{"seed": 0, "steps": 10}], lambda seed, steps: {"found": 1})
    (record,) = results().complete([{"seed": 0, "steps": 20}], lambda seed, steps: {"found": 2})
    assert record["found"] == 2


def test_a_setting_that_a_record_does_not_name_is_implied(results):
    first = results()
    first.complete([{"seed": 0}], lambda seed: {"found": 1})
    later = results()
    later.implied = {"steps": 10}
    (same,) = later.complete([{"seed": 0, "steps": 10}], None)
    (other,) = later.complete([{"seed": 0, "steps": 20}], lambda seed, steps: {"found": 2})
    assert (same["found"], other["found"]) == (1, 2)


def test_what_was_asked_for_is_in_the_file(results, tmp_path):
    results("--steps", "7").finish({})
    file = json.loads((tmp_path / "some.json").read_text())
    assert file["configuration"] == {"seeds": 3, "steps": 7, "lr": 0.1}
    assert file["reduced"] == {"steps": 7}
    assert sys.version.startswith(file["versions"]["python"])


def test_versions_are_those_of_the_runs_not_of_who_summarises_them_again(results, tmp_path):
    results().complete([{"seed": 0}], lambda seed: {"found": 1})
    path = tmp_path / "some.json"
    older = json.loads(path.read_text()) | {"versions": {"unclump": "0.0.1"}}
    path.write_text(json.dumps(older))
    results().finish({})
    assert json.loads(path.read_text())["versions"] == {"unclump": "0.0.1"}
    results().complete([{"seed": 1}], lambda seed: {"found": 2})
    assert "torch" in json.loads(path.read_text())["versions"]


def test_an_extension_that_is_not_complete_leaves_the_summary(results, tmp_path):
    first = results("--seeds", "1")
    first.complete([{"seed": 0}], lambda seed: {"found": 1})
    first.finish({"found": 1})
    results().complete([{"seed": 1}], lambda seed: {"found": 2})
    file = json.loads((tmp_path / "some.json").read_text())
    assert file["summary"] == {"found": 1}
    assert file["configuration"]["seeds"] == 1
    assert len(file["runs"]) == 2


def test_a_run_that_fails_leaves_the_file_whole(results, tmp_path):
    results().complete([{"seed": 0}], lambda seed: {"found": 1})
    before = (tmp_path / "some.json").read_text()
    with pytest.raises(ValueError, match="Out of range float"):
        results().complete([{"seed": 1}], lambda seed: {"found": float("nan")})
    assert (tmp_path / "some.json").read_text() == before
