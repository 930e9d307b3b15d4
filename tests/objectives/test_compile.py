import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("options", "lines"), [(["--quick"], 15), pytest.param([], 109, marks=pytest.mark.deep)])
def test_objectives_compile_as_one_graph_with_the_same_numbers(options, lines):
    command = [sys.executable, "-m", "tests.compile_table", *options]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("differs by") == lines


def test_the_compiler_is_not_imported_before_it_is_used():
    """It takes longer than all of unclump, and every command would wait for it."""
    command = "import sys, unclump, unclump.cli; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", command], check=True)
