"""What shows the kernels without a GPU, and is ready for one: the compiled table, its page, and the benchmark."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import unclump as uc

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
    assert all(one["spilled"] == one["atomics"] == 0 < one["registers"] for one in found)


def test_atomic_instructions_are_told_from_reductions_of_a_warp():
    names = ["RED.E.ADD.F32.FTZ.RN.STRONG.GPU", "ATOMG.E.ADD.F32", "ATOMS.ADD", "REDUX.SUM", "FFMA", "RET.REL"]
    assert sum(load("tools/triton_table.py").is_atomic(name) for name in names) == 3


def test_what_was_compiled_for_the_page_spills_nothing_and_adds_nothing_by_atomics():
    found = json.loads((ROOT / "results/triton.json").read_text())["kernels"]
    assert {one["architecture"] for one in found} == {80, 89, 90}
    assert max(one["spilled"] for one in found) == max(one["atomics"] for one in found) == 0


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
    rows = {row["name"]: row["sides"] for row in json.loads(output.read_text())["rows"]}
    assert printed.count("\n") == len(rows) == 25
    assert all(side["ms"] > 0 < side["copy"] for sides in rows.values() for side in sides.values())
    assert {name for name, sides in rows.items() if "textbook" not in sides} == {"Polarization"}
    assert list(rows["KoLeo"])[:4] == ["ours", "reference", "textbook", "DINOv2"]
    names = {repr(uc.objective(name)).partition("(")[0] for name in uc.list_objectives()}
    assert names <= {name.partition("(")[0] for name in rows}
    page = load("tools/gpu_page.py").measured(output)
    assert page.startswith("Measured on the CPU, dry")
    assert page.count("\n") == len(rows) + 3


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return load("benchmarks/gpu.py")


def test_a_side_without_memory_is_left_out_and_said_to_be(benchmark, tmp_path, monkeypatch, capsys):
    def fail():
        raise torch.OutOfMemoryError("CUDA out of memory")

    case = benchmark.all_cases.__globals__["Case"]
    cases = [("one", case({"ours": lambda: 1, "textbook": fail}, 1.0, 1.0)), ("two", case({"ours": fail}, 1.0, 1.0))]
    monkeypatch.setattr(benchmark, "all_cases", lambda n, d, device: cases)
    assert not benchmark.main(["--dry", "--repeats", "2", "--output", str(tmp_path / "gpu.json")])
    first, second = capsys.readouterr().out.splitlines()
    assert "textbook no memory" in first
    assert second.endswith("ours no memory")
    page = load("tools/gpu_page.py").measured(tmp_path / "gpu.json")
    assert page.splitlines()[-1] == "| two, 40 x 8 | no memory | – | – | – |"


def test_sides_that_differ_are_said_to(benchmark, tmp_path, monkeypatch, capsys):
    one, other = (torch.ones(2), torch.ones(2)), (torch.full((2,), 1.01), torch.ones(2))
    case = benchmark.all_cases.__globals__["Case"]
    cases = [("Energy", case({"ours": lambda: one, "reference": lambda: one, "textbook": lambda: other}, 1.0, 1.0))]
    monkeypatch.setattr(benchmark, "all_cases", lambda n, d, device: cases)
    assert benchmark.main(["--dry", "--repeats", "1", "--output", str(tmp_path / "gpu.json")])
    printed = capsys.readouterr().out
    assert "textbook differs: Energy, value: Tensor-likes are not close!" in printed
    assert "reference differs" not in printed
    page = load("tools/gpu_page.py").measured(tmp_path / "gpu.json")
    assert page.splitlines()[-1].count("differs") == 1


def test_the_benchmark_says_that_it_needs_a_gpu():
    command = [sys.executable, ROOT / "benchmarks/gpu.py"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "expected a GPU, got none" in result.stderr
