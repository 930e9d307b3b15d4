"""Clumped rows part, in every dtype, and no other row changes by a bit."""

import math

import numpy as np
import pytest
import torch

import unclump as uc
from tests.small_tables import seeded

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def planted(dtype=torch.float32, n=200, d=12):
    """Norms from 0.5 to 8; rows 3, 40 and 41 coincide, 7 is 60 times longer than 90 and 0.3 degrees off it."""
    x = torch.randn(n, d, generator=seeded(5), dtype=torch.float64)
    x *= torch.linspace(0.5, 8, n, dtype=torch.float64).unsqueeze(-1) / x.norm(dim=-1, keepdim=True)
    x[40] = x[3]
    x[41] = x[3]
    x[90] = x[7] / 60
    x[90, 0] += 0.005 * x[90].norm()
    return x.to(dtype)


def raw(x):
    """The bytes of every row."""
    return x.contiguous().view(torch.uint8).reshape(len(x), -1)


@each_dtype
def test_duplicates_part_and_all_other_rows_stay_to_the_bit(dtype):
    x = planted(dtype)
    found = uc.separate_duplicates(x, generator=seeded())
    assert found.rows.tolist() == [3, 7, 40, 41, 90]
    changed = (raw(found.points) != raw(x)).any(dim=1).nonzero()[:, 0]
    assert changed.tolist() == found.rows.tolist()
    assert found.points.dtype == dtype
    assert uc.nearest_angles(found.points).min() > 1.5 * found.within


@each_dtype
def test_norms_are_kept(dtype):
    x = planted(dtype)
    after, before = (table.double().norm(dim=-1) for table in (uc.separate_duplicates(x).points, x))
    torch.testing.assert_close(after, before, rtol=2 * torch.finfo(dtype).eps, atol=0)


@each_dtype
def test_no_row_moves_beyond_the_bound_after_rounding(dtype):
    x, bound = planted(dtype), math.radians(1.3)
    found = uc.separate_duplicates(x, max_move=bound, generator=seeded())
    moves = uc.angle(*(uc.project(table.double()) for table in (x, found.points)))
    assert moves.max() <= bound
    assert moves.max() > 0.5 * bound


def test_rows_part_from_near_neighbours_that_stay():
    x = torch.eye(3, dtype=torch.float64)
    near = [x[0] + torch.tensor([0.0, math.sin(a), math.cos(a)]) * 0.02 for a in (0, 2, 4)]  # 1.15 degrees
    x = torch.stack([x[0], x[0], *near, x[1]])
    found = uc.separate_duplicates(x, within=math.radians(1), generator=seeded())
    assert found.rows.tolist() == [0, 1]
    assert torch.equal(found.points[2:], x[2:])
    assert uc.nearest_angles(found.points)[:2].min() >= math.radians(2) * (1 - 1e-9)


def test_a_large_clump_parts():
    x = torch.randn(300, 8, generator=seeded())
    x[100:] = x[100]
    found = uc.separate_duplicates(x, generator=seeded(1))
    assert found.rows.tolist() == list(range(100, 300))
    assert uc.nearest_angles(found.points)[100:].min() > 1.99 * found.within


def test_exact_duplicates_alone():
    x = planted(torch.float64)
    found = uc.separate_duplicates(x, within=0.0, generator=seeded())
    assert found.rows.tolist() == [3, 40, 41]
    assert torch.equal(found.points[[7, 90]], x[[7, 90]])


def test_frozen_rows_stay_even_in_a_clump():
    x = planted()
    found = uc.separate_duplicates(x, frozen=[3, 7], generator=seeded())
    assert found.rows.tolist() == [40, 41, 90]
    assert torch.equal(found.points[[3, 7]], x[[3, 7]])
    assert uc.min_angle(found.points) > 1.5 * found.within


def test_a_table_without_clumps_is_returned_as_it_is():
    x = torch.randn(50, 8, generator=seeded()).numpy()
    found = uc.separate_duplicates(x)
    assert isinstance(found.points, np.ndarray)
    assert found.points.tobytes() == x.tobytes()
    assert found.points is not x
    assert len(found.rows) == 0


def test_the_usual_angle_is_that_of_a_crowded_sphere():
    pairs = 500 * 499 / 2  # in 3 dimensions a cap of angle t holds (1 - cos t) / 2 of the sphere
    assert uc.duplicate_angle(500, 3) == pytest.approx(math.acos(1 - 2 * math.log(2) / pairs) / 10, rel=1e-4)
    assert uc.duplicate_angle(500, 2) == pytest.approx(0.01 * math.pi / pairs)  # and one of angle t holds t / pi
    assert uc.duplicate_angle(2, 5) == pytest.approx(math.radians(1))  # the cap


def test_the_smallest_angle_of_uniform_points_is_ten_times_the_usual_one():
    found = [uc.min_angle(uc.uniform(100, 3, generator=seeded(seed))) for seed in range(60)]
    above = sum(angle > 10 * uc.duplicate_angle(100, 3) for angle in found)
    assert 18 <= above <= 42  # half of them, within three standard deviations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": math.radians(1), "max_move": 1e-3}, "expected room to part 5 rows by more than 1 degrees, got 5"),
        ({"within": -0.1}, "expected within from 0"),
        ({"within": math.pi}, "expected within from 0"),
        ({"max_move": 0.0}, "max_move > 0"),
        ({"generator": 3}, "torch.Generator"),
        ({"frozen": [200]}, "no such row"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message, at_the_door):
    with pytest.raises((ValueError, TypeError), match=message):
        uc.separate_duplicates(planted(), **options)


def test_too_many_rows_for_a_circle_are_refused():
    x = torch.randn(400, 2, generator=seeded())
    x[:] = x[0]
    with pytest.raises(ValueError, match="expected room to part 400 rows"):
        uc.separate_duplicates(x, within=math.radians(1))


def test_what_a_dtype_cannot_tell_apart_is_refused():
    x = planted(torch.bfloat16, d=3)
    with pytest.raises(ValueError, match="still nearer in bfloat16"):
        uc.separate_duplicates(x, max_move=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [500, 3000])
def test_duplicates_on_the_circle_come_apart_where_angles_are_tiny(n, dtype):
    x = uc.uniform(n, 2, generator=torch.Generator().manual_seed(0), dtype=dtype)
    x[7] = x[3]
    found = uc.separate_duplicates(x, generator=torch.Generator().manual_seed(0))
    assert {3, 7} <= set(found.rows.tolist())
    assert uc.nearest_angles(found.points)[[3, 7]].min() > found.within


def test_the_result_prints_itself_in_a_line():
    found = uc.separate_duplicates(torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    assert repr(found) == "Separated(3 x 3; 2 rows had another within 1 degrees)"
