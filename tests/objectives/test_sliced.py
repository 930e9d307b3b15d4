import itertools
import math

import numpy as np
import ot
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump import SSW, Sliced, axis_circles, great_circles, sliced, ssw
from unclump.geometry.circles import circle_angles
from unclump.ops import native


@pytest.fixture
def circles(generator):
    return lambda k, d: great_circles(k, d, generator=generator, dtype=torch.float64)


def by_definition(theta):
    """Half the squared distance to the nearest evenly spaced configuration: all orders, best rotation of each."""
    n = len(theta)
    even = torch.tensor([-math.pi * (n + 1) / n + 2 * math.pi * k / n for k in range(1, n + 1)], dtype=torch.float64)
    gaps = torch.stack([theta - even[list(order)] for order in itertools.permutations(range(n))])
    return ((gaps - gaps.mean(dim=1, keepdim=True)).square().sum(dim=1) / 2).min()


def test_is_the_mean_distance_to_even_spacing(points, circles):
    x, some = points(5, 4), circles(3, 4)
    expected = torch.stack([by_definition(theta) for theta in circle_angles(x, some)]).mean() / 5
    assert_close(sliced(x, some), expected, rtol=1e-12, atol=0)
    assert_close(sliced(x.float(), some.float()), expected.float(), rtol=1e-5, atol=0)


def test_the_sum_of_the_paper_is_the_mean_times_the_points_that_count(points):
    """Those of a queue count, masked ones do not; value and gradient, with and without compiled loops for sets."""
    x, queue, mask = points(6, 4), points(3, 4), torch.tensor([1, 1, 0, 1, 1, 1], dtype=torch.bool)
    cases = [(x, {}, 6), (x, {"weight": mask}, 5), (x, {"against": queue, "weight": mask}, 8), (x.view(2, 3, 4), {}, 3)]
    for rows, company, count in cases:
        of = {}
        for reduction in ("mean", "sum"):
            objective = Sliced(5, reduction=reduction, generator=torch.Generator().manual_seed(1))
            leaf = rows.clone().requires_grad_()
            value = objective(leaf, **company)
            of[reduction] = value.detach(), *torch.autograd.grad(value.sum(), leaf)
        assert_close(of["sum"], tuple(count * part for part in of["mean"]))
        assert of["mean"][1].any()


def test_a_reduction_of_the_call_goes_before_that_of_the_objective(points, circles):
    x, some = points(6, 4), circles(3, 4)
    objective = Sliced(3, reduction="sum")
    objective.draw = lambda _: some
    assert_close(objective(x), sliced(x, some, reduction="sum"))
    assert_close(objective(x, reduction="mean"), sliced(x, some))
    assert_close(objective(x, reduction="none"), sliced(x, some, reduction="none"))
    assert_close(objective.value_and_gradient(x)[0], sliced(x, some, reduction="sum"))


def test_ssw_is_that_of_pot_with_the_same_circles(points, circles):
    for n, d in ((7, 3), (50, 10)):
        x, some = points(n, d), circles(6, d)
        theirs = ot.sliced_wasserstein_sphere_unif(x.numpy(), n_projections=6, projections=some.mT.numpy())
        assert_close(ssw(x, some).item(), float(theirs) ** 2, rtol=1e-9, atol=0)


def test_weighted_ssw_is_that_of_pot(points, circles):
    """Circle by circle, weights in the order of the angles: POT sorts the angles, and leaves weights as they come."""
    x, some, weight = points(9, 4), circles(5, 4), torch.rand(9, dtype=torch.float64) + 0.1
    theirs = []
    for theta in circle_angles(x, some):
        turns, order = ((theta + math.pi) / (2 * math.pi)).sort()
        shares = (weight / weight.sum())[order]
        theirs.append(ot.semidiscrete_wasserstein2_unif_circle(turns.numpy(), shares.numpy()).item())
    objective = SSW(5)
    objective.draw = lambda _: some
    assert_close(objective(x, weight=weight).item(), np.mean(theirs), rtol=1e-9, atol=0)


@pytest.mark.parametrize("make", [Sliced, SSW])
def test_weighted_gradients_match_finite_differences(make, points, circles):
    x, queue, weight = points(6, 4).requires_grad_(), points(3, 4), torch.rand(6, dtype=torch.float64)
    weight[2], some, objective = 0, circles(3, 4), make(3)
    objective.draw = lambda _: some
    assert torch.autograd.gradcheck(lambda x: objective(x, weight=weight, against=queue), x)


def test_terms_of_weighted_points_have_the_objective_as_weighted_mean(points, circles):
    x, weight, some, objective = points(6, 4), torch.rand(6, dtype=torch.float64), circles(3, 4), Sliced(3)
    objective.draw = lambda _: some
    terms = objective(x, weight=weight, reduction="none")
    assert_close((weight @ terms) / weight.sum(), objective(x, weight=weight))
    assert_close(weight @ terms, objective(x, weight=weight, reduction="sum"))
    pull = torch.rand(6, dtype=torch.float64)
    function = lambda x: objective(x, weight=weight, reduction="none") @ pull  # noqa: E731
    assert torch.autograd.gradcheck(function, x.requires_grad_())


def test_regular_polygons_are_even_and_nothing_is_evener(circles):
    theta = 2 * math.pi * torch.arange(6, dtype=torch.float64) / 6
    hexagon = torch.stack([theta.cos(), theta.sin()], dim=-1)
    assert_close(sliced(hexagon, circles(4, 2)).item(), 0.0)
    assert_close(ssw(hexagon, circles(4, 2)).item(), 1 / (12 * 36))


def test_coinciding_points_on_a_circle_have_a_closed_form(circles):
    """n angles in one place: half the mean square of the n evenly spaced ones, pi^2 (n^2 - 1) / (6 n^2)."""
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(5, 2)
    assert_close(sliced(x, circles(2, 2)).item(), math.pi**2 * 24 / 150)


@pytest.mark.parametrize("axis_aligned", [False, True])
def test_gradient_is_closed_form_and_tangent(axis_aligned, points, circles, generator):
    x = points(8, 5).requires_grad_()
    some = axis_circles(4, 5, generator=generator) if axis_aligned else circles(4, 5)
    assert torch.autograd.gradcheck(lambda x: sliced(x, some), x)
    (gradient,) = torch.autograd.grad(sliced(x, some), x)
    assert_close((gradient * x).sum(dim=-1), torch.zeros(8, dtype=torch.float64))


def test_axis_circles_are_those_of_the_axes_as_vectors(points, generator):
    x, axes = points(8, 5).requires_grad_(), axis_circles(7, 5, generator=generator)
    as_vectors = torch.eye(5, dtype=torch.float64)[axes]
    assert_close(sliced(x, axes), sliced(x, as_vectors))
    assert_close(torch.autograd.grad(sliced(x, axes), x), torch.autograd.grad(sliced(x, as_vectors), x))


def test_points_orthogonal_to_the_circle_have_no_gradient_and_near_ones_a_finite_one():
    x = torch.tensor([[0.0, 0.0, 1.0], [1e-30, 1e-38, 1.0], [1.0, 0.0, 0.0], [0.6, 0.8, 0.0]], requires_grad=True)
    sliced(x, torch.tensor([[0, 1]])).backward()
    assert x.grad.isfinite().all()
    assert (x.grad[0] == 0).all()


def test_its_mean_over_circles_does_not_depend_on_their_number(points, generator):
    x = points(30, 4)
    few = torch.stack([Sliced(2, generator=generator)(x) for _ in range(2000)])
    many = Sliced(4000, generator=generator)(x)
    assert_close(few.mean(), many, rtol=0.02, atol=0)


def test_modules_draw_new_circles_and_follow_their_generator(points):
    x = points(10, 6)
    for make in (Sliced, SSW, lambda **kw: Sliced(3, axis_aligned=True, **kw)):
        first = make(generator=torch.Generator().manual_seed(1))
        again = make(generator=torch.Generator().manual_seed(1))
        values = [first(x).item() for _ in range(3)]
        assert values == [again(x).item() for _ in range(3)]
        assert np.unique(values).size == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_bounded_near_the_axis_of_a_circle(dtype):
    """Nearer to it than the point's precision the angle is not known: the gradient falls again, instead of as 1 / r."""
    eps = torch.finfo(dtype).eps
    r = eps / 100
    x = torch.tensor([[1.0, 0.0, 0.0], [-0.3, 1.0, 0.0], [0.6 * r, 0.8 * r, 1.0]], dtype=dtype, requires_grad=True)
    uc.sliced(x, torch.tensor([[0, 1]])).backward()
    assert 0 < x.grad[2].norm() < 1e-3 / eps


@pytest.mark.parametrize(
    "circles",
    [torch.tensor([0, 1, 2]), torch.ones(3, 3), torch.ones(3, 2, 4), torch.tensor([[0, 3]])],
    ids=["axes, not pairs", "vectors, not pairs", "four dimensions", "no such axis"],
)
@pytest.mark.parametrize("compiled", [True, False], ids=["loops", "reference"])
def test_circles_that_do_not_fit_are_refused(circles, compiled, at_the_door, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", native.ENABLED and compiled)
    with pytest.raises(ValueError, match="expected"):
        uc.sliced(torch.randn(9, 3), circles)


def test_circles_of_another_precision_are_refused():
    circles = uc.great_circles(2, 3, dtype=torch.float64)
    with pytest.raises((ValueError, RuntimeError), match=r"expected|dtype"):
        uc.Sliced(2).with_draw(torch.randn(9, 3), circles)
