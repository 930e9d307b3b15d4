"""Sums of a kernel over pairs: those of a loop, with their gradient, streamed or whole, near twins and antipodes."""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import KERNELS
from unclump import Gaussian, Laplace, Riesz, project
from unclump.kernels import Kernel
from unclump.ops import kernel_sum as module
from unclump.ops import native
from unclump.ops.kernel_sum import kernel_sum

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
some_kernels = pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(), Riesz(1.0), Riesz(0.0)], ids=repr)


def by_loop(x, kernel, y=None, *, itself=None, right=None, left=None):
    """Sums and gradient of the weighted sum, by differences, pair by pair; the gradient tangent at the points."""
    table = x if y is None else y
    itself = 0 if y is None else itself
    n, m = len(x), len(table)
    right = torch.ones(m, dtype=x.dtype) if right is None else right
    own = torch.ones(n, dtype=x.dtype) if itself is None else right[itself : itself + n]
    left = own if left is None else left
    sums, gradient = torch.zeros(n, dtype=x.dtype), torch.zeros_like(x)
    for i in range(n):
        for j in range(m):
            if itself is not None and j == itself + i:
                continue
            r2 = (x[i] - table[j]).square().sum()
            sums[i] += right[j] * kernel(r2)
            other = left[j - itself] if itself is not None and itself <= j < itself + n else 0
            weight = left[i] * right[j] + (own[i] * other if itself is not None else 0)
            gradient[i] += 2 * weight * kernel.derivative(r2) * (x[i] - table[j])
    return sums, tangent(x, gradient)


def tangent(x, gradient):
    return gradient - (x * gradient).sum(dim=-1, keepdim=True) * x


@each_kernel
def test_sums_and_gradient_are_those_of_a_loop(kernel, points):
    x = points(9, 4)
    sums, gradient = kernel_sum(x, kernel)
    assert_close((sums, tangent(x, gradient)), by_loop(x, kernel))


@some_kernels
def test_weights_on_both_sides_other_points_and_itself(kernel, points):
    x, y = points(6, 3), points(4, 3)
    right, left = torch.rand(10, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    table = torch.cat([y, x])
    for choices in (
        {"y": table, "itself": 4, "right": right},
        {"y": table, "itself": 4, "right": right, "left": left},
        {"y": table, "itself": 4, "left": left},
        {"y": table, "itself": 4},
        {"y": y, "left": left},
        {"y": y, "right": right[:4]},
        {"left": left},
        {"right": right[:6]},
    ):
        sums, gradient = kernel_sum(x, kernel, **choices)
        assert_close((sums, tangent(x, gradient)), by_loop(x, kernel, **choices), msg=lambda m, c=choices: f"{c}: {m}")


@each_kernel
def test_streamed_and_whole_are_the_same(kernel, points, monkeypatch):
    x = points(23, 4)
    x[7], x[20], x[21] = x[2], x[2], -x[1]  # coinciding rows, and antipodes
    whole = kernel_sum(x, kernel)
    for entries in (1, 30, 200):
        monkeypatch.setattr(module, "block_entries", lambda x, entries=entries: entries)
        sums, gradient = kernel_sum(x, kernel)
        others = [i for i in range(23) if i not in (2, 7, 20)]  # those see more than one nearest, block by block
        assert_close(sums[others], whole[0][others])
        assert_close(tangent(x, gradient)[others], tangent(x, whole[1])[others])


def test_sets_are_separate(points):
    sets = torch.stack([points(7, 3), points(7, 3), points(7, 3)])
    sums, gradient = kernel_sum(sets, Riesz(1.0))
    for one, part, force in zip(sets, sums, gradient, strict=True):
        assert_close((part, force), kernel_sum(one, Riesz(1.0)))


def near_pair(distance, dtype):
    x = torch.eye(3, 4, dtype=dtype)
    x[1, 0], x[1, 1] = 1.0, distance
    return x


@pytest.mark.parametrize("distance", [1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("kernel", [Riesz(1.0), Riesz(0.0), Laplace(), Gaussian(1e6, "geodesic")], ids=repr)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_near_pairs_keep_their_digits(distance, kernel, dtype, tolerance):
    x = near_pair(distance, dtype)
    r2 = (x[0] - x[1]).square().sum().double()
    others = [2.0, 2.0 + float(distance) ** 2]
    expected = 2 * kernel(torch.tensor([r2.item(), *others], dtype=torch.float64)).sum()
    sums, gradient = kernel_sum(x, kernel)
    assert_close(sums.sum().double(), expected, rtol=tolerance, atol=0)
    force = 4 * kernel.derivative(r2) * (x[0] - x[1]).double()
    assert_close(gradient[0, 1].double(), force[1], rtol=2 * tolerance, atol=0)


@each_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coinciding_rows_push_each_other_apart_and_no_other_row(kernel, dtype):
    x = torch.eye(4, dtype=dtype)
    x[1] = x[0]
    gradient = tangent(x, kernel_sum(x, kernel)[1])
    push = gradient[0] - gradient[1]
    assert push.norm() > 0
    assert abs(push @ x[0]) <= 1e-6 * push.norm()
    without = x[[0, 2, 3]]  # the others feel a double charge, and nothing else
    single, pair = tangent(without, kernel_sum(without, kernel)[1]), tangent(x[2:], kernel_sum(x[2:], kernel)[1])
    assert_close(gradient[2:], 2 * single[1:] - pair, rtol=1e-5, atol=1e-5)


def test_a_whole_clump_gets_different_pushes():
    """The reference pushes a row away from only one of the rows it coincides with: two may go the same way."""
    x = torch.ones(5, 3).requires_grad_()
    uc.Energy()(x).backward()
    assert len(x.grad[:, 0].unique()) >= (5 if native.ENABLED else 4)


@pytest.mark.parametrize("kernel", [Riesz(1.0), Riesz(3.0), Riesz(0.0), Laplace(), Gaussian(2.0)], ids=repr)
def test_near_twins_in_a_clump_have_the_sum_and_the_gradient_of_their_differences(kernel):
    """Against all differences in double precision, row by row: single precision must cost no digits that count."""
    seeded = torch.Generator().manual_seed(0)
    x = project(torch.randn(130, 16, generator=seeded) + 1)
    for row, distance in enumerate((1e-5, 1e-4, 1e-3, 1e-2)):
        x[2 * row + 1] = project(x[2 * row] + distance * torch.randn(16, generator=seeded) / 4)
    unit = project(x.double())
    expected_sum, expected_gradient = 0.0, torch.zeros(130, 16, dtype=torch.float64)
    for i in range(130):
        differences = torch.cat([unit[:i], unit[i + 1 :]]) - unit[i]
        r2 = differences.square().sum(dim=-1)
        expected_sum += kernel(r2).sum().item()
        expected_gradient[i] = -4 * kernel.derivative(r2) @ differences
    sums, gradient = kernel_sum(x, kernel)
    # Twins 1e-5 apart are told by unit vectors of float32 to 6e-8, of their difference 0.6 %.
    assert_close(sums.double().sum().item(), expected_sum, rtol=2e-3, atol=0)
    far, expected = tangent(unit, gradient.double())[8:], tangent(unit, expected_gradient)[8:]
    assert ((far - expected).norm(dim=-1) / expected.norm(dim=-1)).max() < 5e-6
    near, expected = tangent(unit, gradient.double())[:8], tangent(unit, expected_gradient)[:8]
    assert ((near - expected).norm(dim=-1) / expected.norm(dim=-1)).max() < 2e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-3])
def test_a_kernel_too_steep_for_any_number_has_finite_forces(distance, dtype):
    sums, gradient = kernel_sum(near_pair(distance, dtype), Riesz(64.0))
    assert sums.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("kernel", [Laplace(), Riesz(1.0, "geodesic"), Gaussian(1.0, "geodesic")], ids=repr)
@pytest.mark.parametrize("aside", [1e-2, 1e-3, 1e-4, 1e-5])
def test_forces_near_antipodes_stay_of_the_size_of_the_others(aside, kernel, points):
    """A product tells how far a pair is from antipodes to 1e-7 of the squared chord: an angle of 3e-4, no less."""
    x = points(24, 3)
    sideways = project(torch.linalg.cross(x[0], x[2]))
    x[1] = -(math.cos(aside) * x[0] + math.sin(aside) * sideways)
    exact = tangent(x, kernel_sum(x, kernel)[1])
    single = tangent(x, kernel_sum(x.float(), kernel)[1].double())
    error = (single - exact).norm(dim=1) / exact.norm(dim=1).mean()
    assert error[2:].max() < 1e-4
    assert error[:2].max() < (1e-3 if aside == 1e-2 else 0.2)


@pytest.mark.parametrize("r2", [0.1, 3.9])
def test_pairs_at_the_border_of_near_and_far_count_once(r2):
    turn = 2 * math.asin(math.sqrt(r2) / 2)
    for seed in range(60):
        seeded = torch.Generator().manual_seed(seed)
        x = project(torch.randn(6, 300, generator=seeded, dtype=torch.float64))
        sideways = project(x[5] - (x[5] @ x[0]) * x[0])
        x[4] = math.cos(turn) * x[0] + math.sin(turn) * sideways
        single, double = (kernel_sum(table, Riesz(1.0))[0].double() for table in (x.float(), x))
        assert_close(single, double, rtol=2e-6, atol=0)


@some_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_nan_reaches_every_sum(kernel, dtype, points):
    for n, bad in ((5, 2), (200, 3), (200, 150)):  # of two hundred most pairs are in tiles without the diagonal
        x = points(n, 6).to(dtype)
        x[bad, 1] = torch.nan
        assert kernel_sum(x, kernel)[0].isnan().all()


def test_a_kernel_of_ones_own_is_as_good(points):
    class Cosine(Kernel):
        distance = "chordal"

        def __call__(self, r2):
            return 1 - r2 / 2

        def derivative(self, r2):
            return torch.full_like(r2, -0.5)

    x = points(6, 3)
    cosines = (x @ x.mT).fill_diagonal_(0)
    assert_close(kernel_sum(x, Cosine())[0], cosines.sum(dim=1))
    assert_close(uc.Energy(Cosine())(x), cosines.sum() / 30)


def test_memory_does_not_hold_the_matrix(points, monkeypatch):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.size = max(self.size, result.untyped_storage().nbytes() // result.element_size())
            return result

    monkeypatch.setattr(module, "block_entries", lambda x: 250_000)
    x = points(1_200, 8).float()
    with Largest() as largest:
        kernel_sum(x, Gaussian())
    assert largest.size <= 250_000 < len(x) ** 2
