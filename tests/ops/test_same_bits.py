"""The same input gives the same bits, wherever it lies in memory and whatever lies beside it.

A compiler may choose between vector and scalar instructions at run time, by how far arrays are apart. A sum that has
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
from unclump import axis_circles, great_circles
from unclump.ops import native
from unclump.ops.native import chords, kernel_sum, nearest, projection, rows
from unclump.ops.native import circles as circle_loops

SIZES = [
    (40, 5),
    (40, 9),
    (21, 13),
    (9, 17),
    (6, 64),
    (3, 100),
]  # small: tables are near each other, and have remainders
PLACES = 40

pytestmark = pytest.mark.skipif(not native.ENABLED, reason="the library was not compiled")
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


def assert_same_everywhere(compute, *tensors, places=PLACES):
    """`compute` returns, and leaves in its arguments, the same bits wherever they lie."""
    chance, kept, found = random.Random(0), [], set()
    orders = list(itertools.permutations(range(len(tensors))))
    for _ in range(places):
        gaps = [chance.choice([0, 0, 0, 4, 8, 16, 32, 64, 128, 512]) for _ in tensors]
        here = placed(tensors, chance.choice(orders), gaps, chance.randrange(0, 64, 4))
        found.add(bits((compute(*here), here)))
        # The loops' own arrays come to lie elsewhere, too.
        kept = [*kept[chance.randrange(8) :], *(np.empty(chance.randrange(1, 4096), np.uint8) for _ in range(9))]
    assert len(found) == 1


# Updates


def sgd(x, grad, momentum_buffer=None, *, retraction="exp", rows_=None, threads=1):
    choices = {"lr": 0.05, "momentum": 0.9, "retraction": retraction}
    rows.sgd_update(x, grad, momentum_buffer, rows=rows_, threads=threads, **choices)


def adam(x, grad, exp_avg, exp_avg_sq, steps, *, retraction="exp", lazy=False, rows_=None, threads=1):
    choices = {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-8, "retraction": retraction}
    rows.adam_update(x, grad, exp_avg, exp_avg_sq, steps, rows=rows_, lazy=lazy, threads=threads, **choices)


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


# Projection and distances


@each_dtype
@each_size
def test_projection(n, d, dtype):
    x, grad = table(n, d, dtype), table(n, d, dtype, seed=1)
    x[n // 2] = 0
    x[n // 3] *= 1e-30
    assert_same_everywhere(projection.project, x)
    assert_same_everywhere(projection.project_back, unit(n, d, dtype), x[:, :1].abs() + 1, grad)


@pytest.mark.parametrize("kind", ["chordal", "geodesic", "squared"])
@each_size
def test_distances(n, d, kind):
    x = unit(n, d)
    x[-1] = x[-2]
    for logarithm in (False, True):

        def mean(x, logarithm=logarithm):
            choices = {"distance": kind, "logarithm": logarithm}
            return nearest.fused_mean_of_nearest(x.unsqueeze(0), needs_grad=True, **choices)

        assert_same_everywhere(mean, x)


@each_dtype
@each_size
def test_nearest(n, d, dtype):
    x, samples = unit(n, d, dtype).unsqueeze(0), unit(3 * n, d, dtype, seed=1).unsqueeze(0)
    assert_same_everywhere(lambda x: nearest.nearest(x, None, None, 2, 0), x)
    assert_same_everywhere(lambda samples, x: nearest.nearest(samples, x, None, 2, n), samples, x)
    mean = lambda x, samples: nearest.fused_quantisation_error(x, samples, needs_grad=True)  # noqa: E731
    assert_same_everywhere(mean, x, samples[0])


# Pairs


@pytest.mark.parametrize("kernel", [uc.Gaussian(2.0), uc.Laplace(1.0), uc.Riesz(1.0)], ids=repr)
@pytest.mark.parametrize(("n", "d"), [*SIZES, (150, 12)])
def test_kernel_sums(n, d, kernel):
    x, code = unit(n, d), kernel_sum.code_of(kernel, torch.float32)
    x[-1] = x[0]
    assert_same_everywhere(lambda x: kernel_sum.mean_over_pairs(x, code, needs_grad=True), 3 * x)
    weights, others = table(n, 1, seed=1).abs(), unit(2 * n, d, seed=2)
    assert_same_everywhere(lambda x, w: kernel_sum.kernel_sum(x, None, w, None, code, 0, True), x, weights)
    among = lambda x, y: kernel_sum.kernel_sum(x, y, None, None, code, 2 * n, True)  # noqa: E731
    assert_same_everywhere(among, x, others)


# Circles


@pytest.mark.parametrize("count", [1, 3])
@each_dtype
@each_size
def test_circles(n, d, dtype, count):
    x, random = table(n, d, dtype).unsqueeze(0), great_circles(count, d, generator=seeded(1), dtype=dtype)
    for circles in (random, axis_circles(count, d, generator=seeded(1))):
        assert_same_everywhere(circle_loops.coordinates, x, circles)
        assert_same_everywhere(circle_loops.even_spacing, x, circles)
        coefficients = table(2 * count, n, dtype, seed=2).view(1, count, 2, n)
        assert_same_everywhere(lambda c, circles: circle_loops.combine(c, circles, d, 0.3), coefficients, circles)


# Every operation on two threads, on a machine with other things to do

N, D = 700, 20
X, GRAD, SPREAD = table(N, D), table(N, D, seed=1), unit(N, D, torch.float64)
RIESZ = kernel_sum.code_of(uc.Riesz(), torch.float32)
CIRCLES = great_circles(5, D, generator=seeded(0))
MOMENTS = torch.zeros(N, D), torch.zeros(N, 1), torch.full((N, 1), 3)


def mean_of_nearest(x):
    return nearest.fused_mean_of_nearest(x.unsqueeze(0), distance="geodesic", logarithm=True, needs_grad=True)


# Name of the loop -> what calls it, and with which tensors.
OPERATIONS = {
    "project": (projection.project, [X]),
    "project_back": (projection.project_back, [unit(N, D), X.norm(dim=1, keepdim=True), GRAD]),
    "nearest": (lambda x: nearest.nearest(x.unsqueeze(0), None, None, 2, 0), [unit(N, D)]),
    "mean_of_nearest": (mean_of_nearest, [X]),
    "quantisation_error": (
        lambda x, samples: nearest.fused_quantisation_error(x.unsqueeze(0), samples, needs_grad=True),
        [unit(N, D), unit(2 * N, D, seed=3)],
    ),
    "mean_over_pairs": (lambda x: kernel_sum.mean_over_pairs(x.unsqueeze(0), RIESZ, needs_grad=True), [X]),
    "kernel_sum": (
        lambda x, y: kernel_sum.kernel_sum(x.unsqueeze(0), y.unsqueeze(0), None, None, RIESZ, N, True),
        [unit(N, D), unit(N, D, seed=3)],
    ),
    "coordinates": (lambda x, circles: circle_loops.coordinates(x.unsqueeze(0), circles), [X, CIRCLES]),
    "even_spacing": (lambda x, circles: circle_loops.even_spacing(x.unsqueeze(0), circles), [X, CIRCLES]),
    "combine": (
        lambda c, circles: circle_loops.combine(c, circles, D, 0.3),
        [table(10, N, seed=2).view(1, 5, 2, N), CIRCLES],
    ),
    "orthonormalise": (lambda pairs: circle_loops.orthonormalise_(pairs.clone()), [table(10, D, seed=4).view(5, 2, D)]),
    "sgd": (partial(sgd, threads=2), [unit(N, D), GRAD, MOMENTS[0]]),
    "adam": (partial(adam, threads=2), [unit(N, D), GRAD, *MOMENTS]),
    "count_chords": (lambda x: chords.count_chords(x, 0.0, 4.0, 64), [SPREAD]),
    "collect_chords": (lambda x: chords.collect_chords(x, 0.0, 0.5, _few(x))[1].sort().values, [SPREAD]),
}


def _few(x):
    return int(chords.count_chords(x, 0.0, 0.5, 1)[1])


@pytest.mark.usefixtures("two_threads", "loaded_cores")
@pytest.mark.parametrize("calls", [20, pytest.param(1_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_again_and_again_on_two_threads_while_others_work(name, calls):
    compute, tensors = OPERATIONS[name]
    assert_same_everywhere(compute, *tensors, places=calls)


def test_the_load_ends_with_the_process_that_started_it(loaded_cores):
    for other in loaded_cores:
        other.stdin.close()  # as the operating system does when that process is killed
        assert other.wait(timeout=60) == 0


def test_every_loop_is_among_them(monkeypatch):
    """And is called by what stands beside its name."""
    loops = [value for module in (projection, nearest, kernel_sum, circle_loops, rows, chords)
             for value in vars(module).values() if isinstance(value, native.Loop)]  # fmt: skip
    assert {loop._name for loop in loops} == OPERATIONS.keys()
    called = []

    def look_up(loop, itemsize):
        called.append(loop._name)
        return dict.get(loop, itemsize) or loop.__missing__(itemsize)

    monkeypatch.setattr(native.Loop, "__getitem__", look_up)
    for name, (compute, tensors) in OPERATIONS.items():
        called.clear()
        compute(*(x.clone() for x in tensors))
        assert name in called
