"""What shows the kernels without a GPU, and is ready for one: the compiled table, its page, and the benchmark."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "tools/triton_table.py").exists(), reason="only in a checkout")


def run(script, *options):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, ROOT / script, *options]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.deep
def test_the_kernels_compile_for_a_gpu_without_one_and_spill_nothing(tmp_path):
    pytest.importorskip("triton", reason="kernels for GPUs need the package triton")
    output = tmp_path / "triton.json"
    run("tools/triton_table.py", "--architectures", "80", "--only", "project", "--output", output)
    found = json.loads(output.read_text())["kernels"]
    assert len(found) == 6
    assert all(one["spilled"] == 0 < one["registers"] for one in found)


def test_what_was_compiled_for_the_page_spills_nothing():
    found = json.loads((ROOT / "results/triton.json").read_text())["kernels"]
    assert {one["architecture"] for one in found} == {80, 89, 90}
    assert max(one["spilled"] for one in found) == 0


def test_the_page_is_what_the_results_give():
    run("tools/gpu_page.py", "--check")


def test_the_calculation_counts_products_and_passes():
    page = load("tools/gpu_page.py")
    card = page.CARDS[0]
    work = page.ours("Energy", 1000, 10, card, {"kernel_sum": 1})
    assert work.operations == 4 * 1000**2 * 10
    assert page.waves(128 * 108 * 2 + 1, 128, card, 2) == 2
    assert page.textbook("Energy", 10**6, 384).memory > card.memory


@pytest.mark.deep
def test_the_benchmark_for_a_gpu_runs_dry_on_the_cpu(tmp_path):
    output = tmp_path / "gpu.json"
    printed = run("benchmarks/gpu.py", "--dry", "--repeats", "1", "--output", output)
    rows = json.loads(output.read_text())["rows"]
    assert len(rows) == 15
    assert all(row["ours"] > 0 and row["reference"] > 0 for row in rows.values())
    assert "DINOv2" in rows["KoLeo, 40 x 8"]
    assert printed.count("\n") == len(rows)


def test_the_benchmark_says_that_it_needs_a_gpu():
    command = [sys.executable, ROOT / "benchmarks/gpu.py"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "expected a GPU, got none" in result.stderr
