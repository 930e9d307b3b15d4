"""Alignment and uniformity are those of Wang and Isola, to the last digits, and finite where theirs is not."""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc


def their_uniformity(x, t=2):
    return torch.pdist(x, p=2).pow(2).mul(-t).exp().mean().log()


@pytest.mark.parametrize("t", [2, 0.5, 5.0])
def test_uniformity_is_theirs_with_its_gradient(t, points):
    x = points(20, 5).requires_grad_()
    for y, rtol in ((x, 1e-12), (x.detach().float().requires_grad_(), 1e-5)):
        ours, theirs = uc.uniformity(y, t), their_uniformity(uc.project(y), t)
        assert_close(ours, theirs, rtol=rtol, atol=0)
        assert_close(uc.Uniformity(t)(3 * y), theirs, rtol=rtol, atol=0)
        of_ours, of_theirs = (torch.autograd.grad(value, y)[0] for value in (ours, theirs))
        assert_close(of_ours, of_theirs, rtol=100 * rtol, atol=100 * rtol * of_theirs.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniformity_is_finite_where_their_mean_is_zero(dtype):
    x = torch.eye(4, dtype=dtype).requires_grad_()
    value = uc.uniformity(x, 60.0)
    value.backward()
    assert their_uniformity(torch.eye(4), 60.0) == -math.inf
    assert_close(value.item(), -120.0)
    assert value.dtype == dtype
    assert x.grad.isfinite().all()
    assert x.grad.norm() > 1


def test_uniformity_among_others_is_the_mean_over_the_pairs_of_both(points):
    x, queue, mask = points(6, 4), points(5, 4), torch.tensor([1, 1, 0, 1, 1, 1], dtype=torch.bool)
    kept = x[mask]
    r2 = (kept.unsqueeze(1) - torch.cat([kept, queue])).square().sum(dim=-1)
    pairs = torch.exp(-2 * r2)[~torch.eye(5, 10, dtype=torch.bool)]
    assert_close(uc.Uniformity()(x, against=queue, weight=mask), pairs.mean().log())


def test_a_kernel_that_is_zero_at_opposite_points_is_refused(at_the_door):
    with pytest.raises(ValueError, match="got t=500; use t <= 175"):
        uc.Uniformity(500.0)
    with pytest.raises(TypeError, match="expected t to be a number, got Gaussian"):
        uc.Uniformity(uc.Gaussian())


@pytest.mark.parametrize("alpha", [2, 1.0, 3.5])
def test_alignment_is_theirs(alpha, points):
    x, y = points(9, 4).requires_grad_(), points(9, 4)
    assert_close(uc.alignment(x, y, alpha), (x - y).norm(p=2, dim=1).pow(alpha).mean())
    assert_close(uc.alignment(2 * x, 5 * y, alpha), uc.alignment(x, y, alpha))
    assert torch.autograd.gradcheck(lambda x: uc.alignment(x, y, alpha), x)
    coinciding = uc.alignment(x, x.detach(), alpha)
    assert coinciding == 0
    assert torch.autograd.grad(coinciding, x)[0].isfinite().all()


def test_alignment_refuses_rows_without_a_partner(points, at_the_door):
    with pytest.raises(ValueError, match=r"a row of y for every row of x, got shapes \(4, 3\) and \(5, 3\)"):
        uc.alignment(points(4, 3), points(5, 3))
