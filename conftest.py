"""Names that every docstring example may use."""

import math

import pytest
import torch

import unclump


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace):
    doctest_namespace.update({name: getattr(unclump, name) for name in unclump.__all__})
    doctest_namespace.update(torch=torch, math=math, uc=unclump)
