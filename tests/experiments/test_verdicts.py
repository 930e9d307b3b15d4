"""Verdicts on prototypes: contrived runs on both sides of each claim, and errors of what is independent."""

import importlib
import itertools
import statistics
from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.deep

DIMENSIONS = [50, 100, 200]
TAKES = {"set": 4.0, "frozen": 7.0, "end": 700.0, "backbone": 700.0}  # seconds
ENDS = ["MM squared", "MHE RBF", "random"]


def module(name):
    return importlib.import_module(f"_prototype_{name}")


def around(place, count):
    """Numbers whose sum is zero."""
    return place - (count - 1) / 2


class World:
    """Runs in which every row has the accuracy and the angle that it is given in the mean, and noise around it.

    Without more, all sets have 20%, and angles are the paper's. A backbone is worth several points, to all rows alike;
    noise is not: it is larger the later a row is. Accuracy may also be `slope` points for each radian of the angle.
    """

    def __init__(self, *, accuracy=None, angle=None, tuned=None, end=None, noise=0.001, angle_noise=0.0001, **choices):
        self.given = {"accuracy": accuracy or {}, "angle": angle or {}, "tuned": tuned or {}, "end": end or {}}
        self.noise, self.angle_noise = noise, angle_noise
        self.slope = choices.get("slope", 0.0)
        self.kind, self.classes = choices.get("kind", "tiny"), choices.get("classes", 200)
        sets = module("sets")
        left = choices.get("left_out", ())
        self.results = {
            "dimensions": choices.get("dimensions", DIMENSIONS),
            "rows": [row for row in (*sets.PAPER_ROWS, *sets.BEYOND) if row not in left],
            "backbones": choices.get("backbones", 3),
            "seeds": choices.get("seeds", 4),
            "set_seeds": 5,
            "end_rows": [row for row in (*ENDS, "softmax") if row not in left],
            "end_dimensions": choices.get("end_dimensions", [50, 200]),
            "end_channels": [4, 8],
            "end_epochs": 7,
            "end_seeds": choices.get("end_seeds", 4),
            "epochs": 5,
            "px": 32,
        }
        self.images = SimpleNamespace(train=range(900), val=range(400), skipped=[])

    def loudness(self, row):
        return 1 + [*self.results["rows"], STEEP].index(row)

    def of(self, what, row, d, default):
        return self.given[what].get((row, d), self.given[what].get(row, default))

    def angle(self, row, d):
        printed = module("sets").paper("MM squared" if row == module("sets").EQUAL else row, d)
        return self.of("angle", row, d, printed[2] if printed else module("sets").paper("SSW 1", d or 50)[2])

    def sets(self):
        for row in (*self.results["rows"], STEEP):
            random = row == "random"
            for d in self.results["dimensions"] if row not in ("softmax", "trained, with KoLeo") else ():
                starts = 21 if random else self.results["set_seeds"]
                for seed in range(starts):
                    moved = (0.005 if random else self.angle_noise * self.loudness(row)) * around(seed, starts)
                    found = {"min_angle": self.angle(row, d) + moved, "variance": 0.9, "seconds": TAKES["set"]}
                    yield {"row": row, "d": d, "seed": seed, **found}

    def accuracies(self, stage):
        ends = stage == "end"
        keys = ("end_rows", "end_dimensions", "end_seeds") if ends else ("rows", "dimensions", "seeds")
        rows, dimensions, seeds = (self.results[key] for key in keys)
        backbones = 1 if ends else self.results["backbones"]
        for backbone in range(backbones):
            for row in rows:
                for d in [self.classes] if row == "softmax" else dimensions:
                    for seed in range(seeds):
                        learned = {"min_angle": 1.2, "variance": 0.9} if row == "trained, with KoLeo" else {}
                        known = {"stage": stage, "seconds": TAKES[stage]} | ({} if ends else {"backbone": backbone})
                        sloped = self.slope and row not in ("softmax", "trained, with KoLeo")
                        value = self.of("end" if ends else "accuracy", row, d, 20.0) + 3 * backbone + seed / 10
                        noise = around(backbone, backbones) + around(seed, seeds)
                        value += noise * self.noise * self.loudness(row)
                        value += self.slope * self.angle(row, d) if sloped else 0.0
                        yield {"row": row, "d": d, "seed": seed, "accuracy": value} | known | learned

    def rates(self):
        sets = module("sets")
        for place, (row, (objective, optimiser, *_)) in enumerate(sets.PAPER_ROWS.items(), 1):
            way = sets.PROJECTED if optimiser == sets.PROJECTED else sets.RIEMANNIAN
            for d in self.results["dimensions"]:
                angle, starts = self.of("tuned", row, d, self.angle("MM squared", d)), self.results["set_seeds"]
                for lr, seed in itertools.product((0.1, 0.3), range(starts)):
                    moved = self.angle_noise * place * around(seed, starts)
                    found = {"min_angle": angle + moved - (lr - 0.1), "seconds": 1.0}
                    yield {"objective": objective, "way": way, "d": d, "lr": lr, "seed": seed, **found}

    def summary(self):
        records = {"set": list(self.sets()), "rate": list(self.rates())}
        records |= {stage: list(self.accuracies(stage)) for stage in ("frozen", "end")}
        records["backbone"] = [{"accuracy": 25.0, "seconds": TAKES["backbone"]}] * self.results["backbones"]
        return module("summary").summarise(self, records)

    def report(self):
        return module("report").report(self.summary())


def judged(claim, **choices):
    """The verdict on the one claim that has this in it, and its evidence."""
    (found,) = [one for one in World(**choices).report()["findings"] if claim in one["claim"]]
    return found["verdict"], found["evidence"]


MM, PROJECTED, EQUAL = "MM squared", "MM squared, projected", "MM squared, projected, same rate"
STEEP = "MHE Riesz geodesic, s = 8"
RBF, RIESZ, BLOCKS = "MHE RBF", "MHE Riesz geodesic", "orthonormal blocks"
CODE, ORDERED, TUNED = "spherical code", "spherical code, in order", "KoLeo, tuned rate"
FITTED = "(rate 0.1, momentum 0.9) separates"
PREDICTS = "does not predict accuracy"
LOUD = {"noise": 3.0}
BETTER = "separates the prototypes better than with projected steps at the same"


@pytest.mark.parametrize(
    ("claim", "choices", "wanted"),
    [
        ("the paper's column", {}, "confirmed"),
        ("the paper's column", {"angle": {("KoLeo", 100): 1.47}}, "confirmed"),
        ("the paper's column", {"angle": {("KoLeo", 100): 1.48}}, "refuted"),
        (FITTED, {}, "confirmed"),
        (FITTED, {"angle": {(PROJECTED, 100): 1.515}}, "refuted"),
        (FITTED, {"angle_noise": 0.5}, "open"),
        (BETTER, {}, "refuted"),
        (BETTER, {"angle": {EQUAL: 1.3}}, "confirmed"),
        (BETTER, {"angle_noise": 0.5}, "open"),
        ("when both rates are tuned", {}, "refuted"),
        ("when both rates are tuned", {"tuned": {PROJECTED: 1.4}}, "confirmed"),
        ("when both rates are tuned", {"angle_noise": 0.5}, "open"),
        ("rate and momentum, not geometry", {}, "new"),
        ("rate and momentum, not geometry", {"angle": {(EQUAL, 50): 1.43}}, "not borne out"),
        ("rate and momentum, not geometry", {"angle": {PROJECTED: 1.46, MM: 1.46, EQUAL: 1.46}}, "open"),
        ("those of exponent 8", {"angle": {(STEEP, 50): 1.43, (STEEP, 100): 1.57, (STEEP, 200): 1.58}}, "new"),
        (
            "those of exponent 8",
            {"angle": {(STEEP, 50): 1.46, (STEEP, 100): 1.57, (STEEP, 200): 1.58}},
            "not borne out",
        ),
        ("random points have too", {"angle": {("random", 200): 1.31}}, "new"),
        ("random points have too", {"angle": {("random", 200): 1.20}}, "not borne out"),
        ("random points have too", {"angle": {("random", 100): 1.40}}, "not borne out"),
        ("also classifies better", {"accuracy": {(MM, 50): 21}}, "confirmed"),
        ("also classifies better", {"accuracy": {(MM, 50): 19}}, "refuted"),
        ("also classifies better", {"accuracy": {(MM, 50): 21}, **LOUD}, "open"),
        ("at the same rate and momentum.", {"accuracy": {MM: 21}}, "confirmed"),
        ("at the same rate and momentum.", {"accuracy": {MM: 21, (MM, 200): 19}}, "refuted"),
        ("at the same rate and momentum.", {"accuracy": {MM: 21}, **LOUD}, "open"),
        (PREDICTS, {"slope": -50.0}, "confirmed"),
        (PREDICTS, {"slope": 50.0}, "refuted"),
        (PREDICTS, {"slope": 0.1, **LOUD}, "open"),
        (PREDICTS, {"slope": 50.0, "backbones": 1}, "open"),
        ("classifies best", {"accuracy": {(RBF, 50): 21}}, "confirmed"),
        ("classifies best", {"accuracy": {(RBF, 50): 21, ("Sliced 1", 50): 22}}, "refuted"),
        ("classifies best", {"accuracy": {(RBF, 50): 21}, **LOUD}, "open"),
        ("MHE degrades", {"end": {(RBF, 200): 18}}, "confirmed"),
        ("MHE degrades", {"end": {(RBF, 200): 19.5}}, "refuted"),
        ("MHE degrades", {"end": {(RBF, 200): 18}, **LOUD}, "open"),
        ("MHE degrades", {"accuracy": {(RBF, 200): 18, (RIESZ, 200): 18}, "end_dimensions": [50]}, "open"),
        ("prototypes at the rate that", {"accuracy": {BLOCKS: 21}}, "new"),
        ("prototypes at the rate that", {"accuracy": {BLOCKS: 21, (BLOCKS, 100): 19}}, "not borne out"),
        ("prototypes at the rate that", {"accuracy": {BLOCKS: 21}, **LOUD}, "open"),
        ("prototypes at its best rate", {"accuracy": {BLOCKS: 21}}, "new"),
        ("prototypes at its best rate", {"accuracy": {BLOCKS: 21, TUNED: 22}}, "not borne out"),
        ("in which order", {"accuracy": {(CODE, 100): 21}}, "new"),
        ("in which order", {"accuracy": {(ORDERED, 50): 21}}, "new"),
        ("in which order", {"accuracy": {(CODE, 100): 21}, **LOUD}, "open"),
        ("better than every set", {"accuracy": {"softmax": 21}}, "new"),
        ("better than every set", {"accuracy": {"softmax": 21, (CODE, 100): 22}}, "not borne out"),
        ("better than every set", {"accuracy": {"softmax": 21}, **LOUD}, "open"),
        ("Trained end to end", {"end": {MM: 21, RBF: 22}}, "new"),
        ("Trained end to end", {"end": {MM: 19, RBF: 22}}, "not borne out"),
        ("Trained end to end", {"end": {MM: 21, RBF: 22}, **LOUD}, "open"),
        ("Trained end to end", {"end": {MM: 21, RBF: 22}, "end_seeds": 1}, "open"),
    ],
)
def test_each_claim_is_decided_both_ways(claim, choices, wanted):
    found, evidence = judged(claim, **choices)
    assert found == wanted, evidence


@pytest.mark.parametrize(("seconds", "wanted"), [(10.0, "confirmed"), (8.0, "open")])
def test_a_start_is_all_networks_that_are_trained_with_its_seed(monkeypatch, seconds, wanted):
    """Of seven networks a seed, three seeds settle it if they take more than a minute together."""
    monkeypatch.setitem(TAKES, "end", seconds)
    assert judged("MHE degrades", end={(RBF, 200): 18}, end_seeds=3)[0] == wanted


def test_one_backbone_and_one_seed_settle_nothing_about_accuracy():
    findings = World(accuracy={MM: 30}, backbones=1, seeds=1).report()["findings"]
    assert {one["verdict"] for one in findings if "frozen features" in one["evidence"]} == {"open"}


def test_the_evidence_has_the_numbers():
    column = judged("the paper's column", angle={("KoLeo", 100): 1.5})[1]
    assert "KoLeo in 100: 1.500 (1.499 to 1.501; 1.520 at the best rate tried), printed 1.44" in column
    assert "26 of 27" in column
    assert "100: +2.00 ± 0.0" in judged("also classifies better", accuracy={(MM, 100): 22})[1]
    assert "50: 0.98; 100: 0.98; 200: 0.98" in judged(PREDICTS, slope=50.0)[1]
    assert "none was in this dimension" in judged("MHE degrades", end_dimensions=[50])[1]
    told = judged("MHE degrades", end={(RBF, 200): 18})[1]
    assert told.startswith("Accuracy MHE RBF 18.15 ± 0.07, MM squared 20.15 ± 0.07, random 20.15 ± 0.07. Loss")
    right = {"angle": {CODE: 1.5708, ORDERED: 1.5708}}
    assert "cross-polytope" in judged("in which order", **right)[1]
    assert "cross-polytope" not in judged("in which order", angle={CODE: 1.4, ORDERED: 1.4})[1]
    assert "MM squared in 50 -1.00 points" in judged("Trained end to end", end={MM: 19, RBF: 22})[1]
    assert (
        "the lowest of 48 cases: spherical code in 100 -1.00"
        in judged("every set", accuracy={"softmax": 21, (CODE, 100): 22})[1]
    )
    assert "standard error of 2.0 points" in judged("Trained end to end")[1]  # a fifth of 400 images


def test_the_error_is_that_of_backbones():
    over_runs = module("summary").over_runs
    runs = [(0, 20.0), (0, 20.2), (1, 23.0), (1, 23.2), (2, 26.0), (2, 26.2)]
    found = over_runs(runs)
    assert found["mean"] == pytest.approx(23.1)
    assert found["error"] == pytest.approx(statistics.stdev([20.1, 23.1, 26.1]) / 3**0.5)
    assert (found["n"], found["over"]) == (3, "backbones")
    single = over_runs(runs[:2])
    assert single["error"] == pytest.approx(0.1)
    assert (single["n"], single["over"]) == (2, "runs")
    networks = over_runs([(None, 5.0), (None, 6.0), (None, 7.0)])  # trained end to end
    assert (networks["n"], networks["over"]) == (3, "runs")


def test_differences_are_taken_on_the_same_backbone_with_the_same_seed():
    """What the backbones differ by, three points, is not in the error of a difference."""
    summary = World(accuracy={MM: 21, "softmax": 22}).summary()
    found = summary["rows"][MM]["50"]
    assert found["accuracy"]["error"] > 1
    for key, wanted in (("over_random", 1.0), ("over_softmax", -1.0)):
        assert found[key]["mean"] == pytest.approx(wanted, abs=0.02)
        assert 0 < found[key]["error"] < 0.02
        assert (found[key]["n"], found[key]["over"]) == (3, "backbones")
    assert "over_random" not in summary["rows"]["random"]["50"]


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ({}, "standard error over 3 backbones, on each the mean over the same 4 seeds"),
        ({"backbones": 1}, "standard error over 4 seeds of prototypes and heads on a single backbone: the error says"),
        ({"backbones": 1, "seeds": 1}, "one run, without an error"),
        ({"end_seeds": 3}, "standard error over 3 networks"),
        ({"end_seeds": 1}, "one network each"),
    ],
)
def test_the_page_says_what_the_errors_are(choices, wanted):
    assert wanted in "\n".join(World(**choices).report()["table"])


def test_other_images_have_no_column_of_the_paper():
    mine, other = World().report(), World(kind="omniglot", classes=659).report()
    columns = [line for line in mine["table"] if line.startswith("| prototypes")]
    assert columns[0].count(": paper") == columns[1].count(": paper") == 3
    assert not any(": paper" in line or "as in the paper" in line or "The paper" in line for line in other["table"])
    assert any("Smallest angles of 659 prototypes" in line for line in other["table"])
    assert sum("softmax" in line.lower() for line in other["table"]) == 2
    assert "within" not in other["got"]
    assert not any("column" in one["claim"] or "MHE degrades" in one["claim"] for one in other["findings"])
    for kind, classes in (("omniglot", 200), ("tiny", 10)):
        rows = World(kind=kind, classes=classes).summary()["rows"].values()
        assert not any(found["paper"] for row in rows for found in row.values())


@pytest.mark.parametrize("left_out", [(), ("random",), ("softmax",), (MM,), (RBF,), (CODE,), ("SSW 1",), ("KoLeo", MM)])
def test_rows_that_were_not_run_are_not_spoken_of(left_out):
    found = World(left_out=left_out).report()
    names = [line.split(" | ")[0].removeprefix("| ") for line in found["table"] if line.startswith("| ")]
    assert not set(left_out) & set(names)
    assert found["got"]
