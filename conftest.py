"""Names that every docstring example may use, and how tests are shared among workers."""

import math
import os

import pytest

# One thread a worker, for NumPy as for torch: where two workers have two each, these wait for one another, up to twenty
# times as long as one thread computes. Workers and what they start inherit it.
for library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_configure(config):
    """Torch is for who runs tests: the process that only hands them out to workers starts in a second without it."""
    if config.getoption("dist", "no") != "no":
        return
    import torch

    torch.set_num_threads(1)  # one worker a core; more threads would only fight over it
    # Without a GPU its kernels are interpreted. Triton's own functions are made so when it is imported, by any test.
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_sessionstart():
    """Import the package before pytest does: it would put a module such as `objectives.sliced` over the function."""
    try:
        import unclump._public  # noqa: F401
    except UserWarning as warning:  # such as that of compiled loops older than their sources
        pytest.exit(str(warning), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture(autouse=True, scope="session")
def _example_names(doctest_namespace):
    import torch

    import unclump

    doctest_namespace.update({name: getattr(unclump, name) for name in unclump.__all__})
    doctest_namespace.update(torch=torch, math=math, uc=unclump)


# Every worker would import these, with all the frameworks, only to look for examples that they do not have.
collect_ignore = [
    f"src/unclump/integrations/{name}.py"
    for name in ("lightning", "transformers", "sentence_transformers", "torchmetrics")
]
# Kernels for GPUs have no examples, and there may be no triton to import them with.
collect_ignore_glob = ["src/unclump/ops/triton/[a-z]*.py"]


# Name -> parts of the names of tests that run on one worker, since two would do the same slow thing each: import all
# frameworks, make a slow fixture, or wait for the runs of the other.
TOGETHER = {
    "frameworks": ("test_integrations.py", "[sentence_embeddings]", "layers_of_minilm"),
    "experiments": ("experiments/test_experiments.py",),
    "killed runs": ("test_checkpoint.py::test_many_kills", "test_checkpoint.py::test_half_a_checkpoint"),
    "killed writers": ("test_writing.py::test_a_killed", "test_writing.py::test_the_kills",
                       "test_writing.py::test_a_full_disk", "test_writing.py::test_an_interrupt"),
    "ranks": ("test_ranks.py::test_three_processes_have", "test_ranks.py::test_optimisers_of_sharded"),
    "browser": ("report/test_in_a_browser.py",),
}  # fmt: skip


@pytest.hookimpl(optionalhook=True)  # there may be no xdist
def pytest_xdist_make_scheduler(config, log):
    """Tests by group. xdist 3.8 has marks for this, which it writes into names that pytest 9.2 does not read."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((group for group, parts in TOGETHER.items() if any(p in nodeid for p in parts)), nodeid)

    return ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None
