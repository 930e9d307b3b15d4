import itertools

import pytest
import torch
from torch.testing import assert_close

from unclump.geometry.circles import _order, even_angles, unevenness


@pytest.fixture
def angles(generator):
    """angles(k, n): k circles of n random angles."""
    return lambda k, n: (torch.rand(k, n, generator=generator, dtype=torch.float64) * 2 - 1) * torch.pi


def squared_distance(angles):
    return unevenness(angles).square().sum(dim=-1) / 2


def test_even_angles_are_those_of_the_paper():
    n = 5
    expected = [-torch.pi * (n + 1) / n + 2 * torch.pi * k / n for k in range(1, n + 1)]
    assert_close(even_angles(n, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64))


def test_nearest_even_spacing_beats_every_order_and_every_rotation(angles):
    theta = angles(1, 5)
    orders = torch.tensor(list(itertools.permutations(range(5))))  # (120, 5)
    shifts = torch.linspace(-torch.pi, torch.pi, 721, dtype=torch.float64).view(-1, 1, 1)
    gaps = theta - even_angles(5, dtype=torch.float64)[orders] - shifts  # (721, 120, 5)
    best = (gaps.square().sum(dim=-1) / 2).min().item()
    assert squared_distance(theta).item() <= best
    assert_close(squared_distance(theta).item(), best, rtol=1e-3, atol=1e-4)


def test_even_angles_are_at_distance_zero_in_any_order(angles):
    shuffled = even_angles(7, dtype=torch.float64)[torch.tensor([3, 1, 6, 0, 2, 5, 4])] + 0.3
    assert_close(squared_distance(shuffled.unsqueeze(0)), torch.zeros(1, dtype=torch.float64))


def test_coinciding_angles_are_ranked_in_their_order():
    gaps = unevenness(torch.zeros(1, 4))
    assert_close(gaps, -even_angles(4).unsqueeze(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_order_by_bits_is_that_of_the_angles(dtype):
    angles = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    angles[:, 3], angles[0, :3] = torch.inf, torch.tensor([0.0, -0.0, -torch.inf])
    assert torch.equal(angles.gather(-1, _order(angles)), angles.sort(dim=-1).values)
