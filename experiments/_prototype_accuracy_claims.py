"""The claims about what prototypes are worth; one whose rows were not run is left out."""

import math

from _prototype_angle_claims import PROJECTED_ROW, RIEMANNIAN_ROW, by_dimension, rate
from _prototype_sets import BLOCKS, CODE, EQUAL, KOLEO_TUNED, MHE, ORDERED, PAPER_ROWS, RANDOM
from _prototype_tables import plus_minus
from _verdicts import Case, Claim, Untested

DEGRADED = 1.0  # points of accuracy that a set must lose to count as degraded
PREDICTIVE = 0.5  # rank correlation
FROZEN = "heads on frozen features, where the paper trains end to end"


def accuracy_claims(summary):
    rows, gains, first = summary["rows"], summary["gains"], str(summary["dimensions"][0])
    judged = {"seconds": summary["seconds"]["backbone"], "unit": " points", "setting": FROZEN}
    fitted = gains.get(f"{RIEMANNIAN_ROW} over {PROJECTED_ROW}")
    equal = gains.get(f"{RIEMANNIAN_ROW} over {EQUAL}")
    if fitted:
        yield Claim(
            f"MM squared with Riemannian steps ({rate(RIEMANNIAN_ROW)}) also classifies better than with projected "
            f"steps ({rate(PROJECTED_ROW)}) in {first} dimensions.",
            [Case.of(first, fitted[first]["accuracy"])],
            evidence=f"Paired gains: {listed(fitted)}.",
            **judged,
        )
    if equal:
        yield Claim(
            "MM squared with Riemannian steps classifies better than with projected steps at the same rate and "
            "momentum.",
            by_dimension(equal, "accuracy"),
            **judged,
        )
    if summary["rank_correlation"]:
        yield Claim(
            f"The smallest angle does not predict accuracy: their rank correlation is below {PREDICTIVE}.",
            [
                Case.of(f"{d} ({found['rows']} rows)", found["rho"], least=-PREDICTIVE, sign=-1)
                for d, found in summary["rank_correlation"].items()
                if found["rho"]
            ],
            evidence="Over all rows with fixed prototypes, backbone by backbone: "
            + "; ".join(f"{d}: {f['rho']['mean']:.2f}" for d, f in summary["rank_correlation"].items() if f["rho"])
            + f". Below {PREDICTIVE} by, for each dimension:",
            brief="Over all rows it is "
            + ", ".join(f"{f['rho']['mean']:.2f} in {d}" for d, f in summary["rank_correlation"].items() if f["rho"])
            + " dimensions",
            headline=True,
            **(judged | {"unit": ""}),
        )
    others = [row for row in PAPER_ROWS if f"MHE RBF over {row}" in gains]
    if others:
        ordered = sorted(("MHE RBF", *others), key=lambda row: -rows[row][first]["accuracy"]["mean"])
        yield Claim(
            f"In {first} dimensions MHE RBF classifies best of the paper's objectives.",
            [Case.of(f"over {row}", gains[f"MHE RBF over {row}"][first]["accuracy"]) for row in others],
            evidence=f"{line(rows, ordered, first)}.",
            headline=True,
            **judged,
        )
    yield from degradation_claim(summary)
    yield from beyond_claims(summary, judged)


def listed(gains):
    return "; ".join(f"{d}: {plus_minus(gained['accuracy'], 2, '+')}" for d, gained in gains.items())


def line(rows, names, d):
    return ", ".join(f"{name} {plus_minus(rows[name][d]['accuracy'], 2)}" for name in names if name in rows)


def degradation_claim(summary):
    """Only networks that are trained end to end test it: frozen features were learned for other outputs."""
    full, rows = str(summary["classes"]), summary["rows"]
    mhe = [row for row in MHE if row in rows and full in rows[row]]
    ends = {row: summary["end_gains"].get(f"{row} over MM squared", {}).get(full) for row in MHE}
    text = f"MHE degrades when the dimension reaches the number of classes, {full}"
    if any(ends.values()):
        yield Claim(
            f"{text}: it loses more than {DEGRADED:.0f} point to MM squared.",
            [Case.of(row, gained, least=DEGRADED, sign=-1) for row, gained in ends.items() if gained],
            seconds=summary["seconds"]["end"],
            unit=" points",
            setting=f"{summary['settings']['end_epochs']} epochs of a small network",
            evidence=f"Accuracy {line(summary['end'], [*MHE, 'MM squared', RANDOM], full)}. Loss beyond it:",
            headline=True,
        )
    elif mhe and "MM squared" in rows:
        yield Untested(
            f"{text}.",
            "Only networks that are trained end to end test it, and none was in this dimension. On frozen features: "
            f"{line(rows, [*mhe, 'MM squared', CODE, RANDOM], full)} "
            f"[{rows[mhe[0]][full]['accuracy']['n']} starts of another experiment].",
        )


def beyond_claims(summary, judged):
    rows, gains, softmax = summary["rows"], summary["gains"], summary["softmax"]["frozen"]
    shuffled = gains.get(f"{CODE} over {ORDERED}")
    for row, told in (("KoLeo", "at the rate that fits the paper's angles"), (KOLEO_TUNED, "at its best rate")):
        blocks = gains.get(f"{BLOCKS} over {row}")
        if blocks:
            yield Claim(
                f"Random orthonormal blocks, which need no training, are worth more than KoLeo's prototypes {told}.",
                by_dimension(blocks, "accuracy"),
                new=True,
                headline=row == KOLEO_TUNED or f"{BLOCKS} over {KOLEO_TUNED}" not in gains,
                **judged,
            )
    if shuffled:
        half = str(summary["classes"] // 2)
        right = half in shuffled and abs(rows[ORDERED][half]["min_angle"]["mean"] - math.pi / 2) < 1e-3
        listing = f" The code in {half} dimensions is a cross-polytope, listed in opposite pairs." if right else ""
        yield Claim(
            "It matters in which order the points of a code go to the classes.",
            [
                Case.of(f"{d}, {name}", gained["accuracy"], sign=sign)
                for d, gained in shuffled.items()
                for name, sign in (("gain of shuffling", 1), ("loss", -1))
            ],
            existential=True,
            new=True,
            evidence=listing,
            **judged,
        )
    if softmax:
        over = {f"{name} in {d}": f["over_softmax"] for name, row in rows.items() for d, f in row.items()}
        best = max(over, key=lambda name: over[name]["mean"])
        yield Claim(
            "Softmax on the same features classifies better than every set of prototypes.",
            [Case.of(name, gained, sign=-1) for name, gained in over.items()],
            new=True,
            evidence=f"Softmax {plus_minus(softmax['accuracy'], 2)}; the best set, {best}, is "
            f"{plus_minus(over[best], 2, '+')} points from it in the same runs. Lead of softmax:",
            **judged,
        )


def end_claims(summary):
    """Of networks that were trained end to end, each of which is a run of its own."""
    cells = {(name, d): found for name, row in summary["end"].items() for d, found in row.items()}
    over = {key: found["over_random"] for key, found in cells.items() if "over_random" in found}
    if not over:
        return
    shares = [found["accuracy"]["mean"] / 100 for found in cells.values()]
    mean = sum(shares) / len(shares)
    noise = 100 * (mean * (1 - mean) / summary["images"][1]) ** 0.5
    yield Claim(
        "Trained end to end, dispersed prototypes classify better than random ones.",
        [Case.of(f"{name} in {d}", gained) for (name, d), gained in over.items()],
        seconds=summary["seconds"]["end"],
        unit=" points",
        new=True,
        setting=f"{summary['settings']['end_epochs']} epochs of a small network with the squared-cosine loss",
        evidence="The choice of validation images alone gives one network a standard error of "
        f"{noise:.1f} points. Over random prototypes with the same seed:",
    )
