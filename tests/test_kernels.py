import copy
import math
import pickle
from dataclasses import dataclass

import pytest
import torch
from scipy import special
from torch.testing import assert_close

from tests.cases import KERNELS
from unclump import FramePotential, Gaussian, Kernel, Laplace, Riesz, energy, kernel_mean, project
from unclump.ops.kernel_sum import kernel_sum

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def by_definition(kernel, c):
    """The kernel as a function of the cosine, as the table of the paper defines it (with the chord corrected)."""
    distance = {"chordal": math.sqrt(2 - 2 * c), "geodesic": math.acos(c), "shifted": math.sqrt(2 - c)}[kernel.distance]
    match kernel:
        case Gaussian(gamma, "chordal"):
            return math.exp(gamma * c)
        case Gaussian(gamma):
            return math.exp(-gamma * distance**2)
        case Laplace(gamma):
            return math.exp(-gamma * distance)
        case Riesz(s):
            return -math.log(distance) if s == 0 else math.copysign(distance**-s, s)


@each_kernel
def test_equals_its_definition(kernel):
    cosines = [-1.0, -0.9, -0.3, 0.0, 0.4, 0.8, 0.99]
    r2 = torch.tensor([2 - 2 * c for c in cosines], dtype=torch.float64)
    assert_close(kernel(r2), torch.tensor([by_definition(kernel, c) for c in cosines], dtype=torch.float64))


@each_kernel
def test_vanishes_infinitely_far_where_it_says_so(kernel):
    value, derivative = kernel.value_and_derivative(torch.tensor([torch.inf]))
    if kernel.vanishes_far:
        assert value.item() == derivative.item() == 0


@each_kernel
def test_derivative_is_that_of_the_value(kernel):
    r2 = torch.tensor([1e-8, 1e-3, 0.5, 2.0, 3.9], dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(kernel(r2).sum(), r2)
    assert_close(kernel.derivative(r2), expected)


@each_kernel
def test_falls_with_the_distance(kernel):
    r2 = torch.linspace(1e-3, 4, 100, dtype=torch.float64)
    assert (kernel(r2).diff() < 0).all()
    assert (kernel.derivative(r2) < 0).all()


@each_kernel
def test_derivative_is_finite_at_antipodes(kernel):
    assert kernel.derivative(torch.tensor([4.0])).isfinite().all()


@each_kernel
def test_relative_value_is_one_at_coinciding_points(kernel):
    if not math.isnan(kernel.log_self):
        r2 = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
        assert_close(kernel.relative(r2)[0].item(), 1.0)
        assert_close(kernel.relative(r2) * math.exp(kernel.log_self), kernel(r2))
        assert_close(kernel.relative_derivative(r2)[1] * math.exp(kernel.log_self), kernel.derivative(r2)[1])


def test_relative_gaussian_does_not_overflow():
    assert_close(Gaussian(1e4).relative(torch.tensor([0.0, 1e-4])), torch.tensor([1.0, math.exp(-0.5)]))


@pytest.mark.parametrize("d", [2, 3, 5, 64, 4096])
@each_kernel
def test_mean_over_the_sphere_agrees_with_monte_carlo(kernel, d, generator):
    if isinstance(kernel, Riesz) and kernel.distance != "shifted" and kernel.s >= d - 1:
        assert kernel_mean(kernel, d) == math.inf
        return
    if isinstance(kernel, Riesz) and 2 * kernel.s >= d - 1:
        pytest.skip("the kernel's variance is infinite: Monte Carlo says nothing")
    # one end fixed: by symmetry only the first coordinate of a uniform point matters
    count = 100_000 if d < 64 else 2_000
    cosine = project(torch.randn(count, d, generator=generator, dtype=torch.float64))[:, 0]
    values = kernel(2 - 2 * cosine)
    error = (values.std() / math.sqrt(count)).item()
    assert abs(values.mean().item() - kernel_mean(kernel, d)) < 4.5 * error


@pytest.mark.parametrize("d", [2, 3, 4, 16, 257, 4096])
@pytest.mark.parametrize(
    "kernel", [Gaussian(0.1), Gaussian(1.0), Gaussian(50.0), Riesz(0.5), Riesz(0.0), Riesz(-2.0)], ids=repr
)
def test_closed_forms_agree_with_quadrature(kernel, d):
    from unclump.kernel_means import _mean_by_quadrature

    assert_close(kernel_mean(kernel, d), _mean_by_quadrature(kernel, d), rtol=1e-8, atol=1e-9)


def test_means_known_in_closed_form():
    assert_close(kernel_mean(Gaussian(2.0), 3), math.sinh(2.0) / 2.0)
    assert_close(kernel_mean(Riesz(1.0), 3), 1.0)  # the potential inside a charged sphere
    assert_close(kernel_mean(Riesz(-2.0), 7), -2.0)  # mean squared chord
    assert_close(kernel_mean(Laplace(1.0), 2), (1 - math.exp(-math.pi)) / math.pi)
    assert_close(kernel_mean(Riesz(1.0, "geodesic"), 3), special.sici(math.pi)[0] / 2)
    assert_close(kernel_mean(Riesz(0.5, "geodesic"), 2), 2 / math.sqrt(math.pi))


@pytest.mark.parametrize(
    ("kernel", "d"),
    [(Laplace(1e4), 3), (Laplace(200.0), 128), (Riesz(120.0, "geodesic"), 128), (Laplace(50.0, "chordal"), 2)],
)
def test_mean_of_a_sharp_kernel_is_found_where_its_weight_is(kernel, d):
    theta = torch.logspace(-9, math.log10(math.pi / 2), 400_001, dtype=torch.float64)
    theta = torch.cat([theta, math.pi - theta.flip(0)[1:]])
    log_density = (d - 2) * theta.sin().log() - special.betaln(0.5, (d - 1) / 2)
    values = kernel(4 * (theta / 2).sin() ** 2).clamp_max(1e300)  # it overflows where there is nothing to weigh
    expected = torch.trapezoid(values * log_density.exp(), theta).item()
    assert_close(kernel_mean(kernel, d), expected, rtol=1e-5, atol=0)


def test_mean_of_a_sharp_gaussian_is_finite_in_high_dimension():
    assert_close(math.log(kernel_mean(Gaussian(500.0), 4096)), 500**2 / (2 * 4096), rtol=0.02, atol=0)


def test_kernels_are_values():
    assert Gaussian(2.0) == Gaussian(2.0) != Gaussian(3.0)
    assert len({Riesz(1.0), Riesz(1.0), Riesz(2.0)}) == 2
    assert pickle.loads(pickle.dumps(Laplace(0.5))) == Laplace(0.5)
    assert repr(Riesz(s=2.0)) == "Riesz(s=2.0, distance='chordal')"


class Exponential(Kernel):
    """A kernel of a user's own, which prints itself without its parameter."""

    distance = "chordal"

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, r2):
        return torch.exp(-self.rate * r2)

    def derivative(self, r2):
        return -self.rate * self(r2)

    def __repr__(self):
        return "Exponential"


def test_kernels_that_print_themselves_alike_are_not_taken_for_each_other(points):
    x, first, second = points(6, 3), Exponential(1.0), Exponential(5.0)
    values = [energy(x, kernel) for kernel in (first, second, first)]
    assert values[0] == values[2] > values[1]

    own = Gaussian(gamma=1.0)
    before = kernel_sum(x, own)[0]
    namesake = dataclass(frozen=True)(
        type("Gaussian", (Exponential,), {"__annotations__": {"gamma": float, "distance": str}, "distance": "chordal"})
    )
    assert repr(namesake(1.0)) == repr(own)
    assert torch.equal(kernel_sum(x, own)[0], before)


def test_kernels_of_a_users_own_are_copied_and_pickled(points):
    x, kernel = points(6, 3), Exponential(3.0)
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert energy(x, other) == energy(x, kernel)
    other.rate = 1.0
    assert energy(x, other) > energy(x, kernel)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplace(), Riesz(), FramePotential()], ids=repr)
def test_subclasses_have_values_and_means_of_their_own(kernel, points):
    class Half(type(kernel)):
        def __call__(self, r2):
            return kernel(r2) / 2

        def derivative(self, r2):
            return kernel.derivative(r2) / 2

    x = points(9, 3).requires_grad_()
    value, expected = energy(x, Half()), energy(x, kernel) / 2
    assert_close(value, expected)
    assert_close(torch.autograd.grad(value, x), torch.autograd.grad(expected, x))
    assert kernel_mean(Half(), 4) == pytest.approx(kernel_mean(kernel, 4) / 2, rel=1e-8)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Gaussian(gamma=-1.0), ValueError, r"gamma > 0 and finite, got -1.0"),
        (lambda: Laplace(gamma=math.inf), ValueError, r"gamma > 0 and finite, got inf"),
        (lambda: Gaussian(gamma="1"), TypeError, r"gamma to be a number, got str"),
        (lambda: Riesz(s=math.inf), ValueError, r"MaxMin"),
        (lambda: Riesz(s=math.nan), ValueError, r"NaN"),
        (lambda: Riesz(distance="cosine"), ValueError, r"'chordal', 'geodesic', 'shifted', got 'cosine'"),
        (lambda: kernel_mean(Gaussian(), 1), ValueError, r"d >= 2, got 1"),
    ],
)
def test_bad_parameters_are_refused_at_birth(make, error, message, at_the_door):
    with pytest.raises(error, match=message):
        make()
