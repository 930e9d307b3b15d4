"""The benchmarks of the reference count what they should, run, and have their tables on the pages."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks/reference.py").exists(), reason="only in a checkout")


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, *options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, ROOT / "benchmarks" / script, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def counter():
    return load("benchmarks/operation_counter.py").OperationCounter


@pytest.fixture(scope="module")
def operator():
    """unclump::_counted_in_tests, of a product and an exponential, with a gradient of three operations."""
    library = torch.library.Library("unclump", "FRAGMENT")
    library.define("_counted_in_tests(Tensor x) -> Tensor")
    library.define("_counted_in_tests_backward(Tensor x, Tensor gradient) -> Tensor")

    def forward(context, x):
        context.save_for_backward(x)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.unclump._counted_in_tests(x)

    def backward(context, gradient):
        return torch.ops.unclump._counted_in_tests_backward(*context.saved_tensors, gradient)

    function = type("Counted", (torch.autograd.Function,), {"forward": forward, "backward": backward})
    library.impl("_counted_in_tests", lambda x: (x @ x.mT).exp(), "CPU")
    library.impl("_counted_in_tests", function.apply, "Autograd")
    library.impl("_counted_in_tests_backward", lambda x, g: ((x @ x.mT).exp() * g) @ x * 2, "CompositeExplicitAutograd")
    yield torch.ops.unclump._counted_in_tests
    library._destroy()


def test_writes_are_counted_and_views_are_not(counter):
    x = torch.ones(3, 4)
    with counter() as counted:
        y = x.mm(x.mT)  # 9 numbers
        y.view(9)[:3].exp_()  # 3, in place
        y.unsqueeze(0).expand(2, 3, 3).transpose(1, 2).detach()
        torch.empty(5).resize_(4)
        torch.cat([y, y], out=torch.empty(6, 3))  # 18
    assert counted.summary() == {
        "operations": 3, "bytes": 4 * (9 + 3 + 18), "flops": 2 * 3 * 4 * 3, "float64": {}, "synchronising": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("product", "flops"),
    [
        (lambda x, y: x @ y.mT, 2 * 5 * 3 * 4),
        (lambda x, y: torch.addmm(y[:, 0], x, y.mT), 2 * 5 * 3 * 4),
        (lambda x, y: x.expand(2, 5, 3) @ y.mT.expand(2, 3, 4), 2 * 2 * 5 * 3 * 4),
        (lambda x, y: torch.baddbmm(y[:, 0], x.expand(2, 5, 3), y.mT.expand(2, 3, 4)), 2 * 2 * 5 * 3 * 4),
        (lambda x, y: x @ y[0], 2 * 5 * 3),
        (lambda x, y: x[0] @ y[0], 2 * 3),
        (lambda x, y: torch.einsum("nd,md->nm", x, y), 2 * 5 * 3 * 4),
        (lambda x, y: x * y[0], 0),
    ],
)
def test_flops_of_products(counter, product, flops):
    with counter() as counted:
        product(torch.ones(5, 3), torch.ones(4, 3))
    assert counted.flops == flops


def test_double_precision_and_synchronisation_are_named(counter):
    x = torch.ones(4)
    with counter() as counted:
        x.double() + 1
        x[x > 0]
        x[torch.tensor([0, 1])]
        x.nonzero()
        x.sum().item()
        x.where(x > 0, 0.0)
    assert counted.float64 == {"_to_copy": 1, "add": 1}
    assert counted.synchronising == {"index": 1, "nonzero": 1, "_local_scalar_dense": 1}


def test_an_operator_of_ours_is_counted_as_what_it_is_made_of(counter, operator):
    x = torch.randn(5, 3, requires_grad=True)
    with counter() as counted:
        value = operator(x)
        (gradient,) = torch.autograd.grad(value, x, torch.ones(5, 5))
    assert counted.flops == 3 * 2 * 5 * 5 * 3
    assert counted.operations == 2 + 5 + 1  # there, back, and the ones
    assert counted.bytes == 4 * (2 * 25 + 3 * 25 + 2 * 15 + 25)
    torch.testing.assert_close(gradient, 2 * (x @ x.mT).exp() @ x)
    with counter(opened=()) as closed:
        operator(x)
    assert (closed.operations, closed.flops) == (1, 0)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Both benchmarks in their quick setting, which also compares values and gradients of both sides."""
    folder = tmp_path_factory.mktemp("results")
    run("reference.py", "--quick", "--output", folder / "reference.json")
    run("accuracy.py", "--quick", "--output", folder / "accuracy.json")
    return folder


def test_the_reference_is_measured_without_compiled_loops(results):
    found = json.loads((results / "reference.json").read_text())
    assert len(found["rows"]) == 10 * 3 * 3
    for row in found["rows"]:
        assert row["textbook"]["operations"] > 20
        assert not row["textbook"]["float64"]
        assert not row["textbook"]["synchronising"]
        assert row["ours"] is None or row["ours"]["flops"] > 0
        assert (row["use"] == "weight" or row["ours"] is None) == ("seconds" not in row["textbook"])


def test_generic_points_are_accurate(results):
    for name, row in json.loads((results / "accuracy.json").read_text())["reference"].items():
        for d in (64, 3):
            assert row[f"{d}|generic"]["value"] < 1e-4, name
            # The place a descent in single precision ends at is known to the root of the precision.
            assert row[f"{d}|generic"]["gradient"] < (1e-2 if name.startswith("Polarization") else 1e-4), name


def test_both_have_tables(results, monkeypatch):
    pages = load("tools/benchmark_pages.py")
    monkeypatch.setattr(pages, "RESULTS", results)
    text = pages.pages()
    assert "| KoLeo |" in text[pages.DOCS / "speed.md"]
    assert "| Energy, Riesz 1, chordal |" in text[pages.DOCS / "precision.md"]
