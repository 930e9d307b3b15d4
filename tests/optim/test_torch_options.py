"""Options, learning rates and states as torch's optimisers take them."""

import copy
from functools import partial

import geoopt
import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from unclump.geometry.sphere import exp, retract, tangent, transport
from unclump.ops import native
from unclump.ops.update_rules import sgd_update
from unclump.optim.optimizers import SphereAdam, SphereSGD

PAIRS = {
    "momentum and dampening": (SphereSGD, torch.optim.SGD, {"momentum": 0.9, "dampening": 0.4}),
    "nesterov": (SphereSGD, torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "amsgrad": (SphereAdam, torch.optim.Adam, {"amsgrad": True, "betas": (0.5, 0.6)}),
}
each_pair = pytest.mark.parametrize(("ours", "torchs", "options"), PAIRS.values(), ids=PAIRS)
each_way = pytest.mark.parametrize("compiled", [True, False], ids=["loops", "reference"])


def moved(make, start, gradients, **options):
    x = nn.Parameter(start.clone())
    optimizer = make([x], **options)
    for grad in gradients:
        x.grad = grad
        optimizer.step()
    return x.detach()


# AMSGrad, dampening, Nesterov


@each_way
def test_amsgrad_is_geoopts(compiled, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    start = points(20, 5)
    ours, theirs = nn.Parameter(start.clone()), geoopt.ManifoldParameter(start.clone(), manifold=geoopt.SphereExact())
    options = {"lr": 0.05, "betas": (0.5, 0.6), "amsgrad": True}
    optimizer, other = SphereAdam([ours], **options), geoopt.optim.RiemannianAdam([theirs], **options)
    gradients = [points(20, 5) / (1 + step) for step in range(50)]  # smaller and smaller: the largest is long ago
    for grad in gradients:
        ours.grad, theirs.grad = grad, grad.clone()
        optimizer.step()
        other.step()
        assert_close(ours.data, theirs.data, atol=1e-13, rtol=0)
    without = moved(SphereAdam, start, gradients, lr=0.05, betas=(0.5, 0.6))
    assert (without - ours).abs().max() > 0.1


@pytest.mark.parametrize(("retraction", "move"), [("exp", exp), ("project", retract)])
def test_nesterov_and_dampening_are_their_definitions(retraction, move, points):
    x, grad = points(6, 4), points(6, 4)
    b = tangent(x, points(6, 4))
    g = tangent(x, grad)
    for dampening, nesterov in ((0.3, False), (0.0, True)):
        choices = {"lr": 0.4, "momentum": 0.9, "dampening": dampening, "nesterov": nesterov}
        y, carried = sgd_update(x, grad, b, retraction=retraction, **choices)
        new = 0.9 * b + (1 - dampening) * g
        expected = move(x, -0.4 * (g + 0.9 * new if nesterov else new))
        assert_close(y, expected)
        assert_close(carried, transport(x, expected, new))


def test_a_nesterov_step_round_the_sphere_brings_the_momentum_back(points):
    x, b = points(6, 4), tangent(points(6, 4), points(6, 4))
    b = tangent(x, b)
    u = tangent(x, points(6, 4))
    for turn in (1.0, 2.0):  # to the antipode, and all the way round
        step = turn * torch.pi * u / u.norm(dim=-1, keepdim=True)
        grad = (step - 0.9 * 0.9 * b) / 1.9  # so that g + 0.9 (0.9 b + g) is the step
        y, carried = sgd_update(x, grad, b, lr=1.0, momentum=0.9, retraction="exp", nesterov=True)
        new, along = 0.9 * b + grad, u / u.norm(dim=-1, keepdim=True)
        mirrored = new - 2 * (along * new).sum(-1, keepdim=True) * along
        assert_close(y, -x if turn == 1 else x)
        assert_close(carried, mirrored if turn == 1 else new)


@pytest.mark.parametrize(
    "options", [{"dampening": 0.4}, {"nesterov": True}, {}], ids=["dampening", "nesterov", "plain"]
)
@pytest.mark.parametrize("maximize", [False, True])
def test_on_a_small_patch_which_is_flat_sgd_is_torchs(options, maximize, points):
    size, flat = 1e-6, points(5, 3)
    start = torch.cat([size * flat, torch.ones(5, 1, dtype=torch.float64)], dim=1)
    gradients = [points(5, 3) for _ in range(6)]
    options = {"momentum": 0.9, "maximize": maximize, **options}
    found = moved(SphereSGD, start, [nn.functional.pad(grad, (0, 1)) for grad in gradients], lr=0.1 * size, **options)
    expected = moved(torch.optim.SGD, flat, gradients, lr=0.1, **options)
    assert_close(found[:, :3] / size, expected, atol=1e-8, rtol=0)


def test_dampening_spares_the_first_gradient_of_each_row(points):
    table = nn.Embedding(4, 3, sparse=True, _weight=points(4, 3))
    optimizer = SphereSGD(table.parameters(), lr=0.1, momentum=0.9, dampening=0.7)
    start, late = table.weight.detach().clone(), points(1, 3)
    for rows in ([0, 1], [0, 2]):
        optimizer.zero_grad()
        (table(torch.tensor(rows)) * late).sum().backward()
        optimizer.step()
    assert_close(table.weight[2].detach(), exp(start[2], -0.1 * tangent(start[2], late[0])))


@each_pair
def test_euclidean_groups_are_torchs_to_the_bit(ours, torchs, options, points):
    start, gradients = points(5, 3).float(), [points(5, 3).float() for _ in range(9)]
    euclidean = lambda params, **options: ours([{"params": params, "sphere": False}], **options)  # noqa: E731
    assert torch.equal(
        moved(euclidean, start, gradients, lr=0.1, **options), moved(torchs, start, gradients, lr=0.1, **options)
    )


@each_pair
def test_states_with_these_options_continue_to_the_bit(ours, torchs, options, points):
    x = nn.Parameter(points(5, 3))
    optimizer = ours([x], lr=0.1, **options)
    gradients = [points(5, 3) for _ in range(6)]
    for grad in gradients[:3]:
        x.grad = grad
        optimizer.step()
    y = nn.Parameter(x.detach().clone())
    other = ours([y], lr=0.1)  # the options come with the state
    other.load_state_dict(optimizer.state_dict())
    for parameter, each in ((x, optimizer), (y, other)):
        for grad in gradients[3:]:
            parameter.grad = grad
            each.step()
    assert torch.equal(x, y)


# Learning rates and other keys


@each_way
@pytest.mark.parametrize("make", [SphereSGD, partial(SphereSGD, momentum=0.9), SphereAdam], ids=["sgd", "m", "adam"])
@pytest.mark.parametrize(
    "lr",
    [torch.tensor(0.125), torch.tensor([0.125], dtype=torch.float64), np.float32(0.125), np.array(0.125)],
    ids=repr,
)
def test_a_tensor_or_an_array_is_a_learning_rate(make, lr, compiled, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    start, gradients = points(5, 3).float(), [points(5, 3).float() for _ in range(3)]
    for options in ({}, {"maximize": True}):
        found, expected = (moved(make, start, gradients, lr=rate, **options) for rate in (lr, 0.125))
        assert found.dtype == torch.float32
        assert torch.equal(found, expected)


@pytest.mark.parametrize(("ours", "torchs"), [(SphereSGD, torch.optim.SGD), (SphereAdam, torch.optim.Adam)])
def test_schedules_fill_a_tensor_and_euclidean_groups_take_it_as_torch_does(ours, torchs, points):
    results = []
    start, gradients = points(5, 3), [points(5, 3) for _ in range(5)]
    for make in (lambda params, lr: ours([{"params": params, "sphere": False}], lr=lr), torchs):
        x, lr = nn.Parameter(start.clone()), torch.tensor(0.1)
        optimizer = make([x], lr)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for grad in gradients:
            x.grad = grad
            optimizer.step()
            schedule.step()
        assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
        results.append(x.detach())
    assert torch.equal(*results)
    x = nn.Parameter(points(5, 3))
    optimizer = ours([x], lr=torch.tensor(0.1))
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    before = x.detach().clone()
    x.grad = torch.ones_like(x)
    optimizer.step()
    assert_close(x.detach(), before, atol=1e-15, rtol=0)


def test_keys_that_are_no_options_stay_in_the_group(points):
    groups = [{"params": [nn.Parameter(points(4, 3))], "lr_scale": 0.5, "fused": None, "name": "tokens"}]
    optimizer = SphereAdam(groups, lr=0.1)
    assert optimizer.param_groups[0]["lr_scale"] == 0.5
    assert copy.deepcopy(optimizer).state_dict()["param_groups"][0]["lr_scale"] == 0.5
    with pytest.warns(UserWarning, match=r"'spere', which is ignored; did you mean 'sphere'\?"):
        optimizer.add_param_group({"params": [nn.Parameter(points(4, 3))], "spere": False})


# States of other optimisers


@pytest.mark.parametrize("other", [torch.optim.Adam, geoopt.optim.RiemannianAdam, torch.optim.SGD, SphereSGD])
def test_the_state_of_another_optimiser_is_refused_by_what_is_missing(other, points):
    x = nn.Parameter(points(4, 3))
    theirs = other([x], lr=0.1)
    optimizer = SphereAdam([("prototypes", x)], lr=0.1)
    x.grad = torch.ones_like(x)
    theirs.step()
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    saved = theirs.state_dict()
    saved["state"] = saved["state"] or {0: {"momentum_buffer": None}}
    with pytest.raises(
        ValueError,
        match=r"SphereAdam for points .* with exp_avg, exp_avg_sq, steps, got .* 'prototypes' .*steps is missing",
    ):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert_close(after["state"][0]["exp_avg"], before["state"][0]["exp_avg"], atol=0, rtol=0)
    assert after["param_groups"] == before["param_groups"]


def test_a_state_of_other_shapes_is_refused(points):
    x, y = nn.Parameter(points(4, 3)), nn.Parameter(points(5, 3))
    optimizer, other = SphereAdam([x], lr=0.1), SphereAdam([y], lr=0.1)
    y.grad = torch.ones_like(y)
    other.step()
    with pytest.raises(ValueError, match=r"exp_avg of shape \(4, 3\) in the state of .*, got \(5, 3\)"):
        optimizer.load_state_dict(other.state_dict())


def test_a_euclidean_group_goes_on_from_torchs_adam(points):
    x = nn.Parameter(points(4, 3))
    theirs = torch.optim.Adam([x], lr=0.1)
    gradients = [points(4, 3) for _ in range(6)]
    for grad in gradients[:3]:
        x.grad = grad
        theirs.step()
    y = nn.Parameter(x.detach().clone())
    ours = SphereAdam([{"params": [y], "sphere": False}], lr=0.7)
    ours.load_state_dict(theirs.state_dict())
    for parameter, optimizer in ((x, theirs), (y, ours)):
        for grad in gradients[3:]:
            parameter.grad = grad
            optimizer.step()
    assert torch.equal(x, y)
    wrong = SphereSGD([y], lr=0.1)
    wrong.step()
    with pytest.raises(ValueError, match=r"a group with sphere=False, with step, exp_avg, exp_avg_sq, got momentum"):
        ours.load_state_dict({**ours.state_dict(), "state": wrong.state_dict()["state"]})


@pytest.mark.parametrize(
    ("make", "options"), [(SphereSGD, ("dampening", "nesterov")), (SphereAdam, ("amsgrad",))], ids=["sgd", "adam"]
)
def test_groups_saved_before_these_were_options_load(make, options, points):
    x = nn.Parameter(points(4, 3))
    optimizer = make([x], lr=0.1)
    x.grad = torch.ones_like(x)
    optimizer.step()
    saved = optimizer.state_dict()
    for name in options:
        del saved["param_groups"][0][name]
    saved["state"][0].pop("max_exp_avg_sq", None)
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert not any(optimizer.param_groups[0][name] for name in options)
