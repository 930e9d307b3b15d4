"""Sets in leading dimensions, and the transforms of torch.func: every objective of every set by itself."""

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import FEW, OBJECTIVES, value_and_gradient
from unclump.ops import native

each_objective = pytest.mark.parametrize("name", FEW)
each_implementation = pytest.mark.parametrize("compiled", [True, False], ids=["native", "reference"])
DRAWS = ("Lloyd", "Sliced", "SSW", "Polarization")


def sets(points, *shape, n=7, d=4):
    return torch.stack([points(n, d) for _ in range(torch.Size(shape).numel())]).view(*shape, n, d)


@each_objective
def test_sets_have_an_objective_each(name, points):
    x = sets(points, 2, 3)
    value, gradient = value_and_gradient(lambda x: OBJECTIVES[name]()(x).sum(), x)
    values = OBJECTIVES[name]()(x)
    assert values.shape == (2, 3)
    assert_close(values.sum(), value)
    for i in range(2):
        for j in range(3):
            alone = value_and_gradient(OBJECTIVES[name](), x[i, j])
            assert_close((values[i, j], gradient[i, j]), alone)


@each_objective
def test_sets_with_a_queue_and_masks(name, points):
    x, queue = sets(points, 3), points(5, 4)
    mask = torch.rand(3, 7, generator=torch.Generator().manual_seed(0)) > 0.3
    values = OBJECTIVES[name]()(x, against=queue, weight=mask)
    each = [OBJECTIVES[name]()(one, against=queue, weight=some) for one, some in zip(x, mask, strict=True)]
    assert_close(values, torch.stack(each))
    queues = sets(points, 3, n=5)
    values = OBJECTIVES[name]()(x, against=queues)
    assert_close(
        values, torch.stack([OBJECTIVES[name]()(*pair[:1], against=pair[1]) for pair in zip(x, queues, strict=True)])
    )


@each_objective
def test_terms_of_sets(name, points):
    x = sets(points, 2)
    try:
        terms = OBJECTIVES[name]()(x, reduction="none")
    except ValueError as error:
        assert "is not a mean over points" in str(error)  # noqa: PT017
        return
    assert_close(terms, torch.stack([OBJECTIVES[name]()(one, reduction="none") for one in x]))


@each_objective
@each_implementation
def test_func_grad_vmap_and_jacrev(name, compiled, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    x = sets(points, 3).float()
    expected = torch.stack([value_and_gradient(OBJECTIVES[name](), one)[1] for one in x])
    scale = expected.abs().max().item()
    # Where a descent in single precision ends depends on the order of its sums.
    close = {"rtol": 1e-4, "atol": (1e-4 if name.startswith("Polarization") else 1e-5) * max(1.0, scale)}
    assert_close(torch.func.grad(OBJECTIVES[name]())(x[0]), expected[0], **close)
    assert_close(torch.func.jacrev(OBJECTIVES[name]())(x[0]), expected[0], **close)

    def of_one(x):  # made anew for each call, so that all draws are the same
        return OBJECTIVES[name]()(x)

    values = torch.vmap(of_one, randomness="same")(x)
    assert_close(values, torch.stack([OBJECTIVES[name]()(one) for one in x]), rtol=1e-5, atol=1e-6)
    assert_close(torch.vmap(torch.func.grad(of_one), randomness="same")(x), expected, **close)
    total = torch.func.grad(lambda x: torch.vmap(of_one, randomness="same")(x).sum())
    assert_close(total(x), expected, **close)


@each_objective
def test_vmap_over_sets_that_share_a_queue(name, points):
    x, queues = sets(points, 2, 2), sets(points, 2, n=5)
    values = torch.func.vmap(lambda x, queue: OBJECTIVES[name]()(x, against=queue), randomness="same")(x, queues)
    assert_close(values, torch.stack([OBJECTIVES[name]()(x[i], against=queues[i]) for i in range(2)]))


@each_objective
@each_implementation
def test_several_gradients_at_once(name, compiled, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    x = points(7, 4).requires_grad_()
    value, factors = OBJECTIVES[name]()(x), torch.tensor([1.0, -2.0], dtype=x.dtype)
    gradients = torch.autograd.grad(value, x, factors, is_grads_batched=True, retain_graph=True)[0]
    assert_close(
        gradients, torch.stack([factor * torch.autograd.grad(value, x, retain_graph=True)[0] for factor in factors])
    )


def test_different_draws_for_each_of_vmap(points):
    x = points(9, 4).expand(3, 9, 4)
    values = torch.vmap(uc.Sliced(2), randomness="different")(x)
    assert len(values.unique()) == 3


def test_gather_takes_one_table(points, monkeypatch):
    monkeypatch.setattr("unclump.objectives._base.rows_here", lambda x, gather: (x, object(), True))
    with pytest.raises(ValueError, match="one table of shape"):
        uc.KoLeo(gather=True)(sets(points, 2))
