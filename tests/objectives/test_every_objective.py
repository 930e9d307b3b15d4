"""What every objective must satisfy, whatever its formula."""

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import FEW, INPUTS, OBJECTIVES, value_and_gradient
from tests.finite_table import KEEPS_DUPLICATES, is_finite, separation_after
from unclump.ops import native

each_objective = pytest.mark.parametrize("name", OBJECTIVES)

# The random ones see other circles and samples in rotated space; with many, the difference is small.
DRAWS = {"Lloyd", "Sliced", "Sliced(13)", "Sliced(axis-aligned)", "SSW", "SSW(13)"}
SEARCHES = {"Polarization(Riesz)", "Polarization(Laplace)"}


def expected_to_rotate(name, x, rotation):
    """The objective of rotated points, with the draws rotated along."""
    seeded = torch.Generator().manual_seed(5)
    d = x.shape[1]
    if name == "Lloyd":
        samples = uc.project(torch.randn(64, d, generator=seeded, dtype=x.dtype))
        return uc.lloyd(x, samples), uc.lloyd(x @ rotation, samples @ rotation)
    if name == "Sliced(axis-aligned)":
        circles = torch.eye(d, dtype=x.dtype)[uc.axis_circles(3, d, generator=seeded)]
    else:
        circles = uc.great_circles(13, d, generator=seeded, dtype=x.dtype)
    function = uc.ssw if name.startswith("SSW") else uc.sliced
    return function(x, circles), function(x @ rotation, circles @ rotation)


@each_objective
def test_value_is_a_scalar_of_the_points_dtype(name, points):
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ):
        value = OBJECTIVES[name]()(points(7, 4).to(dtype))
        assert value.shape == ()
        assert value.dtype is expected


@each_objective
def test_relabelling_the_points_changes_nothing(name, points):
    x = points(9, 4)
    order = torch.tensor([4, 2, 8, 0, 1, 7, 5, 3, 6])
    value, gradient = value_and_gradient(OBJECTIVES[name](), x)
    shuffled_value, shuffled_gradient = value_and_gradient(OBJECTIVES[name](), x[order])
    assert_close(shuffled_value, value)
    assert_close(shuffled_gradient, gradient[order])


@each_objective
def test_stretching_the_rows_changes_nothing(name, points):
    x = points(9, 4)
    sizes = torch.linspace(0.1, 30, 9, dtype=torch.float64).unsqueeze(-1)
    assert_close(OBJECTIVES[name]()(sizes * x), OBJECTIVES[name]()(x))


@each_objective
def test_rotating_the_sphere_changes_nothing(name, points, rotation):
    x, turn = points(9, 4), rotation(4)
    if name in DRAWS:
        before, after = expected_to_rotate(name, x, turn)
    elif name in SEARCHES:
        starts = points(256, 4)
        kernel = OBJECTIVES[name]().kernel
        before = uc.polarization(x, kernel, starts, steps=100)
        after = uc.polarization(x @ turn, kernel, starts @ turn, steps=100)
    else:
        before, after = OBJECTIVES[name]()(x), OBJECTIVES[name]()(x @ turn)
    assert_close(after, before)


@each_objective
def test_gradient_matches_finite_differences(name, points):
    if name in SEARCHES:
        pytest.skip("the place it looks at moves: see test_polarization")
    assert torch.autograd.gradcheck(lambda x: OBJECTIVES[name]().forward(x), points(6, 4).requires_grad_())


@each_objective
def test_gradient_is_tangent(name, points):
    x = points(9, 4)
    _, gradient = value_and_gradient(OBJECTIVES[name](), x)
    assert_close((gradient * x).sum(dim=-1), torch.zeros(9, dtype=torch.float64), atol=1e-9, rtol=0)


@each_objective
def test_dispersed_points_are_better_than_clumped_ones(name, points):
    spread = points(40, 4)
    clumped = uc.project(spread + 8 * spread[:1])
    assert OBJECTIVES[name]()(spread) < OBJECTIVES[name]()(clumped)


@pytest.mark.parametrize("name", [name for name in FEW if not name.startswith(("KoLeo", "MaxMin", "Lloyd", "LogDet"))])
def test_a_clump_of_ten_times_as_many_rows_is_worth_the_same(name, generator):
    """Those that are left out look at nearest points, or at a volume, of which many rows leave less."""
    clump = uc.PowerSpherical(torch.eye(8)[0], torch.tensor(20.0)).sample((2000,), generator=generator)
    few, many = (OBJECTIVES[name]()(clump[:n]) for n in (200, 2000))
    assert 0.8 < many / few < 1.25


@each_objective
@pytest.mark.parametrize("given", INPUTS)
def test_value_and_gradient_are_finite(name, given):
    assert is_finite(name, given)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name == "Polarization(Laplace)")) for name in OBJECTIVES]
)
def test_coinciding_rows_come_apart(name):
    """Within 200 steps of SphereAdam; but for the spherical variance, which cannot see them."""
    if name == "FramePotential":
        pytest.skip("a tight frame may hold a point twice: see test_frame_potential.py")
    degrees = separation_after(name)
    assert degrees == 0 if name in KEEPS_DUPLICATES else degrees > 0.1


@each_objective
def test_autocast_changes_nothing(name, points):
    x = points(12, 8).float()
    plain, cast = value_and_gradient(OBJECTIVES[name](), x), value_and_gradient(OBJECTIVES[name](), x, autocast=True)
    assert_close(cast, plain)


@each_objective
def test_runs_on_the_meta_device(name):
    """It reads no value and makes no tensor elsewhere, which is what a GPU needs."""
    module = OBJECTIVES[name]()
    if hasattr(module, "generator"):
        module.generator = None
    x = torch.empty(600, 8, device="meta", requires_grad=True)
    module(x).backward()
    assert x.grad.device.type == "meta"
    assert x.grad.shape == x.shape


@each_objective
def test_pickles_copies_and_prints_itself(name, points):
    x = points(6, 4)
    module = OBJECTIVES[name]()
    twins = [pickle.loads(pickle.dumps(module)), copy.deepcopy(module)]
    value = module(x)
    for twin in twins:
        assert_close(twin(x), value)
        assert repr(twin) == repr(module)
    assert repr(module).startswith(type(module).__name__ + "(")


@each_objective
def test_without_gradient_the_value_is_the_same(name, points):
    x = points(6, 4)
    with torch.no_grad():
        value = OBJECTIVES[name]()(x)
    assert_close(value, OBJECTIVES[name]()(x.requires_grad_()).detach())


@pytest.mark.parametrize("name", uc.list_objectives())
def test_has_a_name(name, points):
    module = uc.objective(name)
    assert isinstance(module, uc.Objective)
    assert module(points(5, 3)).isfinite()


def test_options_and_kernels_go_by_name_too():
    assert uc.objective("koleo", distance="geodesic").distance == "geodesic"
    assert uc.objective("energy", kernel="laplace").kernel == uc.Laplace()
    assert uc.objective("mmd", kernel={"name": "gaussian", "gamma": 3.0}).kernel == uc.Gaussian(3.0)
    assert uc.objective("mmd", kernel=uc.Gaussian(4.0)).kernel == uc.Gaussian(4.0)


@each_objective
def test_a_second_derivative_is_right_or_refused(name, points):
    x, direction, step = points(7, 4), points(7, 4).flip(0), 1e-6

    def gradient(x, **choice):
        x = x.clone().requires_grad_()
        return x, torch.autograd.grad(OBJECTIVES[name]()(x), x, **choice)[0]

    def second(dtype):
        at, first = gradient(x.to(dtype), create_graph=True)
        return torch.autograd.grad((first * direction.to(dtype)).sum(), at)[0]

    try:
        found = second(torch.float64)
    except RuntimeError as error:
        assert "expected a first derivative" in str(error)  # noqa: PT017
        with pytest.raises(RuntimeError, match="expected a first derivative"):
            second(torch.float32)
        return
    ahead, behind = (gradient(x + side * step * direction)[1] for side in (1, -1))
    assert_close(found, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5)


@each_objective
def test_a_factor_of_the_loss_has_its_derivative_too_or_none(name, points):
    """With loss a f(x) and gradient g = a f'(x), half the square of g grows with a by the square of f'(x)."""
    x, factor = points(7, 4).requires_grad_(), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(factor * OBJECTIVES[name]()(x), x, create_graph=True)
    try:
        (found,) = torch.autograd.grad(gradient.square().sum() / 2 + 0 * factor, factor)
    except RuntimeError as error:
        assert "expected a first derivative" in str(error)  # noqa: PT017
    else:
        assert_close(found, (gradient.square().sum() / 2).detach())


def test_what_sliced_has_seen_may_change(points):
    x = points(7, 4).requires_grad_()
    hidden = 2 * x
    value = uc.Sliced(3)(hidden)
    hidden.relu_()
    value.backward()
    assert x.grad.abs().sum() > 0


def test_polarization_by_torch_func(points):
    x = points(7, 4)
    gradient = torch.func.grad(OBJECTIVES["Polarization(Riesz)"]())(x)
    assert_close(gradient, value_and_gradient(OBJECTIVES["Polarization(Riesz)"](), x)[1])


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "reference"])
@each_objective
def test_nan_in_is_nan_out(name, compiled, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    x = points(40, 4).float()
    x[17, 2] = torch.nan
    assert OBJECTIVES[name]()(x).isnan()
