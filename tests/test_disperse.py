"""The loop moves what it may, no farther than it may, and cannot be told to have been stopped."""

import functools
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.disperse import disperse
from unclump.place import place


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def clump(n, d, dtype=torch.float32):
    """Rows of many norms around the first axis."""
    x = 0.2 * torch.randn(n, d, generator=seeded(1), dtype=torch.float64)
    x[:, 0] += 1
    return (x * torch.linspace(0.5, 8, n, dtype=torch.float64).unsqueeze(-1)).to(dtype)


def same(a, b):
    """Equal to the last bit."""
    return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()


class Stopping(uc.Sliced):
    """Sliced circles, until the call of a given number."""

    def __init__(self, stop=math.inf, error=RuntimeError, **options):
        super().__init__(**options)
        self.calls, self.stop, self.error = 0, stop, error

    def value(self, x):
        self.calls += 1
        if self.calls > self.stop:
            raise self.error("stopped")
        return super().value(x)


# What is moved


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize(
    "make",
    [uc.KoLeo, uc.Energy, uc.MMD, lambda: uc.Sliced(3, generator=seeded()), lambda: uc.Lloyd(64, generator=seeded())],
    ids=["KoLeo", "Energy", "MMD", "Sliced", "Lloyd"],
)
def test_a_clump_is_dispersed(make, batch_size):
    x = clump(48, 3)
    found = disperse(x, make(), steps=200, lr=0.05, batch_size=batch_size, generator=seeded())
    assert uc.spherical_variance(x) < 0.1
    assert uc.spherical_variance(found.points) > 0.4
    assert uc.nearest_angles(found.points).mean() > 2 * uc.nearest_angles(x).mean()


def test_four_points_become_a_tetrahedron():
    x = torch.randn(4, 3, generator=seeded(), dtype=torch.float64)
    found = disperse(x, uc.Energy(uc.Riesz(1.0)), steps=300, lr=0.05, schedule=lambda step: 1 - step / 300)
    assert_close(found.points @ found.points.mT, torch.eye(4, dtype=torch.float64) * 4 / 3 - 1 / 3, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(uc.SphereSGD, lr=0.1, momentum=0.9),
        functools.partial(uc.SphereAdam, lr=0.05, retraction="project"),
        functools.partial(torch.optim.SGD, lr=0.1),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 8])
def test_any_optimiser_serves(make, batch_size):
    x = clump(16, 3)
    found = disperse(x, "energy", steps=150, optimizer=make, batch_size=batch_size, generator=seeded())
    assert uc.min_angle(found.points) > 3 * uc.min_angle(x)
    assert_close(found.points.norm(dim=1), torch.ones(16))


def test_full_batches_are_plain_steps_of_the_optimiser():
    x = uc.project(clump(10, 4, torch.float64))
    rows = torch.nn.Parameter(x.clone())
    optimizer = uc.SphereAdam([rows], lr=0.02)
    for step in range(7):
        optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)
        optimizer.zero_grad()
        uc.KoLeo()(rows).backward()
        optimizer.step()
    found = disperse(x, uc.KoLeo(), steps=7, lr=0.02, schedule=lambda step: 1 / (1 + step))
    assert_close(found.points, rows.detach(), rtol=0, atol=1e-12)


def test_every_epoch_draws_every_row_once():
    class Drawn(uc.KoLeo):
        def value(self, x):
            drawn.append(x.detach())
            return super().value(x)

    drawn: list[torch.Tensor] = []
    x = uc.project(clump(24, 3, torch.float64))
    disperse(x, Drawn(), steps=8, lr=0.0, batch_size=6, generator=seeded())
    for epoch in (torch.cat(drawn[:4]), torch.cat(drawn[4:8])):
        assert (torch.cdist(x, epoch) < 1e-9).sum(dim=1).tolist() == [1] * 24
    assert not torch.equal(drawn[0], drawn[4])


def test_a_minibatch_touches_its_own_rows_only():
    x = uc.project(clump(1000, 8))
    found = disperse(x, "koleo", steps=1, lr=0.01, batch_size=32, generator=seeded())
    changed = (found.points != x).any(dim=1)
    assert changed.sum() == 32
    assert same(found.points[~changed], x[~changed])
    assert_close(uc.angle(found.points, x)[changed], torch.full((32,), 0.01), rtol=1e-3, atol=0)


def test_each_row_counts_its_own_steps():
    x = uc.project(clump(64, 5, torch.float64))  # Adam's first step has the length lr, whenever it comes
    found = disperse(x, "koleo", steps=8, lr=0.01, batch_size=8, generator=seeded())
    assert_close(uc.angle(found.points, x), torch.full((64,), 0.01, dtype=torch.float64), rtol=1e-4, atol=0)


# What is not moved


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_input_stays_and_its_kind_comes_back(dtype):
    x = clump(12, 3, dtype)
    before = x.clone()
    points = disperse(x, "koleo", steps=20, lr=0.05).points
    assert torch.equal(x.view(torch.uint8), before.view(torch.uint8))
    assert points.dtype == dtype
    assert not points.requires_grad
    assert_close(points.double().norm(dim=1), torch.ones(12).double(), rtol=0, atol=4 * torch.finfo(dtype).eps)
    assert uc.min_angle(points) > 2 * uc.min_angle(x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_arrays_give_arrays(dtype):
    x = clump(12, 6, torch.float64).numpy().astype(dtype)[::-1, ::2]
    before = x.tobytes()
    found = disperse(x, "koleo", steps=5, lr=0.05)
    assert isinstance(found.points, np.ndarray)
    assert found.points.dtype == x.dtype
    assert x.tobytes() == before
    expected = disperse(torch.from_numpy(x.astype(x.dtype.newbyteorder("="))), "koleo", steps=5, lr=0.05)
    np.testing.assert_array_equal(found.points, expected.points.numpy())


def test_a_parameter_is_read_only_as_a_table():
    x = torch.nn.Parameter(clump(6, 3))
    points = disperse(x, "koleo", steps=3, frozen=[0]).points
    assert type(points) is torch.Tensor
    assert x.grad is None


@pytest.mark.parametrize("batch_size", [None, 6])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_frozen_rows_stay_to_the_bit_and_act_on_others(dtype, batch_size):
    x = clump(20, 3, dtype)
    frozen = [0, 3, 4, 19]
    found = disperse(x, "koleo", steps=40, lr=0.03, batch_size=batch_size, frozen=frozen, generator=seeded())
    assert torch.equal(found.points[frozen].view(torch.uint8), x[frozen].view(torch.uint8))
    others = [row for row in range(20) if row not in frozen]
    assert (uc.angle(uc.project(found.points), uc.project(x))[others] > 0.02).all()


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple, lambda rows: [row in rows for row in range(20)]])
def test_frozen_rows_are_numbers_or_a_mask(make):
    x = uc.project(clump(20, 3))
    points = disperse(x, "koleo", steps=1, lr=0.03, frozen=make([0, 3, 4, 19])).points
    assert (points == x).all(dim=1).nonzero().flatten().tolist() == [0, 3, 4, 19]


def test_a_free_row_flees_the_frozen():
    x = torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.2, 0.1]])
    found = disperse(x, "energy", steps=300, lr=0.05, frozen=[0, 1, 2], schedule=lambda step: 0.98**step)
    assert_close(found.points[3], torch.full((3,), -(3**-0.5)), rtol=0, atol=1e-3)


def test_batches_of_frozen_rows_alone_do_nothing():
    x = uc.project(clump(12, 3))
    found = disperse(x, "koleo", steps=1, lr=0.1, batch_size=2, frozen=range(11), generator=seeded())
    assert same(found.points, x)


@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_row_travels_beyond_max_move(dtype, batch_size):
    x = clump(24, 4, dtype)
    found = disperse(x, "energy", steps=90, lr=0.05, batch_size=batch_size, max_move=0.2, generator=seeded())
    travelled = uc.angle(found.points.double(), uc.project(x).double())
    assert travelled.max() <= 0.2 + 4 * torch.finfo(dtype).eps
    assert (travelled > 0.2 - 1e-5).float().mean() > 0.5


def test_a_row_that_never_reaches_its_bound_is_not_bent():
    x = clump(10, 3, torch.float64)
    bounded = disperse(x, "koleo", steps=20, lr=0.01, max_move=1.0).points
    assert same(bounded, disperse(x, "koleo", steps=20, lr=0.01).points)


# What is remembered


RUNS = {
    "full": {},
    "minibatches": {"batch_size": 9},
    "everything": {"batch_size": 9, "frozen": [1, 2, 3], "max_move": 0.5, "schedule": lambda step: 1 / (1 + step)},
    "momentum": {"optimizer": functools.partial(uc.SphereSGD, lr=0.05, momentum=0.9)},
}


@pytest.mark.parametrize("kill", range(20))
def test_killed_and_continued_is_as_never_killed(kill, tmp_path):
    chance = random.Random(kill)
    name = list(RUNS)[kill % len(RUNS)]
    for_circles, for_rows = kill % 3 > 0, kill % 5 > 0  # the others draw from torch's global generator
    path = tmp_path / "run.pt"

    def run(stop=math.inf, **options):
        torch.manual_seed(11)
        return disperse(
            clump(40, 5),
            Stopping(stop, generator=seeded(5) if for_circles else None),
            generator=seeded(6) if for_rows else None,
            steps=60,
            lr=0.03,
            measure_every=7,
            **RUNS[name],
            **options,
        )

    expected = run()
    for _ in range(3):  # killed again and again
        with pytest.raises(RuntimeError, match="stopped"):
            run(chance.randrange(1, 20), checkpoint=path, checkpoint_seconds=chance.choice([0, 0.005]))
        torch.rand(kill)  # whatever else the process draws in the meantime
    found = run(checkpoint=path)
    assert same(found.points, expected.points)
    for column in ("step", "value", "min_angle", "spherical_variance"):
        np.testing.assert_array_equal(getattr(found.history, column), getattr(expected.history, column))
    assert (np.diff(found.history.seconds) >= 0).all()
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    again = run(stop=0, checkpoint=path)  # a finished run is read, not run
    assert same(again.points, expected.points)


SCRIPT = """
import sys, torch
from tests.test_disperse import long_run

torch.set_num_threads(1)
long_run(checkpoint=sys.argv[1], checkpoint_seconds=0.005)
"""


def long_run(**options):
    x, circles = torch.randn(300, 16, generator=seeded(0)), uc.Sliced(generator=seeded(1))
    return disperse(
        x, circles, steps=500, lr=0.01, batch_size=32, generator=seeded(2), measure_every=100, **options
    ).points


def test_a_killed_process_leaves_a_whole_file(tmp_path):
    path, chance, before = tmp_path / "run.pt", random.Random(0), 0
    for _ in range(3):
        running = subprocess.Popen([sys.executable, "-c", SCRIPT, path], cwd=Path(__file__).parents[1])
        while not path.exists() or path.stat().st_mtime_ns == before:
            assert running.poll() is None
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        before = path.stat().st_mtime_ns
    assert 1 <= torch.load(path)["step"] < 500
    assert same(long_run(checkpoint=path), long_run())


@pytest.fixture
def heeds_ctrl_c():
    """A shell starts its background jobs deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_returns_what_is_there_and_the_run_can_go_on(tmp_path):
    class Interrupted(uc.KoLeo):
        def value(self, x):
            nonlocal calls
            calls += 1
            if calls == 8:
                signal.raise_signal(signal.SIGINT)
            return super().value(x)

    calls, x = 0, clump(12, 3)
    handler = signal.getsignal(signal.SIGINT)
    options = {"steps": 30, "lr": 0.02, "measure_every": 5, "batch_size": 4}
    found = disperse(x, Interrupted(), **options, generator=seeded(), checkpoint=tmp_path / "run.pt")
    assert signal.getsignal(signal.SIGINT) is handler
    assert calls == 8
    assert found.history.interrupted
    assert found.history.step.tolist() == [0, 5]
    assert str(found).endswith("interrupted")
    eight = disperse(x, uc.KoLeo(), **{**options, "steps": 8}, generator=seeded())
    assert same(found.points, eight.points)
    completed = disperse(x, Interrupted(), **options, generator=seeded(), checkpoint=tmp_path / "run.pt")
    assert not completed.history.interrupted
    assert same(completed.points, disperse(x, uc.KoLeo(), **options, generator=seeded()).points)


def test_a_step_that_was_torn_is_not_written(tmp_path):
    found = disperse(clump(12, 3), Stopping(5, KeyboardInterrupt), steps=30, checkpoint=tmp_path / "run.pt")
    assert found.history.interrupted
    assert found.points.isfinite().all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("table", {"x": clump(12, 3).flip(0)}),
        ("table", {"x": clump(12, 3).double()}),
        ("table", {"x": clump(13, 3)}),
        ("objective", {"objective": uc.KoLeo(distance="geodesic")}),
        ("optimizer", {"lr": 0.02}),
        ("optimizer", {"optimizer": functools.partial(uc.SphereSGD, lr=0.01)}),
        ("schedule", {"schedule": lambda step: 1.0}),
        ("steps", {"steps": 6}),
        ("batch_size", {"batch_size": 4}),
        ("frozen", {"frozen": [2]}),
        ("max_move", {"max_move": 1.0}),
        ("measure_every", {"measure_every": 2}),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(name, change, tmp_path):
    run = {"x": clump(12, 3), "objective": uc.KoLeo(), "steps": 5, "lr": 0.01, "checkpoint": tmp_path / "run.pt"}
    disperse(**run)
    written = (tmp_path / "run.pt").read_bytes()
    with pytest.raises(ValueError, match=rf"with another {name}: .* there, .* here; delete it or name another"):
        disperse(**{**run, **change})
    assert (tmp_path / "run.pt").read_bytes() == written


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None])
def test_a_file_that_is_no_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "words.pt"
    torch.save(torch.eye(3), path) if content is None else path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a checkpoint of disperse in .*words.pt, got another file"):
        disperse(clump(12, 3), "koleo", checkpoint=path)


# What is recorded


def test_the_history_holds_what_was_there():
    x = clump(12, 3, torch.float64)
    found = disperse(x, "koleo", steps=25, lr=0.05, measure_every=10)
    history = found.history
    assert history.step.tolist() == [0, 10, 20, 25]
    assert (history.rows, history.min_angle_rows, history.interrupted) == (12, 12, False)
    for record, points in ((0, x), (1, disperse(x, "koleo", steps=10, lr=0.05).points), (3, found.points)):
        assert_close(history.value[record], uc.KoLeo()(points).item())
        assert_close(history.min_angle[record], uc.min_angle(points))
        assert_close(history.spherical_variance[record], uc.spherical_variance(points))
    assert (np.diff(history.seconds) >= 0).all()
    lines = str(history).splitlines()
    assert len(lines) == 5
    assert lines[1].split()[2] == f"{math.degrees(uc.min_angle(x)):.4f}°"


@pytest.mark.parametrize(("steps", "records"), [(1, 2), (7, 8), (100, 21), (41, 22)])
def test_about_twenty_records_are_made(steps, records):
    assert len(disperse(clump(4, 3), "koleo", steps=steps).history.step) == records


def test_the_value_is_that_of_the_batch():
    x = clump(12, 3)
    history = disperse(x, "koleo", steps=2, lr=0.01, batch_size=4, generator=seeded()).history
    rows = torch.randperm(12, generator=seeded())[:4]
    assert_close(history.value[0], uc.KoLeo()(x[rows]).item())


def test_large_tables_are_sampled_and_say_so(monkeypatch):
    monkeypatch.setattr("unclump._run._MEASURED_ROWS", 10)
    x = clump(40, 3)
    history = disperse(x, "koleo", steps=2, lr=1e-6).history
    assert (history.rows, history.min_angle_rows) == (40, 10)
    assert history.min_angle[0] > uc.min_angle(x)
    assert_close(history.min_angle[2], history.min_angle[0], rtol=1e-3, atol=0)  # the same rows each time
    assert str(history).endswith("min angle among 10 of 40 rows")


def test_progress_is_shown_on_stderr_and_only_when_asked_for(capsys):
    disperse(clump(12, 3), "koleo", steps=5)
    assert capsys.readouterr() == ("", "")
    found = disperse(clump(12, 3), "koleo", steps=5, progress=True)
    output = capsys.readouterr()
    assert output.out == ""
    assert "5/5" in output.err
    assert f"min_angle={math.degrees(found.history.min_angle[-1]):.3f}°" in output.err


@pytest.mark.parametrize("make", [uc.Sliced, uc.Lloyd])
def test_generators_decide_everything(make):
    def run(seed):
        return disperse(
            clump(20, 3), make(generator=seeded(seed)), steps=20, lr=0.01, batch_size=5, generator=seeded(seed)
        )

    state = torch.get_rng_state()
    assert same(run(1).points, run(1).points)
    assert not same(run(1).points, run(2).points)
    assert torch.equal(torch.get_rng_state(), state)


# What is refused


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": [[1.0, 0.0]]}, TypeError, "a torch.Tensor, got list"),
        ({"x": torch.ones(1, 3)}, ValueError, "n >= 2 and d >= 2, got (1, 3)"),
        ({"x": np.ones((4, 3), dtype=int)}, TypeError, "floating-point points, got torch.int64"),
        ({"x": torch.tensor([[1.0, 0.0], [0.0, 0.0]])}, ValueError, "nothing but zeros in 1 row (1)"),
        ({"x": np.array([[1.0, np.nan], [0.0, 1.0]])}, ValueError, "NaN in 1 row (0)"),
        ({"objective": "coleo"}, ValueError, "got 'coleo'"),
        ({"objective": uc.koleo}, TypeError, "a module such as unclump.KoLeo(), or a name, got function"),
        ({"objective": torch.nn.Identity()}, ValueError, "a scalar tensor, got shape (8, 3)"),
        ({"steps": 0}, ValueError, "steps >= 1, got 0"),
        ({"lr": -1.0}, ValueError, "lr >= 0 and finite, got -1.0"),
        ({"batch_size": 1}, ValueError, "batch_size >= 2, got 1"),
        ({"generator": 3}, TypeError, "a torch.Generator, got int"),
        ({"max_move": 0.0}, ValueError, "max_move > 0 and finite, got 0.0"),
        ({"measure_every": 0}, ValueError, "measure_every >= 1, got 0"),
        ({"checkpoint_seconds": "10"}, TypeError, "checkpoint_seconds to be a number, got str"),
        ({"schedule": 0.5}, TypeError, "expected schedule to map the number of a step"),
        ({"optimizer": lambda params: None}, TypeError, "a torch optimiser of a list of parameters, got NoneType"),
        ({"frozen": [8]}, ValueError, "frozen rows from 0 to 7, got 8"),
        ({"frozen": [-1]}, ValueError, "frozen rows from 0 to 7, got -1"),
        ({"frozen": [0.5]}, TypeError, "a mask or a list of row numbers, got torch.float32"),
        ({"frozen": [True, False]}, ValueError, "a mask of shape (8,), got shape (2,)"),
        ({"frozen": range(8)}, ValueError, "at least one row that may move, got all 8 frozen"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(change, error, message):
    with pytest.raises(error, match=re.escape(message)):
        disperse(**{"x": clump(8, 3), "objective": uc.KoLeo(), "steps": 3, **change})


def test_an_objective_that_is_not_finite_ends_the_run():
    class Lost(uc.KoLeo):
        def value(self, x):
            return super().value(x) * math.nan

    with pytest.raises(ValueError, match="a finite objective, got nan at step 0"):
        disperse(clump(8, 3), Lost())


# New rows


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
    monkeypatch.setattr(sys.modules["unclump.place"], "_SHARPNESS", [])
    greedy = place(20, x, samples=2000, generator=seeded())
    monkeypatch.setattr(sys.modules["unclump.place"], "_SHARPNESS", [0.1])  # steps of ten times the room there is
    assert same(place(20, x, samples=2000, generator=seeded()), greedy)


def test_the_blocks_of_place_make_no_difference(monkeypatch):
    x = clump(50, 4, torch.float64)
    whole = place(7, x, samples=100, generator=seeded())
    monkeypatch.setattr(sys.modules["unclump.place"], "_BLOCK", (3, 11))
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
        ((1, torch.zeros(2, 3)), ValueError, "nothing but zeros in 2 rows (0, 1)"),
        ((1, torch.ones(3)), ValueError, "got (3,)"),
        ((1, [[1.0, 2.0]]), TypeError, "got list"),
    ],
)
def test_place_refuses_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        place(*arguments)
