import geoopt
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump import angle, axis_circles, chord, great_circles, project
from unclump.geometry.circles import circle_angles
from unclump.geometry.sphere import exp, log, retract, tangent, transport
from unclump.ops import native
from unclump.ops.project import unit_rows

geoopt_sphere = geoopt.SphereExact()
MACHINE = torch.finfo(torch.float32).eps


@pytest.fixture
def pair(points):
    x, y = points(20, 5), points(20, 5)
    return x, y, tangent(x, points(20, 5))


def test_projection_gives_unit_rows_whatever_their_norm(points):
    x = points(4, 6).float()
    for size in (1e-38, 1e-20, 1.0, 1e20, 1e38):
        assert_close(project(size * x), x)


@pytest.mark.parametrize("fused", [True, False])
def test_projection_is_right_from_the_smallest_number_to_the_largest(fused, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", fused and native.ENABLED)
    limits = torch.finfo(torch.float32)
    x = torch.cat([size * points(4, 6) for size in (1e-44, 1e-42, 1e-40, 3e-39, 1e-38, 1e38)]).float()
    x[0], x[1] = limits.max, torch.eye(6)[2] * limits.smallest_normal * limits.eps
    assert (x.abs() < limits.smallest_normal).all(dim=-1).sum() > 10  # where digits are fewer: expect what is there
    expected = (x.double() / x.double().norm(dim=-1, keepdim=True)).float()
    assert_close(project(x), expected, rtol=4 * MACHINE, atol=0)
    assert_close(unit_rows(x)[1][:, 0].double(), (1 / x.double().norm(dim=-1)).clamp_max(limits.max), rtol=4e-6, atol=0)


def test_the_gradient_at_the_smallest_norms_is_finite_and_tangent(points):
    if not native.ENABLED:
        pytest.skip("it overflows in the torch operations")
    x = (1e-40 * points(3, 4)).float().requires_grad_()
    (gradient,) = torch.autograd.grad((project(x) * points(3, 4).float()).sum(), x)
    assert gradient.isfinite().all()
    assert_close((project(x.detach()) * project(gradient)).sum(dim=-1), torch.zeros(3), rtol=0, atol=1e-6)


def test_projection_of_zero_is_zero_with_zero_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    project(x).sum().backward()
    assert_close(x.grad, torch.zeros(2, 3))


def test_projection_has_its_gradient_at_any_norm(points):
    for size in (1e-20, 1.0, 1e20):
        x = (size * points(3, 4)).requires_grad_()
        weights = points(3, 4)
        (gradient,) = torch.autograd.grad((weights * project(x)).sum(), x)
        assert_close(gradient * size, tangent(x.detach() / size, weights))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back_as_float32(dtype):
    assert project(torch.ones(2, 4, dtype=dtype)).dtype is torch.float32


def test_the_gradient_of_half_precision_saturates_instead_of_overflowing():
    x = torch.full((1, 2), 1e-4, dtype=torch.float16, requires_grad=True)
    (gradient,) = torch.autograd.grad(project(x)[0, 0] * 1e6, x)
    assert_close(gradient, torch.tensor([[65504.0, -65504.0]], dtype=torch.float16))


def test_maps_agree_with_geoopt_away_from_its_clamps(pair):
    x, y, v = pair
    assert_close(tangent(x, y), geoopt_sphere.proju(x, y))
    assert_close(exp(x, v), geoopt_sphere.expmap(x, v))
    assert_close(log(x, y), geoopt_sphere.logmap(x, y))
    assert_close(angle(x, y), geoopt_sphere.dist(x, y))


def test_log_undoes_exp_and_has_the_length_of_the_angle(pair):
    x, y, _ = pair
    assert_close(exp(x, log(x, y)), y)
    assert_close(torch.linalg.vector_norm(log(x, y), dim=-1), angle(x, y))
    assert_close((x * log(x, y)).sum(-1), torch.zeros(20, dtype=torch.float64))


def test_both_retractions_agree_to_second_order(pair):
    x, _, v = pair
    assert_close(retract(x, 1e-4 * v), exp(x, 1e-4 * v), atol=1e-11, rtol=0)
    assert (retract(x, v) - exp(x, v)).abs().max() > 1e-3


def test_transport_keeps_lengths_angles_and_tangency_and_comes_back(pair, points):
    x, y, v = pair
    w = tangent(x, points(20, 5))
    moved, also_moved = transport(x, y, v), transport(x, y, w)
    assert_close((moved * also_moved).sum(-1), (v * w).sum(-1))
    assert_close((moved * y).sum(-1), torch.zeros(20, dtype=torch.float64))
    assert_close(transport(y, x, moved), v)


def test_transport_carries_the_velocity_of_a_great_circle_along(pair):
    x, y, _ = pair
    assert_close(transport(x, y, log(x, y)), -log(y, x))


@pytest.mark.parametrize("theta", [1e-30, 1e-6, 1e-4, 1.0, torch.pi - 1e-3])
def test_the_angle_keeps_its_digits_in_float32(theta):
    x = torch.tensor([1.0, 0.0])
    y = torch.tensor([torch.cos(torch.tensor(theta, dtype=torch.float64)), torch.sin(torch.tensor(theta))])
    assert_close(angle(x, y).item(), theta, rtol=2 * MACHINE, atol=0)
    assert_close(
        chord(x, y).item(), 2 * torch.sin(torch.tensor(theta / 2, dtype=torch.float64)).item(), rtol=1e-6, atol=0
    )


def test_the_angle_is_right_where_geoopt_clamps_it():
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1e-3])
    assert geoopt.SphereExact().dist(x, y) > 0.014  # every angle below 0.81 degrees is reported as 0.81
    assert_close(angle(x, y), torch.tensor(1e-3))


@pytest.mark.parametrize("x", [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], ids=["coinciding", "antipodal"])
@pytest.mark.parametrize("function", [angle, chord, log], ids=["angle", "chord", "log"])
def test_singular_points_have_finite_gradients(x, function):
    x = torch.tensor(x, requires_grad=True)
    function(x, torch.tensor([1.0, 0.0, 0.0])).sum().backward()
    assert x.grad.isfinite().all()


def test_exp_at_zero_has_the_identity_as_derivative():
    x = torch.tensor([1.0, 0.0, 0.0])
    jacobian = torch.autograd.functional.jacobian(lambda v: exp(x, v), torch.zeros(3))
    assert_close(jacobian, torch.eye(3))


def test_log_at_the_same_point_has_the_tangent_projection_as_derivative():
    x = torch.tensor([1.0, 0.0, 0.0])
    jacobian = torch.autograd.functional.jacobian(lambda y: log(x, y), x.clone())
    assert_close(jacobian, torch.diag(torch.tensor([0.0, 1.0, 1.0])))


@pytest.mark.parametrize("function", [exp, log, retract, angle, chord], ids=lambda f: f.__name__)
def test_gradients_match_finite_differences(function, points):
    x, y = points(3, 4), points(3, 4)
    assert torch.autograd.gradcheck(function, (x.requires_grad_(), y.requires_grad_()))


@pytest.mark.parametrize("d", [2, 3, 64])
def test_great_circles_are_orthonormal_pairs(d, generator):
    circles = great_circles(500, d, generator=generator)
    assert_close(circles @ circles.mT, torch.eye(2).expand(500, 2, 2), atol=5 * MACHINE, rtol=0)


def test_great_circles_prefer_no_direction(generator):
    circles = great_circles(20_000, 3, generator=generator)
    for vectors in circles.unbind(dim=1):  # second moments of a uniform point: a third of the identity
        assert_close(vectors.mT @ vectors / len(vectors), torch.eye(3) / 3, atol=0.01, rtol=0)


def test_axis_circles_are_dealt_without_replacement(generator):
    axes = axis_circles(6, 7, generator=generator)
    assert axes[:3].unique().numel() == axes[3:].unique().numel() == 6
    every = axis_circles(60_000, 3, generator=generator)
    counts = torch.bincount(3 * every[:, 0] + every[:, 1], minlength=9).view(3, 3)
    assert counts.diagonal().sum() == 0
    assert_close(counts[~torch.eye(3, dtype=torch.bool)] / 60_000, torch.full((6,), 1 / 6), atol=0.01, rtol=0)


def test_the_projection_on_a_circle_is_its_nearest_point(points, generator):
    x, circles = points(6, 5), great_circles(4, 5, generator=generator, dtype=torch.float64)
    theta = circle_angles(x, circles)  # (4, 6)
    grid = torch.linspace(-torch.pi, torch.pi, 10_001, dtype=torch.float64)
    for k, (p, q) in enumerate(circles):
        on_circle = grid.cos().unsqueeze(-1) * p + grid.sin().unsqueeze(-1) * q
        nearest = grid[angle(on_circle.unsqueeze(1), x).argmin(dim=0)]
        assert_close(theta[k], nearest, atol=1e-3, rtol=0)


def test_axis_aligned_angles_are_those_of_the_axes_as_vectors(points, generator):
    x, axes = points(6, 5), axis_circles(4, 5, generator=generator)
    assert_close(circle_angles(x, axes), circle_angles(x, torch.eye(5, dtype=torch.float64)[axes]))


def test_forward_mode_is_the_jacobian_of_reverse_mode():
    x, v = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, forward = torch.func.jvp(uc.project, (3 * x,), (v,))
    reverse = torch.func.jacrev(uc.project)(3 * x)
    assert_close(forward, torch.einsum("ijkl,kl->ij", reverse, v))
