"""Neighbours that two tables share."""

import pytest
import torch

import unclump as uc
from tests.small_tables import clump, seeded


def by_definition(x, y, k):
    """For every row the common neighbours, by the whole matrix."""
    total = 0
    for i in range(len(x)):
        near = []
        for table in (x, y):
            cosine = uc.project(table.double()) @ uc.project(table.double())[i]
            near.append(set([j for j in cosine.argsort(descending=True).tolist() if j != i][:k]))
        total += len(near[0] & near[1]) / k
    return total / len(x)


def test_is_the_mean_of_common_neighbours(monkeypatch):
    monkeypatch.setattr("unclump.ops.nearest.block_entries", lambda x: 512)  # many blocks
    x = clump(90, 6)
    y = x + 0.3 * torch.randn(90, 6, generator=seeded())
    found = uc.neighbour_overlap(x, y, neighbours=7)
    assert found == pytest.approx(by_definition(x, y, 7), abs=1e-12)
    assert 0.2 < found < 0.8


def test_norms_and_rotations_change_nothing(rotation):
    x = clump(60, 5, torch.float64)
    assert uc.neighbour_overlap(x, x @ rotation(5) * torch.rand(60, 1, dtype=torch.float64)) == 1


def test_a_sample_is_near_the_whole():
    x = clump(1000, 6)
    y = x + 0.3 * torch.randn(1000, 6, generator=seeded())
    whole = uc.neighbour_overlap(x, y, samples=None)
    assert uc.neighbour_overlap(x.numpy(), y.numpy(), samples=400, generator=seeded()) == pytest.approx(whole, abs=0.03)


def test_a_small_table_has_fewer_neighbours():
    assert uc.neighbour_overlap(torch.eye(3), torch.eye(3).flip(0)) == 1


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="the same rows in both tables, got 4 and 5"):
        uc.neighbour_overlap(torch.eye(4), torch.eye(5))
