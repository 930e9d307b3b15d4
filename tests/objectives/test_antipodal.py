"""Objectives of lines: x and -x are one."""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import seeded

FIXED = {
    "MaxMin": uc.MaxMin(),
    "KoLeo": uc.KoLeo(),
    "Energy": uc.Energy(uc.Riesz(1.0)),
    "Uniformity": uc.Uniformity(),
}


def some_lines(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(3))


@pytest.mark.parametrize("name", FIXED)
def test_signs_do_not_matter(name):
    x = some_lines(9, 4)
    flipped = x * torch.tensor([1.0, -1.0, -1.0] * 3, dtype=x.dtype).unsqueeze(1)
    assert_close(uc.Antipodal(FIXED[name])(flipped), uc.Antipodal(FIXED[name])(x))


def test_max_min_is_the_mean_angle_to_the_nearest_line():
    x = some_lines(7, 3)
    cosines = [[abs(torch.nn.functional.cosine_similarity(a, b, dim=0).item()) for b in x] for a in x]
    nearest = [max(c for j, c in enumerate(row) if j != i) for i, row in enumerate(cosines)]
    expected = -sum(math.acos(c) for c in nearest) / len(x)
    assert uc.Antipodal(uc.MaxMin())(x).item() == pytest.approx(expected, abs=1e-12)


def test_energy_is_that_of_lines_up_to_the_constant_of_own_antipodes():
    x, n = some_lines(6, 3), 6
    unit, kernel = uc.project(x), uc.Riesz(1.0)
    pairs = [
        kernel((unit[i] - sign * unit[j]).square().sum()).item() for i in range(n) for j in range(n) if i != j
        for sign in (1, -1)
    ]  # fmt: skip
    expected = (2 * sum(pairs) + 2 * n * 0.5) / (2 * n * (2 * n - 1))  # an antipode is at distance two
    assert uc.Antipodal(uc.Energy(kernel))(x).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", FIXED)
def test_gradients_are_right_and_sets_are_separate(name):
    objective, x = uc.Antipodal(FIXED[name]), some_lines(2, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(objective, x)
    assert_close(objective(x), torch.stack([objective(one) for one in x]))


@pytest.mark.parametrize("name", FIXED)
def test_masked_lines_are_not_there_and_a_queue_is_one_of_lines(name):
    objective, x, queue = uc.Antipodal(FIXED[name]), some_lines(2, 6, 3), some_lines(4, 3)
    mask = torch.tensor([[True, False, True, True, True, False], [True] * 6])
    assert_close(objective(x, weight=mask)[0], objective(x[0, mask[0]]))
    flipped = queue * torch.tensor([[1.0], [-1], [-1], [1]], dtype=queue.dtype)
    assert_close(objective(x, against=queue), objective(x, against=flipped))
    both = torch.cat([x[0], -x[0]])
    assert_close(objective(x[0], against=queue), FIXED[name](both, against=torch.cat([queue, -queue])))


def test_six_lines_are_the_diagonals_of_the_icosahedron():
    start = uc.uniform(6, 3, generator=seeded(0))
    lines = uc.disperse(
        start, uc.Antipodal(uc.Energy()), steps=600, lr=0.05, schedule=lambda step: 1 - step / 600
    ).points
    cosines = (lines @ lines.T).abs().fill_diagonal_(0)
    assert math.degrees(math.acos(cosines.max().item())) == pytest.approx(63.4349, abs=0.005)


@pytest.mark.usefixtures("at_the_door")
def test_what_is_no_objective_is_refused():
    with pytest.raises(TypeError, match=r"expected an objective such as .*, got 'koleo'"):
        uc.Antipodal("koleo")
    with pytest.raises(TypeError, match=r"the module Antipodal, which holds one; pass its \.objective"):
        uc.Balanced(uc.Antipodal(uc.KoLeo()))


def test_groups_are_refused():
    with pytest.raises(ValueError, match=r"expected an objective of all rows, .*; leave group_size out"):
        uc.Antipodal(uc.KoLeo(group_size=4))
