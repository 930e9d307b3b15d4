"""The page on collapse has the tables of its file, and its example runs."""

import json
import re
import runpy
from pathlib import Path

import pytest

import unclump as uc

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/monitoring_page.py"))


def test_the_page_says_what_the_file_has():
    assert TOOL["main"](["--check"]) == 0


def test_the_file_has_todays_values():
    """Of the laws, and of two kinds of rows."""
    found = json.loads(TOOL["RESULTS"].read_text())
    law = uc.IsotropicLaw(found["samples"] * found["views"], found["d"])
    assert found["law"]["rankme"] == pytest.approx(law.rankme)
    assert found["law"]["SIGReg"] == pytest.approx(uc.SIGReg().null_mean)
    batches = TOOL["batches"]()
    for kind in ("8 of 64 dimensions", "10 clumps"):
        for name in ("rankme", "isoscore", "alpha_req", "lidar", "mean_cosine", "alignment"):
            assert found["kinds"][kind][name] == pytest.approx(TOOL["MEASURES"][name](batches[kind]), rel=1e-6)


def test_the_example_of_the_page_runs(capsys):
    example = re.search(r"```python\n(.*?)```", TOOL["PAGE"].read_text(), flags=re.DOTALL)[1]
    exec(compile(example, "monitoring.md", "exec"), {})
    assert "RankMe" in capsys.readouterr().out
