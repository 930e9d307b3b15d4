"""Even spacing by the kernels for GPUs: value and gradient of the reference, on any circles, near their axes too."""

import pytest
import torch
from torch.testing import assert_close

from tests.ops.triton_cases import DEVICE, both, circle_kernels, close, computed_by, table
from unclump import SSW, Sliced, axis_circles, great_circles, sliced
from unclump.ops.even_spacing import angles_of, combine, coordinates, gaps, squares_of_gaps
from unclump.ops.project import largest_entries

SIZES = [(2, 2), (65, 5), (40, 33)]
MORE_SIZES = [(n, d) for n in (3, 31, 64, 130) for d in (3, 16, 17, 32, 64, 65)] + [(70, 768)]


@pytest.fixture
def few_ranks(monkeypatch):
    """Several programs on a circle of few points."""
    monkeypatch.setattr(circle_kernels, "_RANKS", 32)


def value_and_gradient(compute, x):
    leaf = x.clone().requires_grad_()
    value = compute(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def drawn(kind, count, d):
    seeded = torch.Generator().manual_seed(4)
    make = axis_circles if kind == "axes" else great_circles
    return make(count, d, generator=seeded).to(DEVICE)


def check(x, circles):
    """Value and gradient are as exact as coordinates of float32 allow: of points near a circle's axis, less so."""
    with computed_by(kernels=True):
        value, gradient = value_and_gradient(lambda leaf: sliced(leaf, circles), x)
    wide, vectors = x.double(), circles.double() if circles.is_floating_point() else circles
    with computed_by(kernels=False):
        expected = value_and_gradient(lambda leaf: sliced(leaf, vectors), wide)
        along = coordinates(wide, vectors)
        gap = gaps(angles_of(along), None).abs()
    close(value.double(), expected[0])
    # With rounding errors of eps |x| in coordinates, angles are wrong by eps |x| / radius, as is one over the radius.
    error = torch.finfo(x.dtype).eps * ((1 + gap) / along.norm(dim=-2).square()).mean(dim=-2) / x.shape[-2]
    assert ((gradient - expected[1]).norm(dim=-1) <= 2 * wide.norm(dim=-1) * error).all()


@pytest.mark.usefixtures("few_ranks")
@pytest.mark.parametrize("kind", ["axes", "any"])
@pytest.mark.parametrize(("n", "d"), SIZES + [pytest.param(*size, marks=pytest.mark.deep) for size in MORE_SIZES])
def test_every_size(n, d, kind):
    check(3 * table(n, d), drawn(kind, 3, d))


@pytest.mark.parametrize("kind", ["axes", "any"])
def test_sets_and_more_circles_than_a_tile_or_than_axes(kind):
    check(table(2, 2, 11, 4), drawn(kind, 19, 4))


def test_rows_of_any_length_have_the_same_value_and_the_gradient_of_their_length():
    x, circles = table(20, 5), drawn("any", 2, 5)
    lengths = torch.logspace(-20, 18, 20, device=DEVICE).unsqueeze(1)
    with computed_by(kernels=True):
        value, gradient = value_and_gradient(lambda leaf: sliced(leaf, circles), x)
        scaled = value_and_gradient(lambda leaf: sliced(leaf, circles), lengths * x)
    close(scaled[0], value)
    close(scaled[1] * lengths, gradient)


def test_points_on_the_axis_of_a_circle_have_no_gradient_and_near_ones_a_bounded_one():
    x = table(12, 4)
    x[0], x[1], x[2] = 0, 0, 0
    x[0, 3], x[1, 3], x[1, 0], x[2, 2] = 1, 1, 1e-12, -1
    sets = torch.stack([x, 1e6 * x])  # how near is near depends on the length
    circles = torch.tensor([[0, 1]], device=DEVICE)
    found, expected = both(lambda: value_and_gradient(lambda leaf: sliced(leaf, circles), sets))
    lengths = sets.norm(dim=-1, keepdim=True)
    assert_close((found[0], lengths * found[1]), (expected[0], lengths * expected[1]), rtol=1e-5, atol=1e-5)
    assert (found[1][:, 0] == 0).all()
    assert found[1].isfinite().all()


def test_coinciding_points_have_the_value_of_the_reference():
    x = table(1, 6).expand(37, 6).contiguous()
    circles = drawn("any", 2, 6)
    (value, coefficients), (expected, _) = both(lambda: value_and_gradient(lambda leaf: sliced(leaf, circles), x))
    close(value, expected)
    assert coefficients.isfinite().all()


def test_a_nan_on_the_axes_is_seen_and_another_is_not():
    x, circles = table(9, 5), torch.tensor([[0, 3]], device=DEVICE)
    with computed_by(kernels=True):
        x[2, 1] = torch.nan
        assert sliced(x, circles).isfinite()
        x[2, 3] = torch.nan
        assert sliced(x, circles).isnan()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_rows_of_zeros_take_no_part_and_too_few_are_nothing(reduction):
    x, circles = table(4, 9, 4), drawn("any", 2, 4)
    x[0, 3], x[0, 7], x[1, 1:], x[3, 2] = 0, 0, 0, 0
    x[2] = 0
    found, expected = both(lambda: value_and_gradient(lambda leaf: sliced(leaf, circles, reduction=reduction), x))
    close(found, expected)
    assert (found[0] == 0).tolist() == [False, True, True, False]
    assert (found[1][0, [3, 7]] == 0).all()


def test_a_weight_for_each_set_scales_its_gradient():
    coefficients, circles = table(3, 2, 2, 7), drawn("any", 2, 5)
    scale = torch.tensor([1.0, -2.0, 0.5], device=DEVICE).view(3, 1, 1)
    close(*both(lambda: combine(coefficients, circles, 5, scale)))
    close(*both(lambda: combine(coefficients, drawn("axes", 2, 5), 5, scale)))


@pytest.mark.parametrize("objective", [Sliced, SSW])
def test_objectives_with_a_mask_and_a_queue_are_the_same(objective):
    x, queue = table(10, 4), table(6, 4, seed=3)
    mask = torch.arange(10, device=DEVICE) % 3 != 0

    def compute(leaf):
        made = objective(2, generator=torch.Generator(DEVICE).manual_seed(1))
        return made(leaf, weight=mask) + made(leaf, against=queue)

    found, expected = both(lambda: value_and_gradient(compute, x))
    close(found, expected)


@pytest.mark.usefixtures("at_the_door")
def test_wrong_circles_are_refused():
    with computed_by(kernels=True), pytest.raises(ValueError, match=r"expected circles of shape \(k, 2, 4\)"):
        squares_of_gaps(table(5, 4), torch.zeros(2, 2, 3, device=DEVICE), largest_entries(table(5, 4)), None, True)
