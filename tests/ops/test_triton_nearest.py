"""Nearest neighbours by the kernels for GPUs: those of the reference, at every size, in sets, masked, with twins."""

import pytest
import torch
from torch.testing import assert_close

from tests.ops.triton_cases import DEVICE, both, close, computed_by, nearest_kernels, small_tiles, table, three_parts
from unclump import project
from unclump.ops.nearest import nearest, select_nearest

__all__ = ["small_tiles", "three_parts"]  # fixtures
pytestmark = pytest.mark.usefixtures("small_tiles")

SIZES = [(1, 3), (2, 2), (3, 1), (33, 16), (40, 33)]
MORE_SIZES = [(n, d) for n in (31, 32, 40, 65) for d in (1, 2, 15, 17, 31, 32, 33, 64, 65)] + [(70, 768)]


def check(x, y=None, *, function=nearest, **choices):
    """The kernels find chords as short as the reference, to as many different rows, and each chord is that to its row.

    Which of two equally near rows it is may differ.
    """
    (index, r2), (_, expected) = both(lambda: function(x, y, **choices))
    close(r2, expected)
    finite = r2 < torch.inf
    others = x if y is None else y
    rows = others.gather(-2, index.flatten(-2).unsqueeze(-1).expand(*x.shape[:-2], -1, x.shape[-1]))
    chords = (rows.view(*index.shape, -1) - x.unsqueeze(-2)).square().sum(dim=-1)
    close(chords[finite], r2[finite])
    for row, known in zip(index.flatten(0, -2).tolist(), finite.flatten(0, -2).tolist(), strict=True):
        near = [number for number, is_known in zip(row, known, strict=True) if is_known]
        assert len(set(near)) == len(near)
    return index, r2


@pytest.mark.parametrize(("n", "d"), SIZES + [pytest.param(*size, marks=pytest.mark.deep) for size in MORE_SIZES])
@pytest.mark.parametrize("k", [1, pytest.param(3, marks=pytest.mark.deep), 8])
def test_the_nearest_of_every_size(n, d, k):
    x = table(n, d)
    check(x, k=k)


@pytest.mark.usefixtures("three_parts")
@pytest.mark.parametrize("k", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_parts_of_the_columns_are_merged(k):
    x = table(70, 6)
    check(x, k=k)


def test_sets_another_table_a_mask_and_itself():
    x, y = table(2, 1, 19, 5), table(2, 1, 37, 5, seed=1)
    mask = torch.rand(2, 1, 37, generator=torch.Generator().manual_seed(2)).to(DEVICE) < 0.4
    check(x, k=2)
    index, _ = check(x, y, k=3, mask=mask)
    assert mask.gather(-1, index.flatten(-2)).all()
    among = torch.cat([y[..., :9, :], x, y[..., 9:, :]], dim=-2)
    index, _ = check(x, among, k=2, itself=9)
    assert not (index == 9 + torch.arange(19, device=DEVICE).unsqueeze(-1)).any()
    check(x, k=1, mask=mask[..., :19])


def test_twins_are_each_others_nearest_and_a_near_third_is_told_from_a_nearer():
    x = table(40, 8)
    x[33] = x[2]
    x[5] = project(x[20] + 3e-5 * x[1])
    x[6] = project(x[20] + 1e-4 * x[3])  # farther: but both cosines with row 20 round to one
    with computed_by(kernels=True):
        index, r2 = nearest(x)
    assert index[[2, 33, 20], 0].tolist() == [33, 2, 5]
    assert_close(r2[20, 0], (x[20] - x[5]).square().sum(), rtol=1e-6, atol=0)
    assert r2[2, 0] == 0


def test_a_whole_clump_names_others_and_never_itself():
    x = table(1, 4).expand(37, 4).contiguous()
    with computed_by(kernels=True):
        index, r2 = nearest(x, k=3)
    own = torch.arange(37, device=DEVICE).unsqueeze(1)
    assert not (index == own).any()
    assert all(len(set(row)) == 3 for row in index.tolist())
    assert (r2 == 0).all()


def test_a_narrow_cone_keeps_its_neighbours():
    x = project(torch.eye(1, 16, device=DEVICE) + 1e-3 * table(40, 16))
    squared = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    with computed_by(kernels=True):
        assert_close(nearest(x)[0][:, 0], squared.fill_diagonal_(torch.inf).argmin(dim=1))


def test_more_than_there_are_is_infinitely_far():
    with computed_by(kernels=True):
        index, r2 = nearest(table(3, 4), k=4)
        masked, far = nearest(table(3, 4), k=1, mask=torch.tensor([True, False, False], device=DEVICE))
    assert r2.isfinite().sum(dim=1).tolist() == [2, 2, 2]
    assert (index[:, 2:] == 0).all()
    assert far.isinf()[:, 0].tolist() == [True, False, False]
    assert masked[1:, 0].tolist() == [0, 0]


def test_a_nan_reaches_every_chord_of_its_set_and_of_no_other():
    sets = table(3, 21, 4)
    sets[1, 7, 2] = torch.nan
    with computed_by(kernels=True):
        index, r2 = nearest(sets)
        _, by_rows = nearest(sets[1], sets[0])
    assert r2.isnan().all(dim=(1, 2)).tolist() == [False, True, False]
    assert not r2[::2].isnan().any()
    assert ((index >= 0) & (index < 21)).all()
    assert by_rows.isnan()[:, 0].nonzero()[:, 0].tolist() == [7]  # the table has none: only the row that has one


def test_what_objectives_select_by_is_the_same():
    x = table(45, 7)
    check(x, function=select_nearest)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_measured_in_float32(dtype):
    x = table(30, 9).to(dtype)
    index, r2 = nearest_kernels.nearest(x, None, None, 2, 0)
    with computed_by(kernels=False):
        expected = nearest(x.float(), k=2)
    assert_close(index, expected[0])
    close(r2, expected[1])


def test_more_neighbours_than_a_kernel_keeps_take_the_reference(monkeypatch):
    monkeypatch.setattr(nearest_kernels, "nearest", lambda *_: pytest.fail("kernel called"))
    with computed_by(kernels=True):
        assert nearest(table(20, 3), k=9)[0].shape == (20, 9)
