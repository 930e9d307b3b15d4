"""Sliced against spherical sliced Wasserstein: tuned over points and dimensions, and step for step.

    python experiments/sliced_ssw.py [--quick] [--seeds 5] [--steps 2000]

Clumped starts (power spherical, kappa 100), the number of circles and the learning rate tuned for each, as in the
paper; the smallest angle at the end. Rates are added to those of an objective until its best is not the first or last
of them. Small tables are tuned by the mean over five starts; large ones, whose runs take long, by the first, and only
the best choice is run from the others. Of the smallest tables it is run from forty, and judged by the thirty-five that
had no part in the choice. All objectives draw the same circles from the same seeds. "SSW root" is what the authors
minimise: POT's function returns the root of the closed form (ltl-uva/ledoh-torch at 882a1c1, ledoh_torch/ssw.py).
Sliced at its best choice is run once more with other circles: differences between objectives are to be seen beside this
one.

Then the explanation: with the paper's Sliced, a sum over points, SSW = 2 / (n (2 pi)^2) Sliced + constant. Adam divides
the gradient by its own size, so the factor cancels, but for the epsilon that Adam adds to that size. Two runs in double
precision show how far apart corresponding points of both get: with epsilon = 0, with the usual 1e-8, and with SGD.
"""

import math
import statistics
from functools import partial
from itertools import cycle

import torch
from _common import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    MARKERS,
    ORANGE,
    RED,
    SKY,
    Results,
    axes,
    clump,
    generator,
    mean_and_error,
    product,
    where,
)
from _objectives import Root, descend
from _sliced_ssw_report import gap, report, starts_of

import unclump as uc

__all__ = ["FULL", "QUICK", "main", "report"]

OBJECTIVES = {
    "Sliced": partial(uc.Sliced, reduction="sum"),
    "SSW": uc.SSW,
    "SSW root": lambda circles, generator: Root(uc.SSW(circles, generator=generator)),
}
FULL = {
    "points": [100, 1000, 10_000],
    "dimensions": [3, 16, 64, 512],
    "circles": [1, 13],
    "objectives": list(OBJECTIVES),
    "rates": [0.001, 0.005, 0.02],
    "added_rates": 4,
    "steps": 2000,
    "seeds": 5,
    "seeds_small": 40,
    "again": 1,
    "follow": [[1000, 16], [20_000, 16]],
    "follow_steps": 1000,
}
QUICK = {
    "points": [100],
    "dimensions": [3],
    "circles": [13],
    "rates": [0.02],
    "added_rates": 0,
    "steps": 100,
    "seeds": 1,
    "seeds_small": 2,
    "follow": [[100, 3]],
    "follow_steps": 60,
}
OPTIMISERS = {
    "Adam, eps = 0": lambda params, scale: uc.SphereAdam(params, lr=0.005, eps=0.0),
    "Adam, eps = 1e-8": lambda params, scale: uc.SphereAdam(params, lr=0.005),
    "SGD, lr rescaled": lambda params, scale: uc.SphereSGD(params, lr=0.1 / scale),
    "SGD, same lr": lambda params, scale: uc.SphereSGD(params, lr=0.1),
}
FOLLOWED = ("Sliced", "SSW")
SMALL, TINY = 100_000, 10_000  # coordinates
FACTOR = 4.0  # from the last rate to one that is added


def run(*, objectives, lrs, n, d, circles, seed, steps, again):
    """Several objectives and rates from one start: they draw the same circles, so that calls can be shared."""
    start, choices = clump(n, d, seed), list(zip(objectives, lrs, strict=True))

    def make(name):
        return OBJECTIVES[name](circles, generator=generator(seed, n, d, 1 + again))

    if len(choices) > 1:
        points = together(start, choices, make, steps=steps)
    else:
        points = [descend(start, make(name), steps=steps, lr=lr) for name, lr in choices]
    return [{"min_degrees": math.degrees(uc.min_angle(one)), "variance": uc.spherical_variance(one)} for one in points]


def together(start, choices, make, *, steps):
    """The points after so many steps of each choice of objective and rate, as `descend` has them."""
    rates = sorted({lr for _, lr in choices})
    names = {lr: [name for name, its in choices if its == lr] for lr in rates}
    tables = {lr: torch.nn.Parameter(start.repeat(len(names[lr]), 1, 1)) for lr in rates}
    optimizer = uc.SphereAdam([{"params": [tables[lr]], "lr": lr} for lr in rates], lr=rates[0])
    for table in tables.values():
        table.grad = torch.empty_like(table)
    sets = {
        name: [(lr, names[lr].index(name)) for lr in rates if name in names[lr]]
        for name in dict.fromkeys(name for name, _ in choices)
    }
    made = {name: make(name) for name in sets}
    for _ in range(steps):
        for name, places in sets.items():
            points = torch.stack([tables[lr].detach()[place] for lr, place in places])
            for (lr, place), gradient in zip(places, made[name].value_and_gradient(points)[1], strict=True):
                tables[lr].grad[place] = gradient
        optimizer.step()
    return [tables[lr].detach()[names[lr].index(name)] for name, lr in choices]


def shares(setting):
    """Of larger tables the work itself takes longer than the calls, and several do not fit into the cache."""
    return setting["n"] * setting["d"] <= SMALL


def follow(*, optimiser, n, d, follow_steps):
    """The largest angle between corresponding points of both runs, after each of some steps."""
    start = clump(n, d, 0, dtype=torch.float64)
    scales = {"Sliced": 1.0, "SSW": 2 / (n * (2 * math.pi) ** 2)}
    tables = {name: torch.nn.Parameter(start.clone()) for name in FOLLOWED}
    steppers = {name: OPTIMISERS[optimiser]([tables[name]], scales[name]) for name in FOLLOWED}
    objectives = {name: OBJECTIVES[name](1, generator=generator(7)) for name in FOLLOWED}
    steps, apart, moved = [], [], []
    for step in range(1, follow_steps + 1):
        for name, stepper in steppers.items():
            stepper.zero_grad()
            objectives[name](tables[name]).backward()
            stepper.step()
        if step <= 10 or step % max(1, follow_steps // 50) == 0:
            both = [table.detach() for table in tables.values()]
            steps.append(step)
            apart.append(float(uc.angle(*both).max()))
            moved.append(float(uc.angle(both[0], start).mean()))
    return {"step": steps, "apart": apart, "moved": moved}


SHARED = {"shares": shares, "over": ("objective", "lr")}


def main(argv=None):
    results = Results("sliced_ssw", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK, implied={"again": 0})
    settings = [
        {"optimiser": o, "n": n, "d": d, "follow_steps": results["follow_steps"]}
        for n, d in results["follow"]
        for o in OPTIMISERS
    ]
    followed = results.complete(settings, follow)
    summary = {"steps": results["steps"], "tuned": {}, "followed": {}}
    for size in product(n=results["points"], d=results["dimensions"]):
        summary["tuned"][f"{size['n']} in {size['d']}"] = tuned_row(results, size)
    for r in followed:
        ends = {"last_step": r["step"][-1], "apart": r["apart"][-1], "apart_after_10": r["apart"][9]}
        summary["followed"][f"{r['n']} in {r['d']}, {r['optimiser']}"] = ends | {"moved": r["moved"][-1]}
    draw(results, summary, followed)
    return results.finish(summary)


def tuned_row(results, size):
    """Each objective at its best choice, from all starts; Sliced also with other circles; and a start's seconds.

    Where there are more starts than chose, values are those of the others.
    """
    row = {name: tuned(runs) for name, runs in tuning(results, size).items()}
    starts = range(results["seeds_small" if size["n"] * size["d"] <= TINY else "seeds"])
    chose = results["seeds"] if len(starts) > results["seeds"] else 0
    chosen = [one for name in row for one in settings(results, size, starts, name, **choice_of(row[name]))]
    records = results.complete(chosen, run, **SHARED)
    for name in row:
        values = [r["min_degrees"] for r in where(records, objective=name)][chose:]
        row[name] |= mean_and_error(values) | {"values": values}
    row["seconds"] = sum(r["seconds"] for r in records) / len(starts)
    if results["again"]:
        again = settings(results, size, starts, "Sliced", again=1, **choice_of(row["Sliced"]))
        row["Sliced again"] = {"values": [r["min_degrees"] for r in results.complete(again, run, **SHARED)][chose:]}
    return row


def tuning(results, size):
    """The runs of each objective with all circles and rates, those added too."""
    starts = range(results["seeds"] if shares(size) else 1)
    rates = {name: list(results["rates"]) for name in results["objectives"]}
    for added in range(results["added_rates"] + 1):
        choices = {name: product(circles=results["circles"], lr=rates[name]) for name in rates}
        tried = [one for name in rates for c in choices[name] for one in settings(results, size, starts, name, **c)]
        records = results.complete(tried, run, **SHARED)
        runs = {name: where(records, objective=name) for name in rates}
        edges = {name: beyond(rates[name], tuned(runs[name])["lr"]) for name in rates}
        if not any(edges.values()) or added == results["added_rates"]:
            break
        rates = {name: sorted([*rates[name], *edges[name]]) for name in rates}
    return runs


def beyond(rates, best):
    """The rates to add."""
    return [rates[0] / FACTOR] * (best == rates[0]) + [rates[-1] * FACTOR] * (best == rates[-1])


def settings(results, size, starts, objective, *, circles, lr, again=0):
    choice = {"objective": objective, "circles": circles, "lr": lr, "again": again, "steps": results["steps"]}
    return [size | choice | {"seed": seed} for seed in starts]


def choice_of(best):
    return {key: best[key] for key in ("circles", "lr")}


def tuned(records):
    """The choice whose mean over the starts is best, and whether its rate is neither the first nor the last."""
    choices = {(r["circles"], r["lr"]): [] for r in records}
    for r in records:
        choices[r["circles"], r["lr"]].append(r["min_degrees"])
    circles, lr = max(choices, key=lambda choice: statistics.fmean(choices[choice]))
    rates = [r["lr"] for r in records]
    return {"circles": circles, "lr": lr, "inside": min(rates) < lr < max(rates)}


def draw(results, summary, followed):
    figure, (left, right) = axes(1, 2, width=11, height=5)
    dimensions = results["dimensions"]
    lines = {"SSW": "--", "SSW root": "-", "Sliced again": ":"}
    drawn = [
        (n, name, colour, marker)
        for n, colour, marker in zip(results["points"], cycle(COLOURS), cycle(MARKERS), strict=False)
        for name in lines
        if name in summary["tuned"][f"{n} in {dimensions[0]}"]
    ]
    for place, (n, name, colour, marker) in enumerate(drawn):
        gaps = [gap(summary["tuned"][f"{n} in {d}"], name, "Sliced") for d in dimensions]
        beside = 1.05 ** (place - (len(drawn) - 1) / 2)  # bars that would hide each other
        left.errorbar(
            [d * beside for d in dimensions], [g["mean"] for g in gaps], [g["error"] for g in gaps], color=colour,
            capsize=3, linestyle=lines[name], linewidth=1, marker=marker, label=f"{name}, n = {n:,}",
            fillstyle="full" if "root" in name else "none",
        )  # fmt: skip
    left.axhline(0, color=BLACK, linewidth=0.8)
    left.set(xscale="log", xlabel="dimensions", ylabel="smallest angle minus that of Sliced, degrees")
    left.set_xticks(dimensions, [str(d) for d in dimensions], minor=False)
    left.minorticks_off()
    bars = "; bars: standard error" if results["seeds"] > 1 else ""
    left.set_title(f"tuned, {starts_of(summary['tuned'])}{bars}")
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(results["points"]))
    colours = dict(zip(OPTIMISERS, ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (RED, "v")), strict=True))
    largest = max(r["n"] for r in followed)
    for r in where(followed, n=largest):
        colour, marker = colours[r["optimiser"]]
        apart = [max(a, 1e-17) for a in r["apart"]]
        right.loglog(r["step"], apart, color=colour, marker=marker, markersize=4, label=r["optimiser"])
    longest = where(followed, n=largest)[0]
    right.loglog(
        longest["step"], longest["moved"], color=SKY, linestyle=":", linewidth=2, label="mean distance from the start"
    )
    right.axhline(2.2e-16, color=BLACK, linewidth=0.8, linestyle="--", label="double precision")
    right.set(xlabel="step", ylabel="largest angle between the runs, radians")
    right.set_title(f"step for step, n = {largest:,}, one start")
    right.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    results.figure(figure)


if __name__ == "__main__":
    main()
