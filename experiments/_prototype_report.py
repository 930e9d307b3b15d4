"""A verdict on each claim of the paper about prototypes."""

from _common import new, verdict
from _prototype_sets import BLOCKS, CODE, EQUAL, PAPER_ROWS, PROJECTED, RANDOM, RIEMANNIAN, SOFTMAX, TRAINED
from _prototype_tables import accuracy_table, angle_table, end_entry, end_table, plus_minus

CLOSE = 0.03  # radians within which a smallest angle counts as reproduced
LOW = ["Sliced 1", "SSW 1"]
MHE = ["MHE RBF", "MHE Riesz geodesic"]
MAIN = [*MHE, "MM squared", "MM geodesic", "KoLeo", "Lloyd 200"]


def report(summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    rows = summary["rows"]
    known = {
        (name, d): rows[name][d] for name in PAPER_ROWS if name in rows for d in dimensions if rows[name][d]["paper"]
    }
    off = {
        key: found["min_angle"]["mean"]
        for key, found in known.items()
        if abs(found["min_angle"]["mean"] - found["paper"][2]) > CLOSE + 0.005  # the paper's have two digits
    }
    fixed = [(name, d) for name in rows if name not in (SOFTMAX, TRAINED) for d in dimensions]
    best = max(fixed, key=lambda key: rows[key[0]][key[1]]["accuracy"]["mean"])
    return {
        "claim": "Riemannian optimisation separates prototypes better than projected, and so classifies better; the "
        "smallest angle alone does not predict accuracy; MHE degrades where the dimension is the number of classes",
        "got": f"{len(known) - len(off)} of {len(known)} smallest angles within {CLOSE} of the paper's; projected at "
        f"the rate of Riemannian: at most {largest(summary):.4f} apart; heads on a frozen backbone: best {best[0]} in "
        f"{best[1]} dimensions, {rows[best[0]][best[1]]['accuracy']['mean']:.1f}%, random prototypes "
        f"{rows[RANDOM][best[1]]['accuracy']['mean']:.1f}%",
        "table": [*angle_table(summary), *accuracy_table(summary), *end_table(summary)][:-1],
        "findings": [
            *angle_findings(summary, dimensions, known, off),
            *accuracy_findings(summary, dimensions),
            *([end_finding(summary)] if summary["end"] else []),
        ],
    }


def rates(row):
    return "{} and {}".format(*PAPER_ROWS[row][2:4])


def largest(summary):
    """How far the smallest angles of projected and Riemannian prototypes are apart at the same rate."""
    return max(found["largest"] for found in summary["gain_of_riemannian"][EQUAL].values())


def angle_findings(summary, dimensions, known, off):
    rows = summary["rows"]
    named = "; ".join(
        f"{name} in {d}: {ours:.3f}, printed {known[name, d]['paper'][2]}" for (name, d), ours in off.items()
    )
    spread = "; ".join(
        f"{d}: {rows[RANDOM][d]['min_angle']['median']:.2f} ({rows[RANDOM][d]['min_angle']['low']:.2f} to "
        f"{rows[RANDOM][d]['min_angle']['high']:.2f})"
        for d in dimensions
    )
    low = "; ".join(
        f"{name} {' / '.join(format(rows[name][d]['paper'][2], '.2f') for d in dimensions)}" for name in LOW
    )
    ranges = {d: (rows[RANDOM][d]["min_angle"]["low"], rows[RANDOM][d]["min_angle"]["high"]) for d in dimensions}
    untrained = all(ranges[d][0] <= rows["SSW 1"][d]["paper"][2] <= ranges[d][1] for d in dimensions)
    riesz = summary["tuned"][f"MHE Riesz geodesic, {RIEMANNIAN}"][dimensions[0]]
    tuned = summary["tuned"]
    both = {d: [tuned[f"MM squared, {way}"][d]["min_angle"] for way in (RIEMANNIAN, PROJECTED)] for d in dimensions}
    gains = summary["gain_of_riemannian"]
    return [
        verdict(
            not off,
            f"The smallest angles of the prototypes are those of the paper's column, within {CLOSE}.",
            f"{len(known) - len(off)} of {len(known)} are. The others: {named or 'none'}. The paper names no rates; "
            "ours were chosen to fit. Rows near the random one differ by as much from start to start; "
            f"Riesz in {dimensions[0]} dimensions is no matter of the rate: the best has {riesz['min_angle']:.3f}.",
        ),
        verdict(
            all(g["min_angle"]["mean"] > 0.05 for g in gains["MM squared, projected"].values()),
            "MM with Riemannian steps separates the prototypes better than with projected steps, each at the rate that "
            "fits the paper.",
            "Gain in the smallest angle: "
            + "; ".join(f"{d}: {plus_minus(g['min_angle'], 3, '+')}" for d, g in gains["MM squared, projected"].items())
            + f". Rate and momentum are {rates('MM squared')}, and projected {rates('MM squared, projected')}.",
        ),
        verdict(
            all(g["min_angle"]["mean"] > 0.01 for g in gains[EQUAL].values()),
            "MM with Riemannian steps separates the prototypes better than with projected steps at the same rate.",
            "Gain in the smallest angle: "
            + "; ".join(f"{d}: {plus_minus(g['min_angle'], 4, '+')}" for d, g in gains[EQUAL].items())
            + ": what the paper's rows differ by comes from the steps' size.",
        ),
        verdict(
            all(riemannian - projected > 0.01 for riemannian, projected in both.values()),
            "MM with Riemannian steps separates the prototypes better when both rates are tuned.",
            "; ".join(f"{d}: {a:.3f} against {b:.3f}" for d, (a, b) in both.items()) + ", from one start.",
        ),
        new(
            untrained and all(rows["Sliced 1"][d]["paper"][2] <= ranges[d][1] + 0.02 for d in dimensions),
            "The paper's SSW row has smallest angles that random points have too, and its Sliced row hardly more.",
            f"Random points, median and range of {rows[RANDOM][dimensions[0]]['runs_of_sets']} starts: {spread}. "
            f"The paper: {low}.",
        ),
    ]


def accuracy_findings(summary, dimensions):
    rows = summary["rows"]
    gains = summary["gain_of_riemannian"]
    rbf = summary["rbf_over_mm"]
    first, last = dimensions[0], dimensions[-1]
    correlations = "; ".join(f"{d}: {found['rho']:.2f}" for d, found in summary["rank_correlation"].items())

    half = str(summary["classes"] // 2)
    softmax = next(iter(rows[SOFTMAX].values()))["accuracy"]
    fixed = [name for name in rows if name not in (SOFTMAX, TRAINED)]
    best = max(fixed, key=lambda name: rows[name][first]["accuracy"]["mean"])

    def line(names, d):
        return ", ".join(f"{name} {plus_minus(rows[name][d]['accuracy'], 2)}" for name in names if name in rows)

    def accuracy_gains(found):
        return "; ".join(f"{d}: {plus_minus(g['accuracy'], 2, '+')}" for d, g in found.items())

    return [
        verdict(
            clear(gains["MM squared, projected"][first]["accuracy"]),
            "The better separation of Riemannian steps, at the paper's rates, gives better accuracy in 50 dimensions.",
            f"Frozen backbone, paired gain in points: {accuracy_gains(gains['MM squared, projected'])}; at the same "
            f"rate: {accuracy_gains(gains[EQUAL])}.",
        ),
        verdict(
            no_worse(rbf[first]),
            "The smallest angle alone does not predict accuracy.",
            f"{first} dimensions, frozen backbone: MHE RBF is {plus_minus(rbf[first]['accuracy'], 2, '+')} points from "
            f"MM squared with an angle {-rbf[first]['min_angle']['mean']:.2f} smaller. Rank correlation of angle and "
            f"accuracy over all rows with fixed prototypes: {correlations}; best in {first}: {best}, at an angle of "
            f"{rows[best][first]['min_angle']['mean']:.2f}.",
        ),
        verdict(
            clear(rbf[first]["accuracy"]),
            f"In {first} dimensions MHE RBF classifies best of all.",
            f"Frozen backbone: {line(sorted(MAIN, key=lambda n: -rows[n][first]['accuracy']['mean']), first)}.",
        ),
        verdict(
            clear(lost(rbf[last]["accuracy"]), 1.0),
            "MHE degrades when the dimension reaches the number of classes (here: heads on a frozen backbone).",
            f"{last} dimensions, frozen backbone: {line([*MHE, 'MM squared', CODE, RANDOM], last)}. The smallest "
            f"angle of RBF is {rows['MHE RBF'][last]['min_angle']['mean']:.4f}, that of the best code "
            f"{rows[CODE][last]['min_angle']['mean']:.4f}.",
        ),
        new(
            all(clear(g["accuracy"]) for g in summary["blocks_over_koleo"].values()),
            "Random orthonormal blocks, which nobody has to train, are worth more than KoLeo's prototypes, though in "
            "50 and 100 dimensions their smallest angles are much smaller.",
            f"Accuracy over KoLeo: {accuracy_gains(summary['blocks_over_koleo'])}; smallest angles "
            + "; ".join(
                f"{d}: {rows[BLOCKS][d]['min_angle']['mean']:.2f} and {rows['KoLeo'][d]['min_angle']['mean']:.2f}"
                for d in dimensions
            )
            + ".",
        ),
        new(
            clear(summary["shuffled_over_ordered"][half]["accuracy"]),
            "The order of a code can matter: the cross-polytope comes as pairs of opposite points, and the next class "
            "is often a related one.",
            f"It is the code in {half} dimensions. Gain of shuffling: "
            f"{accuracy_gains(summary['shuffled_over_ordered'])}.",
        ),
        new(
            softmax["mean"] >= max(rows[name][d]["accuracy"]["mean"] for name in fixed for d in dimensions),
            "Softmax on the same features is no worse than any set of prototypes.",
            "; ".join(f"{d}: {line([CODE, TRAINED, RANDOM], d)}" for d in dimensions)
            + f"; softmax {plus_minus(softmax, 2)}.",
        ),
    ]


def clear(gained, least=0.0):
    """Whether a gain is above `least`, or not, by two standard errors; None where that cannot be said."""
    away = gained["mean"] - least
    return away > 0 if gained["error"] and abs(away) > 2 * gained["error"] else None


def lost(gained):
    return {"mean": -gained["mean"], "error": gained["error"]}


def no_worse(gained):
    """Whether accuracy is not lower by two standard errors though the angle is, by a tenth or more."""
    accuracy, angle = gained["accuracy"], gained["min_angle"]
    if not accuracy["error"]:
        return None
    return angle["mean"] < -0.1 and accuracy["mean"] > -2 * accuracy["error"]


def end_finding(summary):
    chosen, end = summary["settings"], summary["end"]
    listed = "; ".join(f"{name} in {d}: {end_entry(f)}" for name, row in end.items() for d, f in row.items())
    sets = {d for name, row in end.items() if name != SOFTMAX for d in row}
    apart = [
        found["accuracy"]["mean"] - end[RANDOM][d]["accuracy"]["mean"]
        for d in sets
        for name, row in end.items()
        if name not in (SOFTMAX, RANDOM) and (found := row.get(d))
    ]
    noise = sampling_error(summary)
    told = min(map(abs, apart)) > 2 * 2**0.5 * noise
    return verdict(
        min(apart) > 0 if told else None,
        "Trained end to end, dispersed prototypes classify better than random ones.",
        f"{chosen['end_epochs']} epochs, the sets with the squared-cosine loss: {listed}. The validation images alone "
        f"give one run a standard error of {noise:.1f} points; the sets are {min(apart):+.1f} to {max(apart):+.1f} "
        f"from random ones{'' if told else ', which this budget cannot tell apart'}.",
    )


def sampling_error(summary):
    """Of one accuracy, in points: what as many other images would change, at the mean of the sets."""
    found = [f["accuracy"]["mean"] / 100 for name, r in summary["end"].items() if name != SOFTMAX for f in r.values()]
    p = sum(found) / len(found)
    return 100 * (p * (1 - p) / summary["images"][1]) ** 0.5
