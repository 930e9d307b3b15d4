"""A run that was stopped, by whatever, and continued cannot be told from one that never was."""

import functools
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import unclump as uc
from tests import killable
from tests.small_tables import clump, same, seeded
from unclump._text import FileError
from unclump.dispersion.loop import disperse


class Stopping(uc.Sliced):
    """Sliced circles, until the call of a given number."""

    def __init__(self, stop=math.inf, error=RuntimeError, **options):
        super().__init__(**options)
        self.calls, self.stop, self.error = 0, stop, error

    def loss(self, *given):
        self.calls += 1
        if self.calls > self.stop:
            raise self.error("stopped")
        return super().loss(*given)


# Stopped


RUNS = {
    "full": {},
    "minibatches": {"batch_size": 9},
    "everything": {"batch_size": 9, "frozen": [1, 2, 3], "max_move": 0.5, "schedule": lambda step: 1 / (1 + step)},
    "momentum": {"optimizer": functools.partial(uc.SphereSGD, lr=0.05, momentum=0.9)},
}


def assert_resumes(name, own, folder, seed=""):
    """Stopped three times at moments of chance, the run ends as the one that was not."""
    chance = random.Random(f"{name}{seed}")
    path = folder / "run.pt"

    def run(stop=math.inf, **options):
        torch.manual_seed(11)
        return disperse(
            clump(40, 5),
            Stopping(stop, generator=seeded(5) if own else None),
            generator=seeded(6) if own else None,
            steps=60,
            lr=0.03,
            measure_every=7,
            **RUNS[name],
            **options,
        )

    expected = run()
    for meanwhile in range(3):
        with pytest.raises(RuntimeError, match="stopped"):
            run(chance.randrange(1, 20), checkpoint=path, checkpoint_seconds=chance.choice([0, 0.005]))
        torch.rand(1 + meanwhile)  # whatever else the process draws in the meantime
    found = run(checkpoint=path)
    assert same(found.points, expected.points)
    for column in ("step", "value", "min_angle", "spherical_variance"):
        np.testing.assert_array_equal(getattr(found.history, column), getattr(expected.history, column))
    assert (np.diff(found.history.seconds) >= 0).all()
    assert [file.name for file in folder.iterdir()] == ["run.pt"]
    again = run(stop=0, checkpoint=path)  # a finished run is read, not run
    assert same(again.points, expected.points)


each_run = pytest.mark.parametrize("name", RUNS)
each_generator = pytest.mark.parametrize("own", [True, False], ids=["own generators", "the global one"])


@each_generator
@each_run
def test_stopped_and_continued_is_as_never_stopped(name, own, tmp_path):
    assert_resumes(name, own, tmp_path)


@pytest.mark.deep
@pytest.mark.usefixtures("loaded_cores")
@each_generator
@each_run
def test_two_hundred_times_on_a_busy_machine(name, own, tmp_path):
    for seed in range(25):  # of each of eight kinds
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert_resumes(name, own, folder, seed)


# Killed


class Life:
    """A run in a process of its own, which has begun."""

    def __init__(self, server, **options):
        server.stdin.write(json.dumps(options) + "\n")
        server.stdin.flush()
        self.server, self.process = server, int(server.stdout.readline())

    def kill(self):
        os.kill(self.process, signal.SIGKILL)

    def ended(self):
        """How it did, after waiting for it."""
        return int(self.server.stdout.readline())


@pytest.fixture(scope="module")
def begin():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.killable"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout.readline() == "ready\n"
        yield lambda **options: Life(server, **{name: str(value) if isinstance(value, Path) else value
                                                for name, value in options.items()})  # fmt: skip
        server.stdin.close()


@pytest.fixture(scope="module")
def expected(begin, tmp_path_factory):
    """Points and records of the run that nobody killed."""
    result = tmp_path_factory.mktemp("expected") / "result.pt"
    assert begin(result=result).ended() == 0
    return torch.load(result)


def assert_continues_to(expected, begin, folder):
    assert begin(result=folder / "result.pt", checkpoint=folder / "run.pt", seconds=1).ended() == 0
    points, records = torch.load(folder / "result.pt")
    assert same(points, expected[0])
    assert records == expected[1]
    assert sorted(file.name for file in folder.iterdir()) == ["result.pt", "run.pt"]


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.deep)])
def test_many_kills_lose_nothing_and_change_nothing(kills, begin, expected, tmp_path):
    path, chance, steps, torn = tmp_path / "run.pt", random.Random(0), [0], 0
    for kill in range(kills):
        life = begin(result=tmp_path / "result.pt", checkpoint=path)
        share = (killable.STEPS - steps[-1]) // (kills + 5 - kill)  # of what is left, so that none is the last
        for _ in range(chance.randrange(1 + share)):
            wait_for_another(path)
        time.sleep(chance.uniform(0, 0.02))  # until any moment
        life.kill()
        assert life.ended() == -signal.SIGKILL
        if path.exists():
            steps.append(torch.load(path)["step"])
        torn += any(tmp_path.glob(".unclump-*.tmp"))
    assert steps == sorted(steps)
    assert killable.STEPS // 5 * kills // 20 < steps[-1] < killable.STEPS
    assert torn > 0 or kills < 20  # a few may all come between two checkpoints
    assert_continues_to(expected, begin, tmp_path)


def wait_for_another(path):
    before = path.stat().st_mtime_ns if path.exists() else None
    deadline = time.monotonic() + 30
    while not path.exists() or path.stat().st_mtime_ns == before:
        assert time.monotonic() < deadline
        time.sleep(0.0005)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_half_a_checkpoint_is_never_under_its_name(fraction, begin, expected, tmp_path):
    path = tmp_path / "run.pt"
    assert begin(result=tmp_path / "result.pt", checkpoint=path, dies_at=[1, fraction]).ended() == -signal.SIGKILL
    assert not path.exists()
    for life in (1, 2):  # each ends in its fifth, with four of its own behind it
        assert begin(result=tmp_path / "result.pt", checkpoint=path, dies_at=[5, fraction]).ended() == -signal.SIGKILL
        assert torch.load(path)["step"] == 4 * life
        (temporary,) = tmp_path.glob(".unclump-*.tmp")
        left = temporary.stat().st_size / path.stat().st_size
        assert abs(left - fraction) < 0.1
    assert_continues_to(expected, begin, tmp_path)


# Interrupted


@pytest.fixture
def heeds_ctrl_c():
    """A shell starts its background jobs deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_returns_what_is_there_and_the_run_can_go_on(tmp_path):
    class Interrupted(uc.KoLeo):
        def loss(self, *given):
            nonlocal calls
            calls += 1
            if calls == 8:
                signal.raise_signal(signal.SIGINT)
            return super().loss(*given)

    class Uninterrupted(uc.KoLeo):
        """By the same operations of torch, so that all bits are the same."""

        def loss(self, *given):
            return super().loss(*given)

    calls, x = 0, clump(12, 3)
    handler = signal.getsignal(signal.SIGINT)
    options = {"steps": 30, "lr": 0.02, "measure_every": 5, "batch_size": 4}
    found = disperse(x, Interrupted(), **options, generator=seeded(), checkpoint=tmp_path / "run.pt")
    assert signal.getsignal(signal.SIGINT) is handler
    assert calls == 8
    assert found.history.interrupted
    assert found.history.step.tolist() == [0, 5]
    assert str(found).endswith("interrupted")
    eight = disperse(x, Uninterrupted(), **{**options, "steps": 8}, generator=seeded())
    assert same(found.points, eight.points)
    completed = disperse(x, Interrupted(), **options, generator=seeded(), checkpoint=tmp_path / "run.pt")
    assert not completed.history.interrupted
    assert same(completed.points, disperse(x, Uninterrupted(), **options, generator=seeded()).points)


def test_a_step_that_was_torn_is_not_written(tmp_path):
    found = disperse(clump(12, 3), Stopping(5, KeyboardInterrupt), steps=30, checkpoint=tmp_path / "run.pt")
    assert found.history.interrupted
    assert found.points.isfinite().all()
    assert list(tmp_path.iterdir()) == []


# Refused


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


@pytest.mark.parametrize("kind", ["seed", "the objective's seed"])
def test_the_checkpoint_of_another_seed_is_refused(kind, tmp_path):
    def go(seed):
        own = seeded(seed if kind != "seed" else 1)
        return disperse(
            clump(12, 3),
            uc.Sliced(generator=own),
            steps=5,
            batch_size=6,
            generator=seeded(seed if kind == "seed" else 1),
            checkpoint=tmp_path / "run.pt",
        )

    go(1)
    with pytest.raises(ValueError, match=r"with another seed: \[.*1.*\] there, \[.*2.*\] here"):
        go(2)
    torch.randn(3)  # torch's own generator may be in any state
    go(1)


@pytest.mark.deep
def test_a_checkpoint_cut_anywhere_or_with_a_bit_flipped_is_refused_or_the_same(tmp_path):
    path = tmp_path / "run.pt"
    run = {"x": clump(12, 3), "objective": "koleo", "steps": 5, "checkpoint": path}
    points, written, chance = disperse(**run).points, path.read_bytes(), random.Random(0)
    for _ in range(300):
        place = chance.randrange(len(written))
        flipped = bytearray(written)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(written[:place] if chance.random() < 0.3 else flipped)
        try:
            result = disperse(**run).points
        except ValueError as error:
            message = str(error)
        else:
            message = ""
            assert same(result, points)
        assert "\n" not in message


def test_a_flipped_bit_in_the_points_is_seen(tmp_path):
    path = tmp_path / "run.pt"
    run = {"x": clump(12, 3), "objective": "koleo", "steps": 5, "checkpoint": path}
    disperse(**run)
    written = bytearray(path.read_bytes())
    written[written.index(torch.load(path)["points"].numpy().tobytes()) + 5] ^= 1
    path.write_bytes(written)
    with pytest.raises(ValueError, match=r"run.pt as it was written, got other bytes: it is damaged"):
        disperse(**run)


def test_no_planted_link_is_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run.pt.partial").symlink_to("precious")
    disperse(clump(12, 3), "koleo", steps=5, checkpoint=tmp_path / "run.pt")
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_full_disk_is_one_line_and_leaves_the_last_checkpoint(tmp_path):
    path = tmp_path / "run.pt"
    run = {"x": clump(600, 30), "objective": "koleo", "checkpoint": path}
    disperse(**run, steps=1)
    written = path.read_bytes()

    def fill_up():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            disperse(**run, steps=1)
        except FileError as error:
            (tmp_path / "said").write_text(str(error))

    child = os.fork()
    if child == 0:
        try:
            fill_up()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "said").read_text().endswith("run.pt: could not be written, nothing was changed: file too large")
    assert path.read_bytes() == written
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.pt", "said"]


def test_a_pipe_or_a_folder_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ValueError, match=rf"a checkpoint of disperse in .*{name}, got another file"):
            disperse(clump(12, 3), "koleo", checkpoint=tmp_path / name)
