"""The fused loops of the CPU in many threads at once, in a forked child, and where nothing can be kept on the disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unclump

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

# As where torch has threads of another kind, with the names of the jobs that the pool took part in.
POOL = """
from unclump.ops.native import team

helped, make_pool = set(), team._pool
team._pool = lambda count: helped.add(current) or make_pool(count)
team.use(team.POOL)
"""


def run(script, **environment):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env={**os.environ, **environment})


@pytest.mark.parametrize("pool", ["", POOL], ids=["torch's threads", "a pool"])
def test_four_threads_at_once_get_what_one_gets(pool):
    run(
        pool
        + JOBS
        + """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    for name in JOBS:
        current = name
        alone = [work(name, seed) for seed in range(4)]
        for _ in range(3):
            for found, expected in zip(pool.map(work, [name] * 4, range(4)), alone):
                assert_same(name, found, expected)
    everything = [(name, seed) for name in JOBS for seed in range(2)]  # and different ones beside each other
    alone = [work(*job) for job in everything]
    for job, found, expected in zip(everything, pool.map(lambda job: work(*job), everything), alone):
        assert_same(job[0], found, expected)
assert "helped" not in globals() or helped == set(JOBS), helped
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


def test_without_a_place_to_keep_them_the_loops_are_compiled_for_each_process(tmp_path):
    package, no_directory = tmp_path / "unclump", tmp_path / "file"
    source = Path(unclump.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    no_directory.touch()
    for folder in (
        package,
        package / "ops" / "native",
    ):  # a file where the directory would be: not even root can write there
        (folder / "__pycache__").touch()
    nowhere = str(no_directory / "cache")
    run(
        """
import numba, torch, unclump
from unclump.ops import native
from unclump.ops.native import circle, minima, projection
from unclump import sliced
from unclump.ops.nearest import nearest

try:
    numba.njit(cache=True)(projection.dot.py_func)
except RuntimeError:
    pass
else:
    raise AssertionError("there is a place after all, and nothing to be seen here")
x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
compute = lambda: (unclump.project(x), nearest(x), sliced(x, torch.tensor([[0, 1]])))  # one of each file
fused, native.ENABLED = compute(), False
assert all(loop.signatures for loop in (projection.project_rows, minima.keep_columns, circle._to_even_spacing))
torch.testing.assert_close(fused, compute())
""",
        PYTHONPATH=str(tmp_path),
        NUMBA_CACHE_DIR=nowhere,
        XDG_CACHE_HOME=nowhere,
        HOME=nowhere,
    )


def test_a_change_of_any_file_compiles_all_loops_anew(tmp_path):
    package = tmp_path / "unclump"
    shutil.copytree(Path(unclump.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    found = """
import sys, torch
from unclump.ops.native import projection

projection.project(torch.eye(3))
assert bool(projection._project_by_team.stats.cache_hits) is (sys.argv[1] == "kept")
"""

    def check(state):
        command = [sys.executable, "-c", found, state]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        subprocess.run(command, check=True, timeout=120, env=environment)

    check("anew")
    check("kept")
    with (package / "ops" / "native" / "team.py").open("a") as file:
        file.write("# another line\n")
    check("anew")
