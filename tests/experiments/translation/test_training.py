"""A training does what its row says, and goes on from where it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import unclump as uc

pytestmark = pytest.mark.deep

KILLED = """
import os, signal, sys
sys.path[:0] = [{experiments!r}]
from translation.generated import generated
from translation.rows import ROWS
from translation.setting import Setting
from translation.text import encoded
from translation.training import Training
from translation.vocabulary import load_vocabulary

text = encoded(generated(train=120, validation=10, test=10), load_vocabulary({vocabulary!r}))
setting = Setting(d=16, layers=1, heads=2, feed_forward=32, batch_tokens=120, beam=2, watch=[0.0, 1.0])
training = Training(text, ROWS["spherical + Sliced"], setting, updates=16, table_lr=0.02, weight=1e-3)
step = training.step

def step_or_die():
    if training.update == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    return step()

training.step = step_or_die
training.run(checkpoint={state!r}, checkpoint_seconds=0)
"""


def test_a_killed_training_goes_on_to_the_same_loss(training, vocabulary, tmp_path):
    vocabulary.save(tmp_path / "v.model")
    experiments = str(Path(__file__).parents[3] / "experiments")
    source = str(Path(uc.__file__).parents[1])
    code = KILLED.format(
        experiments=experiments, vocabulary=str(tmp_path / "v.model"), state=str(tmp_path / "state.pt")
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == -signal.SIGKILL
    choices = {"updates": 16, "weight": 1e-3}
    resumed, whole = training("spherical + Sliced", **choices), training("spherical + Sliced", **choices)
    steps = []
    whole_step = resumed.step
    resumed.step = lambda: steps.append(resumed.update) or whole_step()
    resumed.run(checkpoint=tmp_path / "state.pt")
    whole.run()
    assert steps == list(range(11, 16))
    assert resumed.losses == whole.losses
    assert resumed.history == whole.history
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True))


def test_the_state_of_another_training_is_refused(training, tmp_path):
    training(updates=2).run(checkpoint=tmp_path / "state.pt")
    with pytest.raises(ValueError, match=r"with another table_lr: 0\.02 there, 0\.05 here"):
        training(updates=2, table_lr=0.05).run(checkpoint=tmp_path / "state.pt")
    (tmp_path / "state.pt").write_text("not one")
    with pytest.raises(ValueError, match="expected the state of a training"):
        training(updates=2).run(checkpoint=tmp_path / "state.pt")


def test_both_tables_start_in_the_same_directions(training):
    flat, round_ = training("Euclidean").model.table, training("spherical").model.table
    assert_close(uc.project(flat), round_.data)
    assert_close(flat.norm(dim=1).mean(), torch.tensor(1.0), atol=0.05, rtol=0)
    assert flat.norm(dim=1).std() > 0.05


def test_products_in_bfloat16_are_those_of_float32_to_two_digits(training):
    """The loss of the first updates; weights, table and gradients stay in float32."""
    both = [training("spherical + Sliced", precision=precision) for precision in ("float32", "bfloat16")]
    plain, half = [[one.step() for _ in range(4)] for one in both]
    assert plain != half
    assert half == pytest.approx(plain, rel=0.01)
    for one in both:
        assert {p.dtype for p in one.model.parameters()} == {p.grad.dtype for p in one.model.parameters()}
        assert {p.dtype for p in one.model.parameters()} == {torch.float32}
        assert_close(one.model.table.norm(dim=1), torch.ones(len(one.model.table)))


def test_only_the_sphere_keeps_its_table_on_it(training):
    flat, round_ = training("Euclidean").run().model.table, training("spherical").run().model.table
    assert_close(round_.norm(dim=1), torch.ones(len(round_)))
    assert (flat.norm(dim=1) - 1).abs().max() > 0.05


@pytest.mark.parametrize("name", ["MHE", "Lloyd", "Sliced"])
def test_the_regulariser_moves_the_table_alone_and_is_not_clipped(training, name):
    plain = training("spherical", updates=1, clip=1e-3).run().model
    kept = training(f"spherical + {name}", updates=1, weight=10.0, clip=1e-3).run().model
    for (part, a), (_, b) in zip(plain.named_parameters(), kept.named_parameters(), strict=True):
        assert torch.equal(a, b) == (part != "table"), part


def test_every_update_draws_anew(training, monkeypatch):
    import translation.training as module

    seeds = []
    monkeypatch.setattr(module, "penalty", lambda name, table, draw: seeds.append(draw.initial_seed()) or table.sum())
    for seed in (0, 1):
        training("spherical + Lloyd", updates=3, seed=seed).run()
    assert len(set(seeds)) == 6


def test_sliced_raises_the_variance_of_the_table(training):
    def variance(row, **choices):
        return uc.spherical_variance(training(row, updates=25, **choices).run().model.table.detach())

    assert variance("spherical + Sliced", weight=1.0) > variance("spherical") + 0.02


def test_the_loss_of_accumulated_batches_is_that_of_all_their_tokens(training):
    from translation.tokens import loss_of

    one = training(accumulate=3, dropout=0.0)
    batches = [one.batch(number) for number in range(3)]
    with torch.no_grad():
        total = sum(loss_of(one.model, batch, smoothing=0.1) for batch in batches)
    assert one.step() == pytest.approx(total.item() / sum(batch.tokens for batch in batches), rel=1e-5)


def test_an_epoch_has_every_batch_once(training):
    one = training()
    count = len(one.batches)
    first, second = ([id(one.batch(e * count + k).source) for k in range(count)] for e in (0, 1))
    assert sorted(first) == sorted(second) == sorted(id(batch.source) for batch in one.batches)
    assert first != second


def test_rates_rise_to_their_height_and_fall(tiny):
    line, root = tiny(warmup=0.1), tiny(warmup=0.1, schedule="inverse_sqrt")
    assert [line.factor(update, 100) for update in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert line.factor(10, 100) < 1
    assert line.factor(99, 100) == pytest.approx(1 / 91)
    assert root.factor(39, 100) == 0.5


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"heads": 3}, "multiple of twice the heads"),
        ({"schedule": "steps"}, "linear or inverse_sqrt"),
        ({"continuous_loss": "l2"}, "cosine or vmf"),
        ({"beam": 0}, "beam >= 1"),
        ({"embedding": 0}, "embedding >= 1, or null"),
        ({"warmup": 400}, "warmup as a part"),
    ],
)
def test_settings_out_of_range_are_refused(tiny, choice, message):
    with pytest.raises(ValueError, match=message):
        tiny(**choice)


def test_a_loss_that_is_not_finite_stops_the_training(training):
    one = training()
    one.model.source.data[:] = torch.nan
    with pytest.raises(ValueError, match="the loss became nan at update 0; try a lower learning rate"):
        one.step()


def test_the_best_weights_on_validation_are_kept(training, monkeypatch):
    one, seen = training(updates=6, validations=3), []
    scores = iter([5.0, 9.0, 7.0])
    monkeypatch.setattr(one, "validation_bleu", lambda: seen.append(one.model.table.detach().clone()) or next(scores))
    one.run()
    assert one.best["update"] == 4
    assert torch.equal(one.model.table, seen[1])
    assert not torch.equal(one.model.table, seen[2])


@pytest.mark.parametrize("loss", ["cosine", "vmf"])
def test_continuous_output_learns_around_a_frozen_table(training, text, loss):
    table = uc.uniform(len(text.vocabulary), 16, generator=torch.Generator().manual_seed(3))
    one = training("continuous, Euclidean", table=table, updates=40, dropout=0.0, continuous_loss=loss, lr=1e-2).run()
    assert torch.equal(one.model.table, table)
    assert one.validation_loss() < one.losses[0] - 0.3


def test_the_rows_are_those_of_the_paper():
    from translation.comparison import PAPER
    from translation.rows import CONTINUOUS, DISCRETE, ROWS, row_named

    assert (len(DISCRETE), len(CONTINUOUS)) == (5, 8)
    assert list(PAPER) == list(ROWS)
    with pytest.raises(ValueError, match=r"expected a row of Euclidean; spherical; .*, got 'hyperbolic'"):
        row_named("hyperbolic")


def test_offline_dispersion_starts_from_the_trained_table_and_spreads_it(generator):
    from translation.rows import CONTINUOUS, frozen_table

    clump = 3 * (torch.tensor([2.0, 0, 0, 0]) + torch.randn(60, 4, generator=generator))
    choice = {"seed": 0, "epochs": 20, "lr": 4e-2}
    plain = frozen_table(CONTINUOUS["continuous, Euclidean"], clump, **choice)
    assert_close(plain, uc.project(clump))
    for name in ("MHE", "Lloyd", "Sliced"):
        spread = frozen_table(CONTINUOUS[f"continuous, Euclidean + offline {name}"], clump, **choice)
        assert_close(spread.norm(dim=1), torch.ones(60))
        assert uc.spherical_variance(spread) > uc.spherical_variance(plain) + 0.1
        assert uc.angle(spread, plain).max() < 20 * 4e-2 * 1.5


def test_measures_tell_the_tokens_that_occur_from_all():
    from translation.tokens import dispersion

    table = torch.cat([torch.eye(3), torch.eye(3)[:1]])
    found = dispersion(table, torch.tensor([5, 1, 2, 0]))
    assert found["whole"]["min_angle"] == 0
    assert found["occurring"]["min_angle"] == pytest.approx(torch.pi / 2, abs=1e-6)
    assert (found["whole"]["tokens"], found["occurring"]["tokens"]) == (4, 3)
    assert found["occurring"]["variance"] == pytest.approx(1 - 3**-0.5, abs=1e-6)


def test_every_token_is_in_one_bin_from_the_most_frequent_on():
    from translation.tokens import along_frequency

    counts = torch.tensor([3, 0, 100, 7])
    found = along_frequency(torch.tensor([1.0, 2.0, 3.0, 4.0]), counts, bins=40)
    assert found["rank"] == [1, 2, 3, 4]
    assert found["middle"] == [3, 4, 1, 2]
    wide = along_frequency(torch.arange(1000.0), torch.arange(1000, 0, -1), bins=5)
    assert len(wide["rank"]) == 5
    # Edges of ranks 1001^(k/5): 1, 4, 16, 63, 251, 1001. Values are ranks less one, so that quantiles are on a line.
    for place, (first, last) in enumerate([(0, 2), (3, 14), (15, 61), (62, 249), (250, 999)]):
        for name, part in (("low", 0.1), ("middle", 0.5), ("high", 0.9)):
            assert wide[name][place] == pytest.approx(first + part * (last - first), rel=1e-3), (place, name)


def test_gradients_on_the_sphere_are_those_along_it(training):
    from translation.tokens import gradient_norms, loss_of

    one = training("spherical", dropout=0.5)
    batches = one.batches[:3]
    one.model.eval()
    total = sum(loss_of(one.model, batch, smoothing=0.1) for batch in batches) / sum(b.tokens for b in batches)
    (gradient,) = torch.autograd.grad(total, one.model.table)
    points = one.model.table.detach()
    expected = torch.stack([g - (g @ x) * x for g, x in zip(gradient, points, strict=True)]).norm(dim=1)
    one.model.train()
    assert_close(gradient_norms(one.model, batches, sphere=True, smoothing=0.1), expected, rtol=1e-4, atol=1e-7)
    assert_close(
        gradient_norms(one.model, batches, sphere=False, smoothing=0.1), gradient.norm(dim=1), rtol=1e-4, atol=1e-7
    )
    assert one.model.training
