"""No objective or measure of pairs holds the matrix of them: every allocation of torch and NumPy is tracked.

Those of compiled loops are not seen so; they are by the most that a process ever held.
"""

import subprocess
import sys
import tracemalloc

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import unclump as uc
from unclump.measures.pairs import uniformity
from unclump.ops import native

N, D = 3_000, 16
MATRIX = 4 * N**2  # bytes, in single precision

PAIRWISE = {
    "MaxMin": uc.MaxMin(),
    "KoLeo": uc.KoLeo(),
    "Energy": uc.Energy(),
    "Uniformity": uc.Uniformity(),
    "MMD": uc.MMD(uc.Gaussian()),
}
MEASURES = {
    "nearest_angles": uc.nearest_angles,
    "mean_angle": uc.mean_angle,
    "effective_rank": uc.effective_rank,
    "rankme": uc.rankme,
    "isoscore": uc.isoscore,
    "uniformity": uniformity,
    "covering_radius": uc.covering_radius,
}


def peak(run):
    """The most bytes that torch and NumPy held at once, each, beyond what was there."""
    options = {"activities": [ProfilerActivity.CPU], "profile_memory": True}
    with profile(**options):  # what the first profile of a process imports does not count
        pass
    tracemalloc.start()
    with profile(**options) as profiled:
        run()
    by_numpy = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most + by_numpy


def gradient(objective, n=N):
    x = uc.uniform(n, D, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return lambda: objective(x).backward()


def small_blocks(monkeypatch):
    for module in ("nearest", "kernel_sum"):
        monkeypatch.setattr(f"unclump.ops.{module}.block_entries", lambda x: N * N // 32)


def test_the_matrix_would_be_noticed():
    x = uc.uniform(N, D).requires_grad_()
    assert peak(lambda: torch.exp(x @ x.mT).sum().backward()) > 1.9 * MATRIX


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", PAIRWISE)
def test_objectives_of_pairs_hold_a_block_of_them(name, fused, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", fused and native.ENABLED)
    small_blocks(monkeypatch)
    gradient(PAIRWISE[name], 20)()  # what it imports does not count
    run = gradient(PAIRWISE[name])
    assert peak(run) < MATRIX / (6 if fused else 1.5)


@pytest.mark.parametrize("name", MEASURES)
def test_measures_hold_a_block_of_pairs(name, monkeypatch):
    small_blocks(monkeypatch)
    x = uc.uniform(N, D)
    MEASURES[name](x[:20])  # what it imports does not count
    assert peak(lambda: MEASURES[name](x)) < MATRIX / 1.5


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the most memory a process held is counted differently")
@pytest.mark.parametrize("objective", ["uc.KoLeo()", "uc.Energy(uc.Gaussian())", "uc.Energy(uc.Riesz(1.0))"])
def test_no_process_ever_holds_the_matrix(objective):
    script = f"""
import resource, torch, unclump as uc

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
objective, x = {objective}, uc.uniform(12_000, 16).requires_grad_()
objective(x.detach()[:300].requires_grad_()).backward()  # compiles
before = peak()
objective(x).backward()
assert peak() - before < 4 * 12_000**2 / 10, peak() - before
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
