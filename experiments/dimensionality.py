"""The effect of dimensionality: 64, 256 and 512 dimensions, 10,000 and 20,000 points.

    python experiments/dimensionality.py [--quick] [--seeds 3] [--steps 5000]

The setting of `synthetic.py`; smallest angle and spherical variance at the end, beside the line at 90 degrees that the
paper calls the largest separation there can be, and beside the bound of `upper_bound`, which no arrangement exceeds.
"""

import math

from _common import (
    BLACK,
    LARGE,
    MARKERS,
    RED,
    Results,
    axes,
    family_colour,
    generator,
    mean_and_error,
    product,
    verdict,
    where,
)
from synthetic import disperse, points_of

import unclump as uc

FULL = {
    "points": [10_000, 20_000],
    "dimensions": [64, 256, 512],
    "starts": ["clumped", "uniform"],
    "objectives": [
        "MHE RBF chordal", "MHE Laplace geodesic", "KoLeo", "MM geodesic", "Lloyd 512", "Sliced 13 axes", "SSW 1",
    ],
    "batch": 512,
    "steps": 5000,
    "lr": 0.001,
    "seeds": 3,
}  # fmt: skip
QUICK = {
    "points": [300],
    "dimensions": [8, 32],
    "starts": ["clumped"],
    "objectives": ["MM geodesic", "Lloyd 512", "Sliced 13 axes"],
    "batch": 64,
    "steps": 150,
    "lr": 0.02,
    "seeds": 1,
}


def run(*, n, d, start, objective, seed, batch, steps, lr):
    start_and_end = disperse(
        points_of(start, n, d, seed),
        objective,
        made=LARGE[objective](generator(seed, 1)),
        batch=batch,
        steps=steps,
        lr=lr,
        lazy=False,
        seed=seed,
        measured={0, steps},
    )
    first, last = start_and_end
    return {
        "start_degrees": first["min_degrees"],
        "start_variance": first["variance"],
        "min_degrees": last["min_degrees"],
        "variance": last["variance"],
    }


def main(argv=None):
    results = Results("dimensionality", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
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
    sizes = {}
    for start in results["starts"]:
        for n in results["points"]:
            for d in results["dimensions"]:
                rows = {}
                for objective in results["objectives"]:
                    runs = where(records, start=start, n=n, d=d, objective=objective)
                    keys = ("start_degrees", "start_variance", "min_degrees", "variance")
                    rows[objective] = {key: mean_and_error([r[key] for r in runs]) for key in keys}
                sizes[f"{start}, {n} in {d}"] = {"bound": math.degrees(uc.upper_bound(n, d)), "rows": rows}
    draw(results, sizes)
    return results.finish({"steps": results["steps"], "sizes": sizes})


def draw(results, sizes):
    for start in results["starts"]:
        figure, panels = axes(2, len(results["points"]), width=11, height=7.5, sharex=True, squeeze=False)
        for column, n in enumerate(results["points"]):
            dimensions = results["dimensions"]
            for place, objective in enumerate(results["objectives"]):
                for ax, key in zip(panels[:, column], ("min_degrees", "variance"), strict=True):
                    rows = [sizes[f"{start}, {n} in {d}"]["rows"][objective][key] for d in dimensions]
                    ax.errorbar(
                        dimensions, [r["mean"] for r in rows], [r["error"] for r in rows], capsize=2, markersize=6,
                        color=family_colour(objective), marker=MARKERS[place], label=objective,
                    )  # fmt: skip
            top, bottom = panels[:, column]
            bounds = [sizes[f"{start}, {n} in {d}"]["bound"] for d in dimensions]
            top.plot(dimensions, bounds, color=BLACK, linestyle="--", marker="_", label="upper bound, proved")
            top.axhline(90, color=RED, linestyle=":", label="90°, the paper's bound")
            top.set(title=f"{n:,} points, {start} start", ylabel="smallest angle, degrees", ylim=(0, 95))
            bottom.set(xlabel="dimensions", ylabel="spherical variance", xscale="log", ylim=(0, 1.05))
            bottom.set_xticks(dimensions, [str(d) for d in dimensions], minor=False)
            bottom.minorticks_off()
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5)
        results.figure(figure, f"_{start}")


def report(summary):
    steps, sizes = summary["steps"], summary["sizes"]
    starts = list(dict.fromkeys(size.split(",")[0] for size in sizes))
    largest = {size: max(row["min_degrees"]["mean"] for row in s["rows"].values()) for size, s in sizes.items()}
    rising = True
    for start in starts:
        for n in dict.fromkeys(size.split()[1] for size in sizes):
            values = [largest[size] for size in sizes if size.startswith(f"{start}, {n} ")]
            rising &= values == sorted(values)
    short = {
        objective: min(s["rows"][objective]["variance"]["mean"] for s in sizes.values())
        for objective in next(iter(sizes.values()))["rows"]
    }
    below = [o for o, v in short.items() if v < 0.95]
    return {
        "claim": "the largest smallest angle grows with the dimension, towards 90° as the largest there can be; the "
        "spherical "
        "variance of all methods but Lloyd converges to 1",
        "got": "best smallest angle, and the bound: "
        + ", ".join(f"{size} dimensions {largest[size]:.1f}° of {s['bound']:.2f}°" for size, s in sizes.items()),
        "findings": [
            verdict(
                rising,
                "The largest smallest angle grows with the dimension.",
                ", ".join(f"{size} {angle:.1f}°" for size, angle in largest.items()) + ".",
            ),
            verdict(
                below == ["Lloyd 512"] or (None if steps < FULL["steps"] else False),  # fewer may not be enough
                "The spherical variance of all methods converges to 1, except for Lloyd.",
                f"Smallest over all sizes, after {steps} steps: "
                + ", ".join(f"{o} {v:.3f}" for o, v in short.items())
                + ".",
            ),
            verdict(
                min(s["bound"] for s in sizes.values()) >= 90,
                "90 degrees is the largest separation that can be reached.",
                "More than 2d points in d dimensions cannot all be 90° apart (Rankin). Proved bounds: "
                + ", ".join(
                    f"{size.split(', ')[1]} {s['bound']:.2f}°"
                    for size, s in sizes.items()
                    if size.startswith(starts[0])
                )
                + ".",
            ),
        ],
    }


if __name__ == "__main__":
    main()
