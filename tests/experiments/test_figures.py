"""Figures are drawn from the files beside them, as they are now."""

import importlib
import json
import shutil
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")

RESULTS = Path(__file__).parents[2] / "results"
DRAWN = [
    *("tammes", "riemannian", "kernels", "synthetic", "timing", "dimensionality"),
    *("sliced_convergence", "sliced_ssw", "mmd"),
]


@pytest.mark.deep
@pytest.mark.parametrize("name", DRAWN)
def test_figures_show_what_the_file_holds(name, tmp_path):
    """A figure that is drawn again is the one that is there, to the last digit of its paths."""
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    reduced = json.loads((RESULTS / f"{name}.json").read_text())["reduced"]
    options = [word for key, value in reduced.items() for word in (f"--{key}", json.dumps(value))]
    importlib.import_module(name).main(["--output", str(tmp_path), "--minutes", "0.0001", *options])
    drawn = sorted(tmp_path.glob("*.svg"))
    assert drawn
    for file in drawn:
        there = (RESULTS / file.name).read_text()
        if f"Matplotlib v{matplotlib.__version__}" not in there:
            pytest.skip("another version of matplotlib drew it")
        assert file.read_text() == there, f"{file.name} is not what {name}.json says; run python experiments/{name}.py"
