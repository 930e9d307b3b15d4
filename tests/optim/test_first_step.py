"""What optimisers do before they move: points onto the sphere, rows without a direction, refusals."""

import copy
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from unclump.ops import native
from unclump.ops.project import project
from unclump.optim.optimizers import SphereAdam, SphereSGD
from unclump.optim.projected import project_after_step, sphere_parametrization

RULES = {
    "sgd": SphereSGD,
    "momentum": partial(SphereSGD, momentum=0.9),
    "nesterov": partial(SphereSGD, momentum=0.9, nesterov=True),
    "dampening": partial(SphereSGD, momentum=0.9, dampening=0.3),
    "adam": SphereAdam,
    "adam without eps": partial(SphereAdam, eps=0.0),
    "amsgrad": partial(SphereAdam, amsgrad=True),
    "lazy adam": partial(SphereAdam, lazy=True),
}
each_rule = pytest.mark.parametrize("make", RULES.values(), ids=RULES)
each_way = pytest.mark.parametrize("compiled", [True, False], ids=["loops", "reference"])
of_zeros = pytest.warns(UserWarning, match="nothing but zeros")


def steps_on(x, optimizer, gradients):
    for grad in gradients:
        x.grad = grad
        optimizer.step()


@each_rule
def test_a_frozen_table_stays_as_it_is_until_it_is_trained(make, points):
    start = 3 * points(5, 4)
    x = nn.Parameter(start.clone(), requires_grad=False)
    optimizer = make([x], lr=0.0)
    optimizer.step()
    assert torch.equal(x, start)
    x.requires_grad_()
    x.grad = torch.ones_like(x)
    optimizer.step()
    assert_close(x.detach(), project(start))


# Rows of zeros


@each_rule
@each_way
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_zeros_stay_and_the_others_move_as_without_them(make, compiled, dtype, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    start, gradients = points(7, 5).to(dtype), [points(7, 5).to(dtype) for _ in range(4)]
    gradients[2] = torch.full_like(gradients[2], torch.finfo(dtype).max)  # zero times as much is zero
    start[[0, 3]] = 0
    others = [1, 2, 4, 5, 6]
    x, alone = nn.Parameter(start.clone()), nn.Parameter(start[others].clone())
    with of_zeros:
        steps_on(x, make([x], lr=0.1), gradients)
    steps_on(alone, make([alone], lr=0.1), [grad[others] for grad in gradients])
    assert not x[[0, 3]].any()
    assert_close(x[others], alone, atol=0, rtol=0 if dtype != torch.bfloat16 else 1e-2)


@pytest.mark.parametrize("rule", ["momentum", "adam", "amsgrad"])
def test_loops_and_reference_have_the_same_state_for_zeros(rule, points, monkeypatch):
    start, gradients, results = points(6, 5), [points(6, 5) for _ in range(3)], []
    start[2] = 0
    for compiled in (True, False):
        monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
        x = nn.Parameter(start.clone())
        optimizer = RULES[rule]([x], lr=0.1)
        with of_zeros:
            steps_on(x, optimizer, gradients)
        results.append([x.detach(), *optimizer.state[x].values()])
    assert_close(*results)


def test_a_nan_gradient_is_seen_even_by_zeros(points, monkeypatch):
    for compiled in (True, False):
        monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
        x = nn.Parameter(points(3, 4))
        x.data[1] = 0
        with of_zeros:
            steps_on(x, SphereAdam([x], lr=0.1), [torch.full((3, 4), torch.nan, dtype=torch.float64)])
        assert x.isnan().all()


@each_rule
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_padding_is_listed_once_and_stays(make, sparse, points):
    table = nn.Embedding(9, 4, padding_idx=2, sparse=sparse, dtype=torch.float64)
    optimizer = make(table.named_parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            optimizer.zero_grad()
            (table(torch.tensor([1, 2, 5])) * points(3, 4)).sum().backward()
            optimizer.step()
    assert [str(warning.message).split(":")[0] for warning in seen] == [
        "parameter 'weight' of shape (9, 4) has nothing but zeros in 1 row (2)"
    ]
    assert not table.weight[2].any()
    others = [0, 1, 3, 4, 5, 6, 7, 8]
    assert_close(table.weight[others].norm(dim=-1), torch.ones(8, dtype=torch.float64))


def test_zeros_stay_for_other_peoples_optimisers(points):
    x = nn.Parameter(points(5, 3))
    x.data[1] = 0
    optimizer = torch.optim.SGD([x], lr=0.1)
    with pytest.warns(UserWarning, match=r"shape \(5, 3\) has nothing but zeros in 1 row \(1\)"):
        project_after_step(optimizer, [x])
    steps_on(x, optimizer, [points(5, 3)] * 2)
    assert_close(x.norm(dim=-1), torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64))

    table = nn.Embedding(5, 3, padding_idx=1)
    with pytest.warns(UserWarning, match=r"the weight of Embedding has nothing but zeros in 1 row \(1\)"):
        sphere_parametrization(table)
    table.weight.pow(3).sum().backward()
    torch.optim.SGD(table.parameters(), lr=0.1).step()
    assert_close(table.weight.norm(dim=-1), torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="got NaN in 5 rows"):
        table.weight = torch.full((5, 3), torch.nan)


# Refusals


def test_refusals_name_the_parameter_and_come_before_any_move(points):
    model = nn.ModuleDict({"tokens": nn.Embedding(5, 3), "classes": nn.Embedding(4, 3)}).double()
    optimizer = SphereAdam(model.named_parameters(), lr=0.1)
    model["classes"].weight.data[2] = torch.nan
    before = copy.deepcopy(model.state_dict())
    for x in model.parameters():
        x.grad = torch.ones_like(x)
    with pytest.raises(
        ValueError, match=r"finite parameter 'classes\.weight' of shape \(4, 3\), got NaN in 1 row \(2\)"
    ):
        optimizer.step()
    assert_close(dict(model.state_dict()), dict(before), equal_nan=True, rtol=0, atol=0)

    nameless = SphereAdam([{"params": [model["tokens"].weight]}, {"params": [model["classes"].weight]}], lr=0.1)
    with pytest.raises(ValueError, match=r"parameter 0 of group 1 of shape \(4, 3\)"):
        nameless.step()


@pytest.mark.parametrize("group", ["sphere", "euclidean"])
def test_a_gradient_that_no_update_takes_is_refused_before_any_move(group, points):
    first, second = nn.Parameter(points(4, 3)), nn.Parameter(points(4, 3))
    groups = [{"params": [first]}, {"params": [second], "sphere": group == "sphere"}]
    optimizer = SphereAdam(groups, lr=0.1)
    before = first.detach().clone()
    first.grad, second.grad = torch.ones_like(first), torch.eye(4, 3, dtype=torch.float64).to_sparse()
    with pytest.raises(ValueError, match=r"sparse .* parameter 0 of group 1 of shape \(4, 3\)"):
        optimizer.step()
    assert torch.equal(first, before)
    assert not optimizer.state[first]


def test_a_refused_optimiser_has_moved_nothing(points):
    x, bias = nn.Parameter(5 * points(4, 3)), nn.Parameter(torch.zeros(3))
    before = x.detach().clone()
    with pytest.raises(ValueError, match=r"got parameter 'bias' of shape \(3,\); put biases, norms .* sphere=False"):
        SphereAdam([("weight", x), ("bias", bias)], lr=0.1)
    with pytest.raises(ValueError, match="d >= 2"):
        SphereAdam([{"params": [x]}, {"params": [bias]}], lr=0.1)
    assert torch.equal(x, before)


# Points are put on the sphere


@each_rule
def test_rows_are_unit_as_soon_as_the_optimiser_is_built(make, points):
    layer, later, free = nn.Linear(3, 5), nn.Parameter(3 * points(4, 3)), nn.Parameter(3 * points(4, 3))
    raw, was_free = layer.weight.detach().clone(), free.detach().clone()
    optimizer = make([{"params": [layer.weight]}, {"params": [free], "sphere": False}], lr=0.1)
    teacher = copy.deepcopy(layer)
    assert_close(teacher.weight.detach(), project(raw))
    assert torch.equal(free, was_free)
    optimizer.add_param_group({"params": [later]})
    assert_close(later.norm(dim=-1), torch.ones(4, dtype=torch.float64))


@each_rule
def test_weights_that_are_loaded_after_it_was_built_are_put_there_by_the_first_step(make, points):
    start, grad = points(4, 3), points(4, 3)
    x, expected = nn.Parameter(points(4, 3)), nn.Parameter(start.clone())
    optimizer = make([x], lr=0.1)
    x.data.copy_(7 * start)
    steps_on(x, optimizer, [grad])
    steps_on(expected, make([expected], lr=0.1), [grad])
    assert_close(x, expected, atol=1e-14, rtol=0)


def test_parameters_without_values_wait_for_their_first_step(points):
    lazy = nn.LazyLinear(5, bias=False)
    optimizer = SphereAdam(lazy.parameters(), lr=0.1)
    lazy(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    assert_close(lazy.weight.norm(dim=-1), torch.ones(5))

    with torch.device("meta"):
        optimizer = SphereAdam(nn.Embedding(5, 3).parameters(), lr=0.1)
    assert optimizer.param_groups[0]["params"][0].is_meta

    flat = nn.LazyLinear(1, bias=False)
    optimizer = SphereAdam(flat.parameters(), lr=0.1)
    flat(torch.randn(2, 1)).sum().backward()
    with pytest.raises(ValueError, match=r"d >= 2, got parameter 0 of group 0 of shape \(1, 1\)"):
        optimizer.step()
