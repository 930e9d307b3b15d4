"""The fused loops of the CPU give what the torch operations give."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.cases import KERNELS, value_and_gradient
from unclump import Energy, Gaussian, SphereAdam, SphereSGD, axis_circles, great_circles, project, ssw
from unclump.ops import native
from unclump.ops.native.circle import _angles
from unclump.ops.native.compiler import compiled
from unclump.ops.native.radix import ascend
from unclump.ops.native.team import team

SIZES = [(n, d) for n in (2, 3, 511, 512, 513, 1300) for d in (2, 3, 64)]
TOLERANCE = {torch.float32: {"rtol": 2e-5, "atol": 2e-6}, torch.float64: {"rtol": 1e-10, "atol": 1e-12}}

each_size = pytest.mark.parametrize(("n", "d"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


pytestmark = pytest.mark.usefixtures("two_threads")


def table(n, d, dtype=torch.float64):
    """Random points, some of them with a twin, a near twin, an antipode; and where there is room, a row of zeros."""
    x = project(torch.randn(n, d, generator=torch.Generator().manual_seed(n + d), dtype=dtype))
    x[-1] = x[0]
    if n > 500:
        x[7], x[300] = -x[1], x[2]
        x[400] = project(x[3] + 1e-4 * x[4])
        x[401] = project(x[3] + 3e-4 * x[5])
        x[402] = 0
    return x


def both(monkeypatch, compute):
    """What `compute()` gives with the loops and without them."""
    assert native.usable(torch.zeros(1))
    fused = compute()
    with monkeypatch.context() as patch:
        patch.setattr(native, "ENABLED", False)
        assert not native.usable(torch.zeros(1))
        return fused, compute()


# Optimisers

RULES = {
    "sgd": lambda x, retraction: SphereSGD([x], lr=0.05, retraction=retraction),
    "momentum": lambda x, retraction: SphereSGD([x], lr=0.05, momentum=0.9, retraction=retraction),
    "adam": lambda x, retraction: SphereAdam([x], lr=0.05, retraction=retraction),
    "without memory": lambda x, retraction: SphereAdam([x], lr=0.05, betas=(0.0, 0.5), retraction=retraction),
    "lazy": lambda x, retraction: SphereAdam([x], lr=0.05, lazy=True, retraction=retraction),
}


def trained(make, x, gradients):
    x = torch.nn.Parameter(x.clone())
    optimizer = make(x)
    for gradient in gradients:
        x.grad = gradient
        optimizer.step()
    return [x.detach(), *(value for value in optimizer.state[x].values() if value is not None)]


def gradients(n, d, dtype, steps):
    """Dense ones, in which a third of the rows have nothing."""
    drawn = torch.randn(steps, n, d, generator=torch.Generator().manual_seed(1), dtype=dtype)
    drawn[torch.rand(steps, n, generator=torch.Generator().manual_seed(2)) < 1 / 3] = 0
    return drawn


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("retraction", ["exp", "project"])
def test_a_hundred_steps_are_the_same(rule, retraction, monkeypatch):
    x, grads = project(table(40, 5)), gradients(40, 5, torch.float64, 100)
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES[rule](x, retraction), x, grads))
    assert_close(fused, plain, rtol=1e-12, atol=1e-12)


@each_size
@each_dtype
@pytest.mark.parametrize("rule", RULES)
def test_steps_are_the_same_at_every_size(n, d, dtype, rule, monkeypatch):
    x = project(torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=dtype))
    grads = gradients(n, d, dtype, 3)
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES[rule](x, "exp"), x, grads))
    assert_close(fused, plain, **TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam"])
def test_steps_of_the_named_rows_are_the_same(dtype, rule, monkeypatch):
    x, rows = project(table(60, 8, dtype)[:60]), torch.tensor([[40, 3, 7, 3]])
    grads = [torch.sparse_coo_tensor(rows, values[:4], (60, 8), check_invariants=True)
             for values in gradients(60, 8, dtype, 5)]  # fmt: skip
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES[rule](x, "exp"), x, grads))
    assert_close(fused, plain, **TOLERANCE[dtype])
    assert (fused[0] != x).any(-1).nonzero()[:, 0].tolist() == sorted(set(rows[0].tolist()))


def test_nan_in_a_gradient_reaches_its_row_and_no_other(monkeypatch):
    x, grads = project(table(20, 6)), gradients(20, 6, torch.float64, 1)
    grads[0, 4, 2], grads[0, 5, 3] = torch.nan, torch.inf
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES["lazy"](x, "exp"), x, grads))
    assert_close(fused, plain, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert fused[0].isnan().any(-1).nonzero()[:, 0].tolist() == [4, 5]


def test_samples_are_not_taken_apart_from_their_points():
    """Whose numbers are those of others: where a gradient is NaN, too, none may be looked up among the points."""
    from unclump.ops.native.distances import _taken_apart

    assert _taken_apart(math.nan, 5, 0, 0.0, 0.0)[1] == 0
    assert _taken_apart(3.0, 5, 0, 0.0, 0.5) == (0, 1.5)
    assert _taken_apart(3.0, 0, 5, 0.0, 0.5) == (0, -1.5)
    assert _taken_apart(3.0, 5, 0, 0.1, 0.5) == (3, 0)


def test_autograd_notices_that_the_points_have_moved():
    x = torch.nn.Parameter(table(9, 4))
    optimizer = SphereAdam([x], lr=0.1)
    loss = x.square().sum()
    x.grad = torch.ones_like(x)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Projection


@each_size
def test_projection_and_its_derivatives_are_the_same(n, d, monkeypatch):
    x = table(n, d, torch.float32) * torch.logspace(-1, 1, n).unsqueeze(-1)
    weights = torch.randn(n, d, generator=torch.Generator().manual_seed(0))

    def compute():
        y = x.clone().requires_grad_()
        projected = project(y)
        (gradient,) = torch.autograd.grad((projected * weights).sum(), y, create_graph=True)
        projected.backward(weights, retain_graph=True)
        (second,) = torch.autograd.grad((gradient * y.detach()).sum(), y)
        return projected.detach(), gradient.detach(), y.grad, second

    fused, plain = both(monkeypatch, compute)
    assert_close(fused, plain, **TOLERANCE[torch.float32], equal_nan=True)  # a row of zeros has no second derivative


def test_projection_works_inside_torch_func_and_forward_differentiation(monkeypatch):
    x = table(5, 3, torch.float32)
    compute = lambda: (torch.vmap(project)(x), torch.func.jvp(project, (x,), (x.flip(0),))[1])  # noqa: E731
    assert_close(*both(monkeypatch, compute))


# Circles

CIRCLES = {
    "random": lambda n: (torch.rand(3, n, generator=torch.Generator().manual_seed(n)) * 2 - 1) * torch.pi,
    "ties": lambda n: torch.randint(-2, 3, (3, n), generator=torch.Generator().manual_seed(n)).float(),
    "zeros of both signs": lambda n: torch.where(torch.arange(n) % 3 == 0, -0.0, 0.0).expand(3, n),
    "the cut": lambda n: torch.where(torch.arange(n) % 3 == 0, -torch.pi, torch.pi).expand(3, n),
    "tiny": lambda n: torch.randn(3, n, generator=torch.Generator().manual_seed(n)) * 1e-42,
    "infinite": lambda n: torch.where(torch.arange(n) % 3 == 0, -torch.inf, torch.arange(n) % 5).expand(3, n),
    "NaN": lambda n: torch.where(torch.arange(n) % 3 == 0, torch.nan, torch.arange(n) % 5).expand(3, n),
    "NaN of the other sign": lambda n: (
        -torch.where(torch.arange(n) % 3 == 0, torch.nan, torch.arange(n) % 5).expand(3, n)
    ),
}


@pytest.mark.parametrize("kind", CIRCLES)
@pytest.mark.parametrize("n", [2, 3, 511, 512, 513, 1300, 70_000])
def test_radix_order_is_the_stable_order(kind, n):
    angles = CIRCLES[kind](n).contiguous()
    for row in angles:
        keys = [np.empty(n, np.uint64) for _ in range(2)]
        found = ascend(row.numpy().view(np.uint32), *keys)[0] & np.uint64(2**32 - 1)
        assert_close(torch.from_numpy(found.astype(np.int64)), row.argsort(stable=True))


def test_arc_tangents_are_right_to_the_last_digit_but_one():
    around = torch.linspace(-torch.pi, torch.pi, 10_001, dtype=torch.float64)
    edges = torch.tensor([[0.0, 1], [0, -1], [1, 0], [-1, 0], [1, 1e-30], [1e-30, 1], [0, 0]], dtype=torch.float64)
    coordinates = torch.cat([torch.stack([around.cos(), around.sin()], dim=1), edges]).mT.float().contiguous()
    angles = np.empty(coordinates.shape[1], np.float32)
    total = _angles(coordinates.numpy(), 0, angles)
    exact = torch.atan2(coordinates[1].double(), coordinates[0].double())
    assert_close(torch.from_numpy(angles).double(), exact, rtol=2e-7, atol=1e-37)
    assert total == pytest.approx(exact.sum().item(), abs=1e-3)


@each_size
@each_dtype
@pytest.mark.parametrize("axis_aligned", [False, True], ids=["random", "axes"])
def test_sliced_objectives_are_the_same(n, d, dtype, axis_aligned, monkeypatch):
    x = table(n, d, dtype)
    for count in (1, 3, 70):  # the last with axes that come again
        random = torch.Generator().manual_seed(0)
        circles = (
            axis_circles(count, d, generator=random)
            if axis_aligned
            else great_circles(count, d, generator=random, dtype=dtype)
        )
        fused, plain = both(monkeypatch, lambda circles=circles: value_and_gradient(lambda x: ssw(x, circles), x))
        scale = plain[1].abs().max()  # near the axis of a circle the gradient is as large as its rounding
        assert_close(fused[0], plain[0], **TOLERANCE[dtype])
        off = (fused[1] - plain[1]).abs().amax(dim=-1) / scale
        assert (off > 2e-5).sum() <= 2 + n // 50  # angles that are equal but for rounding may trade places
        assert off.max() <= 40 / n


# Pairs

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def test_a_steep_kernel_needs_no_gradient():
    with torch.inference_mode():
        x = table(40, 4, torch.float32)
    assert Energy(Gaussian(100.0))(x).isfinite()


@compiled
def count_up(done, step, start, stop):
    for i in range(start, stop):
        done[i] += step


@compiled
def count_up_by_team(done, step, threads):
    team(count_up, (done, step), len(done), threads)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 12, 100_000])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_share_every_piece_once(count, threads):
    done = np.zeros(count, np.int64)
    for _ in range(20):
        count_up_by_team(done, 3, threads)
    assert (done == 60).all()


@compiled
def meet(there, met, start, stop):
    for i in range(start, stop):
        for turn in range(1, 400_000_000):  # and no longer, or one thread alone would wait for ever
            there[i] = turn  # a write, after which the other's place must be read anew
            if there[1 - i] > 0:
                met[i] = 1
                break


@compiled
def meet_by_team(there, met):
    team(meet, (there, met), 2, 2)


def test_two_threads_are_at_work_at_once():
    there, met = np.zeros((2, 2), np.int64)
    meet_by_team(there, met)
    assert met.all()


@compiled
def fail(table, start, stop):
    for i in range(start, stop):
        if table[i] < 0:
            raise ValueError("in one piece")
        table[i] += 1


@compiled
def fail_by_team(table, threads):
    team(fail, (table,), len(table), threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_that_fails_is_not_taken_for_one_that_has_ended(threads):
    table = np.zeros(1_000)
    fail_by_team(table, threads)
    table[700] = -1
    with pytest.raises(MemoryError, match="no memory left"):
        fail_by_team(table, threads)


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (4, 3), (2, 2)])
def test_no_more_threads_than_torch_has_and_than_there_is_work_for(most, expected, monkeypatch):
    monkeypatch.setattr(native, "_most_threads", lambda: most)
    assert native.threads(30, at_least=10) == expected
    assert native.threads(9, at_least=10) == 1
