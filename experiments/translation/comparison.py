"""What the runs amount to: both tables with the paper's numbers beside ours, and which of its claims hold here."""

import statistics

from _common import markdown, new, verdict

# BLEU, smallest distance and spherical variance; WMT 2016, Romanian to English.
PAPER = {
    "Euclidean": (31.5, 0.003, 0.19),
    "spherical": (32.2, 0.001, 0.57),
    "spherical + MHE": (32.3, 0.001, 0.56),
    "spherical + Lloyd": (32.4, 0.001, 0.60),
    "spherical + Sliced": (32.3, 0.435, 0.99),
    "continuous, Euclidean": (28.3, 0.014, 0.191),
    "continuous, Euclidean + offline MHE": (29.7, 0.372, 0.599),
    "continuous, Euclidean + offline Lloyd": (27.7, 0.004, 0.585),
    "continuous, Euclidean + offline Sliced": (29.6, 0.106, 0.979),
    "continuous, spherical": (29.9, 0.001, 0.573),
    "continuous, spherical + MHE": (30.0, 0.001, 0.561),
    "continuous, spherical + Lloyd": (30.1, 0.001, 0.596),
    "continuous, spherical + Sliced": (30.0, 0.435, 0.999),
}


def spread(values):
    """Mean over seeds, and the deviation between them; None where there is one."""
    deviation = round(statistics.stdev(values), 4) if len(values) > 1 else None
    return {"mean": round(statistics.fmean(values), 4), "deviation": deviation}


def summarise(records, pilots):
    """Of the rows, over seeds; and of the tries, as they were."""
    tries = {
        row: [{name: record[name] for name in ("lr", "table_lr", "weight", "validation_loss", "validation_bleu")}
              for record in own]
        for row, own in pilots.items()
    }  # fmt: skip
    return {name: rows_of(part) for name, part in records.items()} | {"tries": tries}


def rows_of(records):
    rows = {}
    for row in dict.fromkeys(record["row"] for record in records):
        own = [record for record in records if record["row"] == row]
        last = [record["dispersion"] for record in own]
        against = [record["against_first"] for record in own if record["against_first"]]
        rows[row] = {
            **{name: own[0][name] for name in ("lr", "table_lr", "weight", "updates", "epochs", "data")},
            "seeds": len(own),
            "scores": {
                split: {
                    "signature": first["signature"],
                    "sentences": first["sentences"],
                    **{
                        m: spread([r["scores"][split][m] for r in own]) for m in ("bleu", "chrf", "comet") if m in first
                    },
                }
                for split, first in own[0]["scores"].items()
            },
            "dispersion": {
                which: {m: spread([seen[which][m] for seen in last]) for m in ("min_angle", "variance")}
                | {"tokens": last[0][which]["tokens"]}
                for which in ("whole", "occurring")
            },
            "gains": [comparison["gain"] for comparison in against],
            "p_values": [comparison["p_value"] for comparison in against],
        }
    return rows


def first_test(row):
    return next(name for name in row["scores"] if name != "validation")


def bleu(row):
    return row["scores"][first_test(row)]["bleu"]["mean"]


def shown(number):
    if number["deviation"] is None:
        return f"{number['mean']:.1f}"
    return f"{number['mean']:.1f} ± {number['deviation']:.1f}"


def variance(row, which="occurring"):
    return row["dispersion"][which]["variance"]["mean"]


def table(summary):
    """In Markdown."""
    measured = ["BLEU", "chrF", "BLEU, validation", "p", "d_min", "svar"]
    head = ["row", "rate, weight", *measured, "paper: BLEU", "d_min", "svar"]
    return markdown(head, entries(summary))


def entries(summary):
    """A row each: ours, then the paper's."""
    for part, suffix in (("discrete", ""), ("untuned", ", one rate"), ("continuous", "")):
        for name, row in summary[part].items():
            test, dispersion = row["scores"][first_test(row)], row["dispersion"]
            rate = f"{row['lr'] if part == 'continuous' else row['table_lr']:g}"
            yield [
                name + suffix,
                rate + (f", {row['weight']:g}" if row["weight"] else ""),
                shown(test["bleu"]),
                shown(test["chrf"]),
                shown(row["scores"]["validation"]["bleu"]),
                ", ".join(f"{p:.3f}" for p in row["p_values"]),
                " / ".join(f"{dispersion[which]['min_angle']['mean']:.3f}" for which in dispersion),
                " / ".join(f"{dispersion[which]['variance']['mean']:.3f}" for which in dispersion),
                *(f"{number:g}" for number in PAPER[name]),
            ]


def ran(summary):
    """What was run, in words."""
    row = next(iter(summary["discrete"].values()))
    test = row["scores"][first_test(row)]
    words = (
        f"{row['data']}, test {first_test(row)} of {test['sentences']} sentences, {row['seeds']} seed(s), "
        f"{row['updates']} updates ({row['epochs']:.1f} epochs)"
    )
    if summary["continuous"]:
        row = next(iter(summary["continuous"].values()))
        words += f"; continuous {row['seeds']} seed(s), {row['updates']} updates ({row['epochs']:.1f} epochs)"
    return f"{words}; {test['signature']}"


def gains_over(rows, name, baseline):
    """In BLEU, seed by seed. The rows hold their gains over the first one, which has none of its own."""
    own, other = (rows[row]["gains"] or [0.0] * rows[row]["seeds"] for row in (name, baseline))
    return [round(one - two, 3) for one, two in zip(own, other, strict=True)]


def judged(rows, better, baseline):
    """Whether these rows' BLEU is above the baseline's, seed by seed: None below three seeds, or where it varies."""
    if rows[baseline]["seeds"] < 3:
        return None
    gains = [gain for name in better for gain in gains_over(rows, name, baseline)]
    return True if min(gains) > 0 else False if max(gains) < 0 else None


def report(summary):
    discrete, continuous = summary["discrete"], summary["continuous"]
    names = list(discrete)
    bleus = ", ".join(f"{name} {shown(discrete[name]['scores'][first_test(discrete[name])]['bleu'])}" for name in names)
    variances = ", ".join(
        f"{name} {variance(row):.3f} ({variance(row, 'whole'):.3f})" for name, row in discrete.items()
    )
    got = f"{ran(summary)}. BLEU: {bleus}; spherical variance of the tokens that occur (of all): {variances}"
    return {
        "claim": "training on the sphere alone raises spherical variance (0.19 to 0.57) and BLEU (31.5 to 32.2); "
        "Sliced drives the variance to 0.99; offline dispersion of a Euclidean table helps continuous output (28.3 to "
        "29.7)",
        "got": got,
        "table": list(table(summary)),
        "findings": [*_discrete_findings(summary), *(_continuous_findings(continuous) if continuous else [])],
    }


def _discrete_findings(summary):
    rows = summary["discrete"]
    euclidean, spherical = rows["Euclidean"], rows["spherical"]
    sliced = rows["spherical + Sliced"]
    seeds = f"{euclidean['seeds']} seed(s)"
    for which, tokens in (("whole", "the whole table"), ("occurring", "the tokens that occur in the target text")):
        yield verdict(
            variance(spherical, which) > variance(euclidean, which),
            f"Training on the sphere alone raises the spherical variance of {tokens}.",
            f"{variance(euclidean, which):.3f} to {variance(spherical, which):.3f}, {seeds}.",
        )
    yield verdict(
        judged(rows, ["spherical"], "Euclidean"),
        "Training on the sphere alone raises BLEU.",
        f"Both tuned by equal numbers of tries: {bleu(euclidean):.1f} to {bleu(spherical):.1f}, {seeds}; "
        f"p = {', '.join(f'{p:.3f}' for p in spherical['p_values'])}.",
    )
    yield verdict(
        variance(sliced) > 0.985,
        "Sliced drives spherical variance to 0.99.",
        f"{variance(sliced):.3f} over the tokens that occur, {variance(sliced, 'whole'):.3f} "
        f"over all, with weight {sliced['weight']:g} of a sum over points.",
    )
    regularised = [name for name in rows if "+" in name]
    gains = {name: gains_over(rows, name, "spherical") for name in regularised}
    beside = [f"{name} {bleu(rows[name]):.1f} ({', '.join(f'{g:+.1f}' for g in own)})" for name, own in gains.items()]
    yield verdict(
        judged(rows, regularised, "spherical"),
        "Dispersion further improves BLEU.",
        f"The sphere alone {bleu(spherical):.1f}; with gains over it by seed: {', '.join(beside)}; {seeds}.",
    )
    own = summary["tries"].get("Euclidean", [])
    if own:
        best = min(own, key=lambda one: one["validation_loss"])
        yield new(
            best is not own[0],
            "The Euclidean table, too, wants a rate of its own: tuning the sphere's alone favours the sphere.",
            f"Validation loss of the Euclidean tries: {listed(own)}; of the spherical: "
            f"{listed(summary['tries']['spherical'])}.",
        )


def listed(tries):
    return ", ".join(f"{one['validation_loss']:.3f} at {one['table_lr']:g}" for one in tries)


def _continuous_findings(rows):
    base = rows["continuous, Euclidean"]
    offline = [name for name in rows if "offline" in name]
    if offline:
        yield verdict(
            judged(rows, offline, "continuous, Euclidean"),
            "Offline dispersion of a Euclidean table helps continuous output.",
            f"{bleu(base):.1f} as it is; " + ", ".join(f"{name} {bleu(rows[name]):.1f}" for name in offline) + ".",
        )
    trained = [name for name in rows if name.startswith("continuous, spherical")]
    if trained:
        yield verdict(
            judged(rows, trained, "continuous, Euclidean"),
            "Tables trained on the sphere serve continuous output better than Euclidean ones (28.3 to 29.9 and more).",
            f"{bleu(base):.1f} from the Euclidean; "
            + ", ".join(f"{name} {bleu(rows[name]):.1f}" for name in trained)
            + f"; {base['seeds']} seed(s).",
        )
