"""Rows written down where they went: their norms, their dtype, and the bound on moves after rounding."""

import math

import pytest
import torch

import unclump as uc
from tests.small_tables import clump, seeded
from unclump.dispersion.moves import bring_back, settle
from unclump.geometry.sphere import exp, log

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def moves(x, y):
    return uc.angle(uc.project(x.double()), uc.project(y.double()))


def elsewhere(x):
    return uc.project(torch.randn(x.shape, generator=seeded(3), dtype=torch.float64))


@each_dtype
@pytest.mark.parametrize("keep_norms", [True, False])
@pytest.mark.parametrize("degrees", [0.5, 3.0, 60.0])
def test_no_row_is_beyond_the_bound_as_written(dtype, keep_norms, degrees):
    x, bound = clump(300, 9, dtype), math.radians(degrees)
    found = settle(elsewhere(x), x, keep_norms=keep_norms, max_move=bound)
    assert found.dtype == dtype
    assert moves(x, found).max() <= bound
    assert moves(x, found).median() > 0.6 * bound  # and not far below it
    norms = x.double().norm(dim=-1) if keep_norms else torch.ones(300, dtype=torch.float64)
    rounding = 4 if dtype is torch.float64 else 2  # where norms are computed in double precision, they are rounded too
    torch.testing.assert_close(found.double().norm(dim=-1), norms, rtol=rounding * torch.finfo(dtype).eps, atol=0)


@each_dtype
def test_without_a_bound_rows_point_where_they_should(dtype):
    x, there = clump(50, 5, dtype), elsewhere(torch.empty(50, 5))
    found = settle(there, x, keep_norms=True)
    assert moves(there, found).max() < 2 * torch.finfo(dtype).eps * math.sqrt(5)


def test_a_bound_finer_than_the_dtype_leaves_rows_with_their_norm_as_they_are():
    x = clump(50, 5, torch.bfloat16)
    found = settle(elsewhere(x), x, keep_norms=True, max_move=1e-5)
    assert moves(x, found).max() <= 1e-5
    with pytest.raises(ValueError, match=r"expected max_move of at least 0.00\d* radians, got 1e-05"):
        settle(elsewhere(x), x, keep_norms=False, max_move=1e-5)


def test_a_norm_that_does_not_fit_the_new_direction_leaves_the_row():
    x = torch.tensor([[50_000.0, 50_000.0], [6e-8, 0.0], [1.0, 0.0]], dtype=torch.float16)
    found = settle(uc.project(torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])), x, keep_norms=True)
    assert torch.equal(found[0], x[0])
    assert not (found == 0).all(dim=-1).any()
    assert torch.equal(found[2], torch.tensor([0.0, 1.0], dtype=torch.float16))


def test_norms_beyond_the_squares_of_double_precision():
    x = torch.tensor([[1e200, 0.0], [0.0, 1e-200]], dtype=torch.float64)
    found = settle(uc.project(x.flip(1)), x, keep_norms=True)
    torch.testing.assert_close(found, x.flip(1), rtol=1e-14, atol=0)


@pytest.mark.parametrize("keep_norms", [True, False])
def test_rows_beyond_the_bound_end_at_it_and_not_where_they_were(keep_norms):
    draw = torch.Generator().manual_seed(0)
    before, aims = (torch.randn(3000, 100, generator=draw) for _ in range(2))
    bound = math.radians(10)
    after = settle(uc.project(aims), before, keep_norms=keep_norms, max_move=bound)
    turned = uc.angle(uc.project(before.double()), uc.project(after.double()))
    assert turned.max() <= bound
    assert turned.min() > bound - 1e-5


@pytest.mark.parametrize("rows", [slice(None), torch.tensor([7, 0, 3, 11, 5])], ids=["all", "some"])
def test_rows_beyond_the_bound_come_back_along_their_great_circle(rows, monkeypatch):
    """As by exp and log, in blocks; others are the same to the bit; an antipode goes anywhere within."""
    monkeypatch.setattr("unclump.dispersion.moves._BLOCK", 6 * 2)
    start = elsewhere(torch.empty(12, 6))
    table = uc.project(start + torch.linspace(0, 3, 12).unsqueeze(1) * elsewhere(torch.empty(12, 6)).flip(0))
    table[5], bound = -start[5], 0.4
    before = table.clone()
    bring_back(table, start, rows, bound)
    chosen = torch.zeros(12, dtype=torch.bool)
    chosen[rows] = True
    far = chosen & (uc.angle(start, before) > bound)
    assert 2 < far.sum() < 12
    assert torch.equal(table[~far], before[~far])
    assert uc.angle(start[5], table[5]) <= bound + 1e-12
    torch.testing.assert_close(table.norm(dim=1), torch.ones(12, dtype=torch.float64), rtol=0, atol=1e-14)
    turned = far & (torch.arange(12) != 5)
    displacement = log(start, before)
    expected = exp(start, bound * displacement / displacement.norm(dim=1, keepdim=True))
    torch.testing.assert_close(table[turned], expected[turned], rtol=0, atol=1e-14)
