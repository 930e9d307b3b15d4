"""Queues, weights, masks and terms a row: each equal to its definition, or refused."""

import warnings

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import FEW, KERNELS, OBJECTIVES, value_and_gradient
from unclump._checks import warn_too_few_points

each_objective = pytest.mark.parametrize("name", FEW)
each_kernel = pytest.mark.parametrize("kernel", KERNELS[::3], ids=repr)

MEANS_OVER_POINTS = (uc.MaxMin, uc.KoLeo, uc.Energy, uc.Uniformity)  # MMD is an Energy
HAVE_TERMS = {name for name in OBJECTIVES if name.startswith(("MaxMin", "KoLeo", "Energy", "Frame", "MMD", "Sliced"))}
TAKE_WEIGHTS = {name for name in OBJECTIVES if not name.startswith(("Lloyd", "LogDet"))}


def among(name, x, **company):
    return value_and_gradient(lambda x: OBJECTIVES[name]()(x, **company), x)


@each_objective
def test_masked_rows_are_not_there(name, points):
    x = points(9, 4)
    mask = torch.tensor([1, 1, 0, 1, 1, 1, 0, 1, 1], dtype=torch.bool)
    value, gradient = among(name, x, weight=mask)
    expected, expected_gradient = value_and_gradient(OBJECTIVES[name](), x[mask])
    assert_close(value, expected)
    assert_close(gradient[mask], expected_gradient)
    assert not gradient[~mask].any()


@each_objective
def test_whole_weights_count_rows_or_are_refused(name, points):
    """Where points are no pairs, weight 2 is the row twice; pairs of a row with itself have no weight."""
    x, weight = points(6, 4), torch.tensor([1.0, 2, 1, 0, 1, 1], dtype=torch.float64)
    if name not in TAKE_WEIGHTS:
        with pytest.raises(TypeError, match="a boolean mask"):
            among(name, x, weight=weight)
        return
    value, gradient = among(name, x, weight=weight)
    assert_close(among(name, x, weight=3 * weight), (value, gradient))
    if name.startswith(("Uniformity(", "SSW", "SphericalVariance", "Polarization(Laplace)")):
        twice = torch.tensor([0, 1, 1, 2, 4, 5])
        assert_close(value, OBJECTIVES[name]()(x[twice]), atol=1e-7, rtol=1e-7)


@each_kernel
def test_weighted_energy_is_its_definition(kernel, points):
    x, queue, weight = points(6, 3).requires_grad_(), points(4, 3), torch.rand(6, dtype=torch.float64) + 0.1

    def definition(x):
        k = kernel((x.unsqueeze(1) - torch.cat([x, queue])).square().sum(dim=-1))
        both = weight.unsqueeze(1) * torch.cat([weight, torch.ones(4, dtype=torch.float64)])
        both = both * (1 - torch.eye(6, 10, dtype=torch.float64))
        return torch.where(both > 0, k * both, 0).sum() / both.sum()

    value = uc.Energy(kernel)(x, weight=weight, against=queue)
    assert_close(value, definition(x.detach()))
    assert torch.autograd.gradcheck(lambda x: uc.Energy(kernel)(x, weight=weight, against=queue), x)


@each_objective
def test_against_a_queue(name, points):
    """Of the set as a whole the union counts; a mean over points stays one, and its others are in both."""
    x, queue = points(5, 4), points(7, 4)
    value, gradient = among(name, x, against=queue)
    if not isinstance(OBJECTIVES[name](), MEANS_OVER_POINTS):
        expected, expected_gradient = value_and_gradient(OBJECTIVES[name](), torch.cat([queue, x]))
        assert_close((value, gradient), (expected, expected_gradient[7:]))
        return
    assert torch.autograd.gradcheck(lambda x: OBJECTIVES[name]()(x, against=queue), x.requires_grad_())
    objective, everyone = OBJECTIVES[name](), torch.cat([x, queue])
    if name.startswith(("MaxMin", "KoLeo")):
        distances = uc.angle(x.unsqueeze(1), everyone) if "geodesic" in name else uc.chord(x.unsqueeze(1), everyone)
        least = (distances + 9 * torch.eye(5, 12, dtype=torch.float64)).amin(dim=1)
        least = least.square() if "squared" in name else least
        assert_close(value, -(least.log() if name.startswith("KoLeo") else least).mean())
    elif name.startswith("Uniformity("):
        r2 = (x.unsqueeze(1) - everyone).square().sum(dim=-1)
        assert_close(value, objective.kernel(r2).mean().log())


@each_objective
def test_an_empty_queue_is_none(name, points):
    x = points(6, 4)
    assert_close(among(name, x, against=x[:0]), value_and_gradient(OBJECTIVES[name](), x))


@each_objective
def test_no_gradient_flows_to_the_queue(name, points):
    x, queue = points(5, 4), points(7, 4).requires_grad_()
    OBJECTIVES[name]()(x.requires_grad_(), against=queue).backward()
    assert queue.grad is None


@each_objective
def test_a_queue_that_changes_before_the_backward_pass_does_no_harm_or_is_named(name, points):
    x, queue = points(7, 4), points(5, 4)
    _, expected = among(name, x, against=queue.clone())
    objective, x = OBJECTIVES[name](), x.detach().requires_grad_()
    value = objective(x, against=queue)
    queue[:2] = x[:2].detach()  # as a memory queue that takes in its batch
    if objective.supports_second_derivatives:  # which would need the queue again
        with pytest.raises(RuntimeError, match=r"changed in place .* update a queue after backward\(\)"):
            value.backward()
        return
    value.backward()
    assert_close(x.grad, expected)


@each_objective
def test_half_precision_queue_and_points_that_coincide_with_it_are_finite(name, points):
    x = points(6, 4).float()
    for dtype in (torch.float32, torch.bfloat16):
        value, gradient = among(name, x.to(dtype), against=x[:3].to(dtype))
        assert value.isfinite()
        assert gradient.isfinite().all()


@each_objective
def test_terms_make_up_the_objective_or_are_refused(name, points):
    x, queue = points(7, 4), points(3, 4)
    mask = torch.tensor([1, 0, 1, 1, 1, 0, 1], dtype=torch.bool)
    if name not in HAVE_TERMS:
        with pytest.raises(ValueError, match="is not a mean over points"):
            OBJECTIVES[name]()(x, reduction="none")
        with pytest.raises(ValueError, match="is not a mean over points"):
            OBJECTIVES[name]()(x, reduction="sum")
        return
    for company in ({}, {"weight": mask}) if name.startswith("Sliced") else ({}, {"weight": mask, "against": queue}):
        terms = OBJECTIVES[name]()(x, reduction="none", **company)
        assert terms.shape == (7,)
        value = OBJECTIVES[name]()(x, **company)
        if "weight" in company:
            assert not terms[~mask].any()
            terms = terms[mask]
        assert_close(terms.mean(), value)
        assert_close(OBJECTIVES[name]()(x, reduction="sum", **company), terms.sum())
    pull = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    function = lambda x: OBJECTIVES[name]()(x, reduction="none", against=queue) @ pull  # noqa: E731
    assert torch.autograd.gradcheck(function, x.requires_grad_())


def test_terms_of_weighted_energy_have_it_as_weighted_mean(points):
    x, queue, weight = points(7, 4), points(3, 4), torch.rand(7, dtype=torch.float64)
    terms = uc.Energy()(x, reduction="none", weight=weight, against=queue)
    assert_close((weight @ terms) / weight.sum(), uc.Energy()(x, weight=weight, against=queue))


def test_gradients_stay_bounded_where_a_point_has_no_place_on_the_circle():
    x = torch.eye(5).requires_grad_()
    uc.Sliced(4, axis_aligned=True)(x, reduction="none").sum().backward()
    assert x.grad.isfinite().all()


def test_a_negative_weight_makes_the_value_nan():
    """To refuse it would mean to read it, and a GPU to wait."""
    assert uc.KoLeo()(torch.eye(5, 4) + 0.1, weight=torch.tensor([1.0, 1, -1, 1, 1])).isnan()
    assert uc.Energy()(torch.eye(5, 4) + 0.1, weight=torch.tensor([1.0, 1, torch.nan, 1, 1])).isnan()


@each_objective
@pytest.mark.parametrize("left", [0, 1])
def test_where_a_mask_leaves_fewer_than_two_points_all_is_zero(name, left, points):
    value, gradient = among(name, points(5, 4), weight=torch.arange(5) < left)
    assert value == 0
    assert not gradient.any()


@each_objective
def test_what_is_masked_may_be_anything(name, points):
    x, mask = points(7, 4), torch.arange(7) != 3
    expected = among(name, x, weight=mask)
    for anything in (0.0, torch.nan, torch.inf):
        x[3] = anything
        assert_close(among(name, x, weight=mask), expected)


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: uc.KoLeo()(x, weight=torch.ones(3)),
            ValueError,
            r"one number per row, got shape \(3,\)",
        ),
        (lambda x: uc.KoLeo()(x, against=torch.eye(3)), ValueError, "against in the 4 dimensions"),
        (
            lambda x: uc.KoLeo()(x, reduction="sums"),
            ValueError,
            "'sum', 'none', got 'sums'; did you mean 'sum'",
        ),
        (lambda x: uc.Sliced(reduction="none"), ValueError, "'mean', 'sum', got 'none'"),
        (lambda x: uc.KoLeo(neighbours="faiss")(x, against=x), ValueError, "one table only"),
        (lambda x: uc.KoLeo(gather=True)(x, reduction="none"), ValueError, "the terms of other ranks"),
        (lambda x: uc.KoLeo(gather="all"), TypeError, "True, False, a torch.distributed process group"),
    ],
)
def test_what_has_no_meaning_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.eye(5, 4) + 0.1)


@each_objective
@pytest.mark.filterwarnings("ignore::unclump.TooFewPointsWarning")
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_for_a_value_are_zero_and_part_of_the_graph(name, rows, points):
    for x in (points(rows, 4), points(3 * rows, 4).view(3, rows, 4), points(rows, 4).half()):
        for company in ({}, {"weight": torch.ones(x.shape[:-1], dtype=torch.bool)}, {"against": points(rows, 4)[:0]}):
            value, gradient = value_and_gradient(lambda x, c=company: OBJECTIVES[name]()(x, **c).sum(), x)
            assert value == 0
            assert gradient.shape == x.shape
            assert not gradient.any()
    if name in HAVE_TERMS:
        assert OBJECTIVES[name]()(points(rows, 4), reduction="none").tolist() == [0.0] * rows


def test_no_rows_beside_a_queue_are_zero(points):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uc.TooFewPointsWarning)
        assert uc.KoLeo()(points(0, 3), against=points(5, 3)) == 0


def test_too_few_rows_are_warned_of_once(points):
    warn_too_few_points.cache_clear()
    with pytest.warns(uc.TooFewPointsWarning, match="fewer than two points"):
        uc.KoLeo()(points(1, 3))
    uc.KoLeo()(points(1, 3))  # warnings are errors here
    uc.sliced(points(1, 3), torch.tensor([[0, 1]]))


def test_too_few_rows_are_refused_without_a_graph(points):
    with pytest.raises(ValueError, match="expected two points or more, got 1"):
        uc.KoLeo().value_and_gradient(points(1, 3))


def test_one_row_against_a_queue_is_enough(points):
    x, queue = points(1, 3), points(5, 3)
    assert_close(uc.MaxMin()(x, against=queue), -uc.angle(x, queue).min())


@pytest.mark.parametrize("name", ["MaxMin(geodesic)", "KoLeo(chordal)", "Energy(Riesz(s=1.0, distance='chordal'))"])
def test_terms_of_a_single_point_are_zero(name, points):
    x = points(6, 3).requires_grad_()
    terms = OBJECTIVES[name]()(x, weight=torch.arange(6) == 2, reduction="none")
    terms.sum().backward()
    assert not terms.any()
    assert not x.grad.any()


def test_a_second_derivative_of_terms_is_refused(points):
    x = points(6, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(uc.KoLeo()(x, reduction="none").sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="expected a first derivative, got a second"):
        gradient.sum().backward()


def test_masked_ssw_keeps_the_digits_of_float64(points):
    x, circles = points(9, 4), uc.great_circles(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(9) < 7
    objective = uc.SSW(3)
    objective.draw = lambda _: circles
    assert_close(objective(x, weight=mask), uc.ssw(x[mask], circles), rtol=1e-13, atol=0)
