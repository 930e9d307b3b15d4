"""The loops in many threads at once, in a forked child, for every instruction set, and where there are none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unclump
from unclump import _library as library
from unclump.ops import native

pytestmark = pytest.mark.skipif(not native.ENABLED, reason="the library was not compiled")

# Sizes at which every loop is shared among threads.
JOBS = """
import os, torch, unclump as uc
from unclump.ops import native

torch.set_num_threads(2)
assert native.threads(100, at_least=1) == 2

def objective(make):
    def job(seed):
        random = torch.Generator().manual_seed(seed)
        x = torch.randn(3000, 20, generator=random, requires_grad=True)
        value = make(random)(x)
        return value.detach(), *torch.autograd.grad(value, x)
    return job

def optimiser(make):
    def job(seed):
        random = torch.Generator().manual_seed(seed)
        x = torch.nn.Parameter(torch.randn(6000, 64, generator=random))
        rule = make([x])
        for _ in range(3):
            x.grad = torch.randn(6000, 64, generator=random)
            rule.step()
        return (x.detach(),)
    return job

JOBS = {
    "Energy": objective(lambda random: uc.Energy(uc.Riesz())),
    "KoLeo": objective(lambda random: uc.KoLeo()),
    "Lloyd": objective(lambda random: uc.Lloyd(2000, generator=random)),
    "Sliced": objective(lambda random: uc.Sliced(40, generator=random)),
    "Sliced on axes": objective(lambda random: uc.Sliced(40, axis_aligned=True, generator=random)),
    "SphereAdam": optimiser(lambda x: uc.SphereAdam(x, lr=0.01)),
    "lazy SphereAdam": optimiser(lambda x: uc.SphereAdam(x, lr=0.01, lazy=True)),
    "SphereSGD": optimiser(lambda x: uc.SphereSGD(x, lr=0.01, momentum=0.9)),
}

def work(name, seed=0):
    return JOBS[name](seed)

def assert_same(name, found, expected):
    torch.testing.assert_close(found, expected, msg=lambda text: name + ": " + text)
"""


def run(script, **environment):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env={**os.environ, **environment})


def test_four_threads_at_once_get_what_one_gets():
    run(
        JOBS
        + """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    for name in JOBS:
        alone = [work(name, seed) for seed in range(4)]
        for _ in range(3):
            for found, expected in zip(pool.map(work, [name] * 4, range(4)), alone):
                assert_same(name, found, expected)
    everything = [(name, seed) for name in JOBS for seed in range(2)]  # and different ones beside each other
    alone = [work(*job) for job in everything]
    for job, found, expected in zip(everything, pool.map(lambda job: work(*job), everything), alone):
        assert_same(job[0], found, expected)
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_what_its_parent_got():
    run(
        JOBS
        + """
import signal

expected = {name: work(name) for name in JOBS}
child = os.fork()
if child == 0:
    signal.alarm(60)  # or a child that waits for threads it does not have would never end
    assert native.threads(100, at_least=1) == 1  # whatever torch believes: its threads do not survive a fork
    torch.set_num_threads(1)  # nor its own operations, which is why a data loader's worker does this
    for name in JOBS:
        assert_same(name, work(name), expected[name])
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
for name in JOBS:  # and the parent goes on
    assert_same(name, work(name), expected[name])

class Examples(torch.utils.data.Dataset):
    def __len__(self):
        return len(JOBS)
    def __getitem__(self, k):
        return work(list(JOBS)[k])

loader = torch.utils.data.DataLoader(Examples(), 1, num_workers=2, multiprocessing_context="fork", timeout=60)
for name, found in zip(JOBS, loader):
    assert_same(name, tuple(part[0] for part in found), expected[name])
"""
    )


def test_threads_may_come_and_go():
    run(
        JOBS
        + """
expected = {name: work(name) for name in JOBS}
for threads in (1, 2, 3, 1, 2):
    torch.set_num_threads(threads)
    for name in JOBS:
        assert_same(name, work(name), expected[name])
"""
    )


@pytest.mark.skipif(sys.platform != "linux", reason="there is no list of a process's files")
def test_torch_and_the_loops_share_one_openmp():
    run(
        JOBS
        + """
work("KoLeo")
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if "libgomp" in line or "libomp" in line or "libiomp" in line}
assert len(files) == 1, files
"""
    )


@pytest.mark.parametrize("every", [pytest.param(True, marks=pytest.mark.deep), False], ids=["all", "first and last"])
def test_every_instruction_set_that_there_is_gives_the_same_to_rounding(every, tmp_path):
    """As the reference, which the first process leaves for the others."""
    names = [name for name in library.INSTRUCTION_SETS if name in library.available()]
    assert names
    for name in names if every else sorted({names[0], names[-1]}):
        run(
            JOBS
            + """
from unclump import _library as library

assert library.choose()[0] == os.environ["UNCLUMP_NATIVE"]
compared = [name for name in JOBS if not name.startswith("Sliced")]  # gradients near an axis are as large as rounding
found = {name: work(name) for name in JOBS}
if not os.path.exists(os.environ["EXPECTED"]):
    native.ENABLED = False
    torch.save({name: work(name) for name in compared}, os.environ["EXPECTED"])
expected = torch.load(os.environ["EXPECTED"])
for name in compared:
    torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-5, msg=lambda text: name + text)
""",
            UNCLUMP_NATIVE=name,
            EXPECTED=str(tmp_path / "expected.pt"),
        )


def test_switched_off_everything_is_by_the_reference():
    run(
        """
import sys

sys.meta_path = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]  # the copy counts
import torch, unclump as uc
from unclump.ops import native
from unclump import _library as library

assert not native.ENABLED
assert library.describe() == "plain torch (switched off by UNCLUMP_NATIVE=0)"
assert uc.KoLeo()(torch.randn(50, 4)).isfinite()
""",
        UNCLUMP_NATIVE="0",
    )


def test_without_a_library_everything_is_by_the_reference(tmp_path):
    shutil.copytree(
        Path(unclump.__file__).parent, tmp_path / "unclump", ignore=shutil.ignore_patterns("__pycache__", "libunclump*")
    )
    run(
        """
import sys

sys.meta_path = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]  # the copy counts
import torch, unclump as uc
from unclump.ops import native
from unclump import _library as library

assert not native.ENABLED
assert "no C++ compiler" in library.describe()
assert uc.KoLeo()(torch.randn(50, 4)).isfinite()
""",
        PYTHONPATH=str(tmp_path),
    )


@pytest.mark.parametrize(("given", "problem"), [("sse9", "to be 0, 1 or one of"), ("", None)])
def test_an_instruction_set_that_is_none_is_refused(given, problem):
    script = "import unclump.ops.native"
    environment = {**os.environ, "UNCLUMP_NATIVE": given}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (found.returncode == 0) == (problem is None)
    assert problem is None or problem in found.stderr
