"""The same input gives the same bits, wherever it lies in memory and whatever lies beside it.

The compiler chooses between vector and scalar instructions at run time, by how far arrays are apart. A sum that has
another order in the one than in the other is another number in its last bit.
"""

import itertools
import random
from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest
import torch

import unclump as uc
from tests.small_tables import seeded
from unclump.ops import native
from unclump.ops.kernel_sum import _native_kernel
from unclump.ops.native import circle, distances, nearest, pairs, projection, rows
from unclump.ops.native.compiler import compiled
from unclump.ops.native.projection import arrays

SIZES = [
    (40, 5),
    (40, 9),
    (21, 13),
    (9, 17),
    (6, 64),
    (3, 100),
]  # small: tables are near each other, and have remainders
PLACES = 40

each_size = pytest.mark.parametrize(("n", "d"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def table(n, d, dtype=torch.float32, seed=0):
    return torch.randn(n, d, generator=seeded(seed), dtype=torch.float64).to(dtype)


def unit(n, d, dtype=torch.float32, seed=0):
    x = table(n, d, torch.float64, seed)
    return (x / x.norm(dim=1, keepdim=True)).to(dtype)


def placed(tensors, order, gaps, start):
    """Copies of the tensors in one buffer, in this order, after as many unused bytes each."""
    memory = torch.zeros(sum(x.nbytes for x in tensors) + sum(gaps) + start + 256, dtype=torch.uint8)
    end, copies = -memory.data_ptr() % 64 + start, {}
    for place, gap in zip(order, gaps, strict=True):
        x = tensors[place]
        end += gap
        end += -end % x.itemsize
        copies[place] = memory[end : end + x.nbytes].view(x.dtype).view(x.shape).copy_(x)
        end += x.nbytes
    return [copies[place] for place in range(len(tensors))]


def bits(results):
    """Of tensors, arrays and numbers, nested in any way."""
    if isinstance(results, torch.Tensor | np.ndarray):
        return np.asarray(results).tobytes()
    if isinstance(results, Iterable):
        return tuple(map(bits, results))
    return repr(results)


def assert_same_everywhere(compute, *tensors):
    """`compute` returns, and leaves in its arguments, the same bits wherever they lie."""
    chance, kept, found = random.Random(0), [], set()
    orders = list(itertools.permutations(range(len(tensors))))
    for _ in range(PLACES):
        gaps = [chance.choice([0, 0, 0, 4, 8, 16, 32, 64, 128, 512]) for _ in tensors]
        here = placed(tensors, chance.choice(orders), gaps, chance.randrange(0, 64, 4))
        found.add(bits((compute(*here), here)))
        # The loops' own arrays come to lie elsewhere, too.
        kept = [*kept[chance.randrange(8) :], *(np.empty(chance.randrange(1, 4096), np.uint8) for _ in range(9))]
    assert len(found) == 1


# Updates


def sgd(x, grad, momentum_buffer=None, *, retraction="exp", rows_=None):
    choices = {"lr": 0.05, "momentum": 0.9, "retraction": retraction}
    rows.sgd_update(x, grad, momentum_buffer, rows=rows_, threads=1, **choices)


def adam(x, grad, exp_avg, exp_avg_sq, steps, *, retraction="exp", lazy=False, rows_=None):
    choices = {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-8, "retraction": retraction}
    rows.adam_update(x, grad, exp_avg, exp_avg_sq, steps, rows=rows_, lazy=lazy, threads=1, **choices)


@pytest.mark.parametrize("retraction", ["exp", "project"])
@each_dtype
@each_size
def test_updates(n, d, dtype, retraction):
    points = unit(n, d, dtype), table(n, d, dtype, 1)
    moments = table(n, d, dtype, 2), table(n, 1, dtype, 3).abs(), torch.full((n, 1), 3)
    assert_same_everywhere(partial(sgd, retraction=retraction), *points)
    assert_same_everywhere(partial(sgd, retraction=retraction), *points, moments[0])
    for lazy in (False, True):
        assert_same_everywhere(partial(adam, retraction=retraction, lazy=lazy), *points, *moments)


@each_size
def test_updates_of_named_rows(n, d):
    named = torch.arange(n + 4) % n
    points = unit(n, d), table(n + 4, d, seed=1)
    moments = table(n, d, seed=2), table(n, 1, seed=3).abs(), torch.full((n, 1), 3)
    assert_same_everywhere(lambda k, *given: sgd(*given, rows_=k), named, *points, moments[0])
    assert_same_everywhere(lambda k, *given: adam(*given, rows_=k), named, *points, *moments)


@compiled
def room(size):
    """An array from where the loops have theirs."""
    return np.empty(size, np.uint8)


def before_free_memory(x):
    """A copy of `x`, just after which there is room that the next array of a row's size will take; or None.

    And all else that must not be released meanwhile, for its room would be taken instead.
    """
    held = []
    for _ in range(300):  # until all gaps are filled, and what is allocated next lies next
        copy, after = np.empty(tuple(x.shape), x.numpy().dtype), room(x[0].nbytes)
        if 0 <= after.ctypes.data - copy.ctypes.data - copy.nbytes < 96:
            copy[:] = x
            return torch.from_numpy(copy), held  # but for `after`
        held.append((copy, after))
    return None, held


@pytest.mark.parametrize("retraction", ["exp", "project"])
@each_dtype
def test_updates_just_before_memory_that_a_loop_may_take(dtype, retraction):
    """A loop that writes a row of its own would take other instructions for the last rows of the table before it."""
    tried = 0
    for seed, d in enumerate(5 * [4, 5, 7, 8, 9, 12, 13]):
        x, grad, momentum = (made(40, d, dtype, 3 * seed + k) for k, made in enumerate((unit, table, table)))
        expected, moved = placed([x, momentum], [0, 1], [0, 4096], 0)
        near, held = before_free_memory(x)
        if near is not None:
            sgd(near, grad, momentum, retraction=retraction)
            sgd(expected, grad, moved, retraction=retraction)
            assert bits((near, momentum)) == bits((expected, moved))
            tried += 1
        del held
    if tried == 0:
        pytest.skip("the system's allocator keeps small arrays apart from large ones")


# Projection and distances


@each_size
def test_projection(n, d):
    x, grad = table(n, d), table(n, d, seed=1)
    x[n // 2] = 0
    x[n // 3] *= 1e-30
    assert_same_everywhere(projection.project, x)
    assert_same_everywhere(projection.project_backward, unit(n, d), x[:, 0].abs() + 1, grad)
    into = lambda *given: projection._project_backward_by_team(*arrays(*given), 1)  # noqa: E731
    assert_same_everywhere(into, unit(n, d), x[:, 0].abs() + 1, grad, torch.zeros(n, d))


@pytest.mark.parametrize("kind", ["chordal", "geodesic", "squared"])
@each_size
def test_distances(n, d, kind):
    x = unit(n, d)
    x[-1] = x[-2]
    for logarithm in (False, True):

        def mean(x, logarithm=logarithm):
            choices = {"distance": kind, "logarithm": logarithm}
            return native.fused_mean_of_nearest(x.unsqueeze(0), needs_grad=True, **choices)

        assert_same_everywhere(mean, x)


@each_size
def test_nearest(n, d):
    x, samples = unit(n, d), table(3 * n, d, seed=1)
    assert_same_everywhere(lambda x: nearest.nearest(x, [(slice(0, len(x)), slice(0, len(x)))]), x)
    assert_same_everywhere(nearest.nearest_to, samples, x)
    mean = lambda x, samples: distances.mean_square_to_nearest(x, samples, wanted=True)  # noqa: E731
    assert_same_everywhere(mean, x, samples)


# Pairs


@pytest.mark.parametrize("kernel", [uc.Gaussian(2.0), uc.Laplace(1.0), uc.Riesz(1.0)], ids=repr)
@pytest.mark.parametrize(("n", "d"), [*SIZES, (150, 12)])
def test_kernel_sums(n, d, kernel):
    x, known = unit(n, d), _native_kernel(kernel)
    x[-1] = x[0]
    assert_same_everywhere(lambda x: pairs.mean_over_pairs(x, known, wanted=True, most=1), 3 * x)


# Circles


@pytest.mark.parametrize("count", [1, 3])
@each_size
def test_circles(n, d, count):
    x, both = (
        table(n, d),
        (uc.great_circles(count, d, generator=seeded(1)), uc.axis_circles(count, d, generator=seeded(1))),
    )
    for circles in both:
        assert_same_everywhere(circle.coordinates_of, x, circles)
        assert_same_everywhere(lambda x, circles: circle.even_spacing(x, circles, 1e-6), x, circles)
        coefficients = table(2 * count, n, seed=2)
        assert_same_everywhere(lambda c, circles: circle.combine(c, circles, d, 0.3), coefficients, circles)


@pytest.mark.parametrize("n", [3, 8, 13, 21, 40, 63])
def test_angles_and_what_follows_from_them(n):
    steep = torch.logspace(0, -12, n)[torch.randperm(n, generator=seeded(1))]  # so that the order of their sum counts
    coordinates = torch.stack([torch.ones(n), steep])
    inverse, gaps, angles = table(n, 1, seed=2).flatten().abs() + 1, table(n, 1, seed=3).flatten(), torch.zeros(n)
    one = np.float32(1)

    def sum_of_angles(coordinates, angles):
        return circle._angles(coordinates.numpy(), 0, angles.numpy())

    def sum_of_squares(coordinates, inverse, gaps):
        return circle._coefficients(coordinates.numpy(), 0, 1, inverse.numpy(), gaps.numpy(), one, one)

    assert_same_everywhere(sum_of_angles, coordinates, angles)
    assert_same_everywhere(sum_of_squares, coordinates, inverse, gaps * steep)
