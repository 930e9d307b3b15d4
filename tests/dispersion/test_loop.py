"""The loop moves what it may, no farther than it may, and says what it did."""

import functools
import math
import re

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import clump, same, seeded
from unclump.dispersion.loop import disperse

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


def test_a_mean_over_rows_takes_the_steps_of_the_sum():
    """Adam divides a gradient by its size, but for eps, which is as small as the mean makes the gradients."""
    x = uc.uniform(400, 6, generator=seeded(), dtype=torch.float64)
    plain = {"optimizer": functools.partial(uc.SphereAdam, lr=0.01)}
    of_mean, of_sum = (
        disperse(x, uc.Sliced(2, reduction=reduction, generator=seeded()), steps=60, **options).points
        for reduction, options in (("mean", {"lr": 0.01}), ("sum", plain))
    )
    assert_close(of_mean, of_sum, rtol=0, atol=1e-9)


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
    optimizer = uc.SphereAdam([rows], lr=0.02, eps=1e-8 / 10)
    for step in range(7):
        optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)
        optimizer.zero_grad()
        uc.KoLeo()(rows).backward()
        optimizer.step()
    found = disperse(x, uc.KoLeo(), steps=7, lr=0.02, schedule=lambda step: 1 / (1 + step))
    assert_close(found.points, rows.detach(), rtol=0, atol=1e-12)


def test_every_epoch_draws_every_row_once():
    class Drawn(uc.KoLeo):
        def loss(self, x, *others):
            drawn.append(x.detach())
            return super().loss(x, *others)

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


@pytest.mark.parametrize("keep_norms", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_bound_holds_after_rounding_and_norms_are_kept_if_so_chosen(dtype, keep_norms):
    x, frozen = clump(24, 4, dtype), [3, 17]
    found = disperse(x, "energy", steps=60, lr=0.05, max_move=0.2, frozen=frozen, keep_norms=keep_norms).points
    travelled = uc.angle(uc.project(found.double()), uc.project(x.double()))
    assert travelled.max() <= 0.2
    assert travelled.max() > 0.19
    assert torch.equal(found[frozen].view(torch.uint8), x[frozen].view(torch.uint8))
    norms = x.double().norm(dim=1) if keep_norms else torch.ones(24, dtype=torch.float64)
    norms[frozen] = x[frozen].double().norm(dim=1)
    assert_close(found.double().norm(dim=1), norms, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_a_row_that_never_reaches_its_bound_is_not_bent():
    x = clump(10, 3, torch.float64)
    bounded = disperse(x, "koleo", steps=20, lr=0.01, max_move=1.0).points
    assert same(bounded, disperse(x, "koleo", steps=20, lr=0.01).points)


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
    monkeypatch.setattr("unclump.dispersion.run._MEASURED_ROWS", 10)
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
        ({"x": np.array([[1.0, np.nan], [0.0, 1.0]])}, ValueError, "NaN in 1 row (0)"),
        ({"objective": "coleo"}, ValueError, "got 'coleo'"),
        ({"objective": uc.koleo}, TypeError, "a module such as unclump.KoLeo(), or a name, got function"),
        ({"objective": uc.KoLeo}, TypeError, "or a name, got the class KoLeo; construct it"),
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
        def loss(self, *given):
            value, gradient = super().loss(*given)
            return value * math.nan, gradient

    with pytest.raises(ValueError, match="a finite objective, got nan at step 0"):
        disperse(clump(8, 3), Lost())
