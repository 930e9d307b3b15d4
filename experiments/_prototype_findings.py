"""A verdict on each claim about prototypes, by the rules; a claim whose rows were not run is left out."""

import math

from _common import new, verdict
from _prototype_rules import APART, CLOSE, DEGRADED, HARDLY, NARROWER, clear, every, lost, some
from _prototype_sets import BLOCKS, CODE, EQUAL, MHE, ORDERED, PAPER_ROWS, PROJECTED, RANDOM, RIEMANNIAN, paper
from _prototype_tables import plus_minus, tuned_angle

RIEMANNIAN_ROW, PROJECTED_ROW = "MM squared", "MM squared, projected"


def printed(summary):
    """The entries for which the paper's table has numbers."""
    return {(name, d): f for name, row in summary["rows"].items() for d, f in row.items() if f["paper"]}


def off_the_paper(summary):
    """Of these, those whose smallest angles are not the paper's, which are rounded to two digits."""
    return {
        key: found
        for key, found in printed(summary).items()
        if abs(found["min_angle"]["mean"] - found["paper"][2]) > CLOSE + 0.005
    }


def listed(gains, key, digits):
    return "; ".join(f"{d}: {plus_minus(gained[key], digits, '+')}" for d, gained in gains.items())


def rate(row):
    return "rate {}, momentum {}".format(*PAPER_ROWS[row][2:4])


def angle_findings(summary):
    gains, tuned = summary["gains"], summary["tuned"]
    if printed(summary):
        yield column_finding(summary)
    fitted = gains.get(f"{RIEMANNIAN_ROW} over {PROJECTED_ROW}")
    equal = gains.get(f"{RIEMANNIAN_ROW} over {EQUAL}")
    both = [tuned.get(f"MM squared, {way}") for way in (RIEMANNIAN, PROJECTED)]
    if fitted:
        yield verdict(
            every(clear(gained["min_angle"], APART) for gained in fitted.values()),
            f"MM squared with Riemannian steps ({rate(RIEMANNIAN_ROW)}) separates the prototypes better than with "
            f"projected steps ({rate(PROJECTED_ROW)}), by more than {APART}.",
            f"Gain in the smallest angle: {listed(fitted, 'min_angle', 3)}.",
        )
    if equal:
        yield verdict(
            every(clear(gained["min_angle"], APART) for gained in equal.values()),
            "MM squared with Riemannian steps separates the prototypes better than with projected steps at the same "
            f"rate and momentum, by more than {APART}.",
            f"Gain in the smallest angle: {listed(equal, 'min_angle', 4)}.",
        )
    if all(both):
        pairs = {d: [way[d]["min_angle"] for way in both] for d in both[0]}
        yield verdict(
            every(one - other > APART for one, other in pairs.values()),
            "MM squared with Riemannian steps separates the prototypes better than with projected steps when both "
            f"rates are tuned, by more than {APART}.",
            "; ".join(f"{d}: {one:.3f} against {other:.3f}" for d, (one, other) in pairs.items()) + ", from one start.",
        )
    if fitted and equal:
        yield step_finding(fitted, equal)
    if summary["steep"] and printed(summary):
        yield exponent_finding(summary)
    if {RANDOM, "SSW 1", "Sliced 1"} <= summary["rows"].keys() and printed(summary):
        yield untrained_finding(summary)


def column_finding(summary):
    found, off = printed(summary), off_the_paper(summary)

    def line(name, d):
        angle, best = off[name, d]["min_angle"], tuned_angle(summary, name, d)
        return (
            f"{name} in {d}: {angle['mean']:.3f} ({angle['low']:.3f} to {angle['high']:.3f}; {best:.3f} at the best "
            f"rate tried), printed {off[name, d]['paper'][2]:.2f}"
        )

    return verdict(
        not off,
        f"The smallest angles of the prototypes are those of the paper's column, within {CLOSE}.",
        f"{len(found) - len(off)} of {len(found)} are, at rates that were chosen to fit, since the paper names none. "
        f"The others, with the range over our starts: {'; '.join(line(*key) for key in off) or 'none'}.",
    )


def exponent_finding(summary):
    """Whether Riesz energies of another exponent than the paper's have the angles in print."""
    found = summary["steep"]
    column = {d: paper("MHE Riesz geodesic", int(d))[2] for d in found}
    return new(
        all(abs(angle - column[d]) <= CLOSE + 0.005 for d, angle in found.items()),
        f"The paper's smallest angles of Riesz energies are those of exponent 8, within {CLOSE}; it names 1.",
        "; ".join(f"{d}: {angle:.3f}, printed {column[d]:.2f}" for d, angle in found.items()) + ".",
    )


def step_finding(fitted, equal):
    """The gap of the paper's rows, and what is left of it when only the geometry differs."""
    means = {d: (equal[d]["min_angle"]["mean"], fitted[d]["min_angle"]["mean"]) for d in fitted}
    left = {d: abs(one / other) if other else math.inf for d, (one, other) in means.items()}
    shares = "; ".join(f"{d}: {share:.1%}" for d, share in left.items())
    return new(
        every(clear(gained["min_angle"], APART) for gained in fitted.values()) and max(left.values()) < 0.1,
        "What separates the two rows of MM squared is rate and momentum, not geometry: where these are the same, less "
        "than a tenth of the difference is left.",
        f"Left of it: {shares}.",
    )


def untrained_finding(summary):
    """Whether the paper's sliced rows can be told from no training at all."""
    rows, random = summary["rows"], summary["rows"][RANDOM]
    dimensions = [d for d, found in rows["SSW 1"].items() if found["paper"]]
    theirs = {name: [rows[name][d]["paper"][2] for d in dimensions] for name in ("SSW 1", "Sliced 1")}
    ends = [(random[d]["min_angle"]["low"], random[d]["min_angle"]["high"]) for d in dimensions]
    spread = "; ".join(
        f"{d}: {random[d]['min_angle']['median']:.2f} ({low:.2f} to {high:.2f})"
        for d, (low, high) in zip(dimensions, ends, strict=True)
    )
    return new(
        all(low <= angle <= high for (low, high), angle in zip(ends, theirs["SSW 1"], strict=True))
        and all(angle <= high + HARDLY for (_, high), angle in zip(ends, theirs["Sliced 1"], strict=True)),
        "The paper's SSW row has smallest angles that random points have too, and those of its Sliced row are at most "
        f"{HARDLY} above them.",
        f"Random points, median and range of {random[dimensions[0]]['runs_of_sets']} starts: {spread}. The paper: "
        + "; ".join(f"{name} {' / '.join(f'{angle:.2f}' for angle in angles)}" for name, angles in theirs.items())
        + ".",
    )


def accuracy_findings(summary):
    rows, gains, full = summary["rows"], summary["gains"], str(summary["classes"])
    first = str(summary["dimensions"][0])
    fitted = gains.get(f"{RIEMANNIAN_ROW} over {PROJECTED_ROW}")
    equal = gains.get(f"{RIEMANNIAN_ROW} over {EQUAL}")
    if fitted:
        yield verdict(
            clear(fitted[first]["accuracy"]),
            f"MM squared with Riemannian steps ({rate(RIEMANNIAN_ROW)}) also classifies better than with projected "
            f"steps ({rate(PROJECTED_ROW)}) in {first} dimensions.",
            f"Frozen backbone, paired gain in points: {listed(fitted, 'accuracy', 2)}.",
        )
    if equal:
        yield verdict(
            every(clear(gained["accuracy"]) for gained in equal.values()),
            "MM squared with Riemannian steps classifies better than with projected steps at the same rate and "
            "momentum.",
            f"Frozen backbone, paired gain in points: {listed(equal, 'accuracy', 2)}.",
        )
    yield from prediction_finding(summary)
    others = [row for row in PAPER_ROWS if f"MHE RBF over {row}" in gains]
    if others:
        ordered = sorted(("MHE RBF", *others), key=lambda row: -rows[row][first]["accuracy"]["mean"])
        yield verdict(
            every(clear(gains[f"MHE RBF over {row}"][first]["accuracy"]) for row in others),
            f"In {first} dimensions MHE RBF classifies best of the paper's objectives.",
            f"Frozen backbone: {line(rows, ordered, first)}.",
        )
    mhe = [row for row in MHE if full in gains.get(f"{row} over MM squared", {})]
    if mhe:
        yield verdict(
            every(clear(lost(gains[f"{row} over MM squared"][full]["accuracy"]), DEGRADED) for row in mhe),
            f"MHE degrades when the dimension reaches the number of classes, {full}: it loses more than {DEGRADED:.0f} "
            "point to MM squared.",
            f"Frozen backbone: {line(rows, [*mhe, 'MM squared', CODE, RANDOM], full)}.",
        )
    yield from beyond_findings(summary)


def line(rows, names, d):
    return ", ".join(f"{name} {plus_minus(rows[name][d]['accuracy'], 2)}" for name in names if name in rows)


def prediction_finding(summary):
    """Two pairs of rows, named beforehand: the paper's example, and random blocks against trained prototypes."""
    pairs = [pair for pair in ("MHE RBF over MM squared", f"{BLOCKS} over KoLeo") if pair in summary["gains"]]
    cases = {
        f"{pair} in {d}": gained
        for pair in pairs
        for d, gained in summary["gains"][pair].items()
        if gained["min_angle"]["mean"] < -NARROWER
    }
    shown = "; ".join(
        f"{name} {plus_minus(gained['accuracy'], 2, '+')} points at {gained['min_angle']['mean']:+.2f} radians"
        for name, gained in cases.items()
    )
    ranks = {d: found["rho"] for d, found in summary["rank_correlation"].items() if found["rho"] is not None}
    if pairs:
        yield verdict(
            some(clear(gained["accuracy"]) for gained in cases.values()),
            f"The smallest angle alone does not predict accuracy: prototypes with one smaller by {NARROWER} or more "
            "classify better.",
            f"Frozen backbone: {shown or 'no such pair'}. Rank correlation of angle and accuracy over all rows with "
            "fixed prototypes: " + "; ".join(f"{d}: {rho:.2f}" for d, rho in ranks.items()) + ".",
        )


def beyond_findings(summary):
    rows, gains, softmax = summary["rows"], summary["gains"], summary["softmax"]["frozen"]
    blocks, shuffled = (gains.get(f"{one} over {other}") for one, other in ((BLOCKS, "KoLeo"), (CODE, ORDERED)))
    if blocks:
        yield new(
            every(clear(gained["accuracy"]) for gained in blocks.values()),
            "Random orthonormal blocks, which nobody has to train, are worth more than KoLeo's prototypes.",
            f"Frozen backbone, paired gain in points: {listed(blocks, 'accuracy', 2)}; in the smallest angle: "
            f"{listed(blocks, 'min_angle', 2)}.",
        )
    if shuffled:
        half = str(summary["classes"] // 2)
        right = half in shuffled and abs(rows[ORDERED][half]["min_angle"]["mean"] - math.pi / 2) < 1e-3
        listing = f" The code in {half} dimensions is a cross-polytope, listed in opposite pairs." if right else ""
        yield new(
            any(clear(gained["accuracy"]) is not None for gained in shuffled.values()),
            "It matters in which order the points of a code go to the classes.",
            f"Frozen backbone, paired gain of shuffling in points: {listed(shuffled, 'accuracy', 2)}.{listing}",
        )
    if softmax:
        over = {f"{name} in {d}": f["over_softmax"] for name, row in rows.items() for d, f in row.items()}
        best = max(over, key=lambda name: over[name]["mean"])
        below = [clear(gained) is False for gained in over.values()]
        yield new(
            all(below),
            "Softmax on the same features classifies better than every set of prototypes.",
            f"Softmax {plus_minus(softmax['accuracy'], 2)}; {sum(below)} of {len(below)} sets are clearly below it, "
            f"and the best, {best}, is {plus_minus(over[best], 2, '+')} points from it in the same runs.",
        )


def end_findings(summary):
    """Of networks that were trained end to end, each of which is a run of its own."""
    cells = {(name, d): found for name, row in summary["end"].items() for d, found in row.items()}
    over = {key: found["over_random"] for key, found in cells.items() if "over_random" in found}
    if not over:
        return
    shares = [found["accuracy"]["mean"] / 100 for found in cells.values()]
    mean = sum(shares) / len(shares)
    noise = 100 * (mean * (1 - mean) / summary["images"][1]) ** 0.5
    judged = [clear(gained) for gained in over.values()]
    shown = "; ".join(f"{name} in {d}: {plus_minus(gained, 2, '+')}" for (name, d), gained in over.items())
    yield verdict(
        every(judged),
        "Trained end to end, dispersed prototypes classify better than random ones.",
        f"{summary['settings']['end_epochs']} epochs with the squared-cosine loss, points over random prototypes with "
        f"the same seed: {shown}. Clearly above: {judged.count(True)}, clearly below: {judged.count(False)}, not told "
        f"apart: {judged.count(None)}. The choice of validation images alone gives one network a standard error of "
        f"{noise:.1f} points.",
    )
