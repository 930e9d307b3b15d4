"""Measures of raw rows: their definitions, published values, and what isotropic rows give."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import seeded
from unclump.measures import spectrum
from unclump.measures.codebook import UniformAssignments
from unclump.measures.pairs import alignment, uniformity


def rows(n, d, seed=0):
    """Rows of different norms, with a mean and an uneven spectrum."""
    x = torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)
    return (x / torch.arange(1, d + 1).sqrt() + 0.3) * torch.linspace(0.5, 4, n, dtype=torch.float64).unsqueeze(1)


# RankMe


def test_rankme_is_its_definition_on_rows_as_they_are():
    x = rows(40, 7)
    sigma = torch.linalg.svdvals(x)
    p = sigma / sigma.sum()
    assert uc.rankme(x) == pytest.approx(math.exp(-(p * p.log()).sum()), rel=1e-12)
    assert abs(uc.rankme(x) - uc.effective_rank(x)) > 0.01  # norms count
    assert uc.rankme(uc.project(x)) == pytest.approx(uc.effective_rank(x), rel=1e-12)


def test_rankme_is_what_a_published_implementation_gives():
    """Computed by `calc_rankme` of decalmlutils 0.0.6 (PyPI), with an epsilon of 0 and with the 1e-7 of the paper."""
    i, j = torch.arange(40, dtype=torch.float64).unsqueeze(1), torch.arange(6, dtype=torch.float64)
    x = torch.sin(1 + i * (j + 1)) / (1 + j) + 0.2
    assert uc.rankme(x) == pytest.approx(4.870862514104932, rel=1e-12)
    assert uc.rankme(x) == pytest.approx(4.870865454216883, rel=1e-6)


def test_rankme_is_the_value_in_the_tests_of_a_published_implementation():
    """`effective_rank` of evandez/low-dimensional-probing: two directions, and a third that does not count."""
    assert uc.rankme(torch.diag(torch.tensor([100, 100, 1e-6]))) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("shape", [(30, 9), (9, 30), (12, 12)])
def test_rankme_counts_equal_singular_values_whichever_side_is_longer(shape):
    left, right = (torch.linalg.qr(torch.randn(n, 4, generator=seeded(n), dtype=torch.float64)).Q for n in shape)
    assert uc.rankme(3 * left @ right.mT) == pytest.approx(4, rel=1e-9)


def test_the_epsilon_of_the_paper_adds_what_the_docstring_says():
    for sigma, more in ((torch.ones(2048), 0.0014), (torch.eye(2048)[0], 0.0033)):
        p = sigma.double() / sigma.sum() + 1e-7
        published = math.exp(-(p * p.log()).sum())
        assert published / uc.rankme(torch.diag(sigma)) - 1 == pytest.approx(more, abs=5e-5)


def test_rounding_errors_are_no_dimensions():
    """A table of rank one in single precision, and of zeros."""
    one = torch.outer(torch.linspace(1, 2, 5000), torch.linspace(-1, 1, 64))
    assert uc.rankme(one) == pytest.approx(1, abs=1e-4)
    assert uc.rankme(torch.zeros(5, 3)) == 0


# IsoScore


def published_isoscore(x):
    """The seven steps of the paper, for points in columns."""
    n = x.shape[0]
    centred = x - x.mean(axis=1, keepdims=True)
    principal = np.linalg.svd(centred, full_matrices=True)[0].T @ centred
    variances = np.diag(np.cov(principal))
    normalised = variances * np.sqrt(n) / np.linalg.norm(variances)
    defect = np.linalg.norm(normalised - np.ones(n)) / np.sqrt(2 * (n - np.sqrt(n)))
    return ((n - defect**2 * (n - np.sqrt(n))) ** 2 - n) / (n * (n - 1))


@pytest.mark.parametrize(("n", "d", "by_authors"), [(50, 3, 0.6322355), (7, 12, 0.1050434), (200, 20, 0.3333067)])
def test_isoscore_is_the_published_algorithm(n, d, by_authors):
    """And what the authors' package gives, IsoScore 2.0.1, in its single precision."""
    x = rows(n, d)
    assert uc.isoscore(x) == pytest.approx(published_isoscore(x.numpy().T), rel=1e-10)
    assert uc.isoscore(x) == pytest.approx(by_authors, abs=1e-7)


@pytest.mark.parametrize(("d", "k"), [(3, 1), (3, 2), (3, 3), (9, 4), (25, 7), (40, 1), (40, 20)])
def test_k_equal_variances_of_d_have_the_published_score(d, k):
    """A line, a disk and a ball in three dimensions: 0, 1/2 and 1, as the authors' examples have in the limit.

    The larger ones are of their testing suite: k of d dimensions are used where the score is (k - 1) / (d - 1).
    """
    x = torch.cat([torch.eye(d)[:k], -torch.eye(d)[:k]])
    assert uc.isoscore(x + 5) == pytest.approx((k - 1) / (d - 1), abs=1e-12)


def test_isoscore_of_equal_rows_is_zero_and_no_rounding_error():
    for value in (0.0, 0.1, 1 / 3):
        assert uc.isoscore(torch.full((1000, 5), value)) == 0


def test_isoscore_does_not_see_mean_scale_and_rotation(rotation):
    x = rows(60, 5)
    assert uc.isoscore(7 * x @ rotation(5) - 100) == pytest.approx(uc.isoscore(x), rel=1e-9)


# alpha-ReQ


@pytest.mark.parametrize("exponent", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("ranks", [None, (1, 30), (3, 9)])
def test_a_power_law_has_its_exponent(exponent, ranks):
    variances = torch.arange(1, 41, dtype=torch.float64) ** -exponent
    x = torch.cat([torch.eye(40), -torch.eye(40)]) * variances.sqrt()
    assert uc.alpha_req(x + 1, ranks=ranks) == pytest.approx(exponent, abs=1e-9)


def test_the_fit_is_weighted_least_squares_over_its_range():
    x = rows(300, 120)
    values = np.linalg.eigvalsh(np.cov(x.numpy().T))[::-1]
    rank = np.arange(6, 101)
    slope, _ = np.polyfit(np.log(rank), np.log(values[5:100]), 1, w=np.sqrt(1 / rank))
    assert uc.alpha_req(x) == pytest.approx(-slope, rel=1e-9)
    narrow = rows(80, 9)
    values, rank = np.linalg.eigvalsh(np.cov(narrow.numpy().T))[::-1], np.arange(1, 10)
    slope, _ = np.polyfit(np.log(rank), np.log(values), 1, w=np.sqrt(1 / rank))
    assert uc.alpha_req(narrow) == pytest.approx(-slope, rel=1e-9)


def test_a_spectrum_that_ends_before_the_range_falls_faster_than_any_power():
    x = torch.cat([torch.randn(50, 3, generator=seeded()), torch.zeros(50, 17)], dim=1)
    assert uc.alpha_req(x) == math.inf
    assert uc.alpha_req(torch.ones(9, 4)) == math.inf
    assert uc.alpha_req(x, ranks=(1, 3)) < 1


# LiDAR


def test_lidar_is_its_definition():
    x = rows(60, 5).view(12, 5, 5)
    means = x.mean(dim=1)
    between = means.mT.cov()
    within = sum(group.mT.cov() for group in x) / 12 + 1e-4 * torch.eye(5)
    values, vectors = torch.linalg.eigh(within)
    root = vectors @ torch.diag(values**-0.5) @ vectors.mT
    p = torch.linalg.eigvalsh(root @ between @ root)
    p = p / p.sum()
    assert uc.lidar(x) == pytest.approx(math.exp(-(p * p.log()).sum()), rel=1e-10)
    sets = torch.stack([x, x.flip(2) ** 2])
    assert_close(uc.lidar(sets), torch.tensor([uc.lidar(one) for one in sets], dtype=torch.float64))
    assert uc.lidar(x.numpy()) == uc.lidar(x)


def test_lidar_does_not_count_what_differs_between_views():
    """Samples differ in three dimensions, views in the others, and far more: the rank is three, RankMe is not."""
    samples = torch.randn(200, 1, 3, generator=seeded(0), dtype=torch.float64)
    views = 30 * torch.randn(200, 10, 9, generator=seeded(1), dtype=torch.float64)
    x = torch.cat([samples.expand(200, 10, 3) + 1e-3 * views[..., :3], views], dim=2)
    assert uc.lidar(x) == pytest.approx(3, abs=0.1)
    assert uc.rankme(x.flatten(0, 1)) > 8


def test_equal_means_have_no_rank_and_views_that_coincide_are_finite():
    x = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 2.0], [0.0, -2.0]]])
    assert uc.lidar(x) == 0
    assert uc.lidar(torch.eye(3).unsqueeze(1).expand(3, 4, 3)) == pytest.approx(2)


# Cosines


def test_cosines_are_means_over_pairs():
    x = rows(9, 4)
    unit = uc.project(x)
    pairs = [(i, j) for i in range(9) for j in range(i)]
    assert uc.mean_cosine(x) == pytest.approx(sum(unit[i] @ unit[j] for i, j in pairs).item() / 36, rel=1e-12)
    potential = sum(math.exp(-3 * (unit[i] - unit[j]).square().sum()) for i, j in pairs) / 36
    assert uniformity(x, t=3.0) == pytest.approx(math.log(potential), rel=1e-12)


def test_alignment_is_the_mean_over_pairs_of_views():
    x = rows(24, 3).view(6, 4, 3)
    unit = uc.project(x)
    for power in (1.0, 2.0):
        distances = [(group[i] - group[j]).norm() ** power for group in unit for i in range(4) for j in range(i)]
        assert alignment(x, power=power) == pytest.approx(sum(distances).item() / 36, rel=1e-12)
    assert alignment(x[:, :1].expand(6, 3, 3)) == 0


def test_uniformity_is_wang_and_isolas_at_any_temperature():
    x = uc.project(rows(20, 6))
    for t in (2.0, 60.0):
        assert uniformity(x, t=t) == pytest.approx(torch.pdist(x).square().mul(-t).exp().mean().log().item(), rel=1e-9)
    assert uniformity(torch.eye(4), t=60.0) == pytest.approx(-120)
    assert uniformity(torch.ones(4, 3)) == pytest.approx(0, abs=1e-12)


# Codebooks


def test_usage_and_perplexity_of_known_frequencies():
    indices = torch.tensor([0, 0, 1, 1, 5, 5, 5, 5])
    p = np.array([0.25, 0.25, 0.5])
    for found in (
        uc.codebook_perplexity(indices, codes=6),
        uc.codebook_perplexity(indices.numpy(), codes=6),
        uc.codebook_perplexity(counts=torch.tensor([2, 2, 0, 0, 0, 4])),
        uc.codebook_perplexity(counts=np.array([0.5, 0.5, 0, 0, 0, 1.0])),
    ):
        assert found == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-12)
    assert uc.codebook_usage(indices, codes=6) == uc.codebook_usage(counts=torch.tensor([2, 2, 0, 0, 0, 4])) == 0.5
    assert uc.codebook_perplexity(torch.arange(8), codes=8) == pytest.approx(8)


def test_heads_have_a_codebook_each():
    heads = torch.tensor([[0, 0, 0, 0], [0, 1, 2, 3]])
    assert uc.codebook_usage(heads, codes=4).tolist() == [0.25, 1.0]
    assert_close(uc.codebook_perplexity(heads, codes=4), torch.tensor([1.0, 4.0], dtype=torch.float64))


@pytest.mark.usefixtures("at_the_door")
def test_codes_that_make_no_sense_are_refused():
    for make, error, message in (
        (lambda: uc.codebook_usage(torch.tensor([0, 8]), codes=8), ValueError, "indices from 0 to 7, got 0 to 8"),
        (lambda: uc.codebook_usage(torch.tensor([-1, 2]), codes=8), ValueError, "got -1 to 2; .*padding"),
        (lambda: uc.codebook_usage(torch.tensor([1.0]), codes=8), TypeError, "integers, got torch.float32"),
        (lambda: uc.codebook_usage(torch.tensor([1])), TypeError, "indices with codes=.*or counts= alone"),
        (lambda: uc.codebook_usage(counts=torch.tensor([1]), codes=1), TypeError, "counts= alone"),
        (lambda: uc.codebook_perplexity(counts=torch.tensor([0, 0])), ValueError, "got none; pass some indices"),
        (lambda: uc.codebook_perplexity(counts=torch.tensor([1.0, -1.0])), ValueError, "not negative"),
        (lambda: uc.codebook_usage(torch.zeros(0, dtype=torch.long), codes=3), ValueError, "got none"),
    ):
        with pytest.raises(error, match=message):
            make()


# What isotropic rows give


@pytest.mark.parametrize(("n", "d"), [(500, 32), (64, 128), (256, 256)])
def test_isotropic_rows_have_the_values_of_the_law(n, d):
    law, found = uc.IsotropicLaw(n, d), []
    for seed in range(12):
        x = torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)
        found.append([uc.rankme(x), uc.isoscore(x), uc.alpha_req(x), uniformity(x), uc.mean_cosine(x)])
    mean = np.mean(found, axis=0)
    assert mean[0] == pytest.approx(law.rankme, rel=3e-3)
    assert mean[1] == pytest.approx(law.isoscore, rel=5e-3)
    assert mean[2] == pytest.approx(law.alpha_req(), rel=0.03)
    assert mean[3] == pytest.approx(law.uniformity(), abs=5e-3)
    deviation = math.sqrt(2 / (n * (n - 1) * d))
    assert abs(mean[4] - law.mean_cosine) < 4 * deviation / math.sqrt(12)
    assert np.std(found, axis=0)[4] == pytest.approx(deviation, rel=0.5)


def test_the_participation_ratio_has_its_exact_harmonic_mean():
    n, d = 5, 3
    x = torch.randn(20_000, n, d, generator=seeded(), dtype=torch.float64)
    ratio = 1 + (d - 1) * uc.isoscore(x)
    reciprocal, law = 1 / ratio, 1 / (1 + (d - 1) * uc.IsotropicLaw(n, d).isoscore)
    assert abs(reciprocal.mean() - law) < 4 * reciprocal.std() / math.sqrt(len(x))


@pytest.mark.parametrize(("groups", "views", "d"), [(100, 5, 32), (50, 10, 128), (400, 4, 16)])
def test_noise_has_the_lidar_of_the_law(groups, views, d):
    x = torch.randn(8, groups, views, d, generator=seeded(), dtype=torch.float64)
    assert uc.lidar(x).mean().item() == pytest.approx(uc.IsotropicLaw(groups * views, d).lidar(groups), rel=0.01)


def test_a_singular_covariance_within_groups_has_no_law():
    for n, groups in ((80, 50), (100, 70)):  # views left over, and too few of them
        with pytest.raises(ValueError, match=rf"of the {n} rows, and n - groups > d = 32, got {groups} groups"):
            uc.IsotropicLaw(n, 32).lidar(groups)


def test_independent_views_are_two_apart():
    x = torch.randn(4000, 2, 8, generator=seeded(), dtype=torch.float64)
    assert alignment(x) == pytest.approx(uc.IsotropicLaw(8000, 8).alignment, abs=0.05)


def test_random_assignments_have_the_values_of_the_law():
    n, codes = 300, 64
    law = UniformAssignments(n, codes)
    indices = torch.randint(codes, (2000, n), generator=seeded())
    assert uc.codebook_usage(indices, codes=codes).mean().item() == pytest.approx(law.usage, rel=1e-3)
    entropy = uc.codebook_perplexity(indices, codes=codes).log()
    assert abs(entropy.mean() - math.log(law.perplexity)) < 4 * entropy.std() / math.sqrt(2000)
    assert UniformAssignments(5, 1).perplexity == UniformAssignments(5, 1).usage == 1


# Large tables


def test_blocks_change_nothing(monkeypatch):
    x, sets = rows(101, 6), rows(60, 5).view(3, 4, 5, 5)
    expected = [f(y) for f in (uc.rankme, uc.isoscore, uc.alpha_req) for y in (x, sets)]
    monkeypatch.setattr(spectrum, "_BLOCK", 40)
    found = [f(y) for f in (uc.rankme, uc.isoscore, uc.alpha_req) for y in (x, sets)]
    assert_close(found, expected, rtol=1e-11, atol=1e-12)


def test_many_rows_far_from_the_origin_keep_their_spectrum():
    """Single precision would lose the variance of rows this far out: sums are in double, about the mean."""
    x = torch.randn(200_000, 4, generator=seeded()) * torch.tensor([1.0, 1.0, 0.5, 0.5])
    assert uc.isoscore(x.double() + 1e6) == pytest.approx(uc.isoscore(x), rel=1e-6)


@pytest.mark.parametrize("measure", [uc.rankme, uc.isoscore, uc.alpha_req, uc.lidar], ids=lambda f: f.__name__)
def test_rows_of_zeros_are_rows_and_nan_is_refused(measure):
    x = rows(40, 5).view(10, 4, 5) if measure is uc.lidar else rows(40, 5)
    x[3] = 0
    assert math.isfinite(measure(x))
    x[..., 3, 1] = math.nan
    with pytest.raises(ValueError, match=r"expected finite rows, got NaN in "):
        measure(x)


@pytest.mark.usefixtures("at_the_door")
def test_groups_of_views_are_expected_where_views_count():
    for measure in (uc.lidar, alignment):
        with pytest.raises(ValueError, match=r"groups of views, of shape \(\w+, views, d\), got \(8, 3\)"):
            measure(rows(8, 3))
        with pytest.raises(ValueError, match="n >= 2"):
            measure(rows(8, 3).view(8, 1, 3))
    with pytest.raises(ValueError, match="delta > 0"):
        uc.lidar(rows(8, 3).view(4, 2, 3), delta=0.0)
    with pytest.raises(ValueError, match="the last of the ranks >= 4, got 3"):
        uc.alpha_req(rows(8, 3), ranks=(3, 3))
