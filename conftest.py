"""Names that every docstring example may use."""

import math

import pytest
import torch

import unclump


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace):
    doctest_namespace.update({name: getattr(unclump, name) for name in unclump.__all__})
    doctest_namespace.update(torch=torch, math=math, uc=unclump)


def pytest_collection_modifyitems(items):
    """Tests of the solver share a worker: its loops take half a minute to compile, which two would do at once."""
    for item in items:
        if "codes" in item.nodeid or "test_cli.py" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("codes"))
