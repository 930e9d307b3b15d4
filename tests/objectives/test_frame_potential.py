"""The mean squared cosine: tight frames have the least, uniform points 1/d, and sentence-transformers the same."""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc


def test_it_is_the_mean_squared_cosine_over_pairs(points):
    x = points(7, 4)
    cosines = (x @ x.mT)[~torch.eye(7, dtype=torch.bool)]
    for y, rtol in ((x, 1e-12), (x.float(), 1e-5)):
        assert_close(uc.energy(y, uc.FramePotential()), cosines.square().mean().to(y.dtype), rtol=rtol, atol=0)
    assert_close(uc.objective("frame_potential")(3 * x), cosines.square().mean())
    assert torch.autograd.gradcheck(lambda x: uc.energy(x, uc.FramePotential()), x.requires_grad_())


def test_tight_frames_have_the_least(icosahedron):
    """(n/d - 1) / (n - 1), for n vectors in d dimensions; others have more."""
    assert_close(uc.energy(icosahedron, uc.FramePotential()).item(), (12 / 3 - 1) / 11)
    assert uc.energy(uc.uniform(12, 3, dtype=torch.float64), uc.FramePotential()) > 3 / 11


def test_a_basis_twice_is_a_tight_frame_whose_duplicates_stay():
    x = torch.eye(3, dtype=torch.float64).repeat(2, 1).requires_grad_()
    value = uc.energy(x, uc.FramePotential())
    assert_close(value.item(), (6 / 3 - 1) / 5)
    (gradient,) = torch.autograd.grad(value, x)
    assert gradient.abs().max() < 1e-7  # that of the root of the precision, by which duplicates are taken apart


def test_its_mean_over_the_sphere_is_one_over_d(generator):
    assert uc.kernel_mean(uc.FramePotential(), 7) == 1 / 7
    x = uc.uniform(4000, 7, generator=generator, dtype=torch.float64)
    assert abs(uc.mmd(x, uc.FramePotential())) < 1e-3


def test_it_is_the_second_moment_of_sentence_transformers(points):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    x = points(20, 5).requires_grad_()
    _, theirs = losses.GlobalOrthogonalRegularizationLoss(model=None).compute_gor(3 * x + 1)
    ours = uc.MMD(uc.FramePotential())(3 * x + 1)
    assert theirs > 0  # they cut what is below zero
    assert_close(ours, theirs, rtol=1e-9, atol=0)
    of_ours, of_theirs = (torch.autograd.grad(value, x)[0] for value in (ours, theirs))
    assert_close(of_ours, of_theirs, rtol=1e-7, atol=1e-10)


def test_a_clump_is_spread_to_a_tight_frame():
    x = torch.ones(6, 3) + 0.1 * torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    found = uc.disperse(x, "frame_potential", steps=600, lr=0.02, schedule=lambda step: 1 - step / 600).points
    assert math.isclose(uc.energy(found, uc.FramePotential()).item(), (6 / 3 - 1) / 5, rel_tol=1e-3)


@pytest.mark.parametrize("n", [7, 40])
def test_second_moments_are_the_sums_over_pairs(n, points):
    """Few points go pair by pair, many by the matrix of second moments: both with weights, a queue and terms."""
    x, queue, weight = points(n, 4), points(3, 4), torch.rand(n, dtype=torch.float64)
    weight[2] = 0
    objective = uc.Energy(uc.FramePotential())

    def definition(x):
        y = uc.project(x)
        both = weight.unsqueeze(1) * torch.cat([weight, torch.ones(3, dtype=torch.float64)])
        both = both * (1 - torch.eye(n, n + 3, dtype=torch.float64))
        cosines = y @ torch.cat([y, queue]).mT
        return (both * cosines.square()).sum() / both.sum(), (both * cosines.square()).sum(
            dim=1
        ) * weight.sum() / both.sum()

    x = (2 * x).requires_grad_()
    value, terms = definition(x)
    assert_close(objective(x, against=queue, weight=weight), value)
    found = objective(x, against=queue, weight=weight, reduction="none")
    assert_close(weight * found, terms)
    left = torch.rand(n, dtype=torch.float64)
    for ours, theirs in ((objective(x, against=queue, weight=weight), value), (weight * found @ left, terms @ left)):
        expected, gradient = torch.autograd.grad(theirs, x, retain_graph=True), torch.autograd.grad(ours, x)
        assert_close(gradient, expected)


def test_a_large_table_takes_time_and_memory_of_its_second_moments():
    """20,000 rows have 4e8 pairs: half a minute of products, and more memory than a block."""
    x = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with torch.profiler.profile(with_flops=True) as profile:
        value = uc.Energy(uc.FramePotential())(x)
        value.backward()
    assert abs(value.item() - 1 / 16) < 1e-4
    assert sum(event.flops for event in profile.key_averages()) < 20 * 20_000 * 16**2
