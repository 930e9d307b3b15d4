"""Names that every docstring example may use, and how tests are shared among workers."""

import math
import os

import pytest
import torch

import unclump

# One thread a worker, for NumPy as for torch: where two workers have two each, these wait for one another, up to twenty
# times as long as one thread computes. Workers and what they start inherit it; NumPy is loaded here already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace):
    doctest_namespace.update({name: getattr(unclump, name) for name in unclump.__all__})
    doctest_namespace.update(torch=torch, math=math, uc=unclump)


# Every worker would import these, with all the frameworks, only to look for examples that they do not have.
collect_ignore = [
    f"src/unclump/integrations/{name}.py"
    for name in ("lightning", "transformers", "sentence_transformers", "torchmetrics")
]


# What takes long to make and is made once a worker: the tests that share it run on one of them.
SHARED_FIXTURES = {"begin", "browser", "died", "reports"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups: after it they would be of no effect
def pytest_collection_modifyitems(items):
    """Tests of the solver share a worker: its loops take half a minute to compile, which two would do at once.

    So do those of the frameworks, which take long to import, of the experiments, whose quick runs one worker makes
    while another would wait for them, and those that share a slow fixture.
    """
    for item in items:
        shared = SHARED_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if "codes" in item.nodeid or "cli/test_command.py" in item.nodeid:
            group = "codes"
        elif "test_integrations" in item.nodeid:
            group = "frameworks"
        elif "test_experiments.py" in item.nodeid:
            group = "experiments"
        elif shared:
            group = item.nodeid.split("::")[0].rpartition("/")[0]
        else:
            continue
        item.add_marker(pytest.mark.xdist_group(group))
