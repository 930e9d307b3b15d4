"""Where the paper is wrong, one test each: what is right holds, and what is printed does not.

"Keep your distance: learning dispersed embeddings on S_m", TMLR 2025. Numbers are those of docs/theory.md.
"""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.geometry.circles import circle_angles, unevenness
from unclump.geometry.sphere import exp, log, tangent


@pytest.fixture
def cosines(points):
    x = points(8, 3)
    return (x @ x.mT)[torch.ones(8, 8, dtype=torch.bool).triu(1)]


def test_1_the_squared_chord_is_two_minus_two_cosines(points):
    x, y = points(1, 5)[0], points(1, 5)[0]
    assert_close(uc.chord(x, y) ** 2, 2 - 2 * x @ y)
    coinciding = torch.zeros(1)
    assert uc.Riesz(1.0, "shifted")(coinciding).item() == 1  # as printed: bounded
    assert uc.Riesz(1.0, "chordal")(coinciding).item() == math.inf
    assert_close(uc.Laplace(2.0, "shifted")(2 - 2 * x @ y), torch.exp(-2 * torch.sqrt(2 - x @ y)))


def test_2_the_gamma_of_the_table_is_twice_that_of_the_text(cosines):
    r2 = 2 - 2 * cosines
    of_table, of_text = uc.Gaussian(3.0)(r2), torch.exp(-1.5 * r2)
    assert_close(of_table, math.exp(3.0) * of_text)


def test_3_uniformity_and_energy(points):
    x, kernel, n = points(7, 4), uc.Gaussian(2.0), 7
    self_terms = n * math.exp(2.0)
    value, energy = uc.uniformity(x, kernel=kernel, diagonal=True).exp(), uc.energy(x, kernel)
    assert_close(value, (n - 1) / n * energy + self_terms / n**2)
    assert abs(value - (1 + 1 / n**2) * (energy + self_terms)) > 1  # as printed


@pytest.mark.parametrize("distance", ["chordal", "geodesic"])
def test_4_bounds_between_max_min_koleo_and_the_smallest_distance(distance, points):
    x = points(20, 3)
    smallest = uc.min_angle(x) if distance == "geodesic" else 2 * math.sin(uc.min_angle(x) / 2)
    max_min, koleo = uc.max_min(x, distance=distance), uc.koleo(x, distance=distance)
    assert max_min < -torch.exp(-koleo) < -smallest  # the paper has -smallest <= max_min
    assert -torch.exp(-koleo) <= koleo - 1


def test_5_the_gradient_of_the_spherical_variance_is_along_the_mean(points):
    x = points(6, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(-uc.negative_spherical_variance(x), x)
    mean = x.detach().mean(dim=0)
    assert_close(gradient, tangent(x.detach(), (-mean / (6 * mean.norm())).expand(6, 3)))
    assert gradient.norm() > 0.1  # the paper: zero for any configuration


def wasserstein_to_uniform(u):
    """W2^2 between the places u in [0, 1) on a circle of length one and the uniform distribution, by integration.

    The sorted places are carried onto equal arcs; the least cost over all rotations of these arcs is the variance of
    the displacement.
    """
    levels = (torch.arange(10_000 * len(u), dtype=torch.float64) + 0.5) / (10_000 * len(u))
    displacement = u.sort().values.repeat_interleave(10_000) - levels
    return displacement.var(correction=0)


def test_6_closed_form_of_the_wasserstein_distance_on_a_circle(points):
    n = 9
    theta = circle_angles(points(n, 2), torch.tensor([[0, 1]]))[0].sort().values
    u, i = (theta + math.pi) / (2 * math.pi), torch.arange(1, n + 1)
    expected = wasserstein_to_uniform(u)
    in_turns = (u**2).mean() - u.mean() ** 2 + ((n + 1 - 2 * i) * u).sum() / n**2 + 1 / 12
    in_radians = (theta**2).mean() - theta.mean() ** 2 + 2 * math.pi * ((n + 1 - 2 * i) * theta).sum() / n**2
    printed = (theta**2).mean() - theta.mean() ** 2 + ((n - 1 + 2 * i) * theta).sum() / n**2 + 1 / 12
    assert_close(in_turns, expected, rtol=1e-6, atol=1e-9)
    assert_close(in_radians + math.pi**2 / 3, (2 * math.pi) ** 2 * expected, rtol=1e-6, atol=1e-9)
    assert abs(printed - expected) > 0.1
    x = torch.stack([theta.cos(), theta.sin()], dim=-1)
    assert_close(uc.ssw(x, torch.tensor([[0, 1]])), in_turns)


def test_7_a_step_against_the_gradient_goes_down(points):
    x = points(8, 3).requires_grad_()
    value = uc.energy(x, uc.Riesz(1.0))
    gradient = tangent(x, *torch.autograd.grad(value, x)).detach()
    down, up = (uc.energy(exp(x.detach(), sign * 1e-3 * gradient), uc.Riesz(1.0)) for sign in (-1, 1))
    assert down < value < up  # the paper steps along +gradient


def test_8_the_gradient_of_lloyd_points_away_from_the_samples(points):
    x, sample = points(1, 3).requires_grad_(), points(1, 3)
    (gradient,) = torch.autograd.grad(uc.lloyd(x, sample), x)
    assert_close(tangent(x, gradient), -log(x, sample))  # the paper lacks the sign


def test_9_the_energy_sums_over_all_points_the_last_among_them(points):
    x = points(5, 3)
    moved = torch.cat([x[:-1], -x[-1:]])
    assert abs(uc.energy(x, uc.Riesz(1.0)) - uc.energy(moved, uc.Riesz(1.0))) > 1e-3


def test_10_the_arc_cosine_falls_so_the_best_points_minimise_the_largest_cosine(cosines, points):
    x = points(30, 3)
    largest = (x @ x.mT).fill_diagonal_(-1).max()
    assert_close(uc.min_angle(x), math.acos(largest), rtol=1e-9, atol=0)
    assert math.acos(0.5) > math.acos(0.6)


def test_11_the_figure_on_dimensionality_is_of_20_thousand_points(simplex):
    """Its line at 90 degrees is the most that n > 2 d points can have (Rankin 1955); 20 points pass it."""
    twenty = torch.nn.functional.pad(simplex(19), (0, 64 - 19))
    assert math.degrees(uc.min_angle(twenty)) > 93
    cross_polytope = torch.cat([torch.eye(64), -torch.eye(64)])
    assert_close(math.degrees(uc.min_angle(cross_polytope)), 90.0)


def test_12_the_variance_of_the_mmd_estimate_is_not_negative(generator):
    """Points near one direction: the first-order term with |mu|^4 is what samples show, with |mu|^2 it is negative."""
    n, kernel = 100, uc.Laplace(1.0)
    kappa = torch.tensor(math.sqrt(3), dtype=torch.float64)
    clumped = uc.VonMisesFisher(torch.eye(3, dtype=torch.float64)[0], kappa)
    x = clumped.sample((4000,), generator=generator)
    values = kernel((x[:, None] - x).square().sum(dim=-1)).fill_diagonal_(0)
    means = values.sum(dim=1) / (len(x) - 1)  # <phi(x), mu> of every point
    right, printed = ((means.square().mean() - means.mean() ** power).item() for power in (2, 1))
    sampled = torch.tensor([float(uc.mmd(clumped.sample((n,), generator=generator), kernel)) for _ in range(400)])
    scale = 4 * (n - 2) / (n * (n - 1))
    assert scale * right == pytest.approx(sampled.var().item(), rel=0.35)  # five standard errors of 400 samples
    assert scale * printed < -40 * scale * right
    large = clumped.sample((4000,), generator=generator)
    assert uc.mmd_variance(large, kernel) == pytest.approx(4 / len(large) * right, rel=0.2)


def test_13_the_way_round_a_circle_may_be_shorter():
    first, second = (torch.tensor([[math.cos(t), math.sin(t)]], dtype=torch.float64) for t in (-3.0, 3.0))
    assert_close(uc.angle(first, second).item(), 2 * math.pi - 6.0)  # as printed: 6
    near = (torch.tensor([[math.cos(t), math.sin(t)]], dtype=torch.float64) for t in (-1.0, 1.5))
    assert_close(uc.angle(*near).item(), 2.5)


def test_14_pot_returns_the_root(points, generator):
    """What the authors minimise, beside the closed form of the paper: ours."""
    ot = pytest.importorskip("ot")
    x, circles = points(30, 5), uc.great_circles(7, 5, generator=generator, dtype=torch.float64)
    theirs = ot.sliced_wasserstein_sphere_unif(x, n_projections=7, projections=circles.mT)
    assert_close(theirs, uc.ssw(x, circles).sqrt())
    assert abs(theirs - uc.ssw(x, circles)) > 0.01


def test_truth_sliced_and_ssw_are_one_objective(points, generator):
    n, d = 12, 5
    x, circles = points(n, d).requires_grad_(), uc.great_circles(4, d, generator=generator, dtype=torch.float64)
    sliced, ssw = uc.sliced(x, circles), uc.ssw(x, circles)
    assert_close((2 * math.pi) ** 2 * ssw, 2 * sliced + math.pi**2 / (3 * n**2))
    (of_sliced,), (of_ssw,) = (torch.autograd.grad(value, x) for value in (sliced, ssw))
    assert_close(of_ssw, of_sliced * 2 / (2 * math.pi) ** 2)
    theta = circle_angles(x.detach(), circles)
    expected = torch.stack([wasserstein_to_uniform((row + math.pi) / (2 * math.pi)) for row in theta]).mean()
    assert_close(ssw, expected, rtol=1e-4, atol=0)


def test_truth_it_does_not_matter_where_the_circle_is_cut(points):
    theta = circle_angles(points(9, 2), torch.tensor([[0, 1]]))
    distance = unevenness(theta).square().sum()
    for turn in torch.linspace(0, 6, 13):
        turned = torch.remainder(theta + turn + math.pi, 2 * math.pi) - math.pi
        assert_close(unevenness(turned).square().sum(), distance)


def snub_cube():
    """Permutations of (1, 1/t, t), t^3 = t^2 + t + 1: even ones with an even number of minus signs, odd with odd."""
    t = (1 + (19 - 3 * 33**0.5) ** (1 / 3) + (19 + 3 * 33**0.5) ** (1 / 3)) / 3
    corners = []
    for signs in range(8):
        a, b, c = ((1, -1)[signs >> k & 1] * size for k, size in enumerate((1.0, 1 / t, t)))
        even_signs = bin(signs).count("1") % 2 == 0
        corners += [(a, b, c), (b, c, a), (c, a, b)] if even_signs else [(b, a, c), (a, c, b), (c, b, a)]
    return uc.project(torch.tensor(corners, dtype=torch.float64))


def test_truth_the_optimum_of_24_points_is_the_snub_cube():
    x = snub_cube()
    assert x.shape == (24, 3)
    assert_close(math.cos(uc.min_angle(x)), 0.723078468333509, rtol=1e-14, atol=0)
    assert_close(math.degrees(uc.min_angle(x)), 43.690767107676, rtol=1e-13, atol=0)
    assert_close(uc.nearest_angles(x), torch.full((24,), uc.min_angle(x), dtype=torch.float64))
