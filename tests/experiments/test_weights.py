"""What the experiment of weights trains, and how its numbers are judged."""

import importlib
import json
from collections import Counter
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def report():
    return importlib.import_module("_weights_report")


@pytest.mark.parametrize(("name", "power"), [("hardest_triplets", 2), ("batch_hard", 1)])
def test_the_hardest_negative_is_the_nearest_view_of_another_drawing(name, power, points):
    x = torch.nn.functional.normalize(points(10, 3), dim=-1)
    losses = []
    for i in range(5):
        own = torch.dist(x[i], x[i + 5]) ** power
        others = [torch.dist(x[i], x[j + 5]) ** power for j in range(5) if j != i]
        losses.append(torch.relu(0.2 + own - min(others)))
    torch.testing.assert_close(getattr(importlib.import_module("_trainings"), name)(x), torch.stack(losses).mean())


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        ((-0.02, 0.01), "better"),
        ((-0.02, 0.03), "no difference shown"),
        ((0.005, 0.006), "no difference shown"),
        ((0.005, 0.004), "worse, within the noise"),
        ((0.02, 0.01), "worse, by more than the noise"),
        ((0.02, 0.03), "unclear"),
    ],
)
def test_a_score_is_judged_by_its_interval_and_by_the_noise(report, score, verdict):
    assert report.judge_score({"score": score}, 0.01) == verdict


def test_the_conclusion_names_every_term_that_does_harm_or_raises_nothing(report):
    def entry(score, variance):
        at = {"term": "KoLeo", "recommended": True, "score": score, "variance": variance}
        other = {"term": "Sliced", "recommended": False, "score": [1.0, 0.1], "variance": [-1.0, 0.1]}
        return {"noise": 0.01, "terms": [at, other]}

    good, harmful, flat = entry([0.0, 0.1], [0.2, 0.1]), entry([0.02, 0.1], [0.2, 0.1]), entry([0.0, 0.1], [0.1, 0.2])
    said = report.conclusion({"trainings": {"triplets": good}, "sizes": {}})
    assert "nowhere" in said
    assert "beyond chance everywhere" in said
    said = report.conclusion({"trainings": {"triplets": harmful}, "sizes": {"1000": flat}})
    assert "for KoLeo in contrastive, triplets. " in said
    assert "except for KoLeo in 1,000 rows." in said


def test_every_training_has_its_own_number_of_seeds(tmp_path):
    weights = importlib.import_module("weights")
    asked = ["--quick", "--output", str(tmp_path), "--seeds", "[3, 4, 5, 6, 7, 8]"]
    results = weights.Results("weights", "", asked, full=weights.FULL, quick=weights.QUICK)
    settings = [one for one in weights.settings(results) if one["rows"] == results["rows"]]
    for training, seeds in zip(weights.SCORES, range(3, 9), strict=True):
        counts = Counter((one["regulariser"], one["weight"]) for one in settings if one["training"] == training)
        assert counts["none", 0.0] == counts["KoLeo", weights.RECOMMENDED["KoLeo"]] == seeds
        assert counts["KoLeo", weights.TRIED["KoLeo"][0]] == results["seeds_around"]


@pytest.fixture
def summary():
    return json.loads((FOLDER.parent / "results/weights.json").read_text())["summary"]


CONTRASTIVE = ["triplets", "hardest negatives", "batch hard"]  # those with something to raise
WEIGHTED = ["Sliced", "KoLeo", "Uniformity"]  # the others are shares


def verdicts(report, entry, factor=1.0):
    """The verdicts on a training's terms at a multiple of their recommended weights."""
    best = {at["term"]: at["weight"] for at in entry["terms"] if at["recommended"]}
    chosen = [at for at in entry["terms"] if at["weight"] == round(best.get(at["term"], 0) * factor, 6)]
    assert len(chosen) == len(best)
    return {at["term"]: (report.judge_score(at, entry["noise"]), report.judge_variance(at)) for at in chosen}


@pytest.mark.parametrize("training", ["language model", *CONTRASTIVE, "prototypes", "1000", "10000", "100000"])
def test_recommended_weights_do_no_harm_beyond_the_noise_and_raise_the_variance(report, summary, training):
    entry = (summary["trainings"] | summary["sizes"])[training]
    for at in report.recommended(entry):
        assert at["score"][0] <= entry["noise"]
        assert report.judge_variance(at) == "rises"


def test_no_training_is_left_out_of_the_conclusion(report, summary):
    said = report.conclusion(summary)
    assert "by more than the deviation over seeds nowhere" in said
    assert summary["trainings"].keys() == {"language model", *CONTRASTIVE, "prototypes", "contrastive"}


def test_what_the_page_says_of_contrastive_trainings(report, summary):
    found = {training: verdicts(report, entry) for training, entry in summary["trainings"].items()}
    assert {term for term, (score, _) in found["triplets"].items() if score == "better"} == {"Uniformity"}
    for training in ("hardest negatives", "contrastive"):
        assert {term for term, (score, _) in found[training].items() if score == "better"} == set(WEIGHTED)
    assert all(score in ("better", "no difference shown") for score, _ in found["batch hard"].values())
    for factor in (3.16, 10.0):
        at = verdicts(report, summary["trainings"]["batch hard"], factor)
        assert {at[term][0] for term in WEIGHTED} == {"worse, by more than the noise"}
    clumped = {training: entry["variance"] for training, entry in summary["trainings"].items()}
    assert clumped["hardest negatives"] < clumped["batch hard"] < 0.05
    errors = {training: summary["trainings"][training]["score"] for training in [*CONTRASTIVE, "contrastive"]}
    assert min(errors, key=errors.get) == "batch hard"
    shares = [at for at in summary["trainings"]["hardest negatives"]["terms"] if at["term"].startswith("Balanced")]
    assert max(at["variance"][0] for at in shares) < 0.02


def test_what_the_page_says_of_tables(report, summary):
    model, prototypes = summary["trainings"]["language model"], summary["trainings"]["prototypes"]
    assert {score for score, _ in verdicts(report, model).values()} == {"worse, within the noise"}
    assert {score for score, _ in verdicts(report, prototypes).values()} == {"no difference shown"}
    assert verdicts(report, prototypes, 10.0)["KoLeo"][0] == "worse, by more than the noise"
    assert verdicts(report, prototypes, 10.0)["Sliced"][0] == "no difference shown"
    large = summary["sizes"]["100000"]
    unlowered = [at for at in large["terms"] if not at["recommended"]]
    assert {at["term"] for at in unlowered} == {"KoLeo", "Uniformity", "Balanced Sliced"}
    assert all(at["score"][0] > large["noise"] for at in unlowered)


def test_what_the_page_says_of_circles_through_axes(summary):
    caught = {
        training: {name: (len(found["caught"]), len(found["free"])) for name, found in each.items()}
        for training, each in summary["along_axis"].items()
    }
    assert all(each["Sliced"][0] == 0 for each in caught.values())
    assert 0 < caught["triplets"]["Sliced, axes"][0] < 12
    assert caught["batch hard"]["Sliced, axes"] == (12, 0)
    axes = summary["along_axis"]["hardest negatives"]["Sliced, axes"]
    assert max(axes["free"] + axes["caught"]) < 0.1
    for training in ("language model", "prototypes"):
        terms = {at["term"]: at["variance"] for at in summary["trainings"][training]["terms"] if at["weight"] == 0.3}
        (mean, width), (other, other_width) = terms["Sliced"], terms["Sliced, axes"]
        assert abs(mean - other) < width + other_width
