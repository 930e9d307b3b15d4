"""Synthetic embeddings: 20,000 points in 64 dimensions, from uniform and from clumped starts.

    python experiments/synthetic.py [--quick] [--seeds 5] [--steps 5000] [--rates '[0.0003, 0.001, 0.003]']

Riemannian Adam at a learning rate of 0.001. Pairwise objectives and Lloyd see 512 random rows a step, the sliced ones
all rows, as in the authors' code (ltl-uva/ledoh-torch at 882a1c1, examples/bench/bench_simple.py). As their optimiser
does, ours updates the whole table at every step: rows that were not drawn go on with the momentum they have ("dense").
Two objectives are also run with an optimiser that leaves such rows alone ("lazy"). Their SSW is POT's function, a root
(ledoh_torch/ssw.py): "SSW 13 root"; SSW without it is the closed form of the paper. Rows of the "peer" are theirs in
plain torch and POT, with geoopt's optimiser, from clumped starts. One rate ranks speeds as much as objectives, so each
is also run at its own best rate of a grid: with the first start it goes from the paper's rate to the next larger one,
or else to the next smaller, as long as that is better; the best is run from three starts. Measured on all pairs.
"""

import functools
import math
import statistics

import torch
from _common import MARKERS, Results, axes, clump, family_colour, generator, mean_and_error, where
from _objectives import LARGE
from _peer import PEERS, table_and_optimizer
from _steps import steps_by_autograd, steps_of
from _synthetic_report import MEASURES, report

import unclump as uc

__all__ = ["FULL", "QUICK", "main", "report"]

FULL = {
    "n": 20_000,
    "d": 64,
    "batch": 512,
    "objectives": list(LARGE),
    "lazy": ["MHE RBF chordal", "MM geodesic"],
    "starts": ["clumped", "uniform"],
    "kappa": 100.0,
    "steps": 5000,
    "lr": 0.001,
    "seeds": 5,
    "seeds_uniform": 5,
    "peers": list(PEERS),
    "seeds_peer": 3,
    "rates": [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1],
    "seeds_rates": 3,
    "records": 8,
}
QUICK = {
    "n": 600,
    "d": 16,
    "batch": 64,
    "objectives": ["MHE RBF chordal", "MM geodesic", "Lloyd 512", "Sliced 13 axes"],
    "lazy": ["MHE RBF chordal"],
    "steps": 200,
    "lr": 0.01,
    "seeds": 1,
    "seeds_uniform": 1,
    "peers": [],
    "rates": [0.01, 0.02],
    "seeds_rates": 1,
    "records": 4,
}


def points_of(start, n, d, seed, kappa=100.0):
    return clump(n, d, seed, kappa=kappa) if start == "clumped" else uc.uniform(n, d, generator=generator(seed, n, d))


def measures_of(points):
    return {"min_degrees": math.degrees(uc.min_angle(points)), "variance": uc.spherical_variance(points)}


@functools.lru_cache(maxsize=2)
def measures_at_start(start, n, d, seed, kappa=100.0):
    """Once for all objectives that begin there: over all pairs, they take as long as hundreds of steps."""
    return measures_of(points_of(start, n, d, seed, kappa))


def disperse(step, points, *, steps, measured, first):
    """Measures after some of the steps, those of the start being known already.

    Where values are lost, the step is noted, and the last ones stay.
    """
    history, lost = [{"step": 0} | first], None
    for at in range(1, steps + 1):
        if not lost:
            step()
        if at in measured:
            lost = lost or (None if points().isfinite().all() else at)
            history.append((history[-1] if lost else measures_of(points())) | {"step": at})
    return history, lost


def run(*, start, objective, lazy, seed, n, d, batch, steps, lr, kappa, records):
    # Denser at the start, where most happens; the last step always.
    measured = {round(steps * (k / (records - 1)) ** 2) for k in range(records)}
    start_points, draw, drawn = points_of(start, n, d, seed, kappa), generator(seed, 1), {"batch": batch, "seed": seed}
    if objective in PEERS:
        table, optimizer = table_and_optimizer(start_points, lr)
        name, loss = objective.removeprefix("peer: "), functools.partial(PEERS[objective], draw=draw)
        step, points = steps_by_autograd(table, optimizer, name, loss, **drawn)
    else:
        table = torch.nn.Parameter(start_points)
        step, points = steps_of(table, objective, LARGE[objective](draw), lr=lr, lazy=lazy, **drawn)
    first = measures_at_start(start, n, d, seed, kappa)
    history, lost = disperse(step, points, steps=steps, measured=measured, first=first)
    return {key: [entry[key] for entry in history] for key in history[0]} | {"lost_at": lost}


def main(argv=None):
    results = Results("synthetic", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK, implied={"lost_at": None})
    fixed = {key: results[key] for key in ("n", "d", "batch", "steps", "kappa", "records")}
    chosen = [(o, False) for o in results["objectives"]] + [(o, True) for o in results["lazy"]]
    rows = [(start, o, lazy, seeds_of(results, start)) for start in results["starts"] for o, lazy in chosen]
    rows += [("clumped", o, False, min(results["seeds_peer"], results["seeds"])) for o in results["peers"]]
    settings = [
        {"start": start, "objective": objective, "lazy": lazy, "seed": seed, "lr": results["lr"], **fixed}
        for seed in range(max(seeds for *_, seeds in rows))
        for start, objective, lazy, seeds in rows
        if seed < seeds
    ]
    records = results.complete(settings, run)
    summary = {
        "bound": math.degrees(uc.upper_bound(results["n"], results["d"])),
        "seconds": statistics.median(r["seconds"] for r in records),
        "starts": {},
        "best_rates": best_rates(results, records, fixed) if results["rates"] else {},
    }
    for start in results["starts"]:
        here = where(records, start=start)
        named = {o + (" (lazy)" if lazy else ""): (o, lazy) for o, lazy in chosen}
        named |= {o: (o, False) for o in results["peers"] if start == "clumped"}
        summary["starts"][start] = {
            name: row_of(where(here, objective=o, lazy=lazy)) for name, (o, lazy) in named.items()
        }
    draw(results, records, chosen)
    return results.finish(summary)


def seeds_of(results, start):
    return results["seeds_uniform" if start == "uniform" else "seeds"]


def best_rates(results, records, fixed):
    """Of each objective from each start: the best rate of the grid, as the first seed has it, with more seeds."""
    at_the_end = fixed | {"records": 2, "lazy": False}
    rows = [{"start": s, "objective": o} | at_the_end for s in results["starts"] for o in results["objectives"]]
    at_paper = {(r["start"], r["objective"]): r for r in where(records, seed=0, lazy=False)}
    ends = [{results["lr"]: at_paper[row["start"], row["objective"]][MEASURES[row["start"]]][-1]} for row in rows]
    while any(following := [next_rate(results["rates"], tried) for tried in ends]):
        going = [(row, tried, lr) for row, tried, lr in zip(rows, ends, following, strict=True) if lr]
        ran = results.complete([row | {"seed": 0, "lr": lr} for row, _, lr in going], run)
        for (row, tried, lr), record in zip(going, ran, strict=True):
            tried[lr] = record[MEASURES[row["start"]]][-1]
    best = [row | {"lr": max(tried, key=tried.get)} for row, tried in zip(rows, ends, strict=True)]
    seeds = {start: min(results["seeds_rates"], seeds_of(results, start)) for start in results["starts"]}
    moved = [row | {"seed": s} for row in best if row["lr"] != results["lr"] for s in range(seeds[row["start"]])]
    runs = records + results.complete(moved, run)
    found = {start: {} for start in results["starts"]}
    for row, tried in zip(best, ends, strict=True):
        start, objective, lr = row["start"], row["objective"], row["lr"]
        at_it = where(runs, start=start, objective=objective, lr=lr, lazy=False)
        found[start][objective] = {
            "lr": lr,
            "inside": min(results["rates"]) < lr < max(results["rates"]),
            "tried": {f"{rate:g}": end for rate, end in sorted(tried.items())},
            "values": (values := [r[MEASURES[start]][-1] for r in at_it[: seeds[start]]]),
        } | mean_and_error(values)
    return found


def next_rate(rates, tried):
    """The rate to try next, given what others ended with; None where both neighbours of the best are worse."""
    rates = sorted({*rates, *tried})
    place = rates.index(max(tried, key=tried.get))
    neighbours = [rates[at] for at in (place + 1, place - 1) if 0 <= at < len(rates)]
    return next((lr for lr in neighbours if lr not in tried), None)


def row_of(runs):
    """Means over the starts, and the values start by start, for differences between rows."""
    middle = len(runs[0]["step"]) // 2
    values = {
        "start_degrees": [r["min_degrees"][0] for r in runs],
        "min_degrees": [r["min_degrees"][-1] for r in runs],
        "start_variance": [r["variance"][0] for r in runs],
        "early_variance": [r["variance"][middle] for r in runs],
        "variance": [r["variance"][-1] for r in runs],
    }
    return {key: mean_and_error(found) | {"values": found} for key, found in values.items()} | {
        "early_step": runs[0]["step"][middle],
        "lost": sum(r.get("lost_at") is not None for r in runs),
        "seconds": statistics.median(r["seconds"] for r in runs),
    }


def draw(results, records, chosen):
    """A column a start; lines that coincide are told apart by their markers, which are at other steps for each.

    Of angles the gain is shown: starts differ by more than most objectives gain.
    """
    figure, panels = axes(2, len(results["starts"]), width=11, height=8.5, sharex=True)
    names = {"variance": "spherical variance", "min_degrees": "gain in the smallest angle, degrees"}
    for row, (key, name) in zip(panels, names.items(), strict=True):
        for ax, start in zip(row, results["starts"], strict=True):
            for place, (objective, lazy) in enumerate(chosen):
                runs = where(records, start=start, objective=objective, lazy=lazy)
                first = [r[key][0] if key == "min_degrees" else 0.0 for r in runs]
                shown = [[value - begin for value in r[key]] for r, begin in zip(runs, first, strict=True)]
                middle = [mean_and_error(values) for values in zip(*shown, strict=True)]
                beside = results["steps"] * (place / len(chosen) - 0.5) / 40  # bars that would hide each other
                ax.errorbar(
                    [step + beside for step in runs[0]["step"]],
                    [m["mean"] for m in middle],
                    [m["error"] for m in middle],
                    color=family_colour(objective), marker=MARKERS[place % len(MARKERS)], markersize=5, capsize=2,
                    fillstyle="none", markevery=(place % 3, 3) if len(middle) > 4 else 1,
                    linestyle=":" if lazy else ("-", "--", "-.")[place % 3], linewidth=1.2,
                    label=objective + (" (lazy)" if lazy else ""),
                )  # fmt: skip
            bars = "; bars: standard error" if len(runs) > 1 else ""
            ax.set(title=f"{start} start, runs: {len(runs)}{bars}", ylabel=name)
            if key == "min_degrees":
                ax.set_xlabel("step")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5)
    results.figure(figure)


if __name__ == "__main__":
    main()
