"""The claims about the smallest angles of prototypes; one whose rows were not run is left out."""

import math

from _common import mean_and_error
from _prototype_sets import EQUAL, PAPER_ROWS, PROJECTED, RANDOM, RIEMANNIAN, paper
from _prototype_tables import tuned_angle
from _verdicts import Case, Claim, within

RIEMANNIAN_ROW, PROJECTED_ROW = "MM squared", "MM squared, projected"
CLOSE = 0.03  # radians within which a smallest angle counts as the paper's, which has two digits
ROUNDING = 0.005
APART = 0.01  # radians by which prototypes must be further apart to count as better separated
FITTED = "rates that were chosen to fit the paper's angles, since it names none"


def printed(summary):
    """The entries for which the paper's table has numbers."""
    return {(name, d): f for name, row in summary["rows"].items() for d, f in row.items() if f["paper"]}


def off_the_paper(summary):
    """Of these, those whose smallest angles are not the paper's, which are rounded to two digits."""
    return {
        key: found
        for key, found in printed(summary).items()
        if abs(found["min_angle"]["mean"] - found["paper"][2]) > CLOSE + ROUNDING
    }


def less(found, number):
    return found | {"mean": found["mean"] - number}


def rate(row):
    return "rate {}, momentum {}".format(*PAPER_ROWS[row][2:4])


def by_dimension(gains, key, least=0.0):
    return [Case.of(d, gained[key], least=least) for d, gained in gains.items()]


def angle_claims(summary):
    gains, judged = summary["gains"], {"seconds": summary["seconds"]["set"], "unit": " rad", "digits": 4}
    if printed(summary):
        yield column_claim(summary, judged)
    fitted = gains.get(f"{RIEMANNIAN_ROW} over {PROJECTED_ROW}")
    equal = gains.get(f"{RIEMANNIAN_ROW} over {EQUAL}")
    both = [summary["tuned"].get(f"MM squared, {way}") for way in (RIEMANNIAN, PROJECTED)]
    better = "separates the prototypes better than with projected steps"
    if fitted:
        yield Claim(
            f"MM squared with Riemannian steps ({rate(RIEMANNIAN_ROW)}) {better} ({rate(PROJECTED_ROW)}), by more than "
            f"{APART}.",
            by_dimension(fitted, "min_angle", APART),
            setting=FITTED,
            evidence=f"Gain in the smallest angle beyond {APART}, by dimension:",
            **judged,
        )
    if equal:
        yield Claim(
            f"MM squared with Riemannian steps {better} at the same rate and momentum, by more than {APART}.",
            by_dimension(equal, "min_angle", APART),
            setting=f"{rate(RIEMANNIAN_ROW)} for both",
            evidence=f"Gain in the smallest angle beyond {APART}, by dimension:",
            headline=True,
            **judged,
        )
    if all(both):
        starts = {d: zip(both[0][d]["by_start"], both[1][d]["by_start"], strict=True) for d in both[0]}
        gained = {d: mean_and_error([one - other for one, other in pairs]) for d, pairs in starts.items()}
        yield Claim(
            f"MM squared with Riemannian steps {better} when both rates are tuned, by more than {APART}.",
            [Case.of(d, found, least=APART) for d, found in gained.items()],
            setting="each at the best of the rates tried",
            evidence=f"Gain in the smallest angle beyond {APART}, by dimension:",
            **judged,
        )
    if fitted and equal:
        tenths = {d: 0.1 * abs(fitted[d]["min_angle"]["mean"]) for d in fitted}
        yield Claim(
            "What separates the two rows of MM squared is rate and momentum, not geometry: where these are the same, "
            "less than a tenth of the difference is left.",
            [case for d in fitted for case in within(equal[d]["min_angle"], tenths[d], d)],
            new=True,
            evidence="Distance to a tenth, by dimension:",
            **judged,
        )
    if summary["steep"] and printed(summary):
        column = {d: paper("MHE Riesz geodesic", int(d))[2] for d in summary["steep"]}
        shown = "; ".join(f"{d}: {found['mean']:.3f}, printed {column[d]:.2f}" for d, found in summary["steep"].items())
        yield Claim(
            f"The paper's smallest angles of Riesz energies are those of exponent 8, within {CLOSE}; it names 1.",
            [
                case
                for d, found in summary["steep"].items()
                for case in within(less(found, column[d]), CLOSE + ROUNDING, d)
            ],
            new=True,
            evidence=f"{shown}. Distance to the margin:",
            **judged,
        )
    if {RANDOM, "SSW 1", "Sliced 1"} <= summary["rows"].keys() and printed(summary):
        yield untrained_claim(summary, judged)


def column_claim(summary, judged):
    found, off = printed(summary), off_the_paper(summary)

    def line(name, d):
        angle, best = off[name, d]["min_angle"], tuned_angle(summary, name, d)
        return (
            f"{name} in {d}: {angle['mean']:.3f} ({angle['low']:.3f} to {angle['high']:.3f}; {best:.3f} at the best "
            f"rate tried), printed {off[name, d]['paper'][2]:.2f}"
        )

    return Claim(
        f"The smallest angles of the prototypes are those of the paper's column, within {CLOSE}.",
        [
            case
            for (name, d), entry in found.items()
            for case in within(less(entry["min_angle"], entry["paper"][2]), CLOSE + ROUNDING, f"{name} in {d}")
        ],
        setting=FITTED,
        evidence=f"{len(found) - len(off)} of {len(found)} are. The others, with the range over our starts: "
        f"{'; '.join(line(*key) for key in off) or 'none'}. Distance to the margin:",
        **judged,
    )


def untrained_claim(summary, judged):
    """Whether the paper's sliced rows can be told from no training at all."""
    rows, random = summary["rows"], summary["rows"][RANDOM]
    cases = []
    for name in ("SSW 1", "Sliced 1"):
        for d, entry in rows[name].items():
            if entry["paper"]:
                found = random[d]["min_angle"]
                reach = 2 * found["error"] * math.sqrt(found["n"])
                cases += within(less(found, entry["paper"][2]), reach, f"{name} in {d}")
    return Claim(
        "The paper's SSW and Sliced rows have smallest angles that random points have too, within two standard "
        "deviations of these.",
        cases,
        new=True,
        evidence="Distance to the margin:",
        **judged,
    )
