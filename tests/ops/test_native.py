"""The loops in C++ give what the reference in torch gives: at many sizes, in both precisions, on several threads."""

import math
import os
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from tests.cases import value_and_gradient
from unclump import (
    Energy,
    Gaussian,
    KoLeo,
    Laplace,
    MaxMin,
    Riesz,
    SphereAdam,
    SphereSGD,
    axis_circles,
    great_circles,
    lloyd,
    project,
    ssw,
)
from unclump import _library as library
from unclump.kernels import Relative
from unclump.ops import native
from unclump.ops.even_spacing import draw_circles
from unclump.ops.kernel_sum import kernel_sum
from unclump.ops.native import chords as chord_loops
from unclump.ops.native import circles as circle_loops
from unclump.ops.native import rows
from unclump.ops.native.kernel_sum import code_of
from unclump.ops.nearest import nearest
from unclump.ops.row_update import in_place
from unclump.ops.update_rules import adam_update, sgd_update

SIZES = [(n, d) for n in (2, 3, 511, 512, 513, 1300) for d in (2, 3, 64)]
TOLERANCE = {torch.float32: {"rtol": 2e-5, "atol": 2e-6}, torch.float64: {"rtol": 1e-10, "atol": 1e-12}}

each_size = pytest.mark.parametrize(("n", "d"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


pytestmark = [
    pytest.mark.usefixtures("two_threads"),
    pytest.mark.skipif(not native.ENABLED, reason="the library was not compiled"),
]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def table(n, d, dtype=torch.float64):
    """Random points, some of them with a twin, a near twin, an antipode; no zeros, at which fused loops stop."""
    x = project(torch.randn(n, d, generator=seeded(n + d), dtype=dtype))
    x[-1] = x[0]
    if n > 500:
        x[7], x[300] = -x[1], x[2]
        x[400] = project(x[3] + 1e-4 * x[4])
        x[401] = project(x[3] + 3e-4 * x[5])
    return x


def both(monkeypatch, compute):
    """What `compute()` gives with the loops and without them."""
    assert native.has_native(torch.zeros(1))
    fused = compute()
    with monkeypatch.context() as patch:
        patch.setattr(native, "ENABLED", False)
        assert not native.has_native(torch.zeros(1))
        return fused, compute()


# The library


def test_the_best_instruction_set_is_chosen_and_says_so():
    name, why = library.choose()
    assert library.describe() == f"compiled for {name} ({why})"
    assert name == os.environ.get(library.VARIABLE, "") or name == library.available()[-1]


def test_a_library_is_stale_by_its_own_date(tmp_path, monkeypatch):
    """An old one of another instruction set, which was not compiled again, does not keep the best from being used."""
    (tmp_path / "ops/native").mkdir(parents=True)
    for name, seconds in (("plain", 1000), ("ops/native/changed.cpp", 2000), ("avx2", 3000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    monkeypatch.setattr(library, "_HERE", tmp_path)
    monkeypatch.setattr(library, "_IN_TREE", True)
    monkeypatch.setattr(library, "_file", lambda name: tmp_path / name)
    assert library.is_stale("plain")
    assert not library.is_stale("avx2")


def test_a_library_that_is_older_than_its_sources_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "ops/native").mkdir(parents=True)
    (tmp_path / "ops/native/changed.cpp").touch()
    monkeypatch.setattr(library, "_HERE", tmp_path)
    monkeypatch.setattr(library, "_IN_TREE", True)
    try:
        library.choose.cache_clear()
        assert library.choose() == (None, "the library is older than its C++ files: run `make native` to recompile it")
        with pytest.warns(UserWarning, match="make native"):
            assert not library.is_loadable()
    finally:
        library.choose.cache_clear()


def test_only_numbers_on_the_cpu_are_taken():
    assert native.has_native(torch.zeros(1), torch.zeros(1))
    assert native.has_native(torch.zeros(1, dtype=torch.float64))
    assert not native.has_native(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    assert not native.has_native(torch.zeros(1, dtype=torch.float16))
    assert not native.has_native(torch.zeros(1, device="meta"))


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (4, 3), (2, 2)])
def test_no_more_threads_than_torch_has_and_than_there_is_work_for(most, expected, monkeypatch):
    monkeypatch.setattr(native, "_most_threads", lambda: most)
    assert native.threads(30, at_least=10) == expected
    assert native.threads(9, at_least=10) == 1


def test_two_threads_are_a_team():
    assert library.function("team_size", "i", "i")(2) == 2


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
    drawn = torch.randn(steps, n, d, generator=seeded(1), dtype=dtype)
    drawn[torch.rand(steps, n, generator=seeded(2)) < 1 / 3] = 0
    return drawn


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("retraction", ["exp", "project"])
def test_a_hundred_steps_are_the_same(rule, retraction, monkeypatch):
    x, grads = project(table(40, 5)), gradients(40, 5, torch.float64, 100)
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES[rule](x, retraction), x, grads))
    assert_close(fused, plain, rtol=1e-12, atol=1e-12)


def test_every_row_has_the_factors_of_its_own_count_of_steps(monkeypatch):
    counts = torch.tensor([1, 65, 129, 1, 65, 7, 1000, 10**6])[
        :, None
    ]  # the loop keeps factors for some counts at a time

    def step():
        state = x.clone(), grad, torch.zeros_like(x), torch.zeros_like(x[:, :1]), counts.clone(), None
        in_place(partial(adam_update, lr=0.05, betas=(0.9, 0.999), eps=1e-8, retraction="exp"), *state)
        return state

    x, grad = project(torch.randn(8, 5, generator=seeded(0), dtype=torch.float64)), gradients(8, 5, torch.float64, 1)[0]
    fused, plain = both(monkeypatch, step)
    assert_close(fused, plain, rtol=1e-12, atol=1e-12)


# The loops that share rows among threads and cut them into vectors are the same for all rules.
def rules_at(n, d):
    is_typical = (n, d) in ((3, 3), (511, 64), (513, 2))
    deep = () if is_typical else pytest.mark.deep
    return [pytest.param(n, d, rule, marks=deep if rule in ("without memory", "lazy") else ()) for rule in RULES]


@pytest.mark.parametrize(("n", "d", "rule"), [case for size in SIZES for case in rules_at(*size)])
@each_dtype
def test_steps_are_the_same_at_every_size(n, d, dtype, rule, monkeypatch):
    x = project(torch.randn(n, d, generator=seeded(0), dtype=dtype))
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


@pytest.mark.parametrize("stride", [1, 4096])
@pytest.mark.parametrize("count", [0, 1, 7, 600])
def test_gradients_of_rows_that_come_again_are_summed(count, stride):
    numbers = stride * torch.randint(0, 10**5 // stride, (1 + count // 3,), generator=seeded(count))
    index = numbers[torch.randint(0, len(numbers), (count,), generator=seeded(count))]
    values = torch.randn(count, 5, generator=seeded(count), dtype=torch.float64)
    x = project(torch.randn(10**5, 5, generator=seeded(1), dtype=torch.float64))
    summed = torch.sparse_coo_tensor(index[None], values, x.shape, check_invariants=True).coalesce()
    expected, choices = x.clone(), {"lr": 0.1, "momentum": 0.0, "retraction": "exp"}
    expected[summed.indices()[0]] = sgd_update(x[summed.indices()[0]], summed.values(), None, **choices)[0]
    rows.sgd_update(x, values, None, rows=index, threads=2, **choices)
    assert_close(x, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("number", [-1, 4])
def test_a_row_that_is_not_there_is_refused(number):
    x, choices = torch.eye(4), {"lr": 0.1, "momentum": 0.0, "retraction": "exp"}
    with pytest.raises(IndexError, match="numbers of rows"):
        rows.sgd_update(x, torch.ones(2, 4), None, rows=torch.tensor([0, number]), threads=1, **choices)
    assert_close(x, torch.eye(4), rtol=0, atol=0)


def test_nan_in_a_gradient_reaches_its_row_and_no_other(monkeypatch):
    x, grads = project(table(20, 6)), gradients(20, 6, torch.float64, 1)
    grads[0, 4, 2] = torch.nan
    fused, plain = both(monkeypatch, lambda: trained(lambda x: RULES["lazy"](x, "exp"), x, grads))
    assert_close(fused, plain, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert fused[0].isnan().any(-1).nonzero()[:, 0].tolist() == [4]


@each_dtype
@pytest.mark.parametrize("d", [3, 16, 37])
@pytest.mark.parametrize("rule", RULES)
def test_entries_of_gradients_are_bounded(rule, d, dtype, monkeypatch):
    """Their squares do not overflow, and the step is that by gradients within the bound.

    It is compared by "project": an angle of 1e16 has no digits after the point.
    """
    most = torch.finfo(dtype).max
    x, grads = project(table(20, d, dtype)), gradients(20, d, dtype, 3)
    grads[0, 4, 2], grads[0, 5, 1], grads[1, 5], grads[2, -1, -1] = most / 2, -math.inf, math.inf, most**0.6
    bounded = grads.clamp(-(most**0.45), most**0.45)
    assert all(part.isfinite().all() for part in trained(lambda x: RULES[rule](x, "exp"), x, grads))
    make = lambda x: RULES[rule](x, "project")  # noqa: E731
    fused, plain = trained(make, x, grads), both(monkeypatch, lambda: trained(make, x, bounded))[1]
    assert all(part.isfinite().all() for part in fused)
    assert_close(fused[0], plain[0], **TOLERANCE[dtype])


def test_a_step_from_two_coinciding_rows_under_a_steep_energy_is_finite():
    x = torch.nn.Parameter(project(torch.randn(8, 4, generator=seeded(0))))
    x.data[1] = x.data[0]
    for optimizer in (SphereSGD([x], lr=1e-3), SphereAdam([x], lr=1e-3)):
        optimizer.zero_grad()
        Energy(Riesz(6.0))(x).backward()
        optimizer.step()
        assert x.isfinite().all()


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
@each_dtype
def test_projection_and_its_derivatives_are_the_same(n, d, dtype, monkeypatch):
    x = table(n, d, dtype) * torch.logspace(-1, 1, n, dtype=dtype).unsqueeze(-1)
    x[1] = 0
    weights = torch.randn(n, d, generator=seeded(0), dtype=dtype)

    def compute():
        y = x.clone().requires_grad_()
        projected = project(y)
        (gradient,) = torch.autograd.grad((projected * weights).sum(), y, create_graph=True)
        projected.backward(weights, retain_graph=True)
        (second,) = torch.autograd.grad((gradient * y.detach()).sum(), y)
        return projected.detach(), gradient.detach(), y.grad, second

    fused, plain = both(monkeypatch, compute)
    limits = {name: 4 * limit for name, limit in TOLERANCE[dtype].items()}  # norms are a tenth and more
    assert_close(fused, plain, **limits, equal_nan=True)  # a row of zeros has no second derivative


@pytest.mark.parametrize("norm", [0.0, 1e-44, 1e-38, 1e-30, 1e-20, 1e20, 3e38, math.inf, math.nan])
def test_projection_of_tiny_and_huge_rows_is_the_same(norm, monkeypatch):
    x = norm * torch.tensor([[1.0, 0.0, -0.5]]).repeat(3, 7)
    fused, plain = both(monkeypatch, lambda: torch.ops.unclump.unit_rows(x))
    assert_close(fused, plain, rtol=1e-6, atol=0, equal_nan=True)


def test_projection_works_inside_torch_func_and_forward_differentiation(monkeypatch):
    x = table(5, 3, torch.float32)
    compute = lambda: (torch.vmap(project)(x), torch.func.jvp(project, (x,), (x.flip(0),))[1])  # noqa: E731
    assert_close(*both(monkeypatch, compute))


# Circles

ANGLES = {
    "random": lambda n: (torch.rand(n, generator=seeded(n)) * 2 - 1) * torch.pi,
    "ties": lambda n: torch.randint(-2, 3, (n,), generator=seeded(n)).float(),
    "zeros of both signs": lambda n: torch.where(torch.arange(n) % 3 == 0, -0.0, 0.0),
    "the cut": lambda n: torch.where(torch.arange(n) % 3 == 0, -torch.pi, torch.pi),
    "tiny": lambda n: torch.randn(n, generator=seeded(n)) * 1e-30,
}


@pytest.mark.parametrize("worth_a_thread", [1, 2**10])
@pytest.mark.parametrize("kind", ANGLES)
@pytest.mark.parametrize("n", [2, 3, 511, 512, 513, 1300])
@each_dtype
def test_gaps_are_those_of_a_stable_sort(kind, n, dtype, worth_a_thread, monkeypatch):
    """A point of radius one at the angle a has the coefficients -g sin(a) / n and g cos(a) / n, with g its gap."""
    monkeypatch.setattr(circle_loops, "_A_THREAD", worth_a_thread)  # one thread sorts, or several sort together
    angles = ANGLES[kind](n).double()
    x = torch.stack([angles.cos(), angles.sin()], dim=-1).to(dtype)
    value, found = circle_loops.even_spacing(x.unsqueeze(0), torch.tensor([[0, 1]]))
    exact = torch.atan2(x[:, 1], x[:, 0]).double()
    rank = exact.argsort(stable=True).argsort().double()
    expected = exact - exact.mean() - (2 * rank + 1 - n) * (torch.pi / n)
    gap = n * (found[0, 0, 1] * x[:, 0] - found[0, 0, 0] * x[:, 1])
    assert_close(gap.double(), expected, rtol=0, atol=5e-6 if dtype is torch.float32 else 1e-13)
    assert value.item() == pytest.approx(expected.square().mean().item() / 2, rel=1e-5)


@each_dtype
def test_drawn_circles_are_those_of_the_reference(dtype):
    for count, d in ((1, 2), (3, 5), (13, 64)):
        drawn = draw_circles(count, torch.empty(0, d, dtype=dtype), seeded(count))
        expected = great_circles(count, d, generator=seeded(count), dtype=dtype)
        assert_close(drawn, expected, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_circles_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    """Circles that are left when each thread has as many as the others are shared by all of them."""
    x = table(5000, 6)
    circles = great_circles(5, 6, generator=seeded(1), dtype=x.dtype)
    results = set()
    for count in (1, 2, 3, 4, 7):
        monkeypatch.setattr(circle_loops, "threads", lambda length, at_least, count=count: count)
        results.add(tuple(part.numpy().tobytes() for part in circle_loops.even_spacing(x, circles)))
    assert len(results) == 1


@each_dtype
def test_angles_are_right_to_the_last_digit_but_one(dtype):
    """Of two points the gaps are half the difference of their angles, less a quarter turn."""
    around = torch.linspace(-3.1, 3.1, 400, dtype=torch.float64)
    points = torch.stack([around.cos(), around.sin()], dim=1).to(dtype)
    pairs = torch.stack([torch.tensor([1.0, 0.0], dtype=dtype).expand_as(points), points], dim=1)
    found = circle_loops.even_spacing(pairs, torch.tensor([[0, 1]]))[1]
    angle = torch.atan2(points[:, 1].double(), points[:, 0].double())
    expected = torch.where(angle >= 0, 1, -1).double() * torch.pi / 2 - angle / 2
    assert_close(2 * found[:, 0, 1, 0].double(), expected, rtol=0, atol=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(("n", "d"), [pytest.param(n, d, marks=[pytest.mark.deep] * (d == 3)) for n, d in SIZES])
@each_dtype
@pytest.mark.parametrize("axis_aligned", [False, True], ids=["random", "axes"])
def test_sliced_objectives_are_the_same(n, d, dtype, axis_aligned, monkeypatch):
    x = table(n, d, dtype)
    for count in (1, 3, 70):  # the last with axes that come again
        circles = (
            axis_circles(count, d, generator=seeded(0))
            if axis_aligned
            else great_circles(count, d, generator=seeded(0), dtype=dtype)
        )
        fused, plain = both(monkeypatch, lambda circles=circles: value_and_gradient(lambda x: ssw(x, circles), x))
        scale = plain[1].abs().max()  # near the axis of a circle the gradient is as large as its rounding
        assert_close(fused[0], plain[0], rtol=2e-5, atol=2e-6)
        off = (fused[1] - plain[1]).abs().amax(dim=-1) / scale
        assert (off > 2e-5).sum() <= 2 + n // 50  # angles that are equal but for rounding may trade places
        assert off.max() <= 90 / n


def test_axes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="expected axes from 0 to 2, got 0 to 3"):
        ssw(torch.eye(3), torch.tensor([[0, 3]]))


# Pairs


def test_a_steep_kernel_needs_no_gradient():
    with torch.inference_mode():
        x = table(40, 4, torch.float32)
    assert Energy(Gaussian(100.0))(x).isfinite()


@pytest.mark.parametrize("kernel", [Gaussian(100.0), Riesz(64.0)], ids=repr)
def test_kernels_too_steep_for_single_precision_are_refused(kernel):
    assert code_of(kernel, torch.float32) is None


class Own(Gaussian):
    """A kernel of the user's own."""

    def __call__(self, r2):
        return super().__call__(r2.clamp_min(0.1))


def test_kernels_of_the_users_own_take_the_reference():
    assert code_of(Own(), torch.float32) is None
    assert code_of(Relative(Own()), torch.float32) is None


KERNELS = [
    kind(parameter, distance)
    for kind, parameters in ((Gaussian, (0.5, 3.0)), (Laplace, (1.0, 2.0)), (Riesz, (-1.0, 0.0, 1.0, 2.0, 2.5)))
    for parameter in parameters
    for distance in ("chordal", "geodesic", "shifted")
]


def tangent(x, gradient):
    return gradient - (x * gradient).sum(dim=-1, keepdim=True) * x


# Sizes at random: everything once, against the reference in double precision.


def drawn(random, low, high):
    return int(torch.randint(low, high, (1,), generator=random))


@each_dtype
@pytest.mark.parametrize("seed", range(24))
def test_nearest_at_any_size(seed, dtype, monkeypatch):
    random = seeded(seed)
    b, n, m, d, k = (drawn(random, *limits) for limits in ((1, 4), (2, 300), (1, 300), (2, 90), (1, 6)))
    x, y = (project(torch.randn(b, size, d, generator=random, dtype=dtype)) for size in (n, m))
    if seed % 3 == 0:  # in a narrow cone
        x, y = project(x + 30), project(y + 30)
    mask = torch.rand(b, m, generator=random) < 0.8 if seed % 2 else None
    here = torch.rand(b, n, generator=random) < 0.8 if seed % 2 else None
    for given in (
        {"k": k, "mask": here},
        {"y": y, "k": k, "mask": mask},
        {"y": y, "k": k, "itself": drawn(random, -5, m)},
    ):
        (index, r2), (_, expected) = both(monkeypatch, lambda given=given: nearest(x, **given))
        expected = expected.sort(dim=-1).values  # where there are too few the reference has these anywhere
        assert_close(r2, expected, rtol=1e-4 if dtype is torch.float32 else 1e-10, atol=0)
        others = given.get("y", x)
        there = torch.stack([table[numbers] for table, numbers in zip(others, index, strict=True)])
        measured = (x.unsqueeze(2) - there).square().sum(dim=-1)
        assert_close(measured[r2 < math.inf], r2[r2 < math.inf], rtol=1e-4, atol=0)
        if "mask" in given and given["mask"] is not None:
            assert torch.gather(given["mask"], 1, index.flatten(1)).view_as(index)[r2 < math.inf].all()


@each_dtype
@pytest.mark.parametrize(("n", "bad"), [(2, 1), (40, 13), (1300, 600)])
def test_nan_in_a_table_reaches_everyone_who_searches_it(n, bad, dtype):
    x = torch.randn(n, 6, generator=seeded(n), dtype=dtype)
    samples = torch.randn(50, 6, generator=seeded(0), dtype=dtype)
    mask = torch.ones(n, dtype=torch.bool)
    x[bad, 2] = torch.nan
    assert nearest(x, k=2)[1].isnan().all()
    index, r2 = nearest(samples, x, mask=mask, itself=0)
    assert r2.isnan().all()
    assert ((index >= 0) & (index < n)).all()
    mask[bad] = False
    assert nearest(samples, x, mask=mask)[1].isfinite().all()
    for loss in (KoLeo(), MaxMin(), lambda x: lloyd(x, samples)):
        assert loss(x).isnan()
        assert value_and_gradient(loss, x)[1].isnan().any()


def by_definition(x, kernel, y=None, *, itself=None, right=None, left=None):
    """Sums and gradient by the differences of all pairs, in double precision."""
    table, itself = (x, 0) if y is None else (y, itself)
    n, m = x.shape[1], table.shape[1]
    right = x.new_ones(len(x), m) if right is None else right
    is_among = itself is not None and 0 <= itself <= m - n
    own = right[:, itself : itself + n] if is_among else x.new_zeros(len(x), n)
    left = (own if is_among else x.new_ones(len(x), n)) if left is None else left
    there = torch.zeros_like(right)
    if is_among:
        there[:, itself : itself + n] = left
    difference = x.unsqueeze(2) - table.unsqueeze(1)
    r2 = difference.square().sum(dim=-1)
    pair = torch.ones_like(r2[0], dtype=torch.bool)
    if itself is not None and -n < itself < m:
        pair.diagonal(itself).fill_(False)
    value, slope = (torch.where(pair, f(torch.where(pair, r2, 1)), 0) for f in (kernel, kernel.derivative))
    weight = left.unsqueeze(2) * right.unsqueeze(1) + own.unsqueeze(2) * there.unsqueeze(1)
    force = 2 * ((weight * slope).unsqueeze(-1) * difference).sum(dim=2)
    return (value * right.unsqueeze(1)).sum(dim=2), tangent(x, force)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernel_sums_at_any_size(kernel):
    random = seeded(KERNELS.index(kernel))
    b, n, m, d = (drawn(random, *limits) for limits in ((1, 3), (2, 200), (1, 200), (3, 40)))
    x, y = (project(torch.randn(b, size, d, generator=random, dtype=torch.float64)) for size in (n, m))
    right, left = (torch.rand(b, size, generator=random, dtype=torch.float64) for size in (n + m, n))
    cases = (
        {},
        {"right": right[:, :n]},
        {"right": right[:, :n], "left": left},
        {"y": y},
        {"y": y, "right": right[:, :m], "left": left},
        {"y": torch.cat([y, x], dim=1), "itself": m},
        {"y": torch.cat([y, x], dim=1), "itself": m, "right": right, "left": left},
        {"y": y, "itself": -4},
    )
    for given in cases:
        in_full = by_definition(x, kernel, **given)
        for dtype, precision in ((torch.float32, 2e-6), (torch.float64, 2e-13)):
            assert code_of(kernel, dtype) is not None
            narrow = {name: one.to(dtype) if isinstance(one, torch.Tensor) else one for name, one in given.items()}
            sums, gradient = kernel_sum(x.to(dtype), kernel, **narrow)
            found = sums.double(), tangent(x, gradient.double())
            for part, expected, slack in zip(found, in_full, (1, 10), strict=True):
                limit = slack * max(expected.abs().max().item(), 1e-3) * precision
                message = lambda text, given=given, dtype=dtype: f"{list(given)}, {dtype}: {text}"  # noqa: E731
                assert_close(part, expected, rtol=0, atol=limit, msg=message)


@each_dtype
@pytest.mark.parametrize("kernel", [Riesz(1.0), Laplace(), Gaussian(2.0), Riesz(1.0, "geodesic")], ids=repr)
def test_rows_that_say_nothing_of_the_table_cost_near_pairs_no_digits(kernel, dtype):
    """Every other row is zero and masked, or they all coincide; of the rest, each has a twin."""
    random = seeded(0)
    x = project(torch.randn(256, 8, generator=random, dtype=torch.float64))
    twins = project(x + 1e-4 * torch.randn(256, 8, generator=random, dtype=torch.float64)).to(dtype)
    x = x.to(dtype)
    among = torch.stack([torch.zeros(512, 8, dtype=dtype), torch.cat([x, twins])], dim=1).view(1, 1024, 8)
    mask = (torch.arange(1024) % 2).to(dtype).unsqueeze(0)
    sums, gradient = kernel_sum(among, kernel, right=mask, left=mask)
    exact = among[:, 1::2].double()
    found = [(sums[:, 1::2], tangent(exact, gradient[:, 1::2].double()), by_definition(exact, kernel))]
    others = torch.stack([x[:1].expand(256, 8), twins], dim=1).view(1, 512, 8).repeat(1, 2, 1)
    sums, gradient = kernel_sum(x[1:].unsqueeze(0), kernel, y=others)
    exact = x[1:].unsqueeze(0).double()
    found.append((sums, tangent(exact, gradient.double()), by_definition(exact, kernel, y=others.double())))
    limit = 5e-6 if dtype is torch.float32 else 1e-12
    for sums, force, (expected, expected_force) in found:
        assert_close(sums.double(), expected, rtol=limit, atol=0)
        off = (force - expected_force).norm(dim=-1) / expected_force.norm(dim=-1)
        assert off.max() < 20 * limit


@each_dtype
@pytest.mark.parametrize("seed", range(12))
def test_lloyd_at_any_size(seed, dtype, monkeypatch):
    random = seeded(seed)
    n, m, d = (drawn(random, *limits) for limits in ((1, 300), (1, 300), (2, 90)))
    x, samples = (torch.randn(size, d, generator=random, dtype=dtype) for size in (n, m))
    fused, plain = both(monkeypatch, lambda: value_and_gradient(lambda x: lloyd(x, samples), x))
    assert_close(fused, plain, **TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("seed", range(12))
def test_circles_at_any_size(seed, dtype, monkeypatch):
    random = seeded(seed)
    b, n, d, k = (drawn(random, *limits) for limits in ((1, 4), (2, 300), (2, 90), (1, 40)))
    x = torch.randn(b, n, d, generator=random, dtype=dtype)
    for circles in (great_circles(k, d, generator=random, dtype=dtype), axis_circles(k, d, generator=random)):
        coordinates, plain = both(monkeypatch, lambda circles=circles: _coordinates(x, circles))
        assert_close(coordinates, plain, **TOLERANCE[dtype])
        gradient, plain = both(monkeypatch, lambda circles=circles, given=plain: _combined(given, circles, d))
        assert_close(gradient, plain, rtol=1e-4 if dtype is torch.float32 else 1e-10, atol=1e-5)


def _coordinates(x, circles):
    from unclump.ops.even_spacing import coordinates

    return coordinates(x, circles)


def _combined(coefficients, circles, d):
    from unclump.ops.even_spacing import combine

    return combine(coefficients, circles, d, torch.tensor(0.3, dtype=coefficients.dtype))


@pytest.mark.parametrize("seed", range(12))
def test_chords_of_all_pairs_are_counted_and_collected(seed, monkeypatch):
    """Of points on a lattice, whose squared chords are on no edge of a bin."""
    monkeypatch.setattr(chord_loops, "_A_THREAD", 1)
    random = seeded(seed)
    n, d, bins, low, width = drawn(random, 2, 300), drawn(random, 1, 40), 64, 0.3, 2.0
    x = torch.randint(-2, 3, (n, d), generator=random).double() / 8
    r2 = torch.pdist(x).square().clamp(max=4)
    inside = r2[(r2 >= low) & (r2 - low < width)].sort().values
    counts = chord_loops.count_chords(x, low, width, bins)
    assert counts[0] == (r2 < low).sum()
    assert counts[1:].tolist() == torch.bincount(((inside - low) * (bins / width)).long(), minlength=bins).tolist()
    below, collected = chord_loops.collect_chords(x, low, width, len(inside))
    assert below == counts[0]
    assert_close(collected.sort().values, inside, rtol=0, atol=1e-13)
    if len(inside) > 0:
        assert chord_loops.collect_chords(x, low, width, len(inside) - 1) == (below, None)
