"""Every experiment runs from its command line to its files, in a setting of a second; what it finds is tested in depth.

The tests of this folder that are marked `deep` run each in its quick setting, with the numbers that it must find there.
"""

import importlib
import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

FOLDER = Path(__file__).parents[2] / "experiments"
FEW_EPOCHS = dict.fromkeys(("epochs", "head_epochs", "end_epochs"), 1)
ONE_ROW = {"rows": ["MM squared"], "end_rows": ["random"]}
THREE_ROWS = ["Euclidean", "spherical", "spherical + Sliced"]

# Name -> options that make the quick setting quicker; all that are left out are those of --quick.
SMALLEST = {
    "dimensionality": {"points": [20], "dimensions": [4], "steps": 2},
    "kernels": {"angles": 8, "dimensions": [16, 32], "samples": 1000},
    "mmd": {"repeats": 3, "reference": 50, "tests": 2},
    "prototypes": {**FEW_EPOCHS, **ONE_ROW, "steps": 2, "seeds": 1, "set_seeds": 2, "random_seeds": 2},
    "repair": {"documents": 150, "queries": 20},
    "riemannian": {"steps": 2},
    "sizes": {"points": [10]},
    "sliced_convergence": {"n": 20, "d": 4, "circles": 200, "tables": 5},
    "sliced_ssw": {"steps": 2, "follow_steps": 10},
    "synthetic": {"n": 40, "d": 4, "batch": 8, "steps": 4},
    "tammes": {"steps": 4},
    "timing": {"n": 40, "d": 4, "rounds": 1},
    "translation": {"discrete": THREE_ROWS, "continuous": [], "updates": 2, "bootstrap": 2},
    "verdict": {"sizes": [[300, 10]]},
    "weights": {"steps": [2] * 6, "size_steps": 1},
}
NEEDS = {"prototypes": ["PIL"], "translation": ["sentencepiece", "sacrebleu"]}


DEEP = {"repair"}  # which starts `unclump repair`, and that compares all methods: tests/cli/test_repair.py has it


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.deep if name in DEEP else ()) for name in SMALLEST]
)
def test_it_runs_and_writes_its_files(name, tmp_path):
    for package in NEEDS.get(name, []):
        pytest.importorskip(package)
    options = [word for key, value in SMALLEST[name].items()
               for word in (f"--{key.replace('_', '-')}", json.dumps(value))]  # fmt: skip
    summary = importlib.import_module(name).main(["--quick", "--output", str(tmp_path), *options])
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["summary"] == json.loads(json.dumps(summary))
    assert written["runs"]
    assert written["reduced"].items() >= SMALLEST[name].items()
    assert list(tmp_path.glob("*.png")) or name in ("sizes", "verdict")  # which are tables


def test_every_experiment_is_known_to_the_table_and_runs_here():
    folders = {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    names = {path.stem for path in FOLDER.glob("[a-z]*.py")} - {"table"} | folders
    table = importlib.import_module("table")
    assert table.NAMES.keys() | table.STUDIES.keys() == names
    assert SMALLEST.keys() == names


def test_pages_say_what_the_results_say():
    importlib.import_module("table").main(["--check"])


def test_the_page_of_repairs_says_what_its_results_say():
    repair = importlib.import_module("repair")
    found = json.loads((FOLDER.parent / "results" / "repair.json").read_text())
    assert repair.section(found["configuration"], found["summary"]) in repair.PAGE.read_text()
    assert not any(one["worse_than_leaving"] for one in found["summary"]["judged"])


def test_only_the_public_interface_is_used():
    for path in FOLDER.rglob("*.py"):
        text = path.read_text()
        assert "from unclump" not in text
        assert "uc._" not in text


@pytest.mark.parametrize("name", ["sizes", "weights"])
def test_a_page_is_what_its_results_say(name, tmp_path, monkeypatch):
    """From the runs in the file: none is missing, and none is run again."""
    folder = FOLDER.parent
    shutil.copy(folder / f"results/{name}.json", tmp_path)
    experiment, pages = importlib.import_module(name), {}
    monkeypatch.setattr(experiment, "run", lambda **setting: pytest.fail(f"not in the file: {setting}"))
    monkeypatch.setattr(experiment.Results, "page", lambda results, page, text: pages.update({page: text}))
    experiment.main(["--output", str(tmp_path)])
    for page, text in pages.items():
        assert text == (folder / f"docs/{page}.md").read_text()
    assert len(pages) == 1
