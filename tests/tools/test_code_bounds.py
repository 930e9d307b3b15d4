"""The page of three-point bounds says what the table has."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "docs/code_bounds.md").exists(), reason="only in a checkout")
def test_the_page_is_what_the_table_says():
    subprocess.run([sys.executable, ROOT / "tools/code_bounds.py", "--check"], check=True)
