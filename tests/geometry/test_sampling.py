import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from unclump import orthonormal_blocks, sobol, uniform

each_start = pytest.mark.parametrize("start", [uniform, orthonormal_blocks, sobol])


@each_start
def test_points_of_starts_are_unit_and_each_is_uniform(start, generator):
    draws = torch.stack([start(7, 3, generator=generator, dtype=torch.float64) for _ in range(1000)])
    assert draws.shape == (1000, 7, 3)
    assert_close(torch.linalg.vector_norm(draws, dim=-1), torch.ones(1000, 7, dtype=torch.float64))
    for i in range(7):
        for axis in range(3):  # in three dimensions each coordinate is uniform in [-1, 1]
            assert stats.kstest(draws[:, i, axis], stats.uniform(-1, 2).cdf).pvalue > 1e-4


@each_start
def test_starts_follow_generator_dtype_and_default(start):
    first, again, other = (start(5, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32
    assert start(5, 4, dtype=torch.float64).dtype == torch.float64
    assert start(5, 4, dtype=torch.float16).dtype == torch.float32


@pytest.mark.parametrize(("n", "d"), [(12, 4), (10, 4), (3, 8), (2, 2), (1, 5)])
def test_blocks_are_orthonormal_and_independent(n, d, generator):
    x = orthonormal_blocks(n, d, generator=generator, dtype=torch.float64)
    assert x.shape == (n, d)
    for block in x.split(d):
        assert_close(block @ block.mT, torch.eye(len(block), dtype=torch.float64))
    if n > d:
        assert (x[0] - x[d]).abs().max() > 0.01


def test_sobol_points_are_more_even_than_independent_ones(generator):
    def unevenness(x):
        return torch.linalg.matrix_norm(x.mT @ x / len(x) - torch.eye(4) / 4)

    quasi, independent = (
        torch.stack([unevenness(start(1024, 4, generator=generator)) for _ in range(10)]).mean()
        for start in (sobol, uniform)
    )
    assert quasi < independent / 5


@pytest.mark.usefixtures("at_the_door")
@each_start
def test_wrong_counts_are_refused(start):
    with pytest.raises(ValueError, match="n >= 1, got 0"):
        start(0, 3)
    with pytest.raises(ValueError, match="d >= 2, got 1"):
        start(3, 1)
    with pytest.raises(TypeError, match="n to be an int, got float"):
        start(3.0, 3)
    with pytest.raises(TypeError, match=r"torch.Generator, got int"):
        start(3, 3, generator=0)


def test_sobol_beyond_its_tables_is_refused():
    with pytest.raises(ValueError, match=r"d <= 21201, .* got 21202; use uniform"):
        sobol(2, 21202)
