import math

import pytest
import torch
from torch.testing import assert_close

from unclump import Lloyd, angle, lloyd, uniform
from unclump.geometry.sphere import log


def test_is_half_the_mean_squared_angle_to_the_nearest_point(points):
    x, samples = points(6, 3), points(11, 3)
    nearest = torch.stack([min(angle(sample, point) for point in x) for sample in samples])
    assert_close(lloyd(x, samples), nearest.square().mean() / 2, rtol=1e-12, atol=0)
    assert_close(lloyd(x.float(), samples.float()), (nearest.square().mean() / 2).float(), rtol=1e-6, atol=0)


def test_one_point_has_the_mean_squared_angle_of_the_sphere(generator):
    """In three dimensions the angle has density sin / 2, and half its mean square is (pi^2 - 4) / 4."""
    samples = uniform(200_000, 3, generator=generator, dtype=torch.float64)
    x = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    assert_close(lloyd(x, samples).item(), (math.pi**2 - 4) / 4, rtol=0.01, atol=0)


def test_the_riemannian_gradient_pulls_towards_the_samples_of_the_cell(points):
    x, samples = points(4, 3).requires_grad_(), points(30, 3)
    (gradient,) = torch.autograd.grad(lloyd(x, samples), x)
    with torch.no_grad():
        cell = angle(samples.unsqueeze(1), x).argmin(dim=1)
        for i in range(4):
            towards = log(x[i], samples[cell == i]).sum(dim=0) / 30
            assert_close(gradient[i] - (gradient[i] @ x[i]) * x[i], -towards)


def test_samples_at_the_point_and_opposite_to_it_have_finite_gradients():
    x = torch.tensor([[1.0, 0.0]], requires_grad=True)
    lloyd(x, torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).backward()
    assert x.grad.isfinite().all()


def euclidean(y, x):
    return torch.linalg.vector_norm(y - x, dim=-1)


def test_on_a_finite_data_set_it_is_k_means(generator):
    centres = torch.tensor([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    data = centres.repeat_interleave(50, dim=0) + torch.randn(150, 2, generator=generator)
    means = torch.stack([data[i * 50 : (i + 1) * 50].mean(dim=0) for i in range(3)])
    x = torch.nn.Parameter(centres + torch.randn(3, 2, generator=generator))
    objective = Lloyd(150, sampler=lambda count: data[:count], distance=euclidean)
    optimizer = torch.optim.SGD([x], lr=1.0)
    for _ in range(60):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    assert_close(x.detach(), means, atol=1e-5, rtol=0)
    assert_close(objective(x), euclidean(data, means.repeat_interleave(50, dim=0)).square().mean() / 2)


def test_in_a_domain_sets_have_an_objective_each(points):
    x, samples = points(15, 2).view(3, 5, 2), points(7, 2)
    values = lloyd(x, samples, distance=euclidean)
    assert_close(values, torch.stack([lloyd(one, samples, distance=euclidean) for one in x]))


@pytest.mark.usefixtures("at_the_door")
def test_in_a_domain_masks_are_those_of_the_sphere(points):
    x, samples = points(5, 2).requires_grad_(), points(7, 2)
    objective, mask = Lloyd(7, sampler=lambda _: samples, distance=euclidean), torch.tensor([True] * 3 + [False] * 2)
    assert_close(objective(x, weight=mask), objective(x[:3]))
    assert_close(objective.with_draw(x, samples[:2]), lloyd(x, samples[:2], distance=euclidean))
    nothing = objective(x, weight=torch.zeros(5, dtype=torch.bool))
    assert nothing == 0
    assert torch.autograd.grad(nothing, x)[0].eq(0).all()
    with pytest.raises(ValueError, match=r"weight as a tensor of shape \(5,\), one number per row, got shape \(1,\)"):
        objective(x, weight=mask[:1])
    with pytest.raises(TypeError, match=r"a boolean mask, got torch\.float64: Lloyd supports masks only"):
        objective(x, weight=mask.double())


def test_on_a_torus_four_points_become_a_lattice(generator):
    """Points of the unit square with opposite sides glued: any lattice is better than four points in a clump."""

    def around(y, x):
        difference = y - x
        return torch.linalg.vector_norm(difference - difference.detach().round(), dim=-1)

    x = torch.nn.Parameter(0.1 * torch.rand(4, 2, generator=generator))
    objective = Lloyd(256, sampler=lambda count: torch.rand(count, 2, generator=generator), distance=around)
    optimizer = torch.optim.SGD([x], lr=0.5)
    start = around(x.unsqueeze(1), x).fill_diagonal_(9).min()
    for _ in range(300):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    closest = around(x.unsqueeze(1), x).fill_diagonal_(9).min()
    assert start < 0.1
    assert closest > 0.4  # squares have 0.5, the best lattice 0.518


def test_a_domain_needs_sampler_and_distance():
    with pytest.raises(ValueError, match="sampler and distance together"):
        Lloyd(distance=euclidean)
