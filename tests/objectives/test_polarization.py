import math

import pytest
import torch
from torch.testing import assert_close

from unclump import Gaussian, Laplace, Riesz, polarization, project, uniform
from unclump.geometry.sphere import exp


@pytest.mark.parametrize("kernel", [Riesz(1.0), Gaussian(2.0), Laplace()], ids=repr)
def test_is_minus_the_smallest_mean_kernel_over_the_sphere(kernel, points, generator):
    x = points(7, 3)
    grid = uniform(200_000, 3, generator=generator, dtype=torch.float64)
    potential = torch.stack([kernel((point - grid).square().sum(dim=-1)) for point in x]).mean(dim=0)
    value = polarization(x, kernel, points(64, 3), steps=100)
    assert_close(-value, potential.min(), rtol=1e-4, atol=0)
    assert -value <= potential.min() + 1e-12


def test_two_antipodes_are_weakest_on_the_equator():
    poles = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], dtype=torch.float64)
    starts = project(torch.tensor([[0.3, 0.4, 0.5], [1.0, -1.0, 2.0]], dtype=torch.float64))
    assert_close(polarization(poles, Riesz(1.0), starts).item(), -1 / math.sqrt(2))


def test_the_simplex_is_weakest_opposite_to_a_vertex_or_at_its_closed_form(simplex):
    """Opposite to one vertex: one point at squared chord 4, three at 2 - 2/3."""
    x = simplex(3)
    expected = (0.5 + 3 / math.sqrt(2 - 2 / 3)) / 4
    assert_close(polarization(x, Riesz(1.0), -x).item(), -expected)


@pytest.mark.parametrize("kernel", [Riesz(1.0), Laplace()], ids=repr)
def test_gradient_at_a_fixed_place_matches_finite_differences(kernel, points):
    starts = points(1, 3)
    assert torch.autograd.gradcheck(
        lambda x: polarization(project(x), kernel, starts, steps=0), points(5, 3).requires_grad_()
    )


def test_gradient_accounts_for_the_place_that_moves(points):
    """Danskin: where the descent has ended, the value changes as the gradient at the fixed place says."""
    x, starts = points(6, 3), points(32, 3)
    y = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(polarization(y, Riesz(1.0), starts, steps=200), y)
    direction = 1e-4 * (points(6, 3) - x)
    step = direction - (direction * x).sum(-1, keepdim=True) * x
    values = [polarization(exp(x, sign * step), Riesz(1.0), starts, steps=200) for sign in (1, -1)]
    assert_close((values[0] - values[1]) / 2, (gradient * step).sum(), rtol=1e-3, atol=1e-10)


def test_only_the_directions_of_starts_count(points):
    x, starts = points(6, 3), points(4, 3)
    assert_close(polarization(x, Riesz(), 3 * starts, steps=0), polarization(x, Riesz(), starts, steps=0))
