"""Sizes and types that do not fit are refused before a loop reads beyond them."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import unclump as uc
from unclump.ops import native

each_optimiser = pytest.mark.parametrize(
    "make", [lambda x: uc.SphereAdam(x, lr=0.1), lambda x: uc.SphereSGD(x, lr=0.1, momentum=0.9)], ids=["Adam", "SGD"]
)


def step(optimizer, *tables):
    for x in tables:
        x.grad = torch.ones_like(x)
    optimizer.step()


@each_optimiser
def test_a_table_that_has_grown_is_refused(make, points):
    x = nn.Parameter(points(10, 4))
    optimizer = make([x])
    step(optimizer, x)
    x.data = torch.cat([x.data, points(90, 4)])
    with pytest.raises(ValueError, match=r"100 points in 4 dimensions, got shapes .*: the parameter has another"):
        step(optimizer, x)


def test_step_counts_of_another_type_are_whole_numbers_again(points):
    x = nn.Parameter(points(10, 4))
    optimizer = uc.SphereAdam([x], lr=0.1)
    step(optimizer, x)
    saved = optimizer.state_dict()
    saved["state"][0]["steps"] = saved["state"][0]["steps"].to(torch.int32)
    optimizer.load_state_dict(saved)
    step(optimizer, x)
    assert_close(optimizer.state[x]["steps"], torch.full((10, 1), 2))


@each_optimiser
@pytest.mark.parametrize("before", [torch.float32, torch.float64])
@pytest.mark.parametrize("after", [torch.bfloat16, torch.float32, torch.float64])
def test_a_state_of_another_precision_is_continued(make, before, after, points):
    x, y = (nn.Parameter(points(10, 4).to(dtype)) for dtype in (before, after))
    first, second = make([x]), make([y])
    step(first, x)
    second.load_state_dict(first.state_dict())
    step(second, y)
    dtypes = {table.dtype for table in second.state[y].values() if table is not None and table.is_floating_point()}
    assert dtypes == {torch.promote_types(after, torch.float32)}


@each_optimiser
def test_a_state_with_other_strides_is_continued(make, points):
    x, y = (nn.Parameter(points(8, 4).view(2, 4, 4)) for _ in range(2))
    y.data.copy_(x.data)
    first, second = make([x]), make([y])
    step(first, x)
    y.data.copy_(x.data)
    saved = copy.deepcopy(first.state_dict())
    for name, table in saved["state"][0].items():
        saved["state"][0][name] = None if table is None else table.transpose(0, 1).contiguous().transpose(0, 1)
    second.load_state_dict(saved)
    for _ in range(2):
        step(first, x)
        step(second, y)
    assert_close(x, y, rtol=0, atol=0)


def test_amsgrad_may_be_switched_off(points):
    x, y = (nn.Parameter(points(5, 3)) for _ in range(2))
    first, second = uc.SphereAdam([x], lr=0.1, amsgrad=True), uc.SphereAdam([y], lr=0.1)
    y.data.copy_(x.data)
    for factor in (1.0, 1e-3, 1e-3):
        for table, optimizer in ((x, first), (y, second)):
            table.grad = factor * torch.ones_like(table)
            optimizer.step()
        first.param_groups[0]["amsgrad"] = False
    assert_close(x, y, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [uc.SphereAdam, uc.SphereSGD])
@pytest.mark.parametrize("sphere", [True, False])
def test_a_rate_may_be_an_array_of_one_number(kind, sphere, points):
    tables = [nn.Parameter(points(5, 3)) for _ in range(2)]
    tables[1].data.copy_(tables[0].data)
    for x, lr in zip(tables, (np.array([0.1]), 0.1), strict=True):
        step(kind([{"params": [x], "sphere": sphere}], lr=lr), x)
    assert_close(*tables)


@pytest.mark.parametrize("first", [0, 1])
def test_tables_with_and_without_momentum_are_updated_apart(first, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", False)  # where tables of a width go together
    together, alone = ([nn.Parameter(points(6, 4).clone()) for _ in range(2)] for _ in range(2))
    for one, other in zip(together, alone, strict=True):
        other.data.copy_(one.data)
    optimizer, *others = (uc.SphereSGD(x, lr=0.1, momentum=0.9) for x in (together, [alone[0]], [alone[1]]))
    for x in (together[first], alone[first]):
        x.grad = torch.ones_like(x)
    for each in (optimizer, *others):
        each.step()
        each.param_groups[0]["momentum"] = 0.0
        each.zero_grad()
    for x in (*together, *alone):
        x.grad = torch.ones_like(x)
    for each in (optimizer, *others):
        each.step()
    assert_close(together, alone)
