import math

import pytest
import torch
from torch.testing import assert_close

from tests.cases import KERNELS
from unclump import MMD, Gaussian, Laplace, Riesz, Uniformity, energy, kernel_mean, mmd, uniform, uniformity
from unclump.ops import native

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
POSITIVE = [kernel for kernel in KERNELS if not math.isnan(kernel.log_self)]


def kernel_of(kernel, x, i, j):
    return kernel((x[i] - x[j]).square().sum())


@each_kernel
def test_energy_is_the_mean_over_ordered_pairs(kernel, points):
    x = points(7, 3)
    for points_of_dtype, rtol, atol in ((x, 1e-12, 1e-15), (x.float(), 1e-6, 1e-7)):
        y = points_of_dtype.double()
        pairs = [kernel_of(kernel, y, i, j) for i in range(7) for j in range(7) if i != j]
        value = energy(points_of_dtype, kernel)
        assert_close(value.double(), torch.stack(pairs).mean(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kernel", POSITIVE, ids=repr)
def test_uniformity_is_the_log_of_the_mean_over_all_pairs(kernel, points):
    x = points(6, 3)
    pairs = [kernel_of(kernel, x, i, j) for i in range(6) for j in range(6)]
    assert_close(uniformity(x, kernel=kernel, diagonal=True), torch.stack(pairs).mean().log(), rtol=1e-12, atol=1e-14)


@each_kernel
def test_cross_polytope_has_its_closed_form(kernel):
    d = 5  # of the 2d - 1 other points, one is at squared distance 4 and 2d - 2 are at 2
    opposite, adjacent = kernel(torch.tensor([4.0, 2.0], dtype=torch.float64))
    x = torch.cat([torch.eye(d), -torch.eye(d)]).double()
    assert_close(energy(x, kernel), (opposite + (2 * d - 2) * adjacent) / (2 * d - 1))


def test_energy_of_the_icosahedron_is_thomsons(icosahedron):
    assert_close(energy(icosahedron, Riesz(1.0)).item() * 66, 49.165253058)  # 66 pairs; the known minimum


def test_mmd_is_unbiased(generator):
    """Over uniform samples its mean is zero; over points at one pole it is k(0) minus the kernel's mean."""
    kernel = Gaussian(2.0)
    estimates = mmd(uniform(20_000, 3, generator=generator, dtype=torch.float64).view(4000, 5, 3), kernel)
    assert estimates.shape == (4000,)
    assert abs(estimates.mean()) < 4 * estimates.std() / math.sqrt(len(estimates))
    assert estimates.std() > 0.01


def test_mmd_to_the_uniform_distribution_falls_to_zero_with_n(generator):
    values = [mmd(uniform(n, 3, generator=generator, dtype=torch.float64), Laplace()).abs() for n in (10, 1000)]
    assert values[1] < 0.01 < values[0] + 0.05


def test_uniformity_does_not_overflow_at_high_concentration():
    x = torch.eye(3)
    assert_close(uniformity(x, kernel=Gaussian(1e3), diagonal=True).item(), 1e3 - math.log(3))
    assert uniformity(x.requires_grad_(), kernel=Gaussian(1e3), diagonal=True).isfinite()


def test_uniformity_of_a_sharp_shifted_kernel_does_not_overflow():
    x = torch.eye(3, requires_grad=True)
    value = uniformity(x, kernel=Laplace(1e3, "shifted"), diagonal=True)
    value.backward()
    assert_close(value.item(), -1e3 - math.log(3))
    assert x.grad.isfinite().all()


def test_mmd_of_a_sharp_gaussian_is_finite():
    assert mmd(torch.eye(3), Gaussian(100.0)).isfinite()
    with pytest.raises(ValueError, match="use a smaller gamma"):
        mmd(torch.eye(3), Gaussian(800.0))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("fused", [True, False])
def test_what_is_not_finite_stays_so_and_harms_nothing(value, fused, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", fused and native.ENABLED)
    x = torch.eye(40).requires_grad_()
    with torch.no_grad():
        x[3, 5] = value
    total = energy(x, Gaussian())
    total.backward()
    assert not total.isfinite() or not x.grad.isfinite().all()


def test_energy_too_large_for_its_dtype_saturates():
    x = torch.ones(2, 2, dtype=torch.float32) / math.sqrt(2)
    assert energy(x, Riesz(30.0)).isfinite()


@pytest.mark.parametrize("make", [lambda: Uniformity(kernel=Riesz(1.0)), lambda: Uniformity(kernel=Riesz(0.0))])
def test_uniformity_refuses_kernels_that_are_infinite_at_coinciding_points(make):
    with pytest.raises(ValueError, match=r"positive and finite at coinciding points, got Riesz.*use Gaussian"):
        make()


def test_mmd_refuses_kernels_without_a_mean(points):
    assert kernel_mean(Riesz(2.0), 3) == math.inf
    with pytest.raises(ValueError, match=r"finite mean on the sphere in 3 dimensions, got Riesz.*use s < 2"):
        MMD(Riesz(2.0))(points(5, 3))
