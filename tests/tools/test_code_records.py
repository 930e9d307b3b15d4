"""The page of candidate records says what the catalogue has."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "docs/code_records.md").exists(), reason="only in a checkout")
def test_the_page_is_what_the_catalogue_says():
    subprocess.run([sys.executable, ROOT / "tools/code_records.py", "--check"], check=True)
