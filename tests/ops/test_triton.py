"""Training with the kernels for GPUs is training on the CPU; and when they are chosen."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import unclump as uc
from tests.ops.triton_cases import DEVICE, computed_by, launches, small_tiles, table
from unclump import _library as library
from unclump.ops import triton as door

__all__ = ["small_tiles"]  # a fixture
ROOT = Path(__file__).parents[2]

OBJECTIVES = {
    "KoLeo": uc.KoLeo,
    "Energy": uc.Energy,
    "Sliced": lambda: uc.Sliced(3, generator=torch.Generator(DEVICE).manual_seed(1)),
    "Sliced on axes": lambda: uc.Sliced(2, axis_aligned=True, generator=torch.Generator(DEVICE).manual_seed(1)),
}
KERNELS = {
    "KoLeo": ("_select", "_measure", "_sum_pieces"),
    "Energy": ("_add_far_tiles", "add_near_tiles"),
    "Sliced": ("_find_angles", "_find_coefficients", "_combine"),
}
"""What a step of each launches, beside the projection and the optimiser's."""


def trained(make, steps=20):
    """The losses of a run, and where it ends."""
    x = torch.nn.Parameter(table(16, 4))
    objective, optimizer = make(), uc.SphereAdam([x], lr=0.02)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = objective(x)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu(), x.detach().cpu()


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_twenty_steps_are_those_of_the_cpu(name):
    with computed_by(kernels=True), launches() as launched:
        losses, end = trained(OBJECTIVES[name])
    assert set(launched) == {"_project", "_adam", *KERNELS[name.split()[0]]}
    assert all(launched[kernel] == 20 for kernel in ("_adam", *KERNELS[name.split()[0]]))
    expected, there = trained(OBJECTIVES[name])  # by the loops in C++
    assert losses[-1] < losses[0]
    assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    assert_close(end, there, rtol=0, atol=2e-4)  # rounding, over twenty steps of an adaptive rate


class Operators(TorchDispatchMode):
    """The names of all operators of torch that are called in here."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.add(operator.__name__.split(".")[0])
        return operator(*args, **(kwargs or {}))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.MaxMin(), uc.Energy(), uc.Lloyd(8), uc.Sliced(2), uc.SSW(2)])
def test_torch_adds_nothing_by_atomics_around_the_kernels(objective):
    """Of the operators that on a GPU have another order of sums every time, none is called."""
    x = table(2, 9, 4).requires_grad_()
    with computed_by(kernels=True), Operators() as called:
        objective(x).sum().backward()
    assert "sum" in called.names
    assert not called.names & {
        "index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_put",
        "index_put_", "put_", "index_reduce_", "bincount", "histc", "cumsum", "embedding_dense_backward",
    }  # fmt: skip


@pytest.mark.usefixtures("small_tiles")
def test_no_operation_takes_the_reference(monkeypatch):
    """Where there are kernels none of the matrices and row-by-row passes of the reference is made."""
    for name in ("addmm", "baddbmm", "matmul", "cat"):
        monkeypatch.setattr(torch, name, lambda *_, name=name, **__: pytest.fail(f"torch.{name} called"))
    with computed_by(kernels=True):
        for name in ("KoLeo", "Energy", "Sliced on axes"):
            trained(OBJECTIVES[name], steps=1)


COMPILED = """
import torch
import unclump as uc
from tests.ops.triton_cases import DEVICE, computed_by, launches, table

torch.manual_seed(0)
with computed_by(kernels=True):
    for name in ("KoLeo", "Energy", "Lloyd", "Sliced", "SSW"):
        x, results = table(9, 4), []
        objective = getattr(uc, name)()
        for compute in (objective, torch.compile(objective, fullgraph=True, backend="aot_eager")):
            torch.manual_seed(1)
            leaf = x.clone().requires_grad_()
            with launches() as launched:
                value = compute(leaf)
                value.backward()
            results.append((value.detach(), leaf.grad))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        print(name, *sorted(launched))
"""


def test_compiled_objectives_are_one_graph_and_reach_the_kernels():
    """A program of its own: the shape checker that pytest puts around every function cannot be traced."""
    environment = {**os.environ, "TRITON_INTERPRET": "0" if DEVICE == "cuda" else "1"}
    command = [sys.executable, "-W", "ignore", "-c", COMPILED]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    launched = {name: kernels for name, *kernels in map(str.split, result.stdout.splitlines())}
    assert launched == {
        "KoLeo": ["_measure", "_project", "_select", "_sum_pieces"],
        "Energy": ["_add_far_tiles", "_project", "add_near_tiles"],
        "Lloyd": ["_measure", "_project", "_select", "_sum_pieces"],
        "Sliced": ["_combine", "_find_angles", "_find_coefficients"],
        "SSW": ["_combine", "_find_angles", "_find_coefficients"],
    }


def test_only_plain_float32_on_a_gpu_is_taken():
    with computed_by(kernels=True):
        assert door.has_triton(torch.zeros(1, 1, device=DEVICE))
        assert not door.has_triton(torch.zeros(0, 1, device=DEVICE))
        assert not door.has_triton(torch.zeros(1, 1, device="meta"))
        assert not door.has_triton(torch.zeros(1, 1, device=DEVICE, dtype=torch.float64))
        assert not door.has_triton(torch.zeros(1, 2**15, device=DEVICE), width=2**15)
        assert door.has_triton(torch.zeros(1, 2**15, device=DEVICE))  # of many points
        assert not torch.func.vmap(lambda x: torch.tensor(door.has_triton(x)))(
            torch.zeros(2, 1, 1, device=DEVICE)
        ).any()
    assert not door.has_triton(torch.zeros(1, 1))  # on a CPU nothing is interpreted unless a test asks for it


@pytest.mark.parametrize(
    ("value", "expected"), [("0", r"switched off by UNCLUMP_TRITON=0"), ("1", r"triton \d+\.\d+ is installed")]
)
def test_the_variable_turns_them_off_and_the_version_says_so(value, expected, monkeypatch):
    monkeypatch.setenv("UNCLUMP_TRITON", value)
    result = subprocess.run(
        [sys.executable, "-m", "unclump", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert re.search(rf"\({expected}\)$", result.stdout.rstrip())


def test_another_value_of_the_variable_is_refused(monkeypatch):
    monkeypatch.setenv("UNCLUMP_TRITON", "yes")
    library.choose_triton.cache_clear()
    with pytest.raises(ValueError, match="expected UNCLUMP_TRITON to be 0 or 1, got 'yes'"):
        library.choose_triton()


def test_an_old_version_is_not_used(monkeypatch):
    monkeypatch.setenv("UNCLUMP_TRITON", "")
    monkeypatch.setattr(library, "_triton_version", lambda: (3, 0))
    library.choose_triton.cache_clear()
    assert library.choose_triton() == (False, "triton 3.0 is older than 3.6, which the kernels need")
    library.choose_triton.cache_clear()
