"""SIGReg and VISReg: objectives of embeddings as they are, with their norms."""

import copy
import math
import pickle

import pytest
import torch
from scipy import integrate
from torch.testing import assert_close

import unclump as uc
from tests.cases import value_and_gradient
from tests.raw_cases import RAW_OBJECTIVES, by_loop, visreg_by_loop

each = pytest.mark.parametrize("name", RAW_OBJECTIVES)


def rows(*shape, dtype=torch.float64, seed=0):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (0.7 * x + 0.4 * torch.linspace(-1, 1, shape[-1])).to(dtype)  # neither centred nor of variance one


@each
@pytest.mark.parametrize(("n", "d"), [(2, 2), (7, 3), (11, 5)])
def test_value_and_gradient_are_those_of_the_definition(name, n, d):
    x = rows(n, d)
    value, gradient = value_and_gradient(RAW_OBJECTIVES[name](), x)
    expected, expected_gradient = value_and_gradient(lambda x: by_loop(RAW_OBJECTIVES[name](), x), x)
    assert_close(value, expected, rtol=1e-12, atol=1e-14)
    assert_close(gradient, expected_gradient, rtol=1e-11, atol=1e-14)


@each
def test_single_precision_is_within_a_millionth(name):
    x = rows(60, 5)
    value, gradient = value_and_gradient(RAW_OBJECTIVES[name](), x.float())
    objective = RAW_OBJECTIVES[name]()
    directions = objective.draw(x.float()).double()
    y = x.float().double().requires_grad_()
    expected = objective.with_directions(y, directions)
    expected.backward()
    assert_close(value.double(), expected.detach(), rtol=2e-6, atol=0)
    assert_close(gradient.double(), y.grad, rtol=1e-5, atol=1e-6 * y.grad.abs().max().item())


@pytest.mark.parametrize("times_n", [True, False])
def test_the_gradient_of_sigreg_matches_finite_differences(times_n):
    directions = uc.uniform(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = rows(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: uc.sigreg(x, directions, times_n=times_n), x)


def test_the_gradient_of_visreg_matches_finite_differences_with_deviations_held():
    """The deviations in the shape term are constants to it: finite differences see scale and centre alone."""
    directions = uc.uniform(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = rows(6, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: uc.visreg(x, directions, shape=0.0), x)


# Closed forms


@pytest.mark.parametrize("place", [0.0, 0.4, -2.5])
def test_one_row_has_the_closed_form_of_the_integral(place):
    x, axis = torch.tensor([[place, 7.0]], dtype=torch.float64), torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    expected = math.sqrt(2 * math.pi) - 2 * math.sqrt(math.pi) * math.exp(-(place**2) / 4) + math.sqrt(2 * math.pi / 3)
    assert uc.sigreg(x, axis, knots=200, t_max=12.0).item() == pytest.approx(expected, rel=1e-12)


def test_the_knots_are_those_of_the_authors():
    """Of their code, [0, 3] in steps of 3 / 16; and of Algorithm 1, 17 points from -5 to 5."""
    x, axis = torch.tensor([[0.3, 0.0], [-1.1, 0.0]], dtype=torch.float64), torch.eye(2, dtype=torch.float64)[:1]
    for t, options in (
        (torch.linspace(-3, 3, 33, dtype=torch.float64), {}),
        (torch.linspace(-5, 5, 17, dtype=torch.float64), {"knots": 9, "t_max": 5.0}),
    ):
        normal = torch.exp(-t.square() / 2)
        error = (torch.exp(1j * t[:, None] * x[:, 0]).mean(dim=1) - normal).abs().square()
        assert_close(uc.sigreg(x, axis, **options), 2 * torch.trapezoid(error * normal, t), rtol=1e-13, atol=0)


def test_the_mean_for_normal_rows_is_the_null_mean():
    objective = uc.SIGReg(knots=300, t_max=12.0)
    assert objective.null_mean == pytest.approx(math.sqrt(2 * math.pi) * (1 - 1 / math.sqrt(3)), rel=1e-9)
    for n, d in ((3, 2), (50, 8)):
        objective = uc.SIGReg(8, generator=torch.Generator().manual_seed(1))
        x = torch.randn(4000, n, d, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
        values = objective(x)
        assert abs(values.mean() - objective.null_mean) < 4 * values.std() / math.sqrt(len(values))


def test_the_mean_for_normal_rows_is_the_same_with_weights():
    objective = uc.SIGReg(8, generator=torch.Generator().manual_seed(1))
    x = torch.randn(4000, 12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = objective(x, weight=torch.linspace(0.1, 3, 12, dtype=torch.float64).expand(4000, 12))
    assert abs(values.mean() - objective.null_mean) < 4 * values.std() / math.sqrt(len(values))


def test_visreg_of_quantiles_is_zero():
    """Rows at normal quantiles along one axis, scaled to deviation one, and their mirror: only the shape is left."""
    quantiles = torch.special.ndtri(torch.arange(1, 10, dtype=torch.float64) / 10)
    x = torch.stack([quantiles, quantiles.flip(0)], dim=1)
    deviation = quantiles.square().mean().sqrt()
    axes = torch.eye(2, dtype=torch.float64)
    assert_close(uc.visreg(x, axes, shape=0.0), (1 - deviation) ** 2)
    shape = (quantiles / deviation - quantiles).square().mean()
    assert_close(uc.visreg(x + 3, axes, scale=0.0, centre=0.5), shape + 4.5)


def test_the_scale_pulls_a_collapsed_batch_apart_with_a_constant_force():
    """What VISReg is for: as the rows collapse, the gradient stays, where that of SIGReg vanishes."""
    x, directions = rows(20, 4), torch.eye(4, dtype=torch.float64)
    forces = []
    for size in (1e-2, 1e-4, 1e-6):
        y = (size * x).requires_grad_()
        uc.visreg(y, directions, shape=0.0, centre=0.0).backward()
        forces.append(y.grad.norm().item())
    assert forces[0] == pytest.approx(forces[2], rel=0.05)
    y = (1e-6 * x).requires_grad_()
    uc.sigreg(y, directions).backward()
    assert y.grad.norm() < 1e-4


# Directions


@each
def test_rotated_rows_have_the_same_value_on_rotated_directions_and_on_average(name, rotation):
    objective, x, turn = RAW_OBJECTIVES[name](), rows(30, 4), rotation(4)
    directions = objective.draw(x)
    if name.startswith("SIGReg"):
        turned = objective.with_directions(x @ turn, directions @ turn)
        assert_close(turned, objective.with_directions(x, directions))
        objective.slices = 20_000
        assert_close(objective(x @ turn), objective(x), rtol=0.02, atol=0)
    else:  # scale and centre look at coordinates, which a rotation mixes: the trace of the second moments stays
        assert not torch.allclose(objective.with_directions(x @ turn, directions @ turn), objective(x))


@each
def test_a_generator_makes_calls_repeatable_and_each_call_draws_anew(name):
    x = rows(9, 3)
    objective = RAW_OBJECTIVES[name]()
    first, second = objective(x), objective(x)
    assert first != second
    assert RAW_OBJECTIVES[name]()(x) == first


# Company


@each
def test_sets_are_separate(name):
    x = rows(2, 3, 8, 4)
    value, gradient = value_and_gradient(lambda x: RAW_OBJECTIVES[name]()(x).sum(), x)
    values = RAW_OBJECTIVES[name]()(x)
    assert values.shape == (2, 3)
    assert_close(values.sum(), value)
    for i in range(2):
        for j in range(3):
            alone = value_and_gradient(RAW_OBJECTIVES[name](), x[i, j])
            assert_close([values[i, j], gradient[i, j]], list(alone))


@each
@pytest.mark.parametrize("filling", [0.0, 1e9, math.nan])
def test_masked_rows_do_not_matter(name, filling):
    x = rows(3, 9, 4)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 1, 0], [1] * 9, [1, 1, 0, 0, 0, 0, 0, 0, 0]]).bool()
    x[~mask] = filling
    value, gradient = value_and_gradient(lambda x: RAW_OBJECTIVES[name]()(x, weight=mask).sum(), x)
    expected = [value_and_gradient(RAW_OBJECTIVES[name](), one[kept]) for one, kept in zip(x, mask, strict=True)]
    assert_close(value, sum(one for one, _ in expected))
    for one, kept, (_, by_rows) in zip(gradient, mask, expected, strict=True):
        assert_close(one[kept], by_rows)
        assert (one[~kept] == 0).all()


@each
def test_where_a_mask_leaves_nothing_value_and_gradient_are_zero(name):
    mask = torch.zeros(5, dtype=torch.bool)
    value, gradient = value_and_gradient(lambda x: RAW_OBJECTIVES[name]()(x, weight=mask), rows(5, 3))
    assert value == 0
    assert (gradient == 0).all()


@each
def test_a_queue_takes_part_and_does_not_move(name):
    x, queue = rows(6, 4), rows(5, 4, seed=1)
    value, gradient = value_and_gradient(lambda x: RAW_OBJECTIVES[name]()(x, against=queue), x)
    expected, both = value_and_gradient(RAW_OBJECTIVES[name](), torch.cat([queue, x]))
    assert_close(value, expected)
    assert_close(gradient, both[5:])
    mask = torch.tensor([True, True, False, True, True, False])
    value, gradient = value_and_gradient(lambda x: RAW_OBJECTIVES[name]()(x, against=queue, weight=mask), x)
    expected, both = value_and_gradient(RAW_OBJECTIVES[name](), torch.cat([queue, x[mask]]))
    assert_close(value, expected)
    assert_close(gradient[mask], both[5:])


def test_integer_weights_are_repetitions_but_for_the_size_of_the_sample():
    x, weight = rows(5, 3), torch.tensor([1, 3, 2, 1, 2])
    repeated = x.repeat_interleave(weight, dim=0)
    found = uc.SIGReg(9, times_n=False, generator=torch.Generator().manual_seed(0))(x, weight=weight)
    assert_close(found, uc.SIGReg(9, times_n=False, generator=torch.Generator().manual_seed(0))(repeated))
    weighted = uc.SIGReg(9, generator=torch.Generator().manual_seed(0))(x, weight=weight)
    assert_close(weighted, found * 9**2 / (1 + 9 + 4 + 1 + 4))


# Precision and singular points


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    x = rows(40, 6, dtype=dtype)
    value, gradient = value_and_gradient(RAW_OBJECTIVES[name](), x)
    expected, expected_gradient = value_and_gradient(RAW_OBJECTIVES[name](), x.float())
    assert value.dtype is torch.float32
    assert gradient.dtype is dtype
    assert_close(value, expected, rtol=0, atol=0)
    assert_close(gradient, expected_gradient.to(dtype), rtol=0, atol=0)


@each
def test_autocast_changes_nothing(name):
    x = rows(40, 6, dtype=torch.float32)
    for a, b in zip(
        value_and_gradient(RAW_OBJECTIVES[name](), x, autocast=True),
        value_and_gradient(RAW_OBJECTIVES[name](), x),
        strict=True,
    ):
        assert_close(a, b, rtol=0, atol=0)


@each
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_in_nan_out(name, bad):
    x = rows(8, 3)
    x[2, 1] = bad
    assert RAW_OBJECTIVES[name]()(x).isnan()


@each
@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-6, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_large_and_coinciding_rows_are_finite(name, size, dtype):
    for x in (size * rows(8, 4, dtype=dtype), size * rows(1, 4, dtype=dtype).expand(8, 4)):
        value, gradient = value_and_gradient(RAW_OBJECTIVES[name](), x)
        assert value.isfinite()
        assert gradient.isfinite().all()


def test_rows_that_coincide_come_apart_by_visreg():
    x = torch.nn.Parameter(torch.full((16, 4), 0.5))
    objective, optimizer = (
        uc.VISReg(generator=torch.Generator().manual_seed(0)),
        torch.optim.Adam([x], lr=0.05, betas=(0.9, 0.9)),  # the first gradients are large
    )
    for _ in range(300):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    assert x.std(dim=0).min() > 0.8
    assert x.mean(dim=0).abs().max() < 0.1


@each
def test_descent_leads_to_normal_rows(name):
    x = torch.nn.Parameter(1 + 0.3 * rows(64, 4, dtype=torch.float32))
    objective, optimizer = RAW_OBJECTIVES[name](), torch.optim.Adam([x], lr=0.1)
    objective.slices = 64
    for _ in range(250):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    assert x.mean(dim=0).abs().max() < 0.2
    assert_close(x.detach().T.cov(), torch.eye(4), rtol=0, atol=0.25)


# The handle


@each
def test_they_pickle_copy_and_print(name):
    x = rows(6, 3)
    objective = RAW_OBJECTIVES[name]()
    expected = objective(x)
    for same in (copy.deepcopy(RAW_OBJECTIVES[name]()), pickle.loads(pickle.dumps(RAW_OBJECTIVES[name]()))):
        assert same(x) == expected
        assert repr(same) == repr(objective)
    assert repr(uc.SIGReg(gather=True)) == "SIGReg(slices=1024, knots=17, t_max=3.0, times_n=True, gather=True)"
    assert repr(uc.VISReg()) == "VISReg(slices=256, scale=1.0, shape=1.0, centre=1.0)"


@each
def test_transforms_of_torch_take_them(name):
    x = rows(3, 7, 4)
    directions = RAW_OBJECTIVES[name]().draw(x)
    gradients = torch.func.vmap(torch.func.grad(lambda x: RAW_OBJECTIVES[name]().with_directions(x, directions)))(x)
    for one, gradient in zip(x, gradients, strict=True):
        expected = value_and_gradient(lambda x: RAW_OBJECTIVES[name]().with_directions(x, directions), one)[1]
        assert_close(gradient, expected)


@pytest.mark.usefixtures("at_the_door")
def test_what_makes_no_sense_is_refused():
    x = rows(5, 3)
    for make, error, message in (
        (lambda: uc.SIGReg(0), ValueError, "slices >= 1, got 0"),
        (lambda: uc.SIGReg(knots=1), ValueError, "knots >= 2, got 1"),
        (lambda: uc.SIGReg(t_max=0.0), ValueError, "t_max > 0 and finite"),
        (lambda: uc.VISReg(shape=-1.0), ValueError, "shape >= 0 and finite, got -1.0"),
        (lambda: uc.VISReg(scale=math.nan), ValueError, "scale to be a number, got NaN"),
        (lambda: uc.VISReg(generator=0), TypeError, "torch.Generator"),
        (lambda: uc.VISReg()(x, weight=torch.ones(5)), TypeError, "a boolean mask"),
        (lambda: uc.SIGReg()(x, reduction="none"), ValueError, "SIGReg is not a mean over points"),
        (lambda: uc.sigreg(x, torch.eye(2)), ValueError, "directions in the 3 dimensions of the points"),
        (lambda: uc.VISReg()(x.numpy()), TypeError, "ndarray"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_the_integral_is_that_of_scipy():
    """An oracle that shares nothing with the trapezoidal rule."""
    sample = rows(6, 2)[:, :1]

    def integrand(t):
        empirical = torch.exp(1j * t * sample).mean()
        return (abs(empirical - math.exp(-t * t / 2)) ** 2 * math.exp(-t * t / 2)).item()

    expected = 6 * integrate.quad(integrand, -12, 12, epsabs=1e-12)[0]
    x = torch.cat([sample, torch.zeros_like(sample)], dim=1)
    axis = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert uc.sigreg(x, axis, knots=200, t_max=12.0).item() == pytest.approx(expected, rel=1e-9)
    assert uc.sigreg(x, axis).item() == pytest.approx(expected, rel=0.02)  # what 17 knots up to 3 leave out


def test_visreg_by_its_loop_is_what_the_loop_of_its_authors_prints():
    """Their formula, of centred and divided columns, sorted, with quantiles i / (n + 1)."""
    x, directions = rows(10, 3), uc.uniform(6, 3, dtype=torch.float64)
    mean, deviation = x.mean(dim=0), x.std(dim=0, unbiased=False)
    ordered = (((x - mean) / deviation) @ directions.mT).sort(dim=0).values
    target = math.sqrt(2) * torch.erfinv(2 * torch.arange(1, 11, dtype=torch.float64) / 11 - 1)
    expected = (deviation - 1).square().mean() + (ordered - target.unsqueeze(1)).square().mean() + mean.square().mean()
    assert_close(visreg_by_loop(x, directions), expected)
    assert_close(uc.visreg(x, directions), expected)
