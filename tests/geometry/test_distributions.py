"""Distributions: densities, moments, samples and their gradients, against quadrature, SciPy and mpmath."""

import copy
import math
import pickle

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Categorical, MixtureSameFamily
from torch.testing import assert_close

from unclump import _precision, chord, project
from unclump.geometry.distributions import PowerSpherical, VonMisesFisher
from unclump.geometry.special_functions import angle_derivative, bessel_ratio_complement, log_normalised_bessel
from unclump.geometry.sphere import tangent

each_distribution = pytest.mark.parametrize("distribution", [PowerSpherical, VonMisesFisher])
each_dimension = pytest.mark.parametrize("d", [2, 3, 4096])
each_strength = pytest.mark.parametrize("strength", [0.0, 1e-3, 2.5, 100.0, 1e5])
wide = {"dtype": torch.float64}


def first_axis(d, **options):
    return torch.eye(1, d, **options)[0]


def log_angle_density(distribution, d, strength, theta):
    """Not normalised, from the textbook: f(cos(theta)) sin(theta)^(d-2)."""
    power = 2 * np.log(np.cos(theta / 2)) + math.log(2) if distribution is PowerSpherical else np.cos(theta)
    return strength * power + (d - 2) * np.log(np.sin(theta))


def panels(low, high, count=400):
    """Nodes and weights of a composite Gauss-Legendre rule, denser at the ends, where a density may have a cusp."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    s = (np.arange(count)[:, None] + (1 + nodes) / 2).ravel() * np.pi / 2 / count
    return low + (high - low) * np.sin(s) ** 2, (high - low) * np.sin(2 * s) * np.tile(
        weights, count
    ) * np.pi / 4 / count


def cdf(distribution, d, strength, theta):
    """The probability of an angle below theta."""
    peak = log_angle_density(distribution, d, strength, panels(0, np.pi)[0]).max()

    def mass(low, high):
        phi, weights = panels(low, high)
        return (weights * np.exp(log_angle_density(distribution, d, strength, phi) - peak)).sum()

    return mass(0, theta) / (mass(0, theta) + mass(theta, np.pi))


def log_surface(d):
    return math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)


def by_quadrature(distribution, d, strength):
    """The logarithm of the normaliser, the mean resultant length and the entropy."""
    theta, weights = panels(0, np.pi)
    log_density = log_angle_density(distribution, d, strength, theta)
    peak = log_density.max()
    mass = weights * np.exp(log_density - peak)
    log_normaliser = math.log(mass.sum()) + peak + log_surface(d - 1)  # the circle around loc is a sphere too
    probability = mass / mass.sum()
    power = log_density - (d - 2) * np.log(np.sin(theta))
    return log_normaliser, (probability * np.cos(theta)).sum(), log_normaliser - (probability * power).sum()


# The Bessel functions


@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 10, 31, 100.5, 511, 2047])
def test_the_bessel_function_and_its_ratio_are_mpmaths(order):
    x = [1e-8, 1e-3, 0.5, 3, 29.99, 30, 31, 100, 1e3, 1e4, 1e5, 1e9]
    values, complements = [], []
    with mpmath.workdps(60):
        for each in map(mpmath.mpf, x):
            bessel = mpmath.besseli(order, each)
            values.append(float(mpmath.log(bessel * mpmath.gamma(order + 1) * (2 / each) ** order) - each))
            complements.append(float(1 - mpmath.besseli(order + 1, each) / bessel))
    x = torch.tensor(x, **wide)
    assert_close(log_normalised_bessel(order, x), torch.tensor(values, **wide), rtol=1e-13, atol=1e-12)
    assert_close(bessel_ratio_complement(order, x), torch.tensor(complements, **wide), rtol=1e-12, atol=0)


@pytest.mark.parametrize("order", [0, 3.5, 2047])
def test_the_bessel_function_is_exact_at_zero_and_its_derivatives_pass_gradcheck(order):
    assert log_normalised_bessel(order, torch.zeros(2)).tolist() == [0, 0]
    assert bessel_ratio_complement(order, torch.zeros(2)).tolist() == [1, 1]
    x = torch.tensor([0.0, 0.3, 20.0, 40.0], requires_grad=True, **wide)
    assert torch.autograd.gradcheck(lambda x: log_normalised_bessel(order, x), x)
    assert torch.autograd.gradcheck(lambda x: bessel_ratio_complement(order, x), x)


# Densities


@each_distribution
@each_dimension
@each_strength
def test_density_mean_and_entropy_are_those_of_quadrature(distribution, d, strength):
    p = distribution(first_axis(d, **wide), strength)
    log_normaliser, length, entropy = by_quadrature(distribution, d, strength)
    peak = strength * math.log(2) if distribution is PowerSpherical else strength
    assert p.log_prob(p.loc).item() == pytest.approx(peak - log_normaliser, rel=1e-9, abs=1e-9)
    assert p.mean_resultant_length.item() == pytest.approx(length, rel=1e-9, abs=1e-12)
    assert p.entropy().item() == pytest.approx(entropy, rel=1e-9, abs=1e-8)
    assert_close(p.mean, length * p.loc)


@each_distribution
@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("strength", [0.0, 1.5, 100.0])
def test_density_integrates_to_one(distribution, d, strength, points):
    loc, other = points(2, d)
    theta, weights = map(torch.tensor, panels(0, np.pi))
    x = torch.cos(theta)[:, None] * loc + torch.sin(theta)[:, None] * project(tangent(loc, other))
    density = distribution(loc, strength).log_prob(x).exp()
    integral = (weights * density * torch.sin(theta) ** (d - 2)).sum() * math.exp(log_surface(d - 1))
    assert integral.item() == pytest.approx(1, rel=1e-10)


def test_power_spherical_density_is_the_published_one(points):
    loc, *x = points(6, 5)
    a, b, scale = 2 + 3.5, 2, 3.5
    normaliser = 2 ** (a + b) * math.pi**b * math.gamma(a) / math.gamma(a + b)
    expected = (1 + torch.stack(x) @ loc) ** scale / normaliser
    assert_close(PowerSpherical(loc, scale).log_prob(torch.stack(x)).exp(), expected)


def test_power_spherical_density_vanishes_opposite_its_mean_unless_uniform():
    loc = first_axis(3).requires_grad_()
    scale = torch.tensor([0.0, 2.0], requires_grad=True)
    log_prob = PowerSpherical(loc, scale).log_prob(-loc.detach())
    assert_close(log_prob, torch.tensor([-math.log(4 * math.pi), -math.inf]))
    log_prob[0].backward()
    assert loc.grad.isfinite().all()
    assert scale.grad.isfinite().all()


def test_von_mises_fisher_in_three_dimensions_is_the_closed_form(points):
    loc, *x = points(6, 3)
    cosine = torch.stack(x) @ loc
    expected = math.log(4 / (4 * math.pi * math.sinh(4))) + 4 * cosine
    assert_close(VonMisesFisher(loc, 4.0).log_prob(torch.stack(x)), expected)


@pytest.mark.parametrize("d", [2, 3, 20, 100])
@pytest.mark.parametrize("concentration", [0.1, 10.0, 200.0])
def test_von_mises_fisher_is_scipys(d, concentration, points):
    loc, *x = points(6, d)
    x = torch.stack(x)
    p, oracle = VonMisesFisher(loc, concentration), stats.vonmises_fisher(loc.numpy(), concentration)
    assert_close(p.log_prob(x), torch.tensor(oracle.logpdf(x.numpy())), rtol=1e-9, atol=1e-9)
    assert p.entropy().item() == pytest.approx(float(oracle.entropy()), rel=1e-9)


def test_in_two_dimensions_it_is_the_von_mises_distribution():
    angles = torch.linspace(-3, 3, 7, **wide)
    x = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
    expected = torch.tensor(stats.vonmises.logpdf(angles.numpy(), 2.5))
    assert_close(VonMisesFisher(first_axis(2, **wide), 2.5).log_prob(x), expected)


@each_distribution
def test_density_keeps_its_digits_in_float32_at_high_concentration(distribution):
    p = distribution(project(torch.ones(3)), 1e5)
    x = p.sample((100,), generator=torch.Generator().manual_seed(0))
    exact = distribution(project(p.loc.double()), 1e5).log_prob(project(x.double()))
    assert_close(p.log_prob(x).double(), exact, rtol=0, atol=1e-2)  # k times the cosine's rounding would be 0.1


@each_distribution
@pytest.mark.parametrize("strength", [0.0, 0.5, 60.0])
def test_densities_and_moments_pass_gradcheck(distribution, strength, points):
    loc, x = points(2, 4)

    def everything(loc, strength):
        p = distribution(project(loc), strength, validate_args=False)
        return p.log_prob(x), p.entropy(), p.mean

    strength = torch.tensor(strength, requires_grad=True, **wide)
    assert torch.autograd.gradcheck(everything, (loc.requires_grad_(), strength))


# Samples


@each_distribution
@pytest.mark.parametrize("d", [2, 3, 10, 4096])
@pytest.mark.parametrize("strength", [0.0, 3.0, 100.0, 1e5])
def test_angles_of_samples_have_their_distribution(distribution, d, strength, generator):
    x = distribution(first_axis(d, **wide), strength).sample((800,), generator=generator)
    angles = torch.atan2(torch.linalg.vector_norm(x[:, 1:], dim=-1), x[:, 0])
    centres, weights = panels(0, np.pi, count=2000)
    log_density = log_angle_density(distribution, d, strength, centres)
    mass = weights * np.exp(log_density - log_density.max())
    below = np.interp(angles.numpy(), centres, (np.cumsum(mass) - mass / 2) / mass.sum())
    assert stats.kstest(below, "uniform").pvalue > 1e-3


def test_power_spherical_cosines_have_the_published_mean_and_variance(generator):
    d, scale, n = 5, 3.0, 100_000
    t = PowerSpherical(first_axis(d, **wide), scale).sample((n,), generator=generator)[:, 0]
    a, b = (d - 1) / 2 + scale, (d - 1) / 2
    variance = 4 * a * b / ((a + b) ** 2 * (a + b + 1))
    assert t.mean().item() == pytest.approx((a - b) / (a + b), abs=5 * math.sqrt(variance / n))
    assert t.var().item() == pytest.approx(variance, rel=0.03)


@each_distribution
@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (-0.6, 0.0, 0.8)])
def test_second_moments_are_symmetric_about_the_mean_direction(distribution, axis, generator):
    loc, n, strength = torch.tensor(axis, **wide), 40_000, 2.0
    p = distribution(loc, strength)
    x = p.sample((n,), generator=generator)
    length = p.mean_resultant_length
    squared = {PowerSpherical: 4 * 3 * 1 / (4**2 * 5) + length**2, VonMisesFisher: 1 - 2 * length / strength}[
        distribution
    ]
    along = torch.outer(loc, loc)
    expected = squared * along + (1 - squared) / 2 * (torch.eye(3, **wide) - along)
    assert_close(x.mean(dim=0), p.mean, rtol=0, atol=5 / math.sqrt(n))
    assert_close(x.mT @ x / n, expected, rtol=0, atol=5 / math.sqrt(n))


@each_distribution
@each_dimension
@each_strength
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_are_unit_and_all_gradients_finite(distribution, d, strength, dtype, generator):
    around = project(torch.randn(1, d, generator=generator, dtype=dtype))
    axis = torch.eye(1, d, dtype=dtype)
    loc = torch.cat([axis, -axis, around]).requires_grad_()
    strength = torch.full((3,), strength, dtype=dtype, requires_grad=True)
    p = distribution(loc, strength)
    x = p.rsample((20,), generator=generator)
    assert x.dtype == dtype
    assert_close(torch.linalg.vector_norm(x, dim=-1), torch.ones(20, 3, dtype=dtype))
    results = (x * torch.randn(d, generator=generator, dtype=dtype), p.log_prob(x.detach()), p.entropy(), p.mean)
    for result in results:
        assert result.isfinite().all()
        for gradient in torch.autograd.grad(result.sum(), (loc, strength), retain_graph=True, allow_unused=True):
            assert gradient is None or gradient.isfinite().all()


@each_distribution
@pytest.mark.parametrize("d", [2, 3, 50])
def test_high_concentration_in_float32_has_the_right_spread(distribution, d, generator):
    exact = distribution(first_axis(d, **wide), 1e5).mean_resultant_length.item()
    loc = project(torch.ones(d))
    x = distribution(loc, 1e5).sample((20_000,), generator=generator)
    assert (chord(x, loc) ** 2 / 2).mean().item() == pytest.approx(1 - exact, rel=0.05)


@each_distribution
def test_half_precision_is_computed_in_float32(distribution, generator):
    p = distribution(first_axis(4, dtype=torch.bfloat16), 10.0)
    assert p.sample(generator=generator).dtype == p.entropy().dtype == torch.float32


# Gradients of samples


@pytest.mark.parametrize("d", [2, 3, 10, 500])
@pytest.mark.parametrize("concentration", [0.01, 3.0, 700.0])
def test_angles_follow_their_quantiles(d, concentration, generator):
    p = VonMisesFisher(first_axis(d, **wide), concentration)
    x = p.sample((5,), generator=generator)
    angles = torch.atan2(torch.linalg.vector_norm(x[:, 1:], dim=-1), x[:, 0])
    slopes = angle_derivative(angles, torch.full_like(angles, concentration), d)
    step = 1e-4 * concentration
    for theta, slope in zip(angles.tolist(), slopes.tolist(), strict=True):
        above, below = (cdf(VonMisesFisher, d, concentration + h, theta) for h in (step, -step))
        h = 1e-4 * theta
        density = (
            cdf(VonMisesFisher, d, concentration, theta + h) - cdf(VonMisesFisher, d, concentration, theta - h)
        ) / (2 * h)
        assert slope == pytest.approx(-(above - below) / (2 * step) / density, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("concentration", [1e-3, 1.0, 100.0, 1e5])
def test_in_three_dimensions_the_slope_of_angles_is_the_closed_form(concentration):
    k = torch.tensor(concentration, requires_grad=True, **wide)
    quantile = torch.linspace(0.001, 0.999, 9, **wide)
    gap = -torch.log1p(quantile * torch.expm1(-2 * k)) / k  # 1 - cos(theta)
    angle = 2 * torch.asin(torch.sqrt(gap / 2))
    expected = torch.stack([torch.autograd.grad(each, k, retain_graph=True)[0] for each in angle])
    found = angle_derivative(angle.detach(), torch.full((9,), concentration, **wide), 3)
    assert_close(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("d", [2, 3, 50, 4096])
def test_at_zero_concentration_the_slope_is_minus_the_sine_over_the_dimension(d):
    reach = min(1.57, 8 / math.sqrt(d))  # far into both tails
    angle = math.pi / 2 + torch.linspace(-reach, reach, 9, **wide)
    assert_close(angle_derivative(angle, torch.zeros_like(angle), d), -torch.sin(angle) / (d - 1), rtol=1e-9, atol=0)


@each_distribution
@pytest.mark.parametrize(("d", "value"), [(2, 0.0), (2, 4.0), (3, 20.0), (30, 10.0)])
def test_gradient_of_the_mean_cosine_by_the_strength(distribution, d, value, generator):
    strength = torch.tensor(value, requires_grad=True, **wide)
    p = distribution(first_axis(d, **wide), strength)
    (sampled,) = torch.autograd.grad(p.rsample((20_000,), generator=generator)[:, 0].mean(), strength)
    (exact,) = torch.autograd.grad(p.mean_resultant_length, strength)
    assert_close(sampled, exact, rtol=0.05, atol=0)


@each_distribution
@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, -0.6, 0.8)])
def test_gradient_of_the_mean_by_its_direction(distribution, axis, generator):
    loc = torch.tensor(axis, requires_grad=True, **wide)
    weights = torch.tensor([1.0, 2.0, -1.0], **wide)
    p = distribution(project(loc), 30.0)
    (sampled,) = torch.autograd.grad((p.rsample((20_000,), generator=generator) @ weights).mean(), loc)
    expected = p.mean_resultant_length * tangent(loc.detach(), weights)
    assert_close(sampled, expected, rtol=0, atol=0.02)


def test_second_derivatives_of_samples_are_refused_not_wrong(generator):
    concentration = torch.tensor(3.0, requires_grad=True)
    x = VonMisesFisher(first_axis(3), concentration).rsample(generator=generator)
    (slope,) = torch.autograd.grad(x[0], concentration, create_graph=True)
    with pytest.raises(RuntimeError, match="expected a first derivative"):
        slope.backward()


# As torch distributions


@each_distribution
def test_the_generator_decides_and_the_global_state_stays(distribution):
    p = distribution(project(torch.ones(3)), torch.tensor([0.5, 50.0]))
    before = torch.get_rng_state()
    first, again, other = (p.sample((4,), generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@each_distribution
def test_batches_broadcast_and_expand(distribution, points):
    loc, strength = points(4, 3), torch.tensor([[0.5], [50.0]], **wide)
    p = distribution(loc, strength)
    assert (p.batch_shape, p.event_shape) == ((2, 4), (3,))
    assert p.rsample((5,)).shape == (5, 2, 4, 3)
    assert p.mean.shape == (2, 4, 3)
    assert p.entropy().shape == (2, 4)
    x = points(6, 3)
    log_prob = p.log_prob(x[:, None, None])
    assert log_prob.shape == (6, 2, 4)
    assert_close(log_prob[5, 1, 2], distribution(loc[2], 50.0).log_prob(x[5]))
    expanded = distribution(loc[0], 50.0).expand((7, 2))
    assert isinstance(expanded, distribution)
    assert expanded.sample((5,)).shape == (5, 7, 2, 3)
    assert_close(expanded.entropy()[3, 1], p.entropy()[1, 0])


@each_distribution
def test_mixtures_of_them_work(distribution, points):
    weights, loc = torch.tensor([0.3, 0.7], **wide), points(2, 3)
    components = distribution(loc, torch.tensor([5.0, 9.0], **wide))
    mixture = MixtureSameFamily(Categorical(weights), components)
    x = mixture.sample((8,))
    assert_close(mixture.log_prob(x).exp(), components.log_prob(x[:, None]).exp() @ weights)


@each_distribution
def test_pickles_copies_and_prints(distribution, points):
    p = distribution(points(2, 3), 2.0)
    for twin in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        assert torch.equal(*(q.sample(generator=torch.Generator().manual_seed(3)) for q in (p, twin)))
    assert repr(p).startswith(f"{distribution.__name__}(loc: torch.Size([2, 3])")


@pytest.mark.usefixtures("at_the_door")
@each_distribution
@pytest.mark.parametrize(
    ("loc", "strength", "error", "message"),
    [
        ([1.0, 0.0], 1.0, TypeError, "loc as a torch.Tensor, got list"),
        (torch.tensor([1, 0]), 1.0, TypeError, "floating-point loc, got torch.int64"),
        (torch.ones(1), 1.0, ValueError, r"d >= 2, got \(1,\)"),
        (torch.tensor(1.0), 1.0, ValueError, r"d >= 2, got \(\)"),
        (torch.ones(2), 1.0, ValueError, "loc of norm 1, got a norm of 1.41421; normalise with unclump.project"),
        (torch.tensor([math.nan, 0.0]), 1.0, ValueError, "loc of norm 1, got a norm of nan"),
        (torch.eye(3), -2.0, ValueError, ">= 0 and finite, got -2.0"),
        (torch.eye(3), torch.tensor([1.0, math.inf, 0.0]), ValueError, ">= 0 and finite, got inf"),
        (torch.eye(3), math.nan, ValueError, ">= 0 and finite, got nan"),
        (torch.eye(3), torch.ones(2), ValueError, r"each of the mean directions \(3,\), got shape \(2,\)"),
        (torch.eye(3), "strong", TypeError, "a number or a torch.Tensor, got str"),
    ],
)
def test_wrong_parameters_are_refused(distribution, loc, strength, error, message):
    with pytest.raises(error, match=message):
        distribution(loc, strength)


@pytest.mark.usefixtures("at_the_door")
@each_distribution
def test_wrong_points_and_generators_are_refused(distribution):
    p = distribution(first_axis(3), 1.0)
    with pytest.raises(ValueError, match=r"points in 3 dimensions, like loc, got \(5, 2\)"):
        p.log_prob(torch.ones(5, 2))
    with pytest.raises(ValueError, match="points of norm 1, got a norm of 2"):
        p.log_prob(torch.tensor([0.0, 2.0, 0.0]))
    with pytest.raises(TypeError, match=r"points as a torch.Tensor, got list"):
        p.log_prob([0.0, 1.0, 0.0])
    with pytest.raises(TypeError, match=r"torch.Generator, got int"):
        p.sample(generator=0)


@each_distribution
def test_values_are_not_read_where_validation_is_off(distribution):
    p = distribution(torch.ones(3), 1.0, validate_args=False)
    assert p.log_prob(torch.ones(3)).isfinite()


@each_distribution
def test_devices_without_double_precision_do_with_single(distribution, monkeypatch):
    def results(concentration):
        p = distribution(first_axis(5), concentration)
        sample = p.rsample((3,), generator=torch.Generator().manual_seed(0))
        return p.log_prob(first_axis(5).flip(-1)), p.entropy(), p.mean, sample

    expected = results(7.0)
    monkeypatch.setattr(_precision, "widest", lambda device: torch.float32)
    monkeypatch.setattr(torch.Tensor, "double", None)
    assert_close(results(7.0)[:3], expected[:3], rtol=1e-4, atol=1e-5)
