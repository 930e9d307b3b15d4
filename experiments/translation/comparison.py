"""What the runs amount to: both tables with the paper's numbers beside ours, and which of its claims hold here."""

import statistics

from _common import counted, markdown
from _verdicts import judge

from translation.claims import continuous_claims, discrete_claims

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
            "variances": {which: [seen[which]["variance"] for seen in last] for which in ("whole", "occurring")},
            "rare": [rare(record) for record in own if "gradient" in record["history"][0]],
            "still_rising": all(rising(record) for record in own),
            "seconds": statistics.fmean(record["seconds"] for record in own),
            "gains": [comparison["gain"] for comparison in against],
            "p_values": [comparison["p_value"] for comparison in against],
        }
    return rows


def late(history):
    """The place of the last look before four fifths of the updates: late in training, as in the paper's figure."""
    times = [seen["update"] for seen in history]
    return max(range(len(times)), key=lambda place: (times[place] <= 0.8 * times[-1], place))


def rare(record):
    """Medians over bins of tokens, late in training: the rarer half of those that occur, and those that never do."""
    seen = record["history"][late(record["history"])]
    occurring = seen["occurring"]["tokens"]

    def median(kind, low, high):
        found = [
            value for rank, value in zip(seen[kind]["rank"], seen[kind]["middle"], strict=True) if low < rank <= high
        ]
        return statistics.median(found) if found else None

    half, whole = (occurring / 2, occurring), (occurring, seen["whole"]["tokens"])
    return {
        "gradient": median("gradient", *half),
        "nearest": median("nearest", *half),
        "nearest_absent": median("nearest", *whole),
    }


def rising(record):
    """Whether the spherical variance of the whole table rose up to the end."""
    *_, before, last = (seen["whole"]["variance"] for seen in record["history"])
    return last > before


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
        f"{row['data']}, test {first_test(row)} of {test['sentences']} sentences, {counted(row['seeds'], 'seed')}, "
        f"{row['updates']} updates ({row['epochs']:.1f} epochs)"
    )
    if summary["continuous"]:
        row = next(iter(summary["continuous"].values()))
        words += f"; continuous {counted(row['seeds'], 'seed')}, {row['updates']} updates ({row['epochs']:.1f} epochs)"
    return f"{words}; {test['signature']}"


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
        "findings": judge([*discrete_claims(summary), *(continuous_claims(continuous) if continuous else [])]),
    }
