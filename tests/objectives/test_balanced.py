"""Dispersion by a share of the task's gradient."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch.linalg import vector_norm
from torch.nn.utils.parametrize import register_parametrization
from torch.testing import assert_close

import unclump as uc


def gradient_of_task(x, balanced):
    """Of a task whose gradient is a fixed table, through `balanced`."""
    task = torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)
    x = x.detach().requires_grad_()
    (balanced(x) * task).sum().backward()
    return task, x.grad


@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.Energy(uc.Gaussian()), uc.MaxMin()], ids=repr)
def test_what_is_added_is_a_share_of_the_task_along_the_objectives_gradient(objective, points):
    x = 3 * points(7, 4)
    task, gradient = gradient_of_task(x, uc.Balanced(objective, share=0.25))
    _, push = objective.value_and_gradient(x)
    assert_close(gradient - task, 0.25 * vector_norm(task) * push / vector_norm(push))


def test_the_share_does_not_depend_on_the_scale_of_the_objective(points):
    x = points(9, 3)
    circles = torch.Generator()
    means, sums = (
        gradient_of_task(x, uc.Balanced(uc.Sliced(5, reduction=reduction, generator=circles.manual_seed(1))))[1]
        for reduction in ("mean", "sum")
    )
    assert_close(means, sums)


def test_embeddings_pass_unchanged(points):
    x = points(5, 3).requires_grad_()
    balanced = uc.Balanced(uc.KoLeo())
    assert torch.equal(balanced(x), x)
    assert balanced.eval()(x) is x
    with torch.no_grad():
        assert balanced.train()(x) is x


def test_a_single_row_passes_without_dispersion(points):
    x = points(1, 3).requires_grad_()
    uc.Balanced(uc.KoLeo())(x).sum().backward()
    assert_close(x.grad, torch.ones_like(x))


def test_a_single_row_takes_part_where_other_ranks_have_more(points, monkeypatch):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert copy.deepcopy(uc.KoLeo(gather=dist.group.WORLD)).gather is dist.group.WORLD
        objective, calls = uc.KoLeo(gather=True), []
        monkeypatch.setattr(
            objective, "value_and_gradient", lambda x: calls.append(x) or (x.sum(), torch.zeros_like(x))
        )
        x = points(1, 3).requires_grad_()
        assert torch.equal(uc.Balanced(objective)(x), x)
        assert len(calls) == 1  # without it the other ranks would wait for ever
    finally:
        dist.destroy_process_group()


def test_a_louder_loss_has_the_same_share(points):
    x, balanced = points(7, 4), uc.Balanced(uc.KoLeo(), share=0.25)
    (quiet, loud) = (x.clone().requires_grad_() for _ in range(2))
    balanced(quiet)[:, 0].sum().backward()
    (1000 * balanced(loud)[:, 0].sum()).backward()
    assert_close(loud.grad, 1000 * quiet.grad)


def test_nothing_is_added_where_the_task_has_no_gradient(points):
    x = points(5, 3).requires_grad_()
    (0 * uc.Balanced(uc.KoLeo(), share=10)(x)).sum().backward()
    assert_close(x.grad, torch.zeros_like(x))


def test_an_objective_without_a_gradient_adds_nothing():
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)  # the mean is zero, and so is its gradient
    task, gradient = gradient_of_task(x, uc.Balanced(uc.SphericalVariance()))
    assert_close(gradient, task)


def test_a_sparse_gradient_stays_sparse_and_only_its_rows_get_a_share(points):
    x, tokens, balanced = points(8, 4), torch.tensor([6, 1, 6, 3]), uc.Balanced(uc.KoLeo(), share=0.25)
    table = x.clone().requires_grad_()
    task = torch.linspace(-1, 2, 16, dtype=x.dtype).view(4, 4)
    (torch.nn.functional.embedding(tokens, balanced(table), sparse=True) * task).sum().backward()
    assert table.grad.is_sparse
    gradient, (_, push) = table.grad.to_dense(), uc.KoLeo().value_and_gradient(x)
    rows, own = torch.tensor([1, 3, 6]), torch.stack([task[1], task[3], task[0] + task[2]])
    assert_close(gradient[rows], own + 0.25 * vector_norm(own) * push[rows] / vector_norm(push[rows]))
    assert not gradient[[0, 2, 4, 5, 7]].any()


def test_rows_of_half_precision_keep_their_type(points):
    x = points(6, 4).half()
    _, gradient = gradient_of_task(x, uc.Balanced(uc.KoLeo()))
    assert gradient.dtype == torch.float16
    assert gradient.isfinite().all()


def test_as_a_parametrisation_it_keeps_a_trained_table_apart(points):
    def trained(share):
        embedding = torch.nn.Embedding.from_pretrained(points(20, 8).float(), freeze=False)
        if share:
            register_parametrization(embedding, "weight", uc.Balanced(uc.Energy(uc.Gaussian()), share=share))
        optimizer = torch.optim.SGD(embedding.parameters(), lr=0.5)
        for _ in range(50):  # a task that pulls all rows to one point
            optimizer.zero_grad()
            (embedding(torch.arange(20)) - 1).square().mean().backward()
            optimizer.step()
        return uc.spherical_variance(embedding.weight.detach())

    assert trained(share=1.0) > trained(share=None) + 0.02


def test_copies_and_prints_itself():
    balanced = uc.Balanced(uc.KoLeo(), share=0.2)
    for again in (copy.deepcopy(balanced), pickle.loads(pickle.dumps(balanced))):
        assert repr(again) == repr(balanced)
    assert "share=0.2" in repr(balanced)
    assert "KoLeo" in repr(balanced)


def test_compiles_into_one_graph():
    program = """
import torch, unclump as uc
x, task = torch.randn(6, 4), torch.randn(6, 4)
def gradient(module):
    y = x.clone().requires_grad_()
    (module(y) * task).sum().backward()
    return y.grad
balanced = uc.Balanced(uc.KoLeo(), share=0.5)
compiled = torch.compile(balanced, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(gradient(compiled), gradient(balanced))
"""  # of its own, since the checks of shapes that pytest adds cannot be traced
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize("share", [0, -1, float("nan"), "much"])
def test_shares_that_are_no_positive_number_are_refused(share):
    with pytest.raises((TypeError, ValueError), match="share"):
        uc.Balanced(uc.KoLeo(), share=share)


@pytest.mark.usefixtures("at_the_door")
def test_what_is_no_objective_is_refused():
    with pytest.raises(TypeError, match=r"expected an objective such as .*, got 'koleo'"):
        uc.Balanced("koleo")
