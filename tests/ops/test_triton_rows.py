"""Projection and steps of the optimisers by the kernels for GPUs: those of the reference, row by row."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from tests.ops.triton_cases import DEVICE, both, close, computed_by, row_kernels, table
from unclump import SphereAdam, SphereSGD
from unclump.ops.project import unit_rows, unit_rows_backward
from unclump.ops.update_rules import adam_update, sgd_update

SIZES = [(1, 1), (2, 2), (33, 5), (3, 65)]
MORE_SIZES = [(n, d) for n in (1, 31, 40) for d in (3, 16, 17, 33, 64, 257)] + [(5, 768), (2, 4096)]
each_size = pytest.mark.parametrize(("n", "d"), SIZES + [pytest.param(*s, marks=pytest.mark.deep) for s in MORE_SIZES])


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@each_size
def test_rows_on_the_sphere_and_back(n, d):
    x, grad = numbers(2, n, d), numbers(2, n, d, seed=1)
    (y, inverse), expected = both(lambda: unit_rows(x))
    close((y, inverse), expected)
    close(*both(lambda: unit_rows_backward(*expected, grad)))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # NumPy's, which interprets
def test_no_norm_vanishes_or_overflows_and_zeros_and_nan_stay():
    x = numbers(6, 5)
    x[0], x[1], x[2] = 0, x[1] * 1e-38, x[2] * 1e38
    x[3] *= 1e-43  # below the smallest normal number
    x[4, 2] = torch.nan
    (y, inverse), expected = both(lambda: unit_rows(x))
    assert_close(y, expected[0], rtol=2e-6, atol=2e-6, equal_nan=True)
    assert_close(inverse, expected[1], rtol=2e-6, atol=0, equal_nan=True)
    assert_close(y[[1, 2, 3]].norm(dim=-1), torch.ones(3, device=DEVICE))


RULES = {
    "sgd": lambda x: SphereSGD(x, lr=0.05),
    "momentum": lambda x: SphereSGD(x, lr=0.05, momentum=0.9, retraction="project"),
    "adam": lambda x: SphereAdam(x, lr=0.05),
    "without memory": lambda x: SphereAdam(x, lr=0.05, betas=(0.0, 0.5), retraction="project"),
    "amsgrad": lambda x: SphereAdam(x, lr=0.05, amsgrad=True),
    "lazy": lambda x: SphereAdam(x, lr=0.05, lazy=True),
    "a tensor as rate": lambda x: SphereAdam(x, lr=torch.tensor(0.05, device=DEVICE), maximize=True),
}


def gradients(shape, steps):
    """Dense ones, in which a third of the rows have nothing."""
    drawn = numbers(steps, *shape, seed=12)
    drawn[torch.rand(steps, *shape[:-1], generator=torch.Generator().manual_seed(14)).to(DEVICE) < 1 / 3] = 0
    return drawn


def trained(rule, tables, steps=3, sparse=False):
    """The points and all of their state after some steps."""
    parameters = [torch.nn.Parameter(x.clone()) for x in tables]
    optimizer = RULES[rule](parameters)
    each = [gradients(x.shape, steps).to(x.dtype) for x in tables]
    for step in range(steps):
        for x, grads in zip(parameters, each, strict=True):
            x.grad = grads[step]
            if sparse:  # a row twice, and some not at all
                named = torch.tensor([3, 0, 3, 7], device=DEVICE)
                x.grad = torch.sparse_coo_tensor(named[None], grads[step][:4], x.shape, check_invariants=False)
        optimizer.step()
    state = [value for x in parameters for value in optimizer.state[x].values() if value is not None]
    return [x.detach() for x in parameters] + state


def both_trained(*args, **kwargs):
    (first, *_), (second, *_) = results = both(lambda: trained(*args, **kwargs))
    assert not torch.equal(first, args[1][0])
    for found, expected in zip(*results, strict=True):
        close(found, expected)
    return second


@pytest.mark.parametrize("rule", RULES)
def test_steps_are_the_same(rule):
    both_trained(rule, [table(9, 5)])


@each_size
def test_steps_are_the_same_at_every_size(n, d):
    if d > 1:  # the sphere of one dimension is two points
        both_trained("adam", [table(n, d)], steps=3)


def test_many_parameters_go_in_one_launch(monkeypatch):
    tables = [table(9, 5), table(2, 3, 5, seed=1), table(40, 5, seed=2), table(7, 4, seed=3)]
    launched = []
    update = row_kernels.update

    def counted(rule, members, **choices):
        launched.append(len(members))
        update(rule, members, **choices)

    monkeypatch.setattr(row_kernels, "update", counted)
    both_trained("adam", tables, steps=2)
    assert launched == [3, 1] * 2


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_sparse_gradients_touch_the_rows_they_name(rule):
    x = table(9, 5)
    after = both_trained(rule, [x], sparse=True)
    assert (after != x).any(dim=1).nonzero()[:, 0].tolist() == [0, 3, 7]


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("number", [-1, 6, 2**40])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.skipif(DEVICE == "cuda", reason="there it is an assertion on the device, after which nothing runs")
def test_row_numbers_outside_of_the_parameter_are_refused(rule, number, kernels):
    x = torch.nn.Parameter(table(6, 4))
    named = torch.tensor([[2, number]], device=DEVICE)
    x.grad = torch.sparse_coo_tensor(named, numbers(2, 4), x.shape, check_invariants=False)
    with computed_by(kernels), pytest.raises(IndexError, match="out of range"):
        RULES[rule]([x]).step()


@pytest.mark.parametrize(
    "rule",
    [
        partial(sgd_update, lr=0.1, momentum=0.9, retraction="exp"),
        partial(adam_update, lr=0.1, betas=(0.9, 0.99), eps=1e-8, retraction="exp"),
    ],
    ids=["sgd", "adam"],
)
def test_the_kernels_touch_no_memory_for_such_numbers(rule):
    """Should torch not have refused them, as on ROCm, where its checks are left out."""
    rows = torch.tensor([-1, 0, 2, 3, 2**33], device=DEVICE)
    memory = [torch.full((5, width), 0.5, device=DEVICE) for width in (4, 4, 1, 1)]
    memory.insert(3, torch.full((5, 1), 7, device=DEVICE))
    before = [one.clone() for one in memory]
    x, *state = (one[1:4] for one in memory)  # a row before and one behind are of others
    row_kernels.update(rule, [(x, numbers(5, 4), tuple(state if rule.func is adam_update else state[:1]))], rows=rows)
    for after, old in zip(memory, before, strict=True):
        changed = (after != old).any(dim=1).nonzero()[:, 0].tolist()
        assert changed in ([1, 3], []), changed
    assert (memory[0] != before[0]).any(dim=1).tolist() == [False, True, False, True, False]


def test_a_row_of_zeros_and_a_nan_stay_where_they_are():
    x = table(6, 4)
    x[2] = 0

    def step():
        point = torch.nn.Parameter(x.clone())
        optimizer = SphereAdam([point], lr=0.1)
        point.grad = numbers(6, 4, seed=12)
        point.grad[4, 1] = torch.nan
        with pytest.warns(UserWarning, match="zeros"):
            optimizer.step()
        return point.detach()

    found, expected = both(step)
    assert_close(found, expected, rtol=2e-6, atol=2e-6, equal_nan=True)
    assert (found[2] == 0).all()
    assert found[4].isnan().all()
    assert not found[[0, 1, 3, 5]].isnan().any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_updated_in_float32_and_rounded(dtype):
    found, expected = both(lambda: trained("adam", [table(20, 7).to(dtype)], steps=1))
    assert found[0].dtype is dtype
    assert_close(found[0], expected[0], rtol=0, atol=torch.finfo(dtype).eps)  # a rounding to the other side
    close(found[1], expected[1])


def test_a_backward_pass_through_old_values_is_refused():
    x = torch.nn.Parameter(table(4, 3))
    optimizer = SphereSGD([x], lr=0.1)
    loss = x.square().sum()
    with computed_by(kernels=True):
        x.grad = numbers(4, 3)
        optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_rules_without_a_kernel_take_the_reference():
    def step(**choices):
        x = torch.nn.Parameter(table(5, 3))
        optimizer = SphereSGD([x], lr=0.1, momentum=0.9, **choices)
        x.grad = numbers(5, 3)
        optimizer.step()
        return x.detach()

    for choices in ({"nesterov": True}, {"dampening": 0.5}):
        close(*both(lambda choices=choices: step(**choices)))
