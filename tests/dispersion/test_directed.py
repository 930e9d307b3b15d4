"""Rows of zeros, as padding is: they take no part, and stay as they are."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import clump, same, seeded
from unclump.dispersion.loop import disperse

ZEROS, OTHERS = [0, 17, 39], [row for row in range(40) if row not in (0, 17, 39)]
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)


def padded(dtype=torch.float64):
    x = clump(40, 5).to(dtype)
    x[ZEROS] = 0
    return x


def listed():
    return pytest.warns(UserWarning, match=r"the table has nothing but zeros in 3 rows \(0, 17, 39\)")


@each_dtype
@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize(
    "optimizer",
    [None, partial(uc.SphereSGD, lr=0.1, momentum=0.9), partial(torch.optim.SGD, lr=0.1)],
    ids=["adam", "sgd", "torch"],
)
def test_a_run_is_that_of_the_other_rows(dtype, batch_size, optimizer):
    x = padded(dtype)
    options = {"steps": 20, "lr": 0.05, "batch_size": batch_size, "max_move": 0.8, "optimizer": optimizer}
    with listed():
        found = disperse(x, uc.KoLeo(), frozen=[0, 5, 17, 20], generator=seeded(), **options)
    alone = disperse(x[OTHERS], uc.KoLeo(), frozen=[4, 18], generator=seeded(), **options)
    assert same(found.points[OTHERS], alone.points)
    assert not found.points[ZEROS].any()
    assert found.history.rows == 37
    assert same(x, padded(dtype))


def test_a_stopped_run_continues(tmp_path):
    make = partial(disperse, padded(), "koleo", lr=0.05, batch_size=16)
    with listed():
        whole = make(steps=20, generator=seeded())
    calls = iter(range(100))

    def stop(step):
        if next(calls) == 10:
            raise KeyboardInterrupt
        return 1.0

    with listed():
        make(steps=20, generator=seeded(), schedule=stop, checkpoint=tmp_path / "state", checkpoint_seconds=1e-9)
    with listed():
        again = make(steps=20, generator=seeded(), schedule=lambda _: 1.0, checkpoint=tmp_path / "state")
    assert same(whole.points, again.points)


def test_too_few_rows_with_a_direction_are_refused():
    x = torch.zeros(5, 3)
    x[1, 0] = 1
    with pytest.warns(UserWarning, match="in 4 rows"), pytest.raises(ValueError, match=r"n >= 2 .* got \(1, 3\)"):
        disperse(x, uc.KoLeo(), steps=2)
    x[2, 0] = np.inf
    with pytest.raises(ValueError, match=r"an infinite value in 1 row \(2\)"):
        disperse(x, uc.KoLeo(), steps=2)


def test_duplicates_are_separated_around_them():
    x = padded()
    x[20] = x[30]
    with listed():
        found = uc.separate_duplicates(x, within=1e-3, frozen=[3, 17], generator=seeded())
    alone = uc.separate_duplicates(x[OTHERS], within=1e-3, frozen=[2], generator=seeded())
    assert found.rows.tolist() == [20, 30]
    assert same(found.points[OTHERS], alone.points)
    assert not found.points[ZEROS].any()


def test_new_rows_are_placed_as_without_them():
    with listed():
        found = uc.place(3, padded(), generator=seeded())
    assert_close(found, uc.place(3, padded()[OTHERS], generator=seeded()))
    with pytest.warns(UserWarning, match="zeros"), pytest.raises(ValueError, match="n >= 1"):
        uc.place(3, torch.zeros(4, 3))


def test_a_table_without_zeros_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        disperse(clump(10, 3), uc.KoLeo(), steps=2)
