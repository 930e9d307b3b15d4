"""The Tammes problem: every objective beside the best arrangement that is known.

    python experiments/tammes.py [--quick] [--seeds 5] [--steps 10000]

Uniform points, 10,000 steps of Riemannian Adam at a learning rate of 0.005; the figure shows the angle of every point to
its nearest. The paper has 24 points in three dimensions. The learning rate stays as it is, as in the paper, or falls to
zero along a line ("decay"), which the paper does not try.
"""

import math

from _common import BLACK, SMALL, Results, axes, family_colour, generator, mean_and_error, product, where

import unclump as uc

FULL = {
    "sizes": [[24, 3], [13, 3], [14, 3], [128, 3], [288, 16]],
    "objectives": list(SMALL),
    "steps": 10_000,
    "lr": 0.005,
    "seeds": 5,
    "seeds_decay": 5,
    "seeds_other": 5,
    "search_seconds": 20,
}
QUICK = {
    "sizes": [[24, 3]],
    "objectives": ["MHE Laplace geodesic", "MHE Riesz shifted", "KoLeo", "Sliced 1"],
    "steps": 600,
    "seeds": 1,
    "seeds_decay": 1,
    "search_seconds": 1,
}
CODE = "spherical_code"


def run(n, d, objective, seed, steps, lr, decay):
    start = uc.uniform(n, d, generator=generator(seed, n))
    points = uc.disperse(
        start,
        SMALL[objective](generator(seed, n, 1)),
        steps=steps,
        lr=lr,
        schedule=(lambda step: 1 - step / steps) if decay else None,
        measure_every=steps,
    ).points
    return {"degrees": degrees(points)}


def search(n, d, objective, search_seconds):
    code = uc.spherical_code(n, d, fresh=True, time_limit=search_seconds)
    return {"degrees": degrees(code.points)}


def degrees(points):
    """Of every point to its nearest, sorted."""
    return [round(math.degrees(angle), 6) for angle in uc.nearest_angles(points).sort().values.tolist()]


def settings(results):
    """All runs of the first size, then those of the others, then the first again with decay; seed by seed."""
    first, *others = results["sizes"]
    groups = [(first, False, "seeds"), *((size, False, "seeds_other") for size in others), (first, True, "seeds_decay")]
    for (n, d), decay, seeds in groups:
        yield from product(
            n=[n],
            d=[d],
            decay=[decay],
            seed=range(results[seeds]),
            objective=results["objectives"],
            steps=[results["steps"]],
            lr=[results["lr"]],
        )


def main(argv=None):
    results = Results("tammes", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    uc.spherical_code(5, 3, fresh=True, restarts=1)  # compiles
    codes = product(size=results["sizes"], objective=[CODE], search_seconds=[results["search_seconds"]])
    codes = [{"n": c["size"][0], "d": c["size"][1], **c} for c in codes]
    for code in codes:
        del code["size"]
    searched = results.complete(codes, search)
    records = results.complete(list(settings(results)), run)
    summary = {}
    for n, d in results["sizes"]:
        known = uc.spherical_code(n, d)
        rows = {}
        for objective in results["objectives"]:
            rows[objective] = smallest(where(records, n=n, d=d, objective=objective, decay=False))
            if decayed := where(records, n=n, d=d, objective=objective, decay=True):
                rows[objective]["decay"] = smallest(decayed)
        rows[CODE] = smallest(where(searched, n=n, d=d))
        summary[f"{n} in {d}"] = {
            "known": math.degrees(known.min_angle),
            "proved": known.optimal,
            "bound": math.degrees(uc.upper_bound(n, d)),
            "rows": rows,
        }
        draw(results, n, d, where(records, n=n, d=d, decay=False) + where(searched, n=n, d=d), known)
    return results.finish(summary)


def smallest(records):
    """Of the smallest angles in degrees, over the seeds; and the mean over all points."""
    found = mean_and_error([min(r["degrees"]) for r in records])
    return found | {
        "best": max(min(r["degrees"]) for r in records),
        "mean_nearest": sum(sum(r["degrees"]) / len(r["degrees"]) for r in records) / len(records),
        "seconds": sum(r["seconds"] for r in records) / len(records),
        "seeds": len(records),
    }


def draw(results, n, d, records, known):
    figure, ax = axes(width=10, height=4.8)
    objectives = [*results["objectives"], CODE]
    nearest_angle_columns(ax, objectives, records, math.degrees(known.min_angle), known.optimal)
    ax.set(ylabel="angle to the nearest point, degrees", title=f"{n} points in {d} dimensions")
    results.figure(figure, f"_{n}_{d}")


def nearest_angle_columns(ax, objectives, records, known, optimal):
    """A column an objective: a dot for every point of every seed, a bar at the mean of the seeds' smallest."""
    for column, objective in enumerate(objectives):
        runs = where(records, objective=objective)
        for place, record in enumerate(runs):
            shift = 0.5 * (place - (len(runs) - 1) / 2) / max(len(runs), 1)
            xs = [column + shift] * len(record["degrees"])
            ax.plot(xs, record["degrees"], ".", color=family_colour(objective), markersize=3, alpha=0.6)
        mean = mean_and_error([min(record["degrees"]) for record in runs])["mean"]
        ax.plot([column - 0.38, column + 0.38], [mean, mean], color=BLACK, linewidth=1.5)
    name = "proved optimum" if optimal else "best known"
    ax.axhline(known, color=BLACK, linestyle="--", linewidth=1, label=f"{name}, {known:.3f}°")
    ax.plot([], [], color=BLACK, linewidth=1.5, label="smallest angle, mean over seeds")
    ax.set_xticks(range(len(objectives)), objectives, rotation=40, ha="right")
    ax.legend(loc="lower right", fontsize=8)


if __name__ == "__main__":
    main()
