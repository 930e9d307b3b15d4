"""Products by tiles, blocks of pairs, kernels of far pairs, sums of rows: what the fused loops are made of."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("numba")


from unclump import Energy, Gaussian, Laplace, Riesz
from unclump.ops.native.far import NEAR, evaluate_cubics, evaluate_exponential, fit
from unclump.ops.native.gradients import single
from unclump.ops.native.product import (
    BLOCK,
    STRIDE,
    WIDTH,
    chunks,
    columns_times,
    pack,
    padded,
    products,
    small_blocks,
    times_rows,
)
from unclump.ops.native.rows import summed_rows

SIZES = [(1, 2), (3, 3), (17, 5), (30, 16), (127, 33), (128, 64)]
each_size = pytest.mark.parametrize(("n", "d"), SIZES)
each_part = pytest.mark.parametrize("triangle", [False, True], ids=["whole", "triangle"])


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def below(matrix, triangle):
    return np.tril(matrix, -1) if triangle else matrix


def laid_out(x):
    """Sixteen columns at a time, with zeros where there are none."""
    n, d = x.shape
    wide = np.zeros((padded(n), chunks(d) * WIDTH), np.float32)
    wide[:n, :d] = x
    return np.ascontiguousarray(wide.reshape(padded(n), chunks(d), WIDTH).transpose(1, 0, 2))


@each_size
@each_part
def test_products_are_those_of_numpy(n, d, triangle):
    rows, columns = random(n + 5, d), random(n, d)
    x, panels = np.zeros((padded(n + 5), d), np.float32), np.full((BLOCK // WIDTH, d, WIDTH), np.nan, np.float32)
    x[: n + 5] = rows
    block = np.full((BLOCK, BLOCK), 9, np.float32)
    pack(columns, 0, n, panels)
    products(x, 5, n, panels, n, triangle, block)
    assert (block[-(-n // 4) * 4 :] == 9).all()  # nothing is written beyond the tiles
    assert_close(below(block[:n, :n], triangle), below(rows[5:] @ columns.T, triangle), rtol=1e-5, atol=1e-5)


@each_size
@each_part
def test_rows_and_columns_of_a_block_are_multiplied_as_by_numpy(n, d, triangle):
    x, weights = random(n + 2, d), np.zeros((BLOCK, STRIDE), np.float32)
    weights[:n, :n] = below(random(n, n), triangle)
    for function, expected in ((times_rows, weights[:n, :n]), (columns_times, weights[:n, :n].T)):
        out = np.full((BLOCK + 1, chunks(d) * WIDTH), 9, np.float32)
        if function is times_rows:
            times_rows(weights, n, laid_out(x), 2, n, triangle, out)
        else:
            columns_times(weights, 0, n, laid_out(x), 2, n, triangle, out, 0)
        assert (out[-(-n // 4) * 4 :] == 9).all()
        assert_close(out[:n, :d], expected @ x[2:], rtol=1e-4, atol=1e-4)


def test_some_columns_go_to_some_rows():
    weights, x, out = random(6, 20), random(6, 16), np.zeros((30, 16), np.float32)
    columns_times(weights, 4, 8, laid_out(x), 0, 6, False, out, 12)
    assert_close(out[12:20], weights[:, 4:12].T @ x, rtol=1e-5, atol=1e-5)
    assert not out[:12].any()
    assert not out[20:].any()


@pytest.mark.parametrize(
    "blocks",
    [
        [(slice(0, 300), slice(0, 300))],
        [(slice(0, 200), slice(0, 200)), (slice(0, 200), slice(200, 301)), (slice(200, 301), slice(200, 301))],
        [(slice(0, 130), slice(130, 500))],
    ],
    ids=["the diagonal", "a triangle", "two tables"],
)
def test_small_blocks_have_every_pair_once(blocks):
    seen, expected = np.zeros((2, 501, 501), int)
    for early, late in blocks:
        expected[early, late] += 1
    for early, early_stop, late, late_stop in small_blocks(blocks):
        assert 0 < early_stop - early <= BLOCK
        assert 0 < late_stop - late <= BLOCK
        seen[early:early_stop, late:late_stop] += 1
    assert (np.triu(seen, 1) == np.triu(expected, 1)).all()


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_gaussians_of_chords_are_exponentials(gamma):
    found = fit(Gaussian(gamma), Gaussian(gamma).derivative)
    assert found.steepness == pytest.approx(-gamma / 2)
    assert found.at_zero == pytest.approx(np.exp(gamma))


@pytest.mark.parametrize("kernel", [Gaussian(1.0, "geodesic"), Laplace(), Riesz(1.0), Riesz(-2.0)], ids=repr)
def test_other_kernels_are_none(kernel):
    assert fit(kernel, kernel.derivative).steepness == 0


@dataclass(frozen=True)
class Capped(Gaussian):
    """An exponential of far pairs only."""

    def __call__(self, r2):
        return super().__call__(r2.clamp_min(NEAR))

    def derivative(self, r2):
        return torch.where(r2 < NEAR, 0, super().derivative(r2))


def test_a_kernel_that_is_an_exponential_of_far_pairs_only_is_none():
    assert fit(Capped(), Capped().derivative).steepness == 0
    x = torch.tensor([[1.0, 0.0], [1.0, 1e-3], [0.0, 1.0]])
    assert_close(Energy(Capped())(x), Energy(Capped())(x.double()).float())


@pytest.mark.parametrize("kernel", [Gaussian(100.0), Riesz(64.0)], ids=repr)
def test_kernels_too_steep_for_single_precision_are_refused(kernel):
    assert fit(kernel, kernel.derivative) is None


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Gaussian(3.0), Laplace(), Riesz(1.0)], ids=repr)
@pytest.mark.parametrize("diagonal", [False, True])
def test_blocks_are_evaluated_as_the_kernel_is(kernel, diagonal):
    rows, columns = (50, 50) if diagonal else (50, 37)
    r2 = np.linspace(0.02, 3.98, rows * columns, dtype=np.float32).reshape(rows, columns)[:, ::-1]
    block, one = np.full((BLOCK, STRIDE), 9, np.float32), np.ones(BLOCK, np.float32)
    block[:rows, :columns] = 1 - r2 / 2
    by_late, by_early = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    found, given = fit(kernel, kernel.derivative), (block, rows, columns, diagonal, one, one)
    if found.steepness != 0:
        total = evaluate_exponential(*given, found.polynomial, found.steepness, by_late, by_early)
    else:
        total = evaluate_cubics(*given, found.cubics, by_late, by_early)
    there = np.tri(rows, columns, -1, dtype=bool) if diagonal else np.ones((rows, columns), bool)
    far = there & (abs(r2 - 2) < 2 - NEAR)
    exact = torch.from_numpy(r2.astype(np.float64))
    slopes = np.where(far, kernel.derivative(exact).numpy(), 0)
    largest = abs(slopes).max()
    assert total == pytest.approx(kernel(exact).numpy()[far].sum(), rel=1e-6)
    assert (np.isinf(block[:rows, :columns]) == (there & ~far)).all()
    assert_close(np.where(far, block[:rows, :columns], 0), slopes.astype(np.float32), rtol=0, atol=4e-6 * largest)
    assert_close(by_early[:columns], slopes.sum(0).astype(np.float32), rtol=1e-5, atol=4e-5 * largest)
    all_far = (far | ~there).all(1)
    assert (np.isinf(by_late[:rows]) == ~all_far).all()
    assert_close(by_late[:rows][all_far], slopes.sum(1)[all_far].astype(np.float32), rtol=1e-5, atol=4e-5 * largest)


def test_what_single_precision_does_not_hold_becomes_its_largest_number():
    largest = np.finfo(np.float32).max
    assert [single(number) for number in (1e40, -1e40, math.inf, 3.0)] == [largest, -largest, largest, 3]
    assert math.isnan(single(math.nan))


@pytest.mark.parametrize("stride", [1, 4096])
@pytest.mark.parametrize("count", [0, 1, 7, 600])
def test_rows_of_the_same_number_are_summed_as_by_torch(count, stride):
    random = torch.Generator().manual_seed(count)
    numbers = stride * torch.randint(0, 10**6 // stride, (1 + count // 3,), generator=random)
    index = numbers[torch.randint(0, len(numbers), (count,), generator=random)]
    values = torch.randn(count, 5, generator=random)
    rows, sums = (torch.from_numpy(array) for array in summed_rows(index.numpy(), values.numpy()))
    expected = torch.sparse_coo_tensor(index[None], values, (10**6, 5), check_invariants=True).coalesce()
    order = rows.argsort()
    assert_close(rows[order], expected.indices()[0])
    assert_close(sums[order], expected.values())
