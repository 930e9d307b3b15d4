"""Kernel sums by the kernels for GPUs: those of the reference, for every kernel, size and weight, twins among them."""

import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import KERNELS
from tests.ops.triton_cases import DEVICE, both, computed_by, small_tiles, sum_kernels, table, three_parts
from unclump import Gaussian, Laplace, Riesz, project
from unclump.geometry.sphere import tangent
from unclump.kernels import Relative
from unclump.ops.kernel_sum import kernel_sum

__all__ = ["small_tiles", "three_parts"]  # fixtures
pytestmark = pytest.mark.usefixtures("small_tiles")

ALL = [*KERNELS, uc.FramePotential(), Relative(Gaussian(2.0)), Riesz(-0.5), Riesz(2.0)]
IN_SHORT = [Gaussian(2.0), Laplace(1.5), Riesz(1.0), uc.FramePotential()]
SIZES = [(1, 3), (2, 2), (5, 1), (33, 5), (40, 33)]
MORE_SIZES = [(n, d) for n in (31, 32, 65) for d in (1, 2, 16, 17, 32, 33, 64, 65)] + [(70, 768)]


def check(x, kernel, y=None, *, rtol=3e-6, **choices):
    """Sums and tangent gradient as the reference has them in double precision, of the same points."""
    with computed_by(kernels=True):
        sums, gradient = kernel_sum(x, kernel, y, **choices)
    wide = {name: value.double() if isinstance(value, torch.Tensor) else value for name, value in choices.items()}
    with computed_by(kernels=False):
        expected = kernel_sum(x.double(), kernel, None if y is None else y.double(), **wide)
    assert_close(sums.double(), expected[0], rtol=rtol, atol=rtol * expected[0].abs().mean().item())
    assert gradient.isfinite().all()
    if x.shape[-1] == 1:
        return  # two points, where nothing is tangent
    error = (tangent(x.double(), gradient.double()) - tangent(x.double(), expected[1])).norm(dim=-1)
    assert error.max() <= rtol * tangent(x.double(), expected[1]).norm(dim=-1).max()


each_kernel = pytest.mark.parametrize(
    "kernel", IN_SHORT + [pytest.param(one, marks=pytest.mark.deep) for one in ALL if one not in IN_SHORT], ids=repr
)


@each_kernel
def test_sums_and_gradient_are_those_of_the_reference(kernel):
    x = table(40, 5)
    x[7], x[30] = -x[1], project(x[2] + 1e-3 * x[3])
    check(x, kernel, rtol=2e-5)  # in float32 squared chords of 1e-6 have five digits


@pytest.mark.parametrize(("n", "d"), SIZES + [pytest.param(*size, marks=pytest.mark.deep) for size in MORE_SIZES])
def test_every_size(n, d):
    check(table(n, d), Laplace(1.0, "shifted"))


@pytest.mark.usefixtures("three_parts")
@pytest.mark.parametrize("n", [20, 70])
def test_parts_of_the_columns_are_added(n):
    x = table(n, 4)
    x[11] = project(x[12] + 1e-2 * x[3])
    check(x, Riesz(1.0), rtol=1e-5)


@pytest.mark.usefixtures("three_parts")
def test_parts_of_several_sets_are_kept_apart():
    check(table(3, 40, 4), Gaussian(2.0))  # for which tiles without coinciding points are far


@pytest.mark.parametrize("kernel", [Riesz(1.0), Gaussian(2.0)], ids=repr)  # by near tiles alone, and by far ones
def test_weights_on_both_sides_other_points_and_itself(kernel):
    x, y = table(2, 19, 3), table(2, 21, 3, seed=1)
    seeded = torch.Generator().manual_seed(2)
    right, left = torch.rand(2, 40, generator=seeded).to(DEVICE), torch.randn(2, 19, generator=seeded).to(DEVICE)
    among = torch.cat([y, x], dim=-2)
    check(x, kernel, among, itself=21, right=right, left=left, rtol=1e-5)
    check(x, kernel, among, itself=21, rtol=1e-5)
    check(x, kernel, y, right=right[:, :21], rtol=1e-5)
    check(x, kernel, left=left, rtol=1e-5)
    check(x, kernel, right=right[:, :19], rtol=1e-5)
    with computed_by(kernels=True):
        alone, nothing = kernel_sum(x, kernel, needs_grad=False)
        assert nothing is None
        assert_close(alone, kernel_sum(x, kernel)[0], rtol=0, atol=0)


@pytest.mark.parametrize("kernel", [Riesz(1.0), Laplace(), Gaussian(2.0)], ids=repr)
def test_coinciding_rows_are_as_far_apart_as_the_reference_takes_them_to_be(kernel):
    x = table(35, 6)
    x[33] = x[2]
    (sums, gradient), (expected, force) = both(lambda: kernel_sum(x, kernel))
    assert_close(sums, expected, rtol=1e-5, atol=1e-5)
    assert_close(tangent(x, gradient), tangent(x, force), rtol=1e-4, atol=1e-4 * force.abs().mean().item())


def test_a_whole_clump_comes_apart_by_different_pushes():
    x = torch.ones(5, 3, device=DEVICE) / math.sqrt(3)
    with computed_by(kernels=True):
        gradient = kernel_sum(x, Riesz(1.0))[1]
    assert gradient.isfinite().all()
    assert len(tangent(x, gradient)[:, 0].unique()) == 5


def test_antipodes_have_finite_forces_of_the_size_of_the_others():
    x = table(24, 3)
    x[1] = -x[0]
    x[3] = project(-x[2] + 1e-3 * x[4])
    unit = project(x.double())  # rounding to float32 leaves the sphere by more than twice as far as matters here
    with computed_by(kernels=True):
        gradient = tangent(unit, kernel_sum(x, Laplace())[1].double())
    with computed_by(kernels=False):
        expected = tangent(unit, kernel_sum(unit, Laplace())[1])
    assert_close(gradient[2:], expected[2:], rtol=1e-3, atol=1e-3)
    assert_close(gradient[:2], expected[:2], rtol=0, atol=4.0)  # the angle has a corner: any direction is as good


def test_a_nan_reaches_every_sum_of_its_set_and_no_other():
    sets = table(2, 20, 4)
    sets[1, 3, 2] = torch.nan
    with computed_by(kernels=True):
        sums, _ = kernel_sum(sets, Riesz(1.0))
    assert sums[1].isnan().all()
    assert sums[0].isfinite().all()


def test_the_same_points_have_the_same_bits():
    x = table(70, 9)
    with computed_by(kernels=True):
        first, again = kernel_sum(x, Riesz(1.0)), kernel_sum(x.clone(), Riesz(1.0))
    assert_close(first, again, rtol=0, atol=0)


def test_ones_own_and_steep_kernels_take_the_reference():
    class Own(Gaussian):
        pass

    assert sum_kernels.code_of(Own()) is None
    assert sum_kernels.code_of(Riesz(64.0)) is None
    assert sum_kernels.code_of(Riesz(1.0)) is not None
