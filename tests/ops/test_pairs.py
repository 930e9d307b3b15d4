import math

import pytest
import torch
from torch.testing import assert_close
from unclump.ops.kernel_sums import kernel_matrix, kernel_sum
from unclump.ops.pairs import block_size, nearest, nearest_to, upper_triangle

from tests.cases import KERNELS
from unclump import Gaussian, Laplace, Riesz, angle, project
from unclump.ops import native

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.mark.parametrize(("n", "block"), [(1, 4), (8, 4), (9, 4), (10, 3), (5, 100)])
def test_blocks_cover_every_pair_once(n, block):
    seen = torch.zeros(n, n)
    for rows, columns in upper_triangle(n, block):
        seen[rows, columns] += 1
        if rows != columns:
            seen[columns, rows] += 1
    assert_close(seen, torch.ones(n, n))


@each_kernel
def test_streamed_and_dense_sums_and_gradients_are_the_same(kernel, points):
    x = points(23, 4)
    x[7], x[20], x[21] = x[2], x[2], -x[1]  # coinciding rows in one block, in two, and antipodes
    results = []
    for block in (1, 4, 10, 100):
        y = x.clone().requires_grad_()
        total = kernel_sum(y, kernel, block=block)
        results.append((total.detach(), *torch.autograd.grad(total, y)))
    for result in results[1:]:
        assert_close(result, results[0])


@pytest.mark.parametrize("block", [3, 100])
def test_the_nearest_is_found_in_every_block(block, points):
    x = points(40, 3)
    distances = angle(x.unsqueeze(1), x).fill_diagonal_(9)
    assert_close(nearest(x, block=block), distances.argmin(dim=1))
    assert_close(nearest_to(x[:7], x[7:], block=block), distances[:7, 7:].argmin(dim=1))


def test_a_planted_neighbour_is_found_in_float32_where_the_cosine_cannot_see_it(points):
    x = points(30, 8).float()
    x[5] = project(x[20] + 3e-5 * x[1])
    x[6] = project(x[20] + 1e-4 * x[2])  # farther: but both cosines with row 20 round to one
    assert nearest(x)[20] == 5


def near_pair(distance, dtype):
    x = torch.eye(3, 4, dtype=dtype)
    x[1, 0], x[1, 1] = 1.0, distance
    return x


@pytest.mark.parametrize("distance", [1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("kernel", [Riesz(1.0), Riesz(0.0), Laplace(), Gaussian(1e6, "geodesic")], ids=repr)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_near_pairs_keep_their_digits(distance, kernel, dtype, tolerance):
    x = near_pair(distance, dtype).requires_grad_()
    r2 = (x[0] - x[1]).square().sum().double()
    others = [2.0, 2.0 + float(distance) ** 2]
    expected = 2 * kernel(torch.tensor([r2.item(), *others], dtype=torch.float64)).sum()
    total = kernel_sum(x, kernel)
    assert_close(total.double(), expected, rtol=tolerance, atol=0)
    (gradient,) = torch.autograd.grad(total, x)
    force = 4 * kernel.derivative(r2) * (x[0] - x[1]).double()
    assert_close(gradient[0, 1].double(), force[1], rtol=2 * tolerance, atol=0)


@each_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coinciding_rows_push_each_other_apart_and_no_other_row(kernel, dtype):
    x = torch.eye(4, dtype=dtype)
    x[1] = x[0]
    y = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kernel_sum(y, kernel), y)
    push = gradient[0] - gradient[1]
    assert push.norm() > 0
    assert abs(push @ x[0]) <= 1e-6 * push.norm()
    without = x[[0, 2, 3]].clone().requires_grad_()  # the others feel a double charge, and nothing else
    (single,) = torch.autograd.grad(kernel_sum(without, kernel), without)
    (pair,) = torch.autograd.grad(kernel_sum(without[1:], kernel), without)
    assert_close(gradient[2:], 2 * single[1:] - pair[1:], rtol=1e-5, atol=1e-5)


def test_a_whole_clump_gets_different_pushes():
    x = torch.ones(5, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(kernel_sum(project(x), Riesz(1.0)), x)
    assert len(gradient[:, 0].unique()) == 5


@each_kernel
def test_kernel_matrix_sums_to_the_sum(kernel, points):
    x = points(9, 3)
    x[4] = x[1]
    y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
    off_diagonal = 1 - torch.eye(9, dtype=torch.float64)
    dense = torch.where(off_diagonal > 0, kernel_matrix(y, kernel), 0).sum()
    assert_close(dense, kernel_sum(z, kernel))
    assert_close(torch.autograd.grad(dense, y), torch.autograd.grad(kernel_sum(z, kernel), z))


def test_memory_does_not_hold_the_matrix(points, monkeypatch):
    """Of the operations of torch; what the loops hold is seen in test_memory.py."""
    monkeypatch.setattr(native, "ENABLED", False)
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.size = max(self.size, result.numel())
            return result

    x = points(1_200, 8).float().requires_grad_()
    with Largest() as largest:
        kernel_sum(x, Gaussian()).backward()
        nearest(x)
    assert largest.size <= block_size(x) ** 2 < len(x) ** 2


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kernel", [Riesz(1.0), Riesz(3.0), Riesz(0.0), Laplace(), Gaussian(2.0)], ids=repr)
def test_near_twins_in_a_clump_have_the_sum_and_the_gradient_of_their_differences(kernel, fused, monkeypatch):
    """Against all differences in double precision, row by row: single precision must cost no digits that count."""
    if fused and not native.ENABLED:
        pytest.skip("numba is not installed")
    monkeypatch.setattr(native, "ENABLED", fused)
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
    y = x.clone().requires_grad_()
    total = kernel_sum(y, kernel, block=50)
    (gradient,) = torch.autograd.grad(total, y)
    # Without the loops near pairs come from products in double precision, which are off by 1e-15 in r2 = 1e-10.
    assert_close(total.item(), expected_sum, rtol=2e-6 if fused else 5e-5, atol=0)
    errors = (gradient - expected_gradient).norm(dim=-1) / expected_gradient.norm(dim=-1)
    assert errors.max() < (5e-6 if fused else 5e-5)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-3])
def test_a_kernel_too_steep_for_any_number_has_finite_forces(distance, dtype, fused, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", fused and native.ENABLED)
    x = near_pair(distance, dtype).requires_grad_()
    total = kernel_sum(x, Riesz(64.0))
    total.backward()
    assert total.isfinite()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kernel", [Laplace(), Riesz(1.0, "geodesic"), Gaussian(1.0, "geodesic")], ids=repr)
@pytest.mark.parametrize("aside", [1e-2, 1e-3, 1e-4, 1e-5])
def test_single_precision_has_the_gradient_of_double_near_antipodes(aside, kernel, fused, points, monkeypatch):
    """Rounding makes points unit to 1e-7 only, and squared chords exceed 4: that must not become a force."""
    monkeypatch.setattr(native, "ENABLED", fused and native.ENABLED)
    x = points(24, 3)
    sideways = project(torch.linalg.cross(x[0], x[2]))
    x[1] = -(math.cos(aside) * x[0] + math.sin(aside) * sideways)
    x = x.float()

    def gradient(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(kernel_sum(project(x), kernel), x)[0]

    exact = gradient(project(x.double()))
    # What is normal to the sphere grows as 1 / aside, and rounds off the rest.
    assert (gradient(x) - exact).norm(dim=1).max() < 1e-6 / aside * exact.norm(dim=1).mean()


@pytest.mark.parametrize("r2", [0.1, 3.9])
def test_pairs_at_the_border_of_near_and_far_count_once(r2):
    """Such a pair is near or far by rounding, and never both or neither."""
    turn = 2 * math.asin(math.sqrt(r2) / 2)
    for seed in range(60):
        seeded = torch.Generator().manual_seed(seed)
        x = project(torch.randn(6, 300, generator=seeded, dtype=torch.float64))
        sideways = project(x[5] - (x[5] @ x[0]) * x[0])
        x[4] = math.cos(turn) * x[0] + math.sin(turn) * sideways
        assert_close(kernel_sum(x.float(), Riesz(1.0)).double(), kernel_sum(x, Riesz(1.0)), rtol=2e-6, atol=0)
