"""Sums of rows by number are their definition: by torch, by the kernel for GPUs, and as an operator for compilers."""

import pytest
import torch
from torch.testing import assert_close

from tests.ops.triton_cases import DEVICE, computed_by
from tests.small_tables import seeded
from unclump.ops.add_rows import add_rows, sum_rows
from unclump.ops.triton import add_rows as kernels

each_way = pytest.mark.parametrize("by_kernels", [False, True], ids=["reference", "kernels"])
SIZES = [((), 1, 1, 1), ((), 7, 20, 3), ((2,), 5, 9, 4), ((3,), 4, 1, 130), ((), 2, 40, 257)]


def drawn(sets, n, k, d):
    """Numbers of rows and values; half of the values are for the first row, and the last row has none."""
    index = torch.randint(max(1, n - 1), (*sets, k), generator=seeded(0))
    index[..., ::2] = 0
    return index.to(DEVICE), torch.randn(*sets, k, d, generator=seeded(1)).to(DEVICE)


def definition(n, index, values):
    sums = torch.zeros(*values.shape[:-2], n, values.shape[-1], dtype=torch.float64)
    for place in torch.cartesian_prod(*(torch.arange(size) for size in index.shape)).view(-1, index.ndim).tolist():
        sums[(*place[:-1], index[tuple(place)].item())] += values[tuple(place)].double().cpu()
    return sums


@each_way
@pytest.mark.parametrize(("sets", "n", "k", "d"), SIZES)
def test_sums_are_those_of_the_definition(sets, n, k, d, by_kernels):
    index, values = drawn(sets, n, k, d)
    table = torch.randn(*sets, n, d, generator=seeded(2)).to(DEVICE)
    expected, before = definition(n, index, values), table.clone()
    with computed_by(kernels=by_kernels):
        assert_close(sum_rows(n, index, values).double().cpu(), expected, rtol=2e-6, atol=2e-6)
        assert add_rows(table, index, values) is table
    assert_close(table.double().cpu(), before.double().cpu() + expected, rtol=2e-6, atol=2e-6)


def test_the_kernel_adds_in_the_order_of_the_values():
    """One after the other where each is the only one of its tile: the same bits as such a loop, whatever is near."""
    values = torch.tensor([[1e8], [1.0], [-1e8], [1.0]], device=DEVICE)
    for order in ([0, 1, 2, 3], [0, 2, 1, 3], [1, 3, 0, 2]):
        expected = torch.zeros(1)
        for value in values[order].cpu():
            expected += value
        with pytest.MonkeyPatch.context() as patch, computed_by(kernels=True):
            patch.setattr(kernels, "_VALUES", 1)
            sums = sum_rows(3, torch.tensor([1, 1, 1, 1], device=DEVICE), values[order])
        assert sums[:, 0].tolist() == [0, expected.item(), 0]


def test_a_row_has_the_same_bits_whatever_the_others_are():
    index, values = drawn((), 6, 100, 5)
    with computed_by(kernels=True):
        expected = sum_rows(6, index, values)
        for seed in range(5):  # other rows' values moved among its own, which keep their order
            order = torch.randperm(100, generator=seeded(seed)).to(DEVICE)
            mine = index[order] == 0
            order[mine] = order[mine].sort().values
            assert torch.equal(sum_rows(6, index[order], values[order])[0], expected[0])


def test_whole_numbers_have_the_same_bits_in_any_order():
    index, values = drawn((), 6, 100, 5)
    values = (1000 * values).round()
    with computed_by(kernels=True):
        expected = sum_rows(6, index, values)
        for seed in range(5):
            order = torch.randperm(100, generator=seeded(seed)).to(DEVICE)
            assert torch.equal(sum_rows(6, index[order], values[order]), expected)


def test_rows_without_values_are_left_as_they_are():
    table = torch.full((4, 3), torch.nan, device=DEVICE)
    table[1] = 1
    with computed_by(kernels=True):
        add_rows(table, torch.tensor([1, 1], device=DEVICE), torch.ones(2, 3, device=DEVICE))
    assert table[1].tolist() == [3, 3, 3]
    assert table[[0, 2, 3]].isnan().all()


def test_the_kernel_reads_and_writes_nothing_for_numbers_outside_of_the_table():
    memory = torch.zeros(5, 2, device=DEVICE)
    index = torch.tensor([-1, 0, 3, 2**40], device=DEVICE)
    kernels.add_rows(memory[1:4], index, torch.ones(4, 2, device=DEVICE))
    assert memory[:, 0].tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("n", [3, 6])
def test_compilers_see_an_operator(n):
    index, values = drawn((2,), 3, 6, 4)
    torch.library.opcheck(torch.ops.unclump.sum_rows.default, (index, values, n), test_utils="test_faketensor")
