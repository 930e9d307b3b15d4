"""The pages of speeds and codes say what the results say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "docs/speed.md").exists(), reason="only in a checkout")
def test_the_pages_are_what_the_results_say():
    subprocess.run([sys.executable, ROOT / "tools/benchmark_pages.py", "--check"], check=True)
