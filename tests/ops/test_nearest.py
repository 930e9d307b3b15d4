"""The nearest neighbours: those of a loop over all pairs, in every block, set and precision."""

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.ops import native
from unclump.ops import nearest as module
from unclump.ops.nearest import nearest, nearest_of_rows, select_nearest, without_itself

each_implementation = pytest.mark.parametrize("compiled", [True, False], ids=["native", "reference"])


@pytest.fixture
def implementation(compiled, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)


def chords(x, y):
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square()


@each_implementation
@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 5), (17, 3), (130, 64), (700, 6)])
def test_nearest_is_that_of_a_loop_over_all_pairs(n, d, dtype, points):
    x = points(n, d).to(dtype)
    index, r2 = nearest(x)
    expected = chords(x.double(), x.double()).fill_diagonal_(torch.inf)
    assert_close(index[:, 0], expected.argmin(dim=1))
    assert_close(r2[:, 0].double(), expected.amin(dim=1), rtol=1e-5 if dtype is torch.float32 else 1e-12, atol=0)


@each_implementation
@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("k", [1, 3])
def test_in_a_table_without_rows_all_are_infinitely_far(k, points):
    """Which a process without rows passes on to the others."""
    for search in (nearest, select_nearest) if k == 1 else (nearest,):
        choices = {} if search is select_nearest else {"k": k}
        _, r2 = search(points(5, 3), points(0, 3), **choices)
        assert_close(r2, torch.full((5, k), torch.inf, dtype=torch.float64))


@pytest.mark.parametrize("entries", [1, 7, 50, 10_000])
@pytest.mark.parametrize("k", [1, 3])
def test_blocks_change_nothing(entries, k, points, monkeypatch):
    x, y = points(40, 3), points(23, 3)
    whole, between = nearest(x, k=k), nearest(x, y, k=k)
    monkeypatch.setattr(module, "block_entries", lambda x: entries)
    assert_close(nearest(x, k=k), whole)
    assert_close(nearest(x, y, k=k), between)
    sets = torch.stack([x, x.flip(0)])
    assert_close(nearest(sets, k=k)[0], torch.stack([whole[0], 39 - whole[0].flip(0)]))


def test_k_nearest_come_in_order(points):
    x = points(30, 4)
    index, r2 = nearest(x, k=5)
    expected = chords(x, x).fill_diagonal_(torch.inf).topk(5, dim=1, largest=False)
    assert_close((index, r2), (expected.indices, expected.values))


def test_more_than_there_are_is_infinitely_far(points):
    _, r2 = nearest(points(3, 4), k=4)
    assert r2.isfinite().sum(dim=1).tolist() == [2, 2, 2]


def test_another_table_a_mask_and_itself(points):
    x, y = points(9, 3), points(14, 3)
    mask = torch.arange(14) % 3 != 0
    expected = chords(x, y).masked_fill(~mask, torch.inf)
    assert_close(nearest(x, y, mask=mask)[0][:, 0], expected.argmin(dim=1))
    table = torch.cat([y[:4], x])
    expected = chords(x, table)
    expected[:, 4:].fill_diagonal_(torch.inf)
    assert_close(nearest(x, table, itself=4)[0][:, 0], expected.argmin(dim=1))


def test_sets_are_separate(points):
    sets = torch.stack([torch.stack([points(8, 3) for _ in range(2)]) for _ in range(3)])
    index, r2 = nearest(sets, k=2)
    assert index.shape == (3, 2, 8, 2)
    for i in range(3):
        for j in range(2):
            assert_close((index[i, j], r2[i, j]), nearest(sets[i, j], k=2))


@each_implementation
@pytest.mark.usefixtures("implementation")
def test_a_planted_neighbour_is_found_in_float32_where_the_cosine_cannot_see_it(points):
    x = points(30, 8).float()
    x[5] = uc.project(x[20] + 3e-5 * x[1])
    x[6] = uc.project(x[20] + 1e-4 * x[2])  # farther: but both cosines with row 20 round to one
    index, r2 = nearest(x)
    assert index[20] == 5
    assert_close(r2[20, 0], (x[20] - x[5]).square().sum(), rtol=1e-6, atol=0)


def test_a_narrow_cone_keeps_its_neighbours_in_float32(points):
    x = uc.project(torch.eye(1, 16, dtype=torch.float64) + 1e-3 * points(200, 16)).float()
    expected = chords(x.double(), x.double()).fill_diagonal_(torch.inf).argmin(dim=1)
    assert_close(nearest(x)[0][:, 0], expected)


def test_nan_is_found_again(points):
    x = points(12, 4)
    x[3, 1] = torch.nan
    assert nearest(x)[1].isnan().any()


def test_nearest_of_rows_leaves_each_out(points):
    x = points(25, 3)
    x[4] = x[9]  # where two coincide, too
    rows = torch.tensor([4, 0, 9, 20])
    found = nearest_of_rows(x, rows, k=3)
    assert not (found == rows.unsqueeze(1)).any()
    expected = chords(x, x).fill_diagonal_(torch.inf)[rows].topk(3, dim=1, largest=False)
    assert_close(chords(x, x)[rows].gather(1, found), expected.values)


def test_a_row_is_left_out_wherever_it_is_and_the_farthest_where_it_is_not():
    near = torch.tensor([[4, 7, 9], [3, 5, 8], [1, 2, 6], [0, 5, 7]])
    assert without_itself(near, torch.tensor([4, 5, 6, 9])).tolist() == [[7, 9], [3, 8], [1, 2], [0, 5]]
