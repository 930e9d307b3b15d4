"""What the paper claims of translation, and the differences between runs that decide it."""

import math

from _common import mean_and_error
from _verdicts import Case, Claim, Untested

COLLAPSED = 0.1  # radians to the nearest
FULL_UPDATES = 12_000
REGULARISED = "+"


def over(ours, theirs):
    return mean_and_error([a - b for a, b in zip(ours, theirs, strict=True)])


def gains_over(rows, name, baseline):
    """In BLEU, seed by seed. The rows hold their gains over the first one, which has none of its own."""
    own, other = (rows[row]["gains"] or [0.0] * rows[row]["seeds"] for row in (name, baseline))
    return over(own, other)


def tuning_of(tries, names):
    """How the rates of these rows were chosen. Where the best is the first or last, others may be better."""
    tried = {name: tries[name] for name in names if name in tries}
    if not tried:
        return "One rate each"
    edges = []
    for name, own in tried.items():
        rates, best = {one["table_lr"] for one in own}, min(own, key=lambda one: one["validation_loss"])
        edges += [name] if best["table_lr"] in (min(rates), max(rates)) else []
    return f"Tuned by equal numbers of tries, the best rate the first or last of them for {', '.join(edges) or 'none'}"


def setting_of(row):
    told = f"{row['data']}, {row['updates']} updates ({row['epochs']:.1f} epochs)"
    return told if row["updates"] >= FULL_UPDATES else f"{told}, not to a plateau"


def discrete_claims(summary):
    rows = summary["discrete"]
    euclidean, spherical = rows["Euclidean"], rows["spherical"]
    judged = {"seconds": max(row["seconds"] for row in rows.values()), "setting": setting_of(euclidean)}
    raised = {
        which: over(spherical["variances"][which], euclidean["variances"][which]) for which in ("whole", "occurring")
    }
    yield Claim(
        "Training on the sphere alone raises the spherical variance of the whole table.",
        [Case.of("over Euclidean", raised["whole"])],
        digits=3,
        headline=True,
        **judged,
    )
    yield Claim(
        "Training on the sphere alone lowers the spherical variance of the tokens that occur in the target text.",
        [Case.of("Euclidean over spherical", raised["occurring"], sign=-1)],
        new=True,
        digits=3,
        **judged,
    )
    yield Claim(
        "Training on the sphere alone raises BLEU.",
        [Case.of("over Euclidean", gains_over(rows, "spherical", "Euclidean"))],
        evidence=f"{tuning_of(summary['tries'], ('Euclidean', 'spherical'))}; p of the bootstrap for each start "
        + ", ".join(f"{p:.3f}" for p in spherical["p_values"])
        + ".",
        headline=True,
        **judged,
    )
    yield Claim(
        "Dispersion further improves BLEU.",
        [Case.of(name, gains_over(rows, name, "spherical")) for name in rows if REGULARISED in name],
        evidence=f"{tuning_of(summary['tries'], rows)}. Gain over the sphere alone:",
        headline=True,
        **judged,
    )
    yield sliced_claim(rows["spherical + Sliced"], summary["tries"].get("spherical + Sliced", []), judged)
    if euclidean["rare"] and spherical["rare"]:
        yield from rare_claims(euclidean, spherical, judged)
    own = summary["tries"].get("Euclidean", [])
    if own:
        best = min(own, key=lambda one: one["validation_loss"])
        yield Claim(
            "The Euclidean table, too, needs its own learning rate: tuning only the sphere's rate favours the sphere.",
            [Case("loss at the common rate over the best", own[0]["validation_loss"] - best["validation_loss"])],
            new=True,
            evidence=f"Validation loss of the Euclidean tries: {listed(own)}; of the spherical: "
            f"{listed(summary['tries']['spherical'])}.",
            digits=3,
            **judged,
        )


def sliced_claim(row, tries, judged):
    claim = "Sliced drives spherical variance to 0.99."
    if row["still_rising"]:
        weights = sorted({one["weight"] for one in tries} | {row["weight"]})
        return Untested(
            claim,
            f"{row['dispersion']['whole']['variance']['mean']:.3f} over the whole table with weight {row['weight']:g} "
            "of a sum over points, and still rising at the last update; weights tried: "
            f"{', '.join(f'{weight:g}' for weight in weights)} [{row['seeds']} starts]. Our setting: "
            f"{judged['setting']}.",
        )
    return Claim(
        claim,
        [Case.of("whole table, beyond 0.985", mean_and_error(row["variances"]["whole"]), least=0.985)],
        digits=3,
        **judged,
    )


def rare_claims(euclidean, spherical, judged):
    """Of the paper's figure on tokens by frequency, and its reading."""
    ratios = [
        math.log10(s["gradient"] / e["gradient"]) for s, e in zip(spherical["rare"], euclidean["rare"], strict=True)
    ]
    found = mean_and_error(ratios)
    told = (
        f"The rarer half of the tokens that occur, late in training: {10 ** found['mean']:.1f} times. Decimal logarithm"
    )
    yield Claim(
        "The gradient norm of rare tokens is higher on the sphere.",
        [Case.of("ratio", found)],
        evidence=f"{told}:",
        **judged,
    )
    yield Claim(
        "The gradient norm of rare tokens is an order of magnitude higher on the sphere.",
        [Case.of("ratio", found, least=1.0)],
        evidence=f"{told}, beyond one:",
        brief=f"It is {10 ** found['mean']:.1f} times that of the Euclidean table's, late in training",
        headline=True,
        **judged,
    )
    absent = [seen["nearest_absent"] for seen in spherical["rare"] if seen["nearest_absent"] is not None]
    pairs = [[seen["nearest"] for seen in row["rare"]] for row in (spherical, euclidean)]
    yield Claim(
        "Training on the sphere keeps the embeddings of rare tokens from collapsing onto their neighbours.",
        [
            Case.of("the rarer half of those that occur, over Euclidean", over(*pairs)),
            *(
                [Case.of(f"those that never occur, beyond {COLLAPSED}", mean_and_error(absent), least=COLLAPSED)]
                if absent
                else []
            ),
        ],
        unit=" rad",
        digits=3,
        evidence="Median angle to the nearest:",
        brief="Those that never occur in the text lie on top of each other on the sphere, too",
        headline=True,
        **judged,
    )


def listed(tries):
    return ", ".join(f"{one['validation_loss']:.3f} at {one['table_lr']:g}" for one in tries)


def continuous_claims(rows):
    base = rows["continuous, Euclidean"]
    judged = {"seconds": max(row["seconds"] for row in rows.values()), "setting": setting_of(base)}
    groups = {
        "Offline dispersion of a Euclidean table helps continuous output.": [
            name for name in rows if "offline" in name
        ],
        "Tables trained on the sphere serve continuous output better than Euclidean ones.": [
            name for name in rows if name.startswith("continuous, spherical")
        ],
    }
    for claim, names in groups.items():
        if names:
            yield Claim(
                claim,
                [Case.of(name, gains_over(rows, name, "continuous, Euclidean")) for name in names],
                evidence="Gain in BLEU over the Euclidean table as it is:",
                **judged,
            )
