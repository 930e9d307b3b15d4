"""Means, errors and paired differences over the runs with prototypes."""

import statistics

from _common import mean_and_error, where
from _prototype_sets import (
    BLOCKS,
    CODE,
    EQUAL,
    KOLEO_TUNED,
    MHE,
    ORDERED,
    PAPER_ROWS,
    RANDOM,
    SOFTMAX,
    STEEP,
    TRAINED,
    paper,
)
from scipy.stats import spearmanr

# Rows that the findings compare, the second subtracted from the first.
PAIRS = [
    ("MM squared", "MM squared, projected"),
    ("MM squared", EQUAL),
    *((row, "MM squared") for row in MHE),
    *(("MHE RBF", row) for row in PAPER_ROWS if row not in ("MHE RBF", "MM squared")),
    (BLOCKS, "KoLeo"),
    (BLOCKS, KOLEO_TUNED),
    (CODE, ORDERED),
]


def summarise(experiment, records):
    results, classes = experiment.results, experiment.classes
    rows, ends = ([row for row in results[key] if row != SOFTMAX] for key in ("rows", "end_rows"))
    told = ("px", "seeds", "epochs", "set_seeds", "end_channels", "end_epochs", "end_seeds")
    summary = {
        "kind": experiment.kind,
        "classes": classes,
        "images": [len(experiment.images.train), len(experiment.images.val)],
        "skipped": len(experiment.images.skipped),
        "backbones": [record["accuracy"] for record in records["backbone"]],
        "dimensions": results["dimensions"],
        "settings": {key: results[key] for key in told},
        "seconds": {stage: seconds_of(found) for stage, found in records.items() if found},
        "tuned": tuned(records["rate"]),
        "rows": {row: {str(d): cell(experiment, records, row, d) for d in results["dimensions"]} for row in rows},
        "end": {row: {str(d): accuracies(records["end"], row, d) for d in results["end_dimensions"]} for row in ends},
        "softmax": {stage: accuracies(records[stage], SOFTMAX, classes) for stage in ("frozen", "end")},
    }
    steep = [record for record in records["set"] if record["row"] == STEEP]
    summary["steep"] = {
        str(d): over_starts([record["min_angle"] for record in steep if record["d"] == d])
        for d in (results["dimensions"] if steep else ())
    }
    summary["rank_correlation"] = {
        str(d): rank_correlation(summary["rows"], records["frozen"], d) for d in results["dimensions"]
    }
    summary["end_gains"] = {
        f"{row} over MM squared": {
            str(d): over_runs(gained)
            for d in results["end_dimensions"]
            if (gained := differences(records["end"], (row, d), ("MM squared", d)))
        }
        for row in MHE
    }
    summary["gains"] = {
        f"{row} over {other}": {str(d): gain(records, row, other, d) for d in results["dimensions"]}
        for row, other in PAIRS
        if row in rows and other in rows
    }
    return summary


def seconds_of(records):
    """What a start takes: for networks that are trained end to end, all with its seed; otherwise one run."""
    of_run = statistics.fmean(r["seconds"] for r in records)
    ends = [r for r in records if r.get("stage") == "end"]
    return of_run * len(ends) / len({r["seed"] for r in ends}) if ends else of_run


def tuned(records):
    """For each objective, optimiser and dimension the rate with the largest smallest angle on average over starts.

    With its angle of each start, and the averages of all rates that were tried.
    """
    found = {}
    for record in records:
        tried = found.setdefault(f"{record['objective']}, {record['way']}", {}).setdefault(str(record["d"]), {})
        tried.setdefault(record["lr"], {})[record["seed"]] = record["min_angle"]
    return {name: {d: best_rate(tried) for d, tried in dimensions.items()} for name, dimensions in found.items()}


def best_rate(tried):
    means = {lr: statistics.fmean(angles.values()) for lr, angles in tried.items()}
    best = max(means, key=means.get)
    by_start = [tried[best][seed] for seed in sorted(tried[best])]
    return {"lr": best, "min_angle": means[best], "by_start": by_start, "tried": {str(lr): means[lr] for lr in means}}


def cell(experiment, records, row, d):
    """One entry of the table: what the prototypes are, what they are worth, and what the paper has for such images."""
    sets = where(records["set"], row=row, d=d) or [r for r in where(records["frozen"], row=row, d=d) if "variance" in r]
    angles = [r["min_angle"] for r in sets]
    comparable = experiment.kind == "tiny" and experiment.classes == 200
    return {
        "paper": paper(row, d) if comparable else None,
        **accuracies(records["frozen"], row, d, softmax=experiment.classes),
        "min_angle": over_starts(angles)
        | {"median": statistics.median(angles), "low": min(angles), "high": max(angles)},
        "variance": over_starts([r["variance"] for r in sets]),
        "runs_of_sets": len(sets),
    }


def accuracies(records, row, d, *, softmax=None):
    """Accuracy, and how much it is above that of random prototypes, and of softmax, in the same runs; None if none."""
    own = where(records, row=row, d=d)
    if not own:
        return None
    found = {"accuracy": over_runs([(r.get("backbone"), r["accuracy"]) for r in own]), "runs": len(own)}
    for name, other, where_from in (("over_random", RANDOM, d), ("over_softmax", SOFTMAX, softmax)):
        gained = differences(records, (row, d), (other, where_from))
        if gained and row not in (other, SOFTMAX):
            found[name] = over_runs(gained)
    return found


def differences(records, one, other):
    """Backbone and difference of accuracies, between runs on it that differ by the prototypes alone."""
    first, second = (
        {(r.get("backbone"), r["seed"]): r["accuracy"] for r in where(records, row=row, d=d)} for row, d in (one, other)
    )
    return [(run[0], first[run] - second[run]) for run in first if run in second]


def over_runs(found):
    """Mean and standard error of values that each come with a backbone.

    Runs on one backbone share what it has learned. Where there are several, those are what is independent: the error is
    that of their means. On a single one it is that of the runs, and speaks of this backbone alone.
    """
    means = [statistics.fmean(v for b, v in found if b == backbone) for backbone in dict.fromkeys(b for b, _ in found)]
    over, values = ("backbones", means) if len(means) > 1 else ("runs", [value for _, value in found])
    return mean_and_error(values) | {"over": over}


def over_starts(values):
    return mean_and_error(values) | {"over": "starts"}


def gain(records, row, other, d):
    """Of the first row over the second, paired: in accuracy, and in the smallest angle from the same start."""
    sets = [{r["seed"]: r["min_angle"] for r in where(records["set"], row=name, d=d)} for name in (row, other)]
    angles = [sets[0][seed] - sets[1][seed] for seed in sets[0]]
    return {
        "accuracy": over_runs(differences(records["frozen"], (row, d), (other, d))),
        "min_angle": over_starts(angles),
        "largest": max(map(abs, angles)),
    }


def rank_correlation(rows, heads, d):
    """Of smallest angle and accuracy over the rows with fixed prototypes, on each backbone; None where none differ."""
    names = [name for name in rows if name != TRAINED]
    angles = [rows[name][str(d)]["min_angle"]["mean"] for name in names]
    found = []
    for backbone in dict.fromkeys(head["backbone"] for head in heads):
        own = [where(heads, row=name, d=d, backbone=backbone) for name in names]
        means = [statistics.fmean(head["accuracy"] for head in of_row) for of_row in own]
        if min(len(set(angles)), len(set(means))) > 1:
            found.append(float(spearmanr(angles, means).statistic))
    return {"rho": mean_and_error(found) if found else None, "rows": len(names)}
