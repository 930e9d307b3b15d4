"""Training with the kernels for GPUs is training on the CPU; and when they are chosen."""

import re
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.ops.triton_cases import DEVICE, computed_by, small_tiles, table
from unclump import _library as library
from unclump.ops import triton as door

__all__ = ["small_tiles"]  # a fixture

OBJECTIVES = {
    "KoLeo": uc.KoLeo,
    "Energy": uc.Energy,
    "Sliced": lambda: uc.Sliced(3, generator=torch.Generator(DEVICE).manual_seed(1)),
    "Sliced on axes": lambda: uc.Sliced(2, axis_aligned=True, generator=torch.Generator(DEVICE).manual_seed(1)),
}


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
    with computed_by(kernels=True):
        losses, end = trained(OBJECTIVES[name])
    expected, there = trained(OBJECTIVES[name])  # by the loops in C++
    assert losses[-1] < losses[0]
    assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    assert_close(end, there, rtol=0, atol=2e-4)  # rounding, over twenty steps of an adaptive rate


@pytest.mark.usefixtures("small_tiles")
def test_no_operation_takes_the_reference(monkeypatch):
    """Where there are kernels none of the matrices and row-by-row passes of the reference is made."""
    for name in ("addmm", "baddbmm", "matmul", "cat"):
        monkeypatch.setattr(torch, name, lambda *_, name=name, **__: pytest.fail(f"torch.{name} called"))
    with computed_by(kernels=True):
        for name in ("KoLeo", "Energy", "Sliced on axes"):
            trained(OBJECTIVES[name], steps=1)


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
