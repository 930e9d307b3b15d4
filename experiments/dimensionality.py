"""The effect of dimensionality: 64, 256 and 512 dimensions, 10,000 and 20,000 points.

    python experiments/dimensionality.py [--quick] [--seeds 3] [--steps 5000]

The setting of `synthetic.py`; Sliced has as many circles as balance a batch of 512, that is 512^2 / n (13 for 20,000
points, as in the authors' examples/bench/bench_simple.py, ltl-uva/ledoh-torch at 882a1c1). Smallest angle and spherical
variance at the end, beside those of uniform points, beside the line at 90 degrees that the paper calls the largest
separation there can be, and beside the bound of `upper_bound`, which no arrangement exceeds.
"""

import itertools
import math
import statistics

import torch
from _common import BLACK, MARKERS, RED, Results, axes, family_colour, generator, mean_and_error, product, where
from _objectives import LARGE
from _steps import steps_of
from _verdicts import Case, Claim, Exact, judge
from synthetic import disperse, measures_at_start, points_of

import unclump as uc

SLICED = "Sliced axes"
FULL = {
    "points": [10_000, 20_000],
    "dimensions": [64, 256, 512],
    "starts": ["clumped", "uniform"],
    "objectives": [
        "MHE RBF chordal",
        "MHE Laplace geodesic",
        "KoLeo",
        "MM geodesic",
        "Lloyd 512",
        SLICED,
        "SSW 1 root",
    ],
    "batch": 512,
    "steps": 5000,
    "lr": 0.001,
    "seeds": 3,
}
QUICK = {
    "points": [300],
    "dimensions": [8, 32],
    "starts": ["clumped"],
    "objectives": ["MM geodesic", "Lloyd 512", SLICED],
    "batch": 64,
    "steps": 150,
    "lr": 0.02,
    "seeds": 1,
}
NEAR_ONE = 0.95


def circles(n, batch):
    return max(1, batch**2 // n)


def run(*, n, d, start, objective, seed, batch, steps, lr):
    draw = generator(seed, 1)
    if objective == SLICED:
        made = uc.Sliced(circles(n, batch), axis_aligned=True, reduction="sum", generator=draw)
    else:
        made = LARGE[objective](draw)
    table = torch.nn.Parameter(points_of(start, n, d, seed))
    step, points = steps_of(table, objective, made, lr=lr, batch=batch, seed=seed)
    first = measures_at_start(start, n, d, seed)
    (*_, last), _ = disperse(step, points, steps=steps, measured={steps}, first=first)
    return {
        "start_degrees": first["min_degrees"],
        "start_variance": first["variance"],
        "min_degrees": last["min_degrees"],
        "variance": last["variance"],
    }


def run_uniform(*, uniform, d, seed):
    """What uniform points have, untouched."""
    return measures_at_start("uniform", uniform, d, seed)


def main(argv=None):
    results = Results("dimensionality", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    sizes = product(n=results["points"], d=results["dimensions"])
    settings = [
        {"uniform": size["n"], "d": size["d"], "seed": seed} for seed in range(results["seeds"]) for size in sizes
    ]
    untouched = results.complete(settings, run_uniform)
    settings = product(
        seed=range(results["seeds"]),
        start=results["starts"],
        n=results["points"],
        d=results["dimensions"],
        objective=results["objectives"],
        batch=[results["batch"]],
        steps=[results["steps"]],
        lr=[results["lr"]],
    )
    records = results.complete(settings, run)
    found = {}
    for start in results["starts"]:
        for size in sizes:
            n, d = size["n"], size["d"]
            rows = {}
            for objective in results["objectives"]:
                runs = where(records, start=start, n=n, d=d, objective=objective)
                keys = ("start_degrees", "start_variance", "min_degrees", "variance")
                rows[objective] = {
                    key: mean_and_error(values := [r[key] for r in runs]) | {"values": values} for key in keys
                }
            alone = where(untouched, uniform=n, d=d)
            found[f"{start}, {n} in {d}"] = {
                "bound": math.degrees(uc.upper_bound(n, d)),
                "uniform": {key: statistics.fmean(r[key] for r in alone) for key in ("min_degrees", "variance")},
                "rows": rows,
            }
    draw(results, found)
    seconds = sum(r["seconds"] for r in records) / results["seeds"]
    return results.finish({"steps": results["steps"], "seconds": seconds, "sizes": found})


def draw(results, sizes):
    for start in results["starts"]:
        figure, panels = axes(3, len(results["points"]), width=11, height=10.5, sharex=True, squeeze=False)
        for column, n in enumerate(results["points"]):
            dimensions = results["dimensions"]
            here = [sizes[f"{start}, {n} in {d}"] for d in dimensions]
            top, middle, bottom = panels[:, column]
            for ax, key in ((top, "min_degrees"), (middle, "min_degrees"), (bottom, "variance")):
                base = [size["uniform"][key] if ax is middle else 0.0 for size in here]
                for place, objective in enumerate(results["objectives"]):
                    rows = [size["rows"][objective][key] for size in here]
                    beside = 1.015 ** (place - (len(results["objectives"]) - 1) / 2)  # bars that would hide each other
                    ys = [r["mean"] - zero for r, zero in zip(rows, base, strict=True)]
                    ax.errorbar(
                        [d * beside for d in dimensions], ys, [r["error"] for r in rows], capsize=2, markersize=6,
                        color=family_colour(objective), marker=MARKERS[place], label=objective, fillstyle="none",
                        linestyle=("-", "--", "-.")[place % 3],
                    )  # fmt: skip
                ys = [size["uniform"][key] - zero for size, zero in zip(here, base, strict=True)]
                ax.plot(dimensions, ys, color=BLACK, linestyle=":", linewidth=2, label="uniform points, untouched")
            bounds = [size["bound"] for size in here]
            top.plot(dimensions, bounds, color=BLACK, linestyle="--", marker="_", label="upper bound, proved")
            top.axhline(90, color=RED, linestyle=":", label="90°, the paper's bound")
            seeds = results["seeds"]
            runs = f"{seeds} runs, standard error" if seeds > 1 else "1 run"
            top.set(title=f"{n:,} points, {start} ({runs})")
            top.set_ylabel("smallest angle, degrees")
            middle.set_ylabel("minus that of uniform points")
            bottom.set(xlabel="dimensions", ylabel="spherical variance", xscale="log")
            bottom.set_xticks(dimensions, [str(d) for d in dimensions], minor=False)
            bottom.minorticks_off()
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5)
        results.figure(figure, f"_{start}")


def report(summary):
    sizes = summary["sizes"]
    best = {size: largest(found["rows"]) for size, found in sizes.items()}
    return {
        "claim": "the largest smallest angle grows with the dimension, towards 90° as the largest there can be; the "
        "spherical variance of all methods but Lloyd converges to 1",
        "got": "smallest angle of the best objective (of uniform points; proved bound): "
        + ", ".join(
            f"{size} dimensions {statistics.fmean(best[size]):.1f}° ({found['uniform']['min_degrees']:.1f}°; "
            f"{found['bound']:.2f}°)"
            for size, found in sizes.items()
        ),
        "findings": judge(claims(summary, best)),
    }


def largest(rows):
    """Over the objectives, start by start."""
    return [max(values) for values in zip(*(row["min_degrees"]["values"] for row in rows.values()), strict=True)]


def claims(summary, best):
    sizes, steps = summary["sizes"], summary["steps"]
    judged = {"seconds": summary["seconds"]}
    if steps != FULL["steps"]:
        judged["setting"] = f"{steps} steps instead of {FULL['steps']}"
    groups = {}
    for size in sizes:
        groups.setdefault(size.split(" in ")[0], []).append(size)
    rises = {
        f"{two} over {one.split(' in ')[1]}": [b - a for a, b in zip(best[one], best[two], strict=True)]
        for group in groups.values()
        for one, two in itertools.pairwise(group)
    }
    yield Claim(
        "The largest smallest angle grows with the dimension.",
        [Case.of(name, mean_and_error(values)) for name, values in rises.items()],
        unit="°",
        evidence="Rise from one dimension to the next:",
        headline=True,
        **judged,
    )
    # A uniform start has a variance of one already.
    variances = {
        f"{size}, {objective}": row["variance"]
        for size, found in sizes.items()
        if size.startswith("clumped")
        for objective, row in found["rows"].items()
    }
    lloyd = [Case.of(n, v, least=-NEAR_ONE, sign=-1) for n, v in variances.items() if n.endswith("Lloyd 512")]
    others = [Case.of(n, v, least=NEAR_ONE) for n, v in variances.items() if not n.endswith("Lloyd 512")]
    yield Claim(
        f"The spherical variance of all methods converges to 1 (beyond {NEAR_ONE}), except for Lloyd.",
        [*others, *lloyd],
        evidence=f"Beyond {NEAR_ONE}, and for Lloyd below it, by:",
        digits=3,
        headline=True,
        **judged,
    )
    yield Exact(
        "90 degrees is the largest separation that can be reached.",
        min(found["bound"] for found in sizes.values()) >= 90,
        "More than 2d points in d dimensions cannot all be 90° apart (Rankin 1955). Proved bounds: "
        + ", ".join(
            f"{n} {bound:.2f}°" for n, bound in {s.split(", ")[1]: f["bound"] for s, f in sizes.items()}.items()
        )
        + ".",
        headline=True,
    )


if __name__ == "__main__":
    main()
