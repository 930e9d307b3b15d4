import torch
from torch.testing import assert_close

from unclump import SphericalVariance, negative_spherical_variance, project, spherical_variance


def test_is_minus_the_measure(points):
    x = points(9, 4)
    assert_close(negative_spherical_variance(x).item(), -spherical_variance(x))
    mean = sum(x[i] for i in range(9)) / 9
    assert_close(negative_spherical_variance(x), mean.norm() - 1)


def test_gradient_matches_finite_differences(points):
    assert torch.autograd.gradcheck(lambda x: negative_spherical_variance(project(x)), points(5, 3).requires_grad_())


def test_balanced_points_have_zero_gradient_and_the_optimum():
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = SphericalVariance()(x)
    value.backward()
    assert value.item() == -1
    assert_close(x.grad, torch.zeros(4, 2))
