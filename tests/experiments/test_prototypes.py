"""The runs with prototypes: told apart by all that sets them, summed up as they were drawn, and judged by the rules."""

import importlib
import json
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]


def module(name):
    return importlib.import_module(name)


# Runs and checkpoints


@pytest.fixture
def experiment(tmp_path):
    """experiment(*options): that of the command line, over images that are only counted."""

    def make(*options, images=(20_000, 5_000), classes=200):
        prototypes, common = module("prototypes"), module("_common")
        chosen = {"full": prototypes.FULL, "quick": prototypes.QUICK, "implied": prototypes.IMPLIED}
        results = common.Results("prototypes", "", ["--output", str(tmp_path), *options], **chosen)
        counted = SimpleNamespace(train=range(images[0]), val=range(images[1]), skipped=[])
        run = dict.fromkeys(("set", "trained_backbone", "head", "rate", "end"))
        return SimpleNamespace(results=results, kind="tiny", classes=classes, images=counted, **run)

    return make


def missing(experiment):
    """How many runs of each stage the file does not hold."""
    held = experiment.results._held
    stages = module("prototypes").stages(experiment)
    return {stage: sum(held(setting) is None for setting in settings) for stage, settings, _ in stages}


def test_the_runs_of_the_first_file_are_held(experiment, tmp_path):
    """Written before records named their images and searches."""
    runs = json.loads((ROOT / "results" / "prototypes.json").read_text())
    stages = module("prototypes").stages(experiment())
    first = [
        {key: value for key, value in setting.items() if key not in ("images", "restarts")}
        for _, settings, _ in stages
        for setting in settings[:3]
    ]
    (tmp_path / "prototypes.json").write_text(json.dumps(runs | {"runs": first}))
    total = {stage: len(settings) for stage, settings, _ in module("prototypes").stages(experiment())}
    assert missing(experiment()) == {stage: count - min(3, count) for stage, count in total.items()}
    searched = missing(experiment("--restarts", "2"))
    assert searched == total | {"backbone": total["backbone"] - 3, "rate": total["rate"] - 3}
    larger = missing(experiment(images=(100_000, 10_000)))
    assert larger == total | {"set": total["set"] - 3, "rate": total["rate"] - 3}


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """trained(**changed): the names of the checkpoints that a network end to end, and a backbone, would have."""
    runs, network = module("_prototype_runs"), module("_network")
    seen = []

    class Stop(Exception):
        pass

    def stop(*arguments, checkpoint, **choices):
        seen.append(checkpoint)
        raise Stop

    monkeypatch.setattr(runs, "train", stop)
    monkeypatch.setattr(network, "train", stop)

    def names(stage, **changed):
        settings = {"px": 8, "lr": 0.1, "batch": 4, "epochs": 2, "channels": [2, 3], "steps": 2, "restarts": 1}
        settings |= changed
        chosen = module("_images").generated(3, px=settings["px"], train=2, val=1)
        made = runs.Experiment.__new__(runs.Experiment)
        made.results, made.images, made.classes, made.cache, made._features = settings, chosen, 3, tmp_path, {}
        whole = partial(made.end, stage=stage, row="random", d=4, seed=0, images=[6, 3], **settings)
        with pytest.raises(Stop):
            (whole if stage == "end" else partial(made.backbone, 0))()
        return str(seen[-1])

    return names


@pytest.mark.parametrize(
    "changed",
    [{"lr": 0.2}, {"batch": 5}, {"epochs": 3}, {"channels": [2, 4]}, {"px": 16}, {"steps": 3}, {"restarts": 2}],
)
def test_two_settings_share_no_checkpoint(trained, changed):
    assert trained("end", **changed) != trained("end")
    if not changed.keys() & {"steps", "restarts"}:  # of the prototypes, which a backbone does not see
        assert trained("backbone", **changed) != trained("backbone")


def test_heads_on_another_backbone_are_refused(experiment, monkeypatch):
    """A backbone that was trained again, and is another, would be compared with the heads on the first one."""
    runs = module("_prototype_runs")
    network = {"channels": [32, 64, 128], "epochs": 20, "batch": 32, "lr": 0.05, "px": 32}
    results = experiment().results
    results.runs = [network | {"stage": "backbone", "seed": seed, "accuracy": 27.3} for seed in range(2)]
    monkeypatch.setattr(
        runs, "images", lambda *_, **__: SimpleNamespace(train=[0] * 20_000, val=[0] * 5_000, classes=2)
    )
    made = {0: 27.3, 1: 27.28, 2: 20.0}
    monkeypatch.setattr(runs, "backbone", lambda *_, seed, **__: (None, None, made[seed] + 1e-5))
    one = runs.Experiment(results, "tiny", None)
    assert [round(one.backbone(seed)[-1], 2) for seed in (0, 2)] == [27.3, 20.0]
    with pytest.raises(SystemExit, match=r"expected backbone 1 of the heads .* of 27\.3%, got one of 27\.28%"):
        one.backbone(1)


def test_processes_do_not_make_the_same_twice(tmp_path, monkeypatch):
    """Four runs at once that need the same prototypes and the same features: each is made by one, and read by all."""
    common, sets, network = (module(name) for name in ("_common", "_prototype_sets", "_network"))
    log = tmp_path / "made"

    def slowly(what, found):
        with log.open("a") as file:
            file.write(f"{what}\n")
        time.sleep(0.3)
        return found

    features = {"train": torch.ones(2, 3), "val": torch.ones(1, 3), "accuracy": 5.0}
    monkeypatch.setattr(network, "_features", lambda *arguments, **choices: slowly("features", features))

    def run(*, seed):
        points = sets.cached(tmp_path / "cache" / "points.npy", lambda: slowly("points", torch.eye(3)))
        chosen = {"channels": [2], "epochs": 1, "batch": 2, "lr": 0.1, "seed": 0, "cache": tmp_path / "cache"}
        train, val, accuracy = network.backbone(SimpleNamespace(name="some"), **chosen)
        return {"found": [points.sum().item(), train.sum().item(), val.sum().item(), accuracy]}

    results = common.Results("some", "", ["--output", str(tmp_path), "--jobs", "4"], full={}, quick={})
    records = results.complete([{"seed": seed} for seed in range(4)], run)
    assert [record["found"] for record in records] == [[3, 6, 3, 5]] * 4
    assert sorted(log.read_text().split()) == ["features", "points"]


def omniglot(path, classes):
    """Drawings of so many characters, each a dark square at a place of its own on white paper."""
    labels = np.repeat(np.arange(classes), 20)
    drawings = np.full((len(labels), 28, 28), 255, dtype=np.uint8)
    for drawing, label in zip(drawings, labels, strict=True):
        row, column = divmod(int(label), 4)
        drawing[4 + 5 * row :, 4 + 5 * column :][:5, :5] = 0
    np.savez(path, img28=drawings, labels=labels, drawer=np.tile(np.arange(1, 21), classes))
    return path


def test_omniglot_is_trained_for_as_many_classes_as_it_has(tmp_path, capsys):
    """Six characters, not 659: known before the prototypes are made, which softmax does not mistake for a dimension."""
    options = ["--omniglot", "--data", str(omniglot(tmp_path / "some.npz", 6)), "--output", str(tmp_path)]
    chosen = {"rows": ["MM squared", "random", "softmax"], "dimensions": [5], "head_epochs": 10, "seeds": 1, "steps": 9}
    chosen |= {"end_rows": ["random", "softmax"], "end_dimensions": [5], "set_seeds": 1, "random_seeds": 1}
    for key, value in chosen.items():
        options += [f"--{key.replace('_', '-')}", json.dumps(value)]
    summary = module("prototypes").main(["--quick", *options])
    assert summary["classes"] == 6
    assert summary["images"] == [90, 30]
    file = json.loads((tmp_path / "prototypes_omniglot.json").read_text())
    assert {run["classes"] for run in file["runs"] if run["stage"] in ("set", "rate")} == {6}
    assert {run["d"] for run in file["runs"] if run.get("row") == "softmax"} == {6}
    assert summary["softmax"]["frozen"]["accuracy"]["mean"] > 60  # chance is 17%
    assert summary["rows"]["MM squared"]["5"]["accuracy"]["mean"] > 60
    said = capsys.readouterr().out
    assert "Softmax on the same features" in said
    assert "The same with softmax" in said
    for allowed in ("of the paper's objectives", "where the paper trains end to end"):  # the rows, and the setting
        said = said.replace(allowed, "")
    assert "paper" not in said


def test_drawings_have_paper_beyond_their_edges(tmp_path):
    path = omniglot(tmp_path / "some.npz", 2)
    found = module("_images").images("omniglot", path, px=8, cache=tmp_path)
    blank = torch.full((50, 1, 8, 8), 255, dtype=torch.uint8)
    shifted = module("_network").augmentation(found)(blank, torch.Generator().manual_seed(0))
    assert shifted.min() == 255


def test_images_are_found_where_other_data_sets_are(tmp_path, monkeypatch):
    find = module("_images").find
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNCLUMP_DATA", raising=False)
    for place in ("data", "elsewhere"):
        (tmp_path / place / "tiny-imagenet-200").mkdir(parents=True)
    assert find("tiny") == tmp_path / "data" / "tiny-imagenet-200"
    monkeypatch.setenv("UNCLUMP_DATA", str(tmp_path / "elsewhere"))
    assert find("tiny") == tmp_path / "elsewhere" / "tiny-imagenet-200"
    with pytest.raises(SystemExit, match=r"Omniglot is not at .*elsewhere.*; download .* UNCLUMP_DATA"):
        find("omniglot")
