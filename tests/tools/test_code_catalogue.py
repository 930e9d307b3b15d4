"""The page of the catalogue is what the coordinates say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.deep
@pytest.mark.skipif(not (ROOT / "docs/code_catalogue.md").exists(), reason="only in a checkout")
def test_the_page_is_up_to_date():
    subprocess.run([sys.executable, ROOT / "tools/code_catalogue.py", "--check"], check=True)
