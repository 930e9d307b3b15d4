"""The command line, the scores, and how rows are compared."""

import io
import json
import sys
import types
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

SIZES = {"d": 16, "layers": 1, "heads": 2, "feed-forward": 32, "batch-tokens": 200, "beam": 2, "dropout": 0, "lr": 5e-3}
TINY = [part for name, value in SIZES.items() for part in (f"--{name}", value)]


@pytest.fixture
def command(capsys):
    """command(*arguments): exit code, standard output, standard error."""
    from translation.command import main

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def files(corpus, tmp_path):
    """Options that name plain files of the user's own."""

    def write(name, pairs):
        for language, side in (("en", 0), ("la", 1)):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
        return [tmp_path / f"{name}.en", tmp_path / f"{name}.la"]

    train, validation = write("train", corpus.train), write("valid", corpus.validation)
    return ["--train", *train, "--validation", *validation, "--test", *write("test", corpus.tests["test"])]


def test_a_sentence_typed_in_is_translated_by_what_was_trained(command, files, tmp_path, monkeypatch):
    from translation.generated import ADJECTIVES, NOUNS, VERBS

    pytest.importorskip("tensorboard")
    options = [*files, "--vocabulary", 54, "--updates", 50, *TINY, "--table-lr", 0.05, "--tensorboard"]
    code, said, complaint = command("train", tmp_path / "model", *options)
    assert code == 0, complaint
    assert "test: BLEU" in said
    assert "version:" in said
    assert list((tmp_path / "model").glob("events.out.tfevents*"))
    code, said, _ = command("translate", tmp_path / "model", "big dog sees cat")
    assert code == 0
    words = said.split()
    assert words
    assert len(said.splitlines()) == 1
    assert set(words) <= {*NOUNS.values(), *ADJECTIVES.values(), *VERBS.values()}, said
    monkeypatch.setattr(sys, "stdin", io.StringIO("big dog sees cat\nold fish hears wolf\n"))
    code, both, _ = command("translate", tmp_path / "model")
    assert both.splitlines()[0] == said.strip()
    assert len(both.splitlines()) == 2

    code, said, complaint = command("translate", tmp_path / "model", "big ☃")
    assert (code, said) == (2, "")
    assert "'☃'" in complaint
    continuous = [*files, "--row", "continuous, Euclidean", "--table", tmp_path / "model", "--updates", 2, *TINY]
    code, _, complaint = command("train", tmp_path / "continuous", *continuous)
    assert code == 0, complaint
    (tmp_path / "model" / "vocabulary.model").unlink()
    code, _, complaint = command("translate", tmp_path / "model", "big dog")
    assert code == 2
    assert "expected a vocabulary in" in complaint


def test_unequal_files_are_refused_and_nothing_is_written(command, files, tmp_path):
    with (tmp_path / "train.la").open("a") as file:
        file.write("avis\n")
    code, said, complaint = command("train", tmp_path / "model", *files, "--vocabulary", 54, *TINY)
    assert (code, said) == (2, "")
    assert complaint.startswith("train: expected as many lines in")
    assert len(complaint.splitlines()) == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "x", "--row", "hyperbolic"], "expected a row of"),
        (["train", "x", "--row", "continuous, spherical"], "expected --table FOLDER"),
        (["train", "x", "--data", "europarl"], "expected data to be"),
        (["train", "x", "--train", "a", "b"], "--train, --validation and --test together"),
        (["translate", "nowhere", "dog"], "expected a trained model in"),
        (["translate", "nowhere", "dog", "--beam", "0"], "expected --beam >= 1"),
        (["table", "--config", "nowhere.json"], "nowhere.json"),
    ],
)
def test_mistakes_are_one_line(command, arguments, message):
    code, said, complaint = command(*arguments)
    assert (code, said) == (2, "")
    assert message in complaint
    assert len(complaint.splitlines()) == 1


def test_a_data_set_that_is_not_there_is_one_line(command, tmp_path):
    train, table = ["train", tmp_path / "m", "--data", "multi30k"], ["table", "--output", tmp_path / "results"]
    for name, *options in (train, table):
        code, said, complaint = command(name, *options, "--data-folder", tmp_path / "no")
        assert (code, said) == (2, "")
        assert complaint.startswith(f"{name}: multi30k: expected its files in {tmp_path / 'no' / 'multi30k'}, got no")
        assert len(complaint.splitlines()) == 1


def test_no_command_says_which_there_are(command):
    assert command()[0] == 2
    code, said, _ = command("--help")
    assert code == 0
    assert all(name in said for name in ("train", "translate", "table"))


def test_the_papers_configuration_can_be_asked_for(tmp_path):
    from translation import FULL
    from translation.command import configured
    from translation.rows import DISCRETE
    from translation.setting import Setting

    path = Path(__file__).parents[3] / "experiments/translation/paper.json"
    found = configured(path, FULL)
    setting = Setting.of(found)
    assert setting.batch_tokens * setting.accumulate == 65_536
    assert setting.warmup * found["updates"] == 10_000
    assert setting.embedding == 128
    assert {row: len(tries) for row, tries in found["tries"].items()} == dict.fromkeys(DISCRETE, 3)
    (tmp_path / "other.json").write_text('{"depth": 3}')
    with pytest.raises(ValueError, match=r"expected settings of .*, got depth"):
        configured(tmp_path / "other.json", FULL)


def test_tables_are_made_of_files_and_configurations(command, files, tmp_path, monkeypatch):
    from translation import table

    asked, folders = [], []
    monkeypatch.setattr(
        table, "main", lambda options, data_folder: asked.append(options) or folders.append(data_folder)
    )
    (tmp_path / "c.json").write_text(json.dumps({"updates_pilot": 7}))
    assert command("table", *files, "--config", tmp_path / "c.json", "--seeds", 2)[0] == 0
    (options,) = asked
    assert options[:2] == ["--updates-pilot", "7"]
    assert json.loads(options[options.index("--files") + 1])["train"] == [[str(f) for f in files[1:3]]]
    assert options[-2:] == ["--seeds", "2"]
    assert command("table", "--data", "roen", "--data-folder", tmp_path)[0] == 0
    assert asked[1] == ["--data", "roen"]
    assert folders == [None, tmp_path]


def test_equal_numbers_of_tries_are_insisted_on():
    from translation.table import tried

    with pytest.raises(ValueError, match="expected as many tries for every row, got"):
        tried(None, {"Euclidean": [{}], "spherical": [{}, {}]}, 10, {})


def test_rates_are_tried_as_far_up_in_every_row_on_the_sphere():
    from translation.table import TRIES

    assert {row: len(tries) for row, tries in TRIES.items()} == dict.fromkeys(TRIES, 5)
    highest = {row: max(rate for rate, _ in tries) for row, tries in TRIES.items()}
    assert highest == {row: 5e-2 if row == "Euclidean" else 2e-1 for row in TRIES}


def test_the_try_with_the_lowest_validation_loss_is_taken():
    from translation.table import best_tries

    tries = {"Euclidean": ["a", "b", "c"], "spherical": ["d"]}
    pilots = {"Euclidean": [{"validation_loss": loss} for loss in (3.0, 1.5, 2.0)]}
    assert best_tries(tries, pilots) == {"Euclidean": "b", "spherical": "d"}


def test_rows_that_are_best_at_the_first_or_last_rate_are_named():
    """One rate may be tried with several weights."""
    from translation.claims import tuning_of

    losses = {
        "inside": [(0.1, 3.0), (0.2, 1.0), (0.2, 5.0), (0.3, 2.0)],
        "first": [(0.1, 1.0), (0.2, 2.0)],
        "last": [(0.1, 2.0), (0.2, 1.0)],
    }
    tries = {row: [{"table_lr": rate, "validation_loss": loss} for rate, loss in own] for row, own in losses.items()}
    assert tuning_of(tries, losses).endswith("the first or last of them for first, last")
    assert tuning_of(tries, ["inside"]).endswith("the first or last of them for none")
    assert tuning_of({}, losses) == "One rate each"


def test_scores_carry_their_signature():
    from translation.scores import judge

    said = ["a big dog sees the old cat", "the fish hears it all day"]
    perfect = judge(said, said)
    assert perfect["bleu"] == pytest.approx(100)
    assert perfect["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert judge([said[0], "the bird hears it"], said)["bleu"] < 80


def test_the_bootstrap_tells_a_difference_from_none(corpus):
    from translation.scores import bootstrap

    references = [target for _, target in corpus.train]
    worse = [" ".join(target.split()[:-1]) if i % 3 else target for i, target in enumerate(references)]
    other = [" ".join(target.split()[:-1]) if i % 3 != 1 else target for i, target in enumerate(references)]
    real, none = bootstrap(references, worse, references), bootstrap(other, worse, references)
    assert real["gain"] > 5
    assert real["p_value"] < 0.01
    assert none["p_value"] > 0.05


def test_comet_is_asked_where_it_is_there(monkeypatch):
    from translation import scores

    class Model:
        def predict(self, judged, **_):
            assert judged == [{"src": "Hund", "mt": "dog", "ref": "a dog"}]
            return types.SimpleNamespace(system_score=0.8)

    fake = types.SimpleNamespace(download_model=lambda name: f"{name}.ckpt", load_from_checkpoint=lambda path: Model())
    monkeypatch.setitem(sys.modules, "comet", fake)
    scores._comet.cache_clear()
    assert scores.judge(["dog"], ["a dog"], sources=["Hund"], comet="wmt22")["comet"] == 0.8
    scores._comet.cache_clear()
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(ValueError, match="pip install unbabel-comet"):
        scores.judge(["dog"], ["a dog"], sources=["Hund"], comet="wmt22")


def test_dispersion_is_compared_with_the_sphere_without_it():
    """All rows gain on the Euclidean one, but one with a regulariser less than the sphere alone, seed by seed."""
    from translation.claims import gains_over

    rows = {
        "Euclidean": {"seeds": 3, "gains": []},
        "spherical": {"seeds": 3, "gains": [2.0, 1.0, 3.0]},
        "spherical + MHE": {"seeds": 3, "gains": [1.5, 0.5, 2.5]},
    }
    assert gains_over(rows, "spherical + MHE", "Euclidean")["mean"] == pytest.approx(1.5)
    assert gains_over(rows, "spherical + MHE", "spherical")["mean"] == pytest.approx(-0.5)
    assert gains_over(rows, "spherical", "Euclidean")["mean"] == pytest.approx(2.0)


def test_a_pilots_record_is_a_function_of_its_key(tmp_path):
    """Choosing weights by BLEU on the way would change the loss that is recorded, and is no part of the key."""
    from _common import Results
    from translation.runs import Workshop
    from translation.table import FULL, QUICK

    trial = {"lr": 1e-2, "table_lr": 5e-2, "weight": 0}
    asked, records = [], []
    for often in (1, 3):
        options = ["--quick", "--output", str(tmp_path / str(often)), "--validations", str(often)]
        workshop = Workshop(Results("translation", "", options, full=FULL, quick=QUICK))
        asked.append(workshop.asked("spherical", 1000, trial, updates=6, pilot=True))
        records.append(workshop.run(asked[-1]))
    assert asked[0] == asked[1]
    assert records[0] == records[1]


def test_a_run_in_float32_has_the_key_that_it_had_before_there_was_a_choice(tmp_path):
    from _common import Results
    from translation.runs import Workshop
    from translation.table import FULL, QUICK

    trial = {"lr": 1e-2, "table_lr": 5e-2, "weight": 0}
    named = {}
    for precision in ("float32", "bfloat16"):
        options = ["--quick", "--output", str(tmp_path), "--precision", f'"{precision}"']
        workshop = Workshop(Results("translation", "", options, full=FULL, quick=QUICK))
        named[precision] = workshop.asked("spherical", 0, trial, updates=6)["setting"]
    assert "precision" not in named["float32"]
    assert named["bfloat16"] == named["float32"] | {"precision": "bfloat16"}


def test_the_full_tables_have_seeds_enough_for_verdicts():
    """A start takes more than a minute, so three are enough for the rule."""
    from _common import mean_and_error
    from _verdicts import Case, Claim, judge
    from translation.table import FULL

    for name in ("seeds", "seeds_continuous"):
        gains = [1.0 + 0.01 * seed for seed in range(FULL[name])]
        claim = Claim("It gains.", [Case.of("over none", mean_and_error(gains))], seconds=100.0, setting="ours")
        assert judge([claim])[0]["verdict"] == "confirmed", name
