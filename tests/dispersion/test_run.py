"""What a record measures."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import clump
from unclump.dispersion.run import Run
from unclump.distributed.ranks import Alone


def run_of(x: torch.Tensor) -> Run:
    table = nn.Parameter(x.clone())
    optimizer = uc.SphereAdam([table], lr=1e-3)
    return Run(table, uc.KoLeo(), optimizer, None, batch_size=4, ranks=Alone([len(x)]), is_own_optimizer=True)


@pytest.mark.parametrize("n", [31, 32, 75])  # fewer rows than are added at a time, as many, and some over
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_variance_is_that_of_all_rows(n, dtype):
    x = uc.project(clump(n, 5, dtype) + 0.5)
    run = run_of(x)
    run.record(torch.tensor(0.5))
    _, value, smallest, variance, _ = run.records[0]
    assert value == 0.5
    assert_close(variance, uc.spherical_variance(x), rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-8)
    assert_close(smallest, uc.min_angle(x))


def test_rows_that_became_nan_are_named():
    """Even if the objective is finite, because the batch did not contain these rows."""
    run = run_of(clump(40, 3))
    run.table.data[35, 1] = torch.nan
    with pytest.raises(ValueError, match=r"NaN or infinity in 1 row \(35\) at step 0"):
        run.record(torch.tensor(0.5))
