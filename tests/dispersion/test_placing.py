"""New rows go where there is room."""

import math
import re

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import clump, same, seeded
from unclump.dispersion.placing import _nearest_rows, place


@pytest.mark.parametrize("d", [3, 4, 8])
def test_the_missing_vertices_of_a_cross_polytope_are_found(d):
    new = place(d, 7 * torch.eye(d, dtype=torch.float64), generator=seeded())
    assert_close(torch.cdist(-torch.eye(d).double(), new).amin(dim=1), torch.zeros(d).double(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("d", [2, 5, 9])
def test_a_simplex_is_completed(d, simplex):
    some = simplex(d)[: (d + 1) // 2]
    whole = torch.cat([some, place(d + 1 - len(some), some, generator=seeded())])
    assert_close(uc.min_angle(whole), math.acos(-1 / d), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("n", "d", "count"), [(60, 3, 1), (60, 3, 40), (300, 24, 20), (1, 2, 3)])
def test_new_rows_are_farther_than_the_best_of_the_candidates(n, d, count):
    x = clump(n, d)
    candidates = uc.uniform(500, d, generator=seeded())
    chosen = uc.project(x)
    for _ in range(count):  # greedy, as a loop
        room = uc.angle(candidates.unsqueeze(1), chosen).amin(dim=1)
        chosen = torch.cat([chosen, candidates[room.argmax()].unsqueeze(0)])
    new = place(count, x, samples=500, generator=seeded())
    assert new.shape == (count, d)
    assert_close(new.norm(dim=1), torch.ones(count))

    def room_of(z):
        return uc.nearest_angles(z)[n:]

    found = room_of(torch.cat([uc.project(x), new]))
    assert found.min() > room_of(chosen).min() * 1.01
    assert found.mean() > room_of(chosen).mean()


def test_a_climb_that_goes_astray_is_not_followed(monkeypatch):
    x = clump(60, 3)
    monkeypatch.setattr("unclump.dispersion.placing._SHARPNESS", [])
    greedy = place(20, x, samples=2000, generator=seeded())
    monkeypatch.setattr("unclump.dispersion.placing._SHARPNESS", [0.1])  # steps of ten times the room there is
    assert same(place(20, x, samples=2000, generator=seeded()), greedy)


def test_the_blocks_of_place_make_no_difference(monkeypatch):
    x = clump(50, 4, torch.float64)
    whole = place(7, x, samples=100, generator=seeded())
    monkeypatch.setattr("unclump.ops.nearest.block_entries", lambda x: 33)
    assert_close(place(7, x, samples=100, generator=seeded()), whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_place_keeps_the_kind(dtype):
    x = clump(20, 3, torch.float64).numpy().astype(dtype)
    new = place(2, x, samples=100, generator=seeded())
    assert isinstance(new, np.ndarray)
    assert new.dtype == x.dtype
    np.testing.assert_array_equal(new, place(2, torch.from_numpy(x), samples=100, generator=seeded()).numpy())


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, torch.eye(3)), ValueError, "count >= 1, got 0"),
        ((200_000, torch.eye(3)), ValueError, "as many samples as new rows, got 10000 for 200000"),
        ((1, torch.ones(3)), ValueError, "got (3,)"),
        ((1, [[1.0, 2.0]]), TypeError, "got list"),
    ],
)
def test_place_refuses_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        place(*arguments)


def test_a_table_of_zeros_leaves_nothing_to_keep_away_from():
    with (
        pytest.warns(UserWarning, match=r"nothing but zeros in 2 rows \(0, 1\)"),
        pytest.raises(ValueError, match=r"got \(0, 3\)"),
    ):
        place(1, torch.zeros(2, 3))


@pytest.mark.parametrize(("n", "count"), [(300, 5), (300, 1), (7, 20), (1, 2)])
def test_new_rows_repel_each_other_as_the_rows_of_the_table_do(n, count):
    """The nearest of new rows are those in the table with the new rows at its end, which is never put together."""
    x, y = (uc.project(torch.randn(m, 4, generator=seeded(m), dtype=torch.float64)) for m in (n, count))
    near, room = _nearest_rows(x, y)
    whole = torch.cat([x, y])
    angles = uc.angle(y.unsqueeze(1), whole)
    angles[torch.arange(count), n + torch.arange(count)] = math.inf
    order = angles.argsort(dim=1)[:, : near.shape[1]]
    assert near.shape[1] == min(256, n + count - 1)
    assert torch.equal(near, order)
    assert_close(room, angles.amin(dim=1))
