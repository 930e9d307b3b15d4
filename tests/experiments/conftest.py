"""Tests here import the experiments' modules as their scripts do."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _among_the_experiments(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "experiments"))
