"""Means, errors and paired differences over the runs with prototypes."""

import statistics

from _common import mean_and_error, where
from _prototype_sets import BLOCKS, CODE, EQUAL, ORDERED, RANDOM, SOFTMAX, TRAINED, paper
from scipy.stats import spearmanr


def summarise(experiment, records):
    results, classes = experiment.results, experiment.classes
    summary = {
        "classes": classes,
        "images": [len(experiment.images.train), len(experiment.images.val)],
        "skipped": len(experiment.images.skipped),
        "backbones": [record["accuracy"] for record in records["backbone"]],
        "dimensions": results["dimensions"],
        "settings": {key: results[key] for key in ("px", "seeds", "end_epochs", "end_seeds", "epochs", "set_seeds")},
        "tuned": tuned(records["rate"]),
        "rows": {},
        "end": {},
    }
    summary["settings"]["end_channels"] = results["end_channels"]
    for row in results["rows"]:
        dimensions = [classes] if row == SOFTMAX else results["dimensions"]
        summary["rows"][row] = {str(d): cell(records, row, d) for d in dimensions}
    for row in results["end_rows"]:
        dimensions = [classes] if row == SOFTMAX else results["end_dimensions"]
        summary["end"][row] = {str(d): accuracies(records["end"], row, d) for d in dimensions}
    summary["rank_correlation"] = {str(d): rank_correlation(summary["rows"], str(d)) for d in results["dimensions"]}
    summary["gain_of_riemannian"] = {
        other: {str(d): gain(records, "MM squared", other, d) for d in results["dimensions"]}
        for other in ("MM squared, projected", EQUAL)
    }
    for key, row, other in (
        ("rbf_over_mm", "MHE RBF", "MM squared"),
        ("blocks_over_koleo", BLOCKS, "KoLeo"),
        ("shuffled_over_ordered", CODE, ORDERED),
    ):
        summary[key] = {str(d): gain(records, row, other, d) for d in results["dimensions"]}
    return summary


def tuned(records):
    """For each objective, optimiser and dimension the rate with the largest smallest angle, and all that were tried."""
    found = {}
    for record in records:
        tried = found.setdefault(f"{record['objective']}, {record['way']}", {}).setdefault(str(record["d"]), {})
        tried[str(record["lr"])] = record["min_angle"]
    return {
        name: {
            d: {"lr": float(max(tried, key=tried.get)), "min_angle": max(tried.values()), "tried": tried}
            for d, tried in dimensions.items()
        }
        for name, dimensions in found.items()
    }


def cell(records, row, d):
    """One entry of the table: what the prototypes are, what they are worth, and what the paper has."""
    sets = where(records["set"], row=row, d=d) or [r for r in where(records["frozen"], row=row, d=d) if "variance" in r]
    found = {"paper": paper(row, d), **accuracies(records["frozen"], row, d)}
    if sets:
        found |= {key: mean_and_error([r[key] for r in sets]) for key in ("min_angle", "variance")}
        angles = [r["min_angle"] for r in sets]
        found["min_angle"] |= {"median": statistics.median(angles), "low": min(angles), "high": max(angles)}
        found["runs_of_sets"] = len(sets)
    return found


def accuracies(records, row, d):
    """Over all runs; and the gain over random prototypes of the same run."""
    own = where(records, row=row, d=d)
    found = {"accuracy": mean_and_error([r["accuracy"] for r in own]), "runs": len(own)}
    gained = differences(records, row, RANDOM, d)
    return found | ({"over_random": mean_and_error(gained)} if gained and row != RANDOM else {})


def differences(records, row, other, d):
    """Of accuracies, between runs that differ by the prototypes alone."""
    pairs = [(r, s) for r in where(records, row=row, d=d) for s in where(records, row=other, d=d)]
    return [
        r["accuracy"] - s["accuracy"]
        for r, s in pairs
        if (r["seed"], r.get("backbone")) == (s["seed"], s.get("backbone"))
    ]


def gain(records, row, other, d):
    sets = [{r["seed"]: r["min_angle"] for r in where(records["set"], row=name, d=d)} for name in (row, other)]
    angles = [sets[0][seed] - sets[1][seed] for seed in sets[0]]
    return {
        "accuracy": mean_and_error(differences(records["frozen"], row, other, d)),
        "min_angle": mean_and_error(angles),
        "largest": max(map(abs, angles)),
    }


def rank_correlation(rows, d):
    """Of smallest angle and accuracy, over the rows whose prototypes are fixed."""
    cells = [row[d] for name, row in rows.items() if name not in (SOFTMAX, TRAINED) and d in row]
    angles, found = ([c[key]["mean"] for c in cells] for key in ("min_angle", "accuracy"))
    return {"rho": round(float(spearmanr(angles, found).statistic), 3), "rows": len(cells)}
