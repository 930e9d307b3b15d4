"""The search for the largest entries of a block, against its definition."""

import pytest
import torch

from unclump.ops import blocks
from unclump.ops.blocks import largest_of_columns


@pytest.mark.parametrize("pool", [1024, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (9, 1), (7, 5), (3, 9, 8), (2, 1, 1), (5, 0), (2, 5, 0)], ids=str)
def test_the_largest_entry_of_every_column_is_the_first_of_equal_ones(shape, dtype, pool, monkeypatch):
    monkeypatch.setattr(blocks, "_MAX_POOL", pool)
    block = torch.randint(4, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    block[..., 0, :] = -torch.inf
    best, row = largest_of_columns(block)
    expected = block.amax(dim=-2).unsqueeze(-1)
    assert torch.equal(best, expected)
    assert torch.equal(row, (block.mT == expected).int().argmax(dim=-1, keepdim=True))


def test_a_nan_is_the_largest_entry_and_minus_infinity_may_be():
    block = torch.full((6, 3), -torch.inf)
    block[2, 1], block[4, 1] = torch.nan, 1.0
    best, row = largest_of_columns(block)
    assert row.flatten().tolist() == [0, 2, 0]
    assert best[1].isnan()
