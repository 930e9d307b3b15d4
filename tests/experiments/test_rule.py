"""The rule for verdicts: made-up runs whose verdicts are known, on both sides of each of its conditions."""

import importlib
import json
import re
import statistics
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
MINUTES, SECONDS = 300.0, 5.0  # what a start takes
CLEAR, LOST = [1.0, 1.1, 0.9, 1.05, 0.95], [-1.0, -1.1, -0.9, -1.05, -0.95]
VAGUE = [3.0, -1.0, 2.0, -2.0, 1.0]


@pytest.fixture
def rule():
    return importlib.import_module("_verdicts")


def case(rule, values, name="some"):
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return rule.Case(name, statistics.fmean(values), error, len(values))


def verdict(rule, *runs, seconds=SECONDS, beside=(), **choices):
    """On one claim about these runs, each a case, beside others of the experiment."""
    claims = [rule.Claim("It is so.", [case(rule, values) for values in runs], seconds=seconds, **choices)]
    claims += [
        rule.Claim(f"Another, {place}.", [case(rule, values)], seconds=seconds) for place, values in enumerate(beside)
    ]
    return rule.judge(claims)[0]["verdict"]


@pytest.mark.parametrize(
    ("runs", "choices", "expected"),
    [
        ([CLEAR], {}, "confirmed"),
        ([LOST], {}, "refuted"),
        ([VAGUE], {}, "open"),
        ([[1.0] * 5], {}, "confirmed"),  # starts that agree to the last digit
        ([[-1.0] * 5], {}, "refuted"),
        ([[0.0] * 5], {}, "open"),
        ([CLEAR[:4]], {}, "open"),  # five starts where one takes seconds
        ([CLEAR[:3]], {"seconds": MINUTES}, "confirmed"),
        ([CLEAR[:2]], {"seconds": MINUTES}, "open"),
        ([[5.0]], {"seconds": MINUTES}, "open"),
        ([], {}, "open"),
        ([CLEAR, CLEAR], {}, "confirmed"),
        ([CLEAR, VAGUE], {}, "open"),
        ([CLEAR, CLEAR[:3]], {}, "open"),  # every case has its starts
        ([CLEAR, LOST], {}, "refuted"),  # by one case
        ([CLEAR, LOST], {"existential": True}, "confirmed"),  # by one case
        ([VAGUE, LOST], {"existential": True}, "open"),
        ([LOST, LOST], {"existential": True}, "refuted"),
        ([CLEAR], {"new": True}, "new"),
        ([LOST], {"new": True}, "not borne out"),
        ([VAGUE], {"new": True}, "open"),
        ([CLEAR[:2]], {"new": True}, "open"),
    ],
)
def test_made_up_runs_have_their_verdicts(rule, runs, choices, expected):
    assert verdict(rule, *runs, **choices) == expected


def test_the_test_is_student_s(rule):
    """Against scipy's own t-test."""
    from scipy.stats import ttest_1samp

    found = case(rule, [0.3, 1.2, 0.7, -0.1, 0.9])
    assert found.p(1) == pytest.approx(ttest_1samp([0.3, 1.2, 0.7, -0.1, 0.9], 0).pvalue)
    assert found.p(-1) == 1.0
    low, high = found.interval
    assert (low, high) == pytest.approx(ttest_1samp([0.3, 1.2, 0.7, -0.1, 0.9], 0).confidence_interval(0.95))


def test_the_interval_excludes_zero_where_the_verdict_falls(rule):
    """For one claim alone, the 95 % interval decides: shifted to either side of the edge."""
    values = [0.3, 1.2, 0.7, -0.1, 0.9]
    reach = case(rule, values).mean - case(rule, values).interval[0]
    middle = statistics.fmean(values)
    for shift, expected in ((1.01, "confirmed"), (0.99, "open"), (-0.99, "open"), (-1.01, "refuted")):
        assert verdict(rule, [value - middle + shift * reach for value in values]) == expected


def test_holm_by_hand(rule):
    """Holm (1979): the smallest times their number, the next times one less, and none below the one before it."""
    assert rule.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert rule.holm([0.5, 0.9]) == [1.0, 1.0]
    assert rule.holm([]) == []


def test_other_claims_of_the_experiment_make_it_harder(rule):
    marginal = [0.3, 1.2, 0.7, 0.1, 0.9]  # p = 0.033
    assert verdict(rule, marginal) == "confirmed"
    assert verdict(rule, marginal, beside=[VAGUE]) == "open"
    assert verdict(rule, marginal, beside=[CLEAR]) == "confirmed"  # the step down: that one is settled first
    assert verdict(rule, marginal, beside=[CLEAR, VAGUE]) == "open"
    assert verdict(rule, marginal, beside=[[5.0], [4.0]]) == "confirmed"  # too few starts are no test


def test_cases_of_a_refutation_are_counted(rule):
    """One of several cases that falls on the other side by chance does not refute."""
    marginal = [-0.3, -1.2, -0.7, -0.1, -0.9]
    assert verdict(rule, marginal) == "refuted"
    assert verdict(rule, marginal, VAGUE, VAGUE, VAGUE) == "open"


def test_margins_and_signs(rule):
    gained = {"mean": 2.0, "error": 0.1, "n": 5}
    assert rule.Case.of("some", gained, least=1.5).mean == pytest.approx(0.5)
    assert rule.Case.of("some", gained, least=1.5, sign=-1).mean == pytest.approx(-3.5)
    below, above = rule.within({"mean": 0.2, "error": 0.01, "n": 5}, 0.3, "some")
    assert (below.mean, above.mean) == pytest.approx((0.5, 0.1))


def test_what_needs_no_starts_has_its_reason(rule):
    found = rule.judge([rule.Exact("A", True, "By Rankin. More."), rule.Exact("B", False, "A counterexample.")])
    assert [one["verdict"] for one in found] == ["proved", "disproved"]
    assert [one["evidence"] for one in found] == ["By Rankin. More.", "A counterexample."]
    (none,) = rule.judge([rule.Untested("C", "Not run.")])
    assert (none["verdict"], none["evidence"]) == ("open", "Not run.")


def test_the_text_has_intervals_starts_and_setting(rule):
    claim = rule.Claim("It is so.", [case(rule, CLEAR, "one")], seconds=SECONDS, setting="half the steps", unit="°")
    (found,) = rule.judge([claim])
    assert "One +1.00° (+0.90 to +1.10) [95 % intervals, 5 starts; p < 0.0001 after Holm" in found["evidence"]
    assert found["evidence"].endswith("Our setting: half the steps.")
    assert found["brief"] == "one +1.00° (+0.90 to +1.10), 5 starts; our setting: half the steps."
    (found,) = rule.judge([rule.Claim("It is so.", [case(rule, [1.0], "one")], seconds=SECONDS)])
    assert "One +1.00 [no interval, 1 start: too few]" in found["evidence"]
    many = [case(rule, [value + place for value in CLEAR], f"case {place}") for place in range(20)]
    (found,) = rule.judge([rule.Claim("It is so.", many, seconds=SECONDS)])
    assert "The lowest of 20 cases: case 0 +1.00" in found["evidence"]
    assert "case 19" not in found["evidence"]
    assert found["brief"] == "least of 20 cases: case 0 +1.00 (+0.90 to +1.10), 5 starts."
    (found,) = rule.judge([rule.Claim("It is so.", many, SECONDS, existential=True, evidence="Few words. Gain:")])
    assert found["brief"] == "Gain, most of 20 cases: case 19 +20.00 (+19.90 to +20.10), 5 starts."


def test_a_finding_in_one_sentence(rule):
    """An open one says why, any other the number that decides it."""
    table = importlib.import_module("table")
    claims = [
        rule.Claim("It is so.", [case(rule, CLEAR, "one")], seconds=SECONDS),
        rule.Claim("It is not.", [case(rule, VAGUE)], seconds=SECONDS, evidence="With [brackets] before:"),
        rule.Claim("Perhaps.", [case(rule, [1.0])], seconds=SECONDS),
        rule.Untested("Nobody knows.", "Not run [1 start(s) of another objective]."),
        rule.Exact("It must be.", True, "By Rankin. More."),
    ]
    settled, vague, few, untested, exact = (table.sentence(one) for one in rule.judge(claims))
    assert settled == "**It is so.** One +1.00 (+0.90 to +1.10), 5 starts."
    assert vague.startswith("**It is not.** Open: 5 starts; p = 0.5")
    assert few == "**Perhaps.** Open: 1 start: too few."
    assert untested == "**Nobody knows.** Open: 1 start(s) of another objective."
    assert exact == "**It must be.** By Rankin."


def test_no_verdict_in_the_results_without_interval_and_starts(rule):
    """Every report goes through the rule: what was decided by runs says so, and what the paper claims is never new."""
    table = importlib.import_module("table")
    found = table.load()
    assert found.keys() == table.NAMES.keys()
    for name, data in found.items():
        for one in data["findings"]:
            if one["verdict"] in ("confirmed", "refuted", "new", "not borne out"):
                told = r"\(\S+ to \S+\).*\[95 % intervals, [\d or]+ starts; p (=|<) \S+ after Holm's correction\]"
                assert re.search(told, one["evidence"]), (name, one)
            elif one["verdict"] == "open":
                assert re.search(r"\d+ start|no runs", one["evidence"]), (name, one)
            else:
                assert one["verdict"] in ("proved", "disproved"), (name, one)
                assert one["evidence"], (name, one)


def test_a_reduced_setting_is_named_in_its_verdicts(rule):
    """Where fewer steps than the paper's were run, no claim of it is confirmed or refuted without saying so."""
    table = importlib.import_module("table")
    for name in ("dimensionality", "sliced_ssw"):
        data = json.loads((ROOT / f"results/{name}.json").read_text())
        if "steps" in data["reduced"]:
            found = importlib.import_module(name).report(data["summary"])["findings"]
            settled = [one for one in found if one["verdict"] in ("confirmed", "refuted")]
            assert all("Our setting: " in one["evidence"] for one in settled), name
    assert table.RULE is rule.RULE


@pytest.mark.parametrize(("points", "verdict"), [(100, "open"), (10_000, "confirmed")])
def test_few_points_say_nothing_of_many(rule, points, verdict):
    """Sliced and SSW that end alike with 100 points are not seen to do so as points grow in number."""
    report = importlib.import_module("_sliced_ssw_report").report
    ends = {"values": [40.0, 41.0, 42.0, 43.0, 44.0], "lr": 0.02, "inside": True}
    shifted = ends | {"values": [40.01, 41.0, 41.99, 43.0, 44.01]}
    row = {"Sliced": ends, "SSW": ends, "SSW root": shifted, "seconds": 30.0}
    found = report({"steps": 2000, "tuned": {f"{points} in 3": row}, "followed": {}})["findings"]
    (one,) = [one for one in found if one["claim"].startswith("As the number of points grows")]
    assert one["verdict"] == verdict
    assert ("Not run with more than 100 points [5 starts" in one["evidence"]) == (verdict == "open")


def test_what_was_not_run_is_judged_by_the_setting_of_today(monkeypatch):
    """A file knows only the setting of its time; networks are said to be what two cores allow, with the hours."""
    table = importlib.import_module("table")
    full = {"rows": ["a", "b", "c"], "steps": 100, "seeds": 3}
    data = {"configuration": {"rows": ["a", "gone"], "steps": 100, "seeds": 1}, "reduced": {}, "seconds": 5400.0}
    found = data | {"reduced": table.short_of(full, data)}
    for name, told in (("tammes", "reduced"), ("prototypes", "what two cores allow, 1.5 hours of one core")):
        monkeypatch.setattr(importlib.import_module(name), "FULL", full)
        assert table.reduction(name, found) == f"{told}: rows 1 of 3, seeds 1 instead of 3"
    assert table.reduction("tammes", data) == "in full"


def test_the_page_of_findings_is_read_in_ten_minutes(rule):
    """Every finding with the place of its figure and its command; at most 1,400 words, about two screens."""
    table = importlib.import_module("table")
    page = table.findings(table.load())
    bullets = [line for line in page.splitlines() if line.startswith("- ")]
    assert all(re.search(r"\(results\.md#[\w-]+\), `python experiments/[^`]+`\)$", bullet) for bullet in bullets)
    assert len(page.split()) <= 1400
    found = [(name, one) for name, data in table.load().items() for one in data["findings"] if one["headline"]]
    assert all(page.count(f"**{one['claim']}**") == 1 for _, one in found)
    is_open = [(name, one) for name, one in found if one["verdict"] == "open"]
    assert len(bullets) == len(found) - len(is_open) + len({name for name, _ in is_open})
