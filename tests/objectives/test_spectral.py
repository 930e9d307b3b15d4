import math

import pytest
import torch
from torch.testing import assert_close

from unclump import Gaussian, Laplace, LogDet, Riesz, log_det, project


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(), Riesz(2.0, "shifted")], ids=repr)
def test_is_minus_the_log_determinant_of_the_kernel_matrix(kernel, points):
    x = points(6, 4)
    matrix = torch.stack([torch.stack([kernel((a - b).square().sum()) for b in x]) for a in x])
    eigenvalues = torch.linalg.eigvalsh(matrix)
    assert_close(log_det(x, kernel), -eigenvalues.log().mean(), rtol=1e-11, atol=0)


def test_orthogonal_points_have_a_closed_form():
    """Eigenvalues e - 1 (twice) and e + 2 for three orthogonal points under exp(cos)."""
    expected = -(2 * math.log(math.e - 1) + math.log(math.e + 2)) / 3
    assert_close(log_det(torch.eye(3, dtype=torch.float64), Gaussian()).item(), expected)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace()], ids=repr)
def test_gradient_matches_finite_differences(kernel, points):
    assert torch.autograd.gradcheck(lambda x: log_det(project(x), kernel), points(6, 4).requires_grad_())


def test_more_points_than_the_kernel_can_tell_apart_are_finite(points):
    x = points(300, 2).requires_grad_()  # the matrix is singular to double precision
    value = log_det(x, Gaussian())
    value.backward()
    assert value.isfinite()
    assert x.grad.isfinite().all()


def test_refuses_the_geodesic_gaussian_which_is_not_positive_definite():
    with pytest.raises(ValueError, match=r"positive definite kernel, got Gaussian.*use Laplace"):
        LogDet(Gaussian(1.0, "geodesic"))


def test_refuses_kernels_that_are_infinite_on_the_diagonal():
    with pytest.raises(ValueError, match=r"positive and finite at coinciding points"):
        LogDet(Riesz(1.0))
