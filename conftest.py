"""Names that every docstring example may use."""

import math

import pytest
import torch

import unclump


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace):
    doctest_namespace.update({name: getattr(unclump, name) for name in unclump.__all__})
    doctest_namespace.update(torch=torch, math=math, uc=unclump)


# Every worker would import these, with all the frameworks, only to look for examples that they do not have.
collect_ignore = [
    f"src/unclump/integrations/{name}.py"
    for name in ("lightning", "transformers", "sentence_transformers", "torchmetrics")
]


def pytest_collection_modifyitems(items):
    """Tests of the solver share a worker: its loops take half a minute to compile, which two would do at once.

    So do those of the frameworks, which take long to import.
    """
    for item in items:
        if "codes" in item.nodeid or "cli/test_command.py" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("codes"))
        elif "test_integrations" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("frameworks"))
