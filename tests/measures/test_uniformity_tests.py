"""Tests of uniformity: their definitions, their laws under uniformity, and what each can and cannot see."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch.testing import assert_close

from unclump import Gaussian, Laplace, Riesz, kernel_mean, project
from unclump import angle as angle_between
from unclump.geometry.sphere import angle_of
from unclump.measures.mmd_error import mmd_deviation, mmd_variance
from unclump.measures.null_laws import ChiSquareSum, zonal_null
from unclump.measures.rows import sums_over_others
from unclump.measures.uniformity_tests import (
    _ajne_kernel,
    _minus_sine,
    ajne_test,
    bingham_test,
    gine_test,
    mmd_test,
    rayleigh_test,
)


def gaussian_test(x, **choices):
    return mmd_test(x, Gaussian(gamma=2.0), **choices)


def laplace_test(x, **choices):
    return mmd_test(x, Laplace(), **choices)


TESTS = [rayleigh_test, bingham_test, ajne_test, gine_test, gaussian_test, laplace_test]
each_test = pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)


def on_circle(angles):
    return torch.stack([torch.cos(angles), torch.sin(angles)], dim=1)


def plain_sum(x, function):
    """The sum of a function of the angle over unordered pairs, one by one."""
    return sum(function(angle_between(a, b).item()) for a, b in itertools.combinations(x, 2))


# The statistics are what they are said to be


@pytest.mark.parametrize("d", [2, 3, 7, 30])
def test_statistics_are_their_definitions(d, points):
    x, n = points(11, d), 11
    mean, scatter = sum(x) / n, sum(torch.outer(row, row) for row in x) / n
    ratio = math.gamma((d - 1) / 2) / math.gamma(d / 2)
    kernel_total = 2 * plain_sum(x, lambda theta: math.exp(-theta))
    for test, expected in (
        (rayleigh_test, n * d * (mean @ mean).item()),
        (bingham_test, n * d * (d + 2) / 2 * (torch.trace(scatter @ scatter).item() - 1 / d)),
        (ajne_test, n / 4 - plain_sum(x, lambda theta: theta) / (math.pi * n)),
        (gine_test, n / 2 - (d - 1) / (2 * n) * ratio**2 * plain_sum(x, math.sin)),
        (laplace_test, kernel_total / (n - 1) - n * kernel_mean(Laplace(), d)),
    ):
        assert test(x).statistic == pytest.approx(expected, rel=1e-12, abs=1e-12), test


def test_ajne_is_the_mean_square_excess_over_half_circles():
    angles = torch.tensor([0.1, 0.5, 0.6, 2.0, 3.3, 5.9], dtype=torch.float64)
    centers = torch.linspace(0, 2 * math.pi, 100_001, dtype=torch.float64)[:-1]
    counts = (torch.cos(centers.unsqueeze(1) - angles) > 0).sum(dim=1)
    expected = (counts - 3).square().double().mean() / 6
    assert ajne_test(on_circle(angles)).statistic == pytest.approx(expected.item(), rel=1e-3)


@each_test
def test_rotating_relabelling_and_stretching_change_nothing(test, points, rotation):
    x = points(40, 5)
    stretched = x * torch.logspace(-20, 20, 40, dtype=torch.float64).unsqueeze(1)
    for y in (x.flip(0), x @ rotation(5), stretched):
        assert test(y).statistic == pytest.approx(test(x).statistic, rel=1e-9, abs=1e-9)
        assert test(y).pvalue == pytest.approx(test(x).pvalue, rel=1e-9)


def test_blocks_change_nothing_not_even_at_duplicates(points):
    x = torch.cat([points(30, 4), points(7, 4)])
    x[33] = x[2]
    x[20] = project(x[5] + 1e-9 * torch.eye(4, dtype=torch.float64)[0])
    chords = (x.unsqueeze(1) - x).square().sum(dim=-1)
    for kernel in (Laplace(), Riesz(s=1.0), angle_of):
        dense = kernel(chords).fill_diagonal_(0).sum(dim=1)
        for block in (1, 8, 36, 37, 512):
            assert_close(sums_over_others(x, kernel, block=block)[0], dense, rtol=1e-10, atol=1e-12)


# Sums of weighted chi-squares


@pytest.mark.parametrize("freedom", [2.0, 3.0, 17.0, 1e3, 1e7])
def test_one_chi_square_has_its_own_tail(freedom):
    law = ChiSquareSum(np.array([0.3]), np.array([freedom]), 0.0)
    deviation = math.sqrt(2 * freedom)
    for z in (-1.2, -0.5, -1e-3, 0.0, 0.1, 1.0, 4.0, 30.0):
        if (value := freedom + z * deviation) > 0:
            expected = stats.chi2.sf(value, freedom)
            assert law.survival(0.3 * z * deviation) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("x", [-30.0, -3.0, -0.2, 0.0, 0.2, 3.0, 30.0])
def test_sums_and_differences_have_their_closed_forms(x):
    equal = ChiSquareSum(np.array([0.5, 0.5]), np.array([4.0, 5.0]), 0.0)
    assert equal.survival(x) == pytest.approx(stats.chi2.sf(2 * x + 9, 9), rel=1e-9)
    negative = ChiSquareSum(np.array([-0.5]), np.array([3.0]), 0.0)
    assert negative.survival(x) == pytest.approx(stats.chi2.cdf(3 - 2 * x, 3), rel=1e-9, abs=1e-15)
    difference = ChiSquareSum(np.array([0.5, -0.5]), np.array([2.0, 2.0]), 0.0)
    assert difference.survival(x) == pytest.approx(stats.laplace.sf(x), rel=1e-9)
    normal = ChiSquareSum(np.array([]), np.array([]), 0.5)
    assert normal.survival(x) == pytest.approx(stats.norm.sf(x), rel=1e-9)
    scaled = ChiSquareSum(np.array([1.0]), np.array([2.0]), 0.0, scale=7.0)
    assert scaled.survival(7 * x) == pytest.approx(stats.chi2.sf(x + 2, 2), rel=1e-9)


@pytest.mark.parametrize("value", [math.inf, 1e300, -1e300, -math.inf])
def test_far_out_nothing_or_all_is_left(value):
    law = ChiSquareSum(np.array([0.5, -0.01]), np.array([2.0, 50.0]), 0.1)
    assert law.survival(value) == (value < 0)


@pytest.mark.parametrize(
    ("weights", "dof", "remainder"),
    [([1.0, 0.3, 0.1], [2, 4, 6], 0.0), ([0.5, -0.01], [2, 2000], 0.0), ([0.4, -0.7, 0.2], [3, 5, 7], 0.5)],
)
def test_weighted_sums_agree_with_a_sample(weights, dof, remainder):
    random = np.random.default_rng(0)
    sample = random.normal(size=200_000) * math.sqrt(2 * remainder)
    for weight, freedom in zip(weights, dof, strict=True):
        sample += weight * (random.chisquare(freedom, size=sample.size) - freedom)
    law = ChiSquareSum(np.array(weights), np.array(dof, dtype=float), remainder)
    for x in np.quantile(sample, [0.01, 0.2, 0.5, 0.8, 0.99]):
        share = (sample > x).mean()
        assert law.survival(x) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / sample.size))


# Limit laws of zonal statistics


@pytest.mark.parametrize("d", [2, 3, 8, 64])
@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_gaussian_eigenvalues_are_bessel_functions(d, gamma):
    law = zonal_null(Gaussian(gamma=gamma), d)
    k = np.arange(1, min(4, len(law.weights)) + 1)
    expected = math.gamma(d / 2) * (2 / gamma) ** (d / 2 - 1) * special.iv(k + d / 2 - 1, gamma)
    np.testing.assert_allclose(law.scale * law.weights[: len(k)], expected, rtol=1e-9)
    np.testing.assert_array_equal(law.dof[:2], [d, (d - 1) * (d + 2) / 2])


def test_eigenvalues_on_the_circle_are_fourier_coefficients():
    ajne, gine, laplace = (zonal_null(function, 2) for function in (_ajne_kernel, _minus_sine, Laplace(gamma=0.7)))
    k = np.arange(1, 26)
    odd, even = 2 * k - 1, 2 * k  # the other coefficients vanish
    np.testing.assert_allclose(ajne.scale * ajne.weights[:25], 2 / (math.pi * odd) ** 2, atol=1e-14)
    np.testing.assert_allclose(math.pi / 2 * gine.scale * gine.weights[:25], 1 / (even**2 - 1), atol=1e-14)
    expected = 0.7 * (1 - (-1.0) ** k * math.exp(-0.7 * math.pi)) / math.pi / (0.49 + k**2)
    np.testing.assert_allclose(laplace.scale * laplace.weights[:25], expected, atol=1e-14)


@pytest.mark.parametrize("s", [-1.0, 0.0, 0.5, 0.9])
def test_riesz_eigenvalues_on_the_sphere_have_their_closed_form(s):
    law = zonal_null(Riesz(s=s), 3)  # r^-s = 2^(-s/2) (1 - t)^(-s/2), integrated against Legendre polynomials
    k = np.arange(1, 11)
    if s == 0:
        expected = 1 / (2 * k * (k + 1))
    else:
        expected = math.copysign(2.0**-s, s) * special.poch(s / 2, k) / special.poch(1 - s / 2, k + 1)
    np.testing.assert_allclose(law.scale * law.weights[:10], expected, rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3, 8, 64, 512])
@pytest.mark.parametrize("kernel", [Gaussian(gamma=20.0), Laplace(), Riesz(s=0.4), Riesz(s=-3.0)], ids=repr)
def test_the_variance_is_complete(d, kernel):
    if isinstance(kernel, Riesz):
        mean_square = abs(kernel_mean(Riesz(s=2 * kernel.s), d))
    else:
        mean_square = kernel_mean(type(kernel)(gamma=2 * kernel.gamma), d)
    law = zonal_null(kernel, d)
    found = law.scale**2 * (law.weights**2 @ law.dof + law.remainder)
    assert found == pytest.approx(mean_square - kernel_mean(kernel, d) ** 2, rel=1e-7)


def test_in_many_dimensions_the_law_is_nearly_normal():
    law = zonal_null(Laplace(), 4096)
    deviation = law.scale * math.sqrt(2 * (law.weights**2 @ law.dof + law.remainder))
    for z in (-2.0, 0.0, 1.0, 3.0):
        assert law.survival(z * deviation) == pytest.approx(stats.norm.sf(z), abs=0.005)


def test_a_kernel_whose_square_overflows_has_its_law_too(points):
    assert 0.01 < mmd_test(points(50, 3), Gaussian(gamma=600.0)).pvalue < 0.99


@pytest.mark.parametrize("a", [0.05, 0.2, 0.516, 0.656, 0.982, 3.0])
def test_ajne_on_the_circle_has_the_published_law(a):
    m = np.arange(1, 200)  # Watson 1967; Mardia and Jupp, 6.3.5
    published = 4 / math.pi * np.sum((-1.0) ** (m - 1) / (2 * m - 1) * np.exp(-((2 * m - 1) ** 2) * math.pi**2 * a / 2))
    assert zonal_null(_ajne_kernel, 2).survival(2 * a - 1 / 2) == pytest.approx(published, rel=1e-7)


@pytest.mark.parametrize(("level", "published"), [(0.1, 2.355), (0.05, 2.748), (0.01, 3.633)])
def test_ajne_and_gine_together_have_the_published_quantiles(level, published):
    def four_ajne_plus_gine(r2):
        return 4 * _ajne_kernel(r2) + 1 + 4 / math.pi * _minus_sine(r2)

    law = zonal_null(four_ajne_plus_gine, 3)  # Keilson et al. 1983, for F = 4 A + G on the sphere
    assert law.survival(2 * published - 3) == pytest.approx(level, abs=1e-4)


# p-values


@each_test
@pytest.mark.parametrize("d", [3, *(pytest.param(d, marks=pytest.mark.deep) for d in (2, 10))])
def test_pvalues_of_uniform_points_are_uniform(test, d, points):
    pvalues = [test(points(40, d)).pvalue for _ in range(200)]
    assert stats.kstest(pvalues, "uniform").pvalue > 0.005


@pytest.mark.parametrize("test", [bingham_test, laplace_test])
def test_simulated_pvalues_of_uniform_points_are_uniform(test, points, generator):
    pvalues = [test(points(5, 3), simulations=9, generator=generator).pvalue for _ in range(200)]
    counts = np.bincount(np.rint(np.array(pvalues) * 10).astype(int), minlength=11)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 0.005


@each_test
def test_limit_and_simulation_agree(test, points, generator):
    x = points(60, 20)
    limit, simulated = test(x).pvalue, test(x, simulations=399, generator=generator).pvalue
    assert limit == pytest.approx(simulated, abs=0.02 + 3 * math.sqrt(limit * (1 - limit) / 399))


@each_test
def test_clumps_are_found_and_even_spread_is_not(test, points):
    clump = project(points(50, 4) * 0.3 + torch.eye(4, dtype=torch.float64)[0])
    assert test(clump).pvalue < 1e-6
    cell = [row for row in itertools.product((-1.0, 0.0, 1.0), repeat=4) if sum(map(abs, row)) == 2]
    assert test(torch.tensor(cell)).pvalue > 0.95  # the 24-cell, which kisses best


def test_each_test_sees_what_it_should(points):
    axis = project(points(60, 3) * 0.3 + torch.eye(3, dtype=torch.float64)[0])
    antipodal = torch.cat([axis, -axis])
    for blind in (rayleigh_test, ajne_test):
        assert blind(antipodal).pvalue > 0.5
    for sees in (bingham_test, gine_test, gaussian_test, laplace_test):
        assert sees(antipodal).pvalue < 1e-6


def test_bingham_is_blind_to_fourth_moments_and_gine_is_not():
    square = on_circle(torch.arange(80) * math.pi / 2 + 0.01 * torch.linspace(-1, 1, 80))
    assert bingham_test(square).pvalue > 0.9
    assert gine_test(square).pvalue < 1e-6


def test_ajne_sees_a_third_harmonic_and_rayleigh_does_not():
    triangle = on_circle(torch.arange(90) * 2 * math.pi / 3 + 0.01 * torch.linspace(-1, 1, 90))
    assert rayleigh_test(triangle).pvalue > 0.9
    assert ajne_test(triangle).pvalue < 1e-3


def test_rayleigh_has_its_second_order_correction(points):
    n, d = 10, 3
    s = rayleigh_test(points(n, d))
    corrected = (1 - 1 / 20) * s.statistic + s.statistic**2 / 100
    assert s.pvalue == pytest.approx(stats.chi2.sf(corrected, 3), rel=1e-12)


def test_a_duplicate_is_infinitely_far_from_uniform_for_a_singular_kernel(points):
    x = points(20, 4)
    x[7] = x[3]
    assert mmd_test(x, Riesz(s=1.0)) == (math.inf, 0.0)
    assert mmd_test(x, Riesz(s=1.0), simulations=9) == (math.inf, 0.1)


def test_single_precision_and_half_are_computed_in_double(points):
    x = points(30, 6)
    for dtype in (torch.float32, torch.bfloat16):
        narrow = x.to(dtype)
        assert gine_test(narrow) == gine_test(narrow.double())
        assert rayleigh_test(narrow) == rayleigh_test(narrow.double())


def test_the_generator_decides(points):
    x = points(8, 3)
    first, again, other = (
        rayleigh_test(x, simulations=999, generator=torch.Generator().manual_seed(seed)).pvalue for seed in (1, 1, 2)
    )
    assert first == again != other


def test_results_unpack_and_print(points):
    statistic, pvalue = result = rayleigh_test(points(9, 3))
    assert str(result) == f"statistic {statistic:.5g}, p-value {pvalue:.3g}"
    assert repr(result).startswith("UniformityTest(statistic=")


# The variance of the MMD, and its bound


def test_variance_is_unbiased_term_by_term(points):
    x, n, kernel = points(6, 3), 6, Riesz(s=1.0)
    k = kernel((x.unsqueeze(1) - x).square().sum(dim=-1))
    shared = np.mean([float(k[a, b] * k[a, c]) for a, b, c in itertools.permutations(range(n), 3)])
    disjoint = np.mean([float(k[a, b] * k[c, e]) for a, b, c, e in itertools.permutations(range(n), 4)])
    square = np.mean([float(k[a, b] ** 2) for a, b in itertools.permutations(range(n), 2)])
    expected = (4 * (n - 2) * (shared - disjoint) + 2 * (square - disjoint)) / (n * (n - 1))
    assert mmd_variance(x, kernel) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("lean", [0.0, 1.0])
def test_variance_is_that_of_repeated_samples(lean, generator):
    n, kernel = 20, Gaussian(gamma=1.0)
    direction = lean * torch.eye(3, dtype=torch.float64)[0]
    samples = project(torch.randn(20_000, n, 3, generator=generator, dtype=torch.float64) + direction)
    kernels = kernel(2 - 2 * samples @ samples.mT)
    off_diagonal = kernels.sum(dim=(1, 2)) - n * math.e
    variance = (off_diagonal / (n * (n - 1))).var().item()
    estimates = [mmd_variance(x, kernel) for x in samples[:400]]
    assert np.mean(estimates) == pytest.approx(variance, abs=4 * np.std(estimates) / 20)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=1.0), Laplace(), Riesz(s=-1.0)], ids=repr)
def test_the_deviation_bound_holds_in_the_worst_case(kernel, generator):
    """Two antipodal places, each with probability one half, make the range of the kernel the range of the sample."""
    n, trials = 3, 20_000
    signs = torch.randint(0, 2, (trials, n), generator=generator)
    near, far = kernel(torch.tensor([0.0, 4.0], dtype=torch.float64)).tolist()
    pairs = torch.stack([signs[:, a] == signs[:, b] for a, b in itertools.combinations(range(n), 2)]).double()
    excess = (pairs * near + (1 - pairs) * far).mean(dim=0) - (near + far) / 2
    for probability in (0.5, 0.2, 0.05):
        assert (excess > mmd_deviation(n, kernel, probability)).double().mean() <= probability
    assert mmd_deviation(n, kernel, math.exp(-2)) == pytest.approx(near - far)


def test_the_deviation_bound_is_hoeffdings():
    t = mmd_deviation(11, Laplace(gamma=0.5), 0.01)
    span = 1 - math.exp(-math.pi / 2)
    assert math.exp(-2 * 5 * t**2 / span**2) == pytest.approx(0.01)


# Refusals


@each_test
def test_rows_without_direction_are_refused_by_number(test, points):
    x = points(5, 3)
    x[3] = 0
    with pytest.raises(ValueError, match=r"zeros in 1 row \(3\)"):
        test(x)
    x[3, 1] = math.nan
    with pytest.raises(ValueError, match=r"NaN in 1 row \(3\)"):
        test(x)
    with pytest.raises(ValueError, match=r"n >= 2 .* got \(1, 3\)"):
        test(points(1, 3))


def test_kernels_without_moments_are_refused(points):
    x = points(20, 3)
    with pytest.raises(ValueError, match=r"finite mean over the sphere in 3 dimensions, got Riesz\(s=2.0"):
        mmd_test(x, Riesz(s=2.0), simulations=9)
    with pytest.raises(ValueError, match=r"use s < 1.0, or .* simulations=999"):
        mmd_test(x, Riesz(s=1.0))
    with pytest.raises(ValueError, match="finite mean square"):
        mmd_test(x, Riesz(s=1.5, distance="geodesic"))
    assert mmd_test(x, Riesz(s=1.0), simulations=9).pvalue >= 0.1
    assert mmd_test(x, Riesz(s=5.0, distance="shifted")).pvalue > 0


def test_other_nonsense_is_refused(points):
    x = points(6, 3)
    with pytest.raises(ValueError, match="simulations >= 1, got 0"):
        ajne_test(x, simulations=0)
    with pytest.raises(ValueError, match=r"n >= 4 .* got \(3, 3\)"):
        mmd_variance(x[:3], Laplace())
    with pytest.raises(ValueError, match="drop the duplicates"):
        mmd_variance(x[[0, 1, 2, 3, 3]], Riesz(s=1.0))
    with pytest.raises(ValueError, match="bounded kernel, got Riesz"):
        mmd_deviation(10, Riesz(s=0.0), 0.1)
    with pytest.raises(ValueError, match=r"0 < probability < 1, got 1\.5"):
        mmd_deviation(10, Laplace(), 1.5)
