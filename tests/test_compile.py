import subprocess
import sys
from pathlib import Path


def test_every_objective_compiles_as_one_graph_with_the_same_numbers():
    command = [sys.executable, "-m", "tests.compile_table"]
    result = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("differs by") == 14
