"""NaN in, NaN out: a row that is not a number is never lost in a finite value."""

import pytest
import torch

import unclump as uc
from tests.cases import OBJECTIVES as SPHERICAL
from tests.raw_cases import RAW_OBJECTIVES
from unclump.ops import native

OBJECTIVES = {**SPHERICAL, **RAW_OBJECTIVES, "KoLeo(k=2)": lambda: uc.KoLeo(k=2)}
AXES = "Sliced(axis-aligned)"  # reads two coordinates a circle


def company(kind, x):
    queue = torch.randn(5, x.shape[1], generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    return {
        "alone": {},
        "queue": {"against": queue},
        "mask": {"weight": torch.arange(len(x)) != 2},
        "NaN in the queue": {"against": queue.index_fill(0, torch.tensor([3]), torch.nan)},
    }[kind]


@pytest.fixture(params=[True, False], ids=["compiled", "plain torch"])
def loops(request, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", request.param and native.ENABLED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["alone", "queue", "mask", "NaN in the queue"])
@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.usefixtures("loops")
def test_a_nan_makes_the_value_nan(name, kind, dtype, points):
    for rows, columns in ((3, slice(None)), *(() if name == AXES else ((0, 1), (11, 3)))):
        x = points(12, 4).to(dtype)
        if kind != "NaN in the queue":
            x[rows, columns] = torch.nan
        assert OBJECTIVES[name]()(x, **company(kind, x)).isnan(), (rows, columns)
