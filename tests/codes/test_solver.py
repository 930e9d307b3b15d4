"""The solver of spherical codes: closed forms, determinism, stopping, and gradients against torch's."""

import inspect
import itertools
import math
import re
import signal
import time
from concurrent.futures import wait

import numpy as np
import pytest
import torch

from unclump import Gaussian, Laplace, Riesz
from unclump import _library as library
from unclump.codes.search import loops, pool
from unclump.codes.search.groups import point_group
from unclump.codes.search.loops import (
    anneal,
    anneal_orbits,
    energy,
    minimise_energy,
    minimise_overlap,
    polish,
    smallest_squared_chord,
    soft_maximum,
    solve_skyline,
)
from unclump.codes.search.orbits import Orbits
from unclump.codes.search.pool import Candidate
from unclump.codes.search.restart import CodeSearch
from unclump.codes.search.solver import minimal_energy, solve
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing
from unclump.codes.search.starts import START_KINDS, make_start

if library.choose()[0] is None:
    pytest.skip(f"without compiled loops: {library.choose()[1]}", allow_module_level=True)

GO = np.zeros(1, np.uint8)


def snub_cube():
    """24 vertices, from the tribonacci constant."""
    t = (1 + (19 + 3 * math.sqrt(33)) ** (1 / 3) + (19 - 3 * math.sqrt(33)) ** (1 / 3)) / 3
    signed = [
        np.diag(signs)[list(p)]
        for p in itertools.permutations(range(3))
        for signs in itertools.product((1, -1), repeat=3)
    ]
    x = np.array([rotation @ [1, 1 / t, t] for rotation in signed if np.linalg.det(rotation) > 0])
    return x / np.linalg.norm(x[0])


def random_points(n, d, seed=0):
    return make_start(n, d, "random", np.random.default_rng(seed))


def least_angle(x):
    return min(2 * math.atan2(np.linalg.norm(a - b), np.linalg.norm(a + b)) for a, b in itertools.combinations(x, 2))


# Schütte and van der Waerden 1951, Danzer 1963, Robinson 1961.
CLOSED_FORMS = {
    (4, 3): math.acos(-1 / 3),
    (5, 3): math.pi / 2,
    (6, 3): math.pi / 2,
    (7, 3): math.acos(1 / (math.tan(math.radians(40)) * math.tan(math.radians(80)))),
    (8, 3): math.acos((2 * math.sqrt(2) - 1) / 7),
    (9, 3): math.acos(1 / 3),
    (11, 3): math.acos(1 / math.sqrt(5)),
    (12, 3): math.acos(1 / math.sqrt(5)),
    (24, 3): least_angle(snub_cube()),
    (7, 2): 2 * math.pi / 7,
    (10, 4): math.acos(1 / 6),
    (16, 5): math.acos(1 / 5),
    (24, 4): math.pi / 3,
    (27, 6): math.acos(1 / 4),
}


@pytest.mark.parametrize(("n", "d"), CLOSED_FORMS)
def test_finds_what_is_known_in_closed_form(n, d):
    solution = solve(n, d, restarts=2)
    assert solution.angle == pytest.approx(CLOSED_FORMS[n, d], abs=1e-13)
    assert solution.angle == pytest.approx(least_angle(solution.points), abs=1e-15)
    assert np.linalg.norm(solution.points, axis=1) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(("n", "degrees"), [(10, 66.1468220), (13, 57.1367031), (14, 55.6705700)])
def test_finds_what_is_proved_by_computer(n, degrees):  # Danzer 1963; Musin and Tarasov 2012, 2015
    assert math.degrees(solve(n, 3, restarts=2).angle) == pytest.approx(degrees, abs=1e-7)


def test_forty_points_in_five_dimensions_reach_sixty_degrees():
    assert solve(40, 5, target=math.pi / 3, restarts=8).angle == pytest.approx(math.pi / 3, abs=1e-13)


def test_the_same_bits_on_one_and_two_threads():
    threads = torch.get_num_threads()
    try:
        found = {}
        for count in (1, 2):
            torch.set_num_threads(count)
            found[count] = solve(19, 3, restarts=3, seed=4)
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(found[1].points, found[2].points)
    assert (found[1].starts, found[1].hops) == (found[2].starts, found[2].hops)
    assert not np.array_equal(found[1].points, solve(19, 3, restarts=3, seed=5).points)


def test_more_restarts_are_never_worse():
    assert solve(38, 4, restarts=3).angle >= solve(38, 4, restarts=1).angle


def test_stops_at_the_target():
    whole, stopped = solve(12, 3, restarts=8), solve(12, 3, restarts=8, target=math.acos(1 / math.sqrt(5)))
    assert stopped.angle == pytest.approx(whole.angle, abs=1e-13)
    assert stopped.starts < whole.starts / 2


def test_the_time_limit_keeps_the_best():
    began = time.monotonic()
    solution = solve(60, 3, time_limit=1.0)
    assert 0.9 < time.monotonic() - began < 30  # a busy machine may be late
    assert math.degrees(solution.angle) > 27.1


def test_even_no_time_at_all_gives_points():
    solution = solve(300, 8, time_limit=1e-6)
    assert solution.points.shape == (300, 8)
    assert solution.angle == pytest.approx(least_angle(solution.points), abs=1e-15)


@pytest.fixture
def interrupts():
    """A process started in the background ignores Ctrl-C, unless told otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_returns_the_best_so_far(monkeypatch):
    ended = []

    def wait_until_ctrl_c(running, **options):
        if ended:  # not after some time, in which a slow machine may have found nothing
            signal.raise_signal(signal.SIGINT)
        found = wait(running, **options)
        ended.extend(found.done)
        return found

    monkeypatch.setattr(pool, "wait", wait_until_ctrl_c)
    solution = solve(24, 3, restarts=100_000)
    assert solution.angle == pytest.approx(CLOSED_FORMS[24, 3], abs=1e-13)
    assert solution.starts < 50_000


@pytest.mark.parametrize("kind", START_KINDS)
def test_starts_are_unit_and_improved(kind):
    x = make_start(14, 4, kind, np.random.default_rng(0))
    assert x.shape == (14, 4)
    assert np.linalg.norm(x, axis=1) == pytest.approx(1, abs=1e-14)
    assert solve(14, 4, restarts=1, init=kind).angle > math.radians(70)


def test_given_points_are_improved_and_never_worsened():
    x = random_points(30, 3)
    before = x.copy()
    assert solve(30, 3, restarts=1, init=x).angle > least_angle(x)
    assert np.array_equal(x, before)
    best = snub_cube()
    assert solve(24, 3, restarts=1, init=5 * best, time_limit=0.01).angle >= least_angle(best) - 1e-15


@pytest.mark.parametrize("make", [snub_cube, lambda: np.concatenate([np.eye(8), -np.eye(8)])])
def test_polish_returns_to_the_optimum(make):
    optimum = make()
    x = optimum + 1e-3 * np.random.default_rng(0).standard_normal(optimum.shape)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert angle_of_squared_chord(polish(x, 1.25, 25, GO)) == pytest.approx(least_angle(optimum), abs=1e-13)
    assert least_angle(x) == pytest.approx(least_angle(optimum), abs=1e-13)


def test_polish_never_worsens():
    for seed in range(10):
        x = random_points(20, 3, seed)
        before = least_angle(x)
        polish(x, 1.25, 20, GO)
        assert least_angle(x) >= before


@pytest.mark.parametrize(("n", "d", "seed"), [(33, 10, 1), (40, 8, 0), (28, 9, 2), (40, 6, 3)])
def test_a_polished_code_in_many_dimensions_has_arrived(n, d, seed):
    """There, codes are seldom held by as many contacts as they have coordinates, and first-order steps come to rest."""
    code = Candidate(random_points(n, d, seed), 0.0)
    search = CodeSearch(n, d, seed, None, math.inf)
    search._anneal(code, (32.0, 50, 1e-3), GO)
    search.improve(code, GO, rounds=4)
    before = least_angle(code.points)
    for _ in range(3):
        polish(code.points, 1.25, 200, GO, margin=3e-6)
    assert least_angle(code.points) < before + 1e-11


def test_annealing_takes_coinciding_points_apart():
    x = np.repeat(random_points(6, 3), 2, axis=0)
    x[1] = -x[0]
    x[2:] += 1e-9 * np.random.default_rng(0).standard_normal((10, 3))
    assert angle_of_squared_chord(anneal(x, 4.0, 2048.0, 100, 1e-4, estimate_spacing(12, 3), GO)) > math.radians(50)


def tensor_and_gradient(function, u):
    v = torch.tensor(u, requires_grad=True)
    value = function(torch.nn.functional.normalize(v, dim=1))
    value.backward()
    return value.item(), v.grad.numpy()


@pytest.mark.parametrize("d", [2, 3, 4, 5, 7, 8])
def test_the_soft_maximum_and_its_gradient_are_autograds(d):
    u = 1.3 * random_points(9, d)
    rows, columns = np.triu_indices(9, 1)
    value, gradient = tensor_and_gradient(lambda x: torch.logsumexp(20 * (x @ x.T)[rows, columns], 0) / 20, u)
    for threshold in (None, -1.0):  # by packs of points, and from a list of all pairs
        found_value, found = soft_maximum(u, 20.0, 0.7, threshold)
        assert found_value == pytest.approx(value, abs=1e-12)
        assert found == pytest.approx(gradient, abs=1e-12)


@pytest.mark.parametrize("distance", ["chordal", "geodesic", "shifted"])
@pytest.mark.parametrize("kernel", [Gaussian, Laplace, *(lambda distance, s=s: Riesz(s, distance) for s in (2, 0, -1))])
def test_energies_and_their_gradients_are_autograds(kernel, distance):
    kernel = kernel(distance=distance)
    u = 0.8 * random_points(7, 4)
    rows, columns = np.triu_indices(7, 1)
    value, gradient = tensor_and_gradient(lambda x: kernel((x[rows] - x[columns]).square().sum(dim=1)).sum(), u)
    found_value, found = energy(u, kernel)
    assert found_value == pytest.approx(value, rel=1e-12)
    assert found == pytest.approx(gradient, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "energy"),
    [
        (2, 1 / 2),
        (3, math.sqrt(3)),
        (4, 6 / math.sqrt(8 / 3)),
        (5, 1 / 2 + 6 / math.sqrt(2) + math.sqrt(3)),
        (6, 12 / math.sqrt(2) + 3 / 2),
        (12, 3 + 30 / math.sqrt(2 - 2 / math.sqrt(5)) + 30 / math.sqrt(2 + 2 / math.sqrt(5))),
    ],
)
def test_thomsons_problem_in_closed_form(n, energy):
    solution = minimal_energy(n, 3, Riesz(s=1.0), restarts=4)
    assert solution.energy == pytest.approx(energy, rel=1e-13)
    assert solution.angle == pytest.approx(least_angle(solution.points), abs=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian(4.0), Laplace(1.0, "chordal"), Riesz(0.0)], ids=repr)
def test_the_cross_polytope_has_least_energy_for_many_kernels(kernel):  # Cohn and Kumar 2007
    opposite, adjacent = kernel(torch.tensor([4.0, 2.0], dtype=torch.float64)).tolist()
    assert minimal_energy(8, 4, kernel, restarts=4).energy == pytest.approx(4 * opposite + 24 * adjacent, rel=1e-12)


def test_a_skyline_matrix_is_solved():
    generator = np.random.default_rng(0)
    first = np.array([0, 0, 1, 0, 3, 3, 5, 2, 6, 0])
    dense = np.zeros((10, 10))
    for i, low in enumerate(first):
        dense[i, low:i] = generator.standard_normal(i - low)
    dense += dense.T + 12 * np.eye(10)
    b = generator.standard_normal(10)
    assert solve_skyline(dense, first, b) == pytest.approx(np.linalg.solve(dense, b), abs=1e-12)
    assert solve_skyline(dense - 24 * np.eye(10), first, b) is None  # indefinite


@pytest.mark.parametrize("n", [2, 3, 7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("d", [2, 3, 11])
def test_padding_of_any_width_counts_for_nothing(n, d):
    u = random_points(n, d)
    rows, columns = np.triu_indices(n, 1)
    value, gradient = tensor_and_gradient(lambda x: torch.logsumexp(5 * (x @ x.T)[rows, columns], 0) / 5, u)
    for threshold in (None, -1.0):
        found_value, found = soft_maximum(u, 5.0, 0.5, threshold)
        assert found_value == pytest.approx(value, abs=1e-12)
        assert found == pytest.approx(gradient, abs=1e-12)
    assert energy(u, Riesz(s=1.0))[0] == pytest.approx((1 / np.linalg.norm(u[rows] - u[columns], axis=1)).sum())


def test_refusals():
    for wrong, message in (
        ({"n": 1}, "n >= 2"),
        ({"d": 1}, "d >= 2"),
        ({"restarts": 0}, "restarts >= 1"),
        ({"seed": -1}, "seed >= 0"),
        ({"time_limit": 0.0}, "time_limit > 0"),
        ({"init": "sideways"}, "'sideways'"),
        ({"init": np.ones((3, 3))}, r"shape \(5, 3\).*got \(3, 3\)"),
        ({"init": np.zeros((5, 3))}, "nonzero rows"),
    ):
        arguments = {"n": 5, "d": 3} | wrong
        with pytest.raises(ValueError, match=message):
            solve(arguments.pop("n"), arguments.pop("d"), **arguments)
    with pytest.raises(TypeError, match="kernel"):
        minimal_energy(5, 3, "riesz")


# Name of the loop -> a call of it.
LOOPS = {
    "anneal": lambda x: anneal(x, 4.0, 2048.0, 50, 1e-3, estimate_spacing(len(x), 3), GO),
    "anneal_orbits": lambda x: anneal_orbits(
        Orbits(x, np.concatenate([point_group("C3v").elements] * len(x)), np.full(len(x), 6), point_group("C3v")),
        4.0, 256.0, 20, 1e-3, estimate_spacing(6 * len(x), 3), GO,
    ),
    "minimise_overlap": lambda x: minimise_overlap(x, estimate_spacing(len(x), 3) ** 2, 50, 1e-12, GO),
    "polish": lambda x: polish(x, 1.25, 50, GO),
    "smallest_squared_chord": smallest_squared_chord,
    "minimise_energy": lambda x: minimise_energy(x, Riesz(1), 50, 1e-9, estimate_spacing(len(x), 3), GO),
    "energy": lambda x: energy(x, Riesz(1)),
    "soft_maximum": lambda x: soft_maximum(x, 30.0, 0.9),
    "solve_skyline": lambda x: solve_skyline(x @ x.T + np.eye(len(x)), np.zeros(len(x), np.int64), x[:, 0].copy()),
}  # fmt: skip


def test_every_loop_is_among_them():
    assert set(re.findall(r'_call\(\s*"(\w+)"', inspect.getsource(loops))) == LOOPS.keys()


@pytest.mark.usefixtures("loaded_cores")
@pytest.mark.parametrize("calls", [16, pytest.param(1_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", LOOPS)
def test_the_same_bits_wherever_the_points_are_in_memory(name, calls):
    x = random_points(21, 3)
    memory = np.empty(x.size + 16)
    found, kept = set(), []
    for call in range(calls):
        y = memory[call % 16 : call % 16 + x.size].reshape(x.shape)
        y[:] = x
        found.add((repr(LOOPS[name](y)), y.tobytes()))
        kept = [*kept[-40:], np.empty(1 + 97 * call % 4096, np.uint8)]  # the loops' own arrays come to lie elsewhere
    assert len(found) == 1


def test_bad_arrays_never_reach_the_loops():
    for wrong, message in ((np.zeros((3, 4))[:, ::2], "contiguous"), (np.zeros((3, 4)).T, "contiguous")):
        with pytest.raises(ValueError, match=message):
            anneal(wrong, 4.0, 2048.0, 5, 1e-3, 0.5, GO)
    with pytest.raises(ValueError, match="diagonal"):
        solve_skyline(np.eye(3), np.array([0, 2, 0]), np.ones(3))


def test_points_that_are_not_numbers_end_the_loops():
    x = np.full((9, 3), np.nan)
    assert anneal(x, 4.0, 2048.0, 50, 1e-3, 0.5, GO) == 0
    assert polish(x, 1.25, 10, GO) == 0
    assert np.isnan(x).all()


@pytest.mark.parametrize("n", [2, 9, 16])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_point_that_is_no_number_makes_the_worst_code(n, bad):
    x = random_points(n, 3)
    assert smallest_squared_chord(x) > 0
    x[-1, 1] = bad
    assert smallest_squared_chord(x) == 0
