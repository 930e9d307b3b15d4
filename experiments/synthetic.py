"""Synthetic embeddings: 20,000 points in 64 dimensions, from uniform and from clumped starts.

    python experiments/synthetic.py [--quick] [--seeds 3] [--steps 5000]

Riemannian Adam at a learning rate of 0.001. Pairwise objectives and Lloyd see 512 random rows a step, the sliced ones
all rows. As the authors' optimiser does, ours updates the whole table at every step: rows that were not drawn go on
with the momentum they have ("dense"). Two objectives are also run with an optimiser that leaves such rows alone
("lazy"). Measured on all pairs.
"""

import math

import torch
from _common import (
    LARGE,
    MARKERS,
    Results,
    axes,
    clump,
    family_colour,
    generator,
    mean_and_error,
    new,
    sees_all,
    verdict,
    where,
)

import unclump as uc

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
    "seeds": 3,
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
    "records": 4,
}


def points_of(start, n, d, seed, kappa=100.0):
    return clump(n, d, seed, kappa=kappa) if start == "clumped" else uc.uniform(n, d, generator=generator(seed, n, d))


def disperse(table, objective, *, made, batch, steps, lr, lazy, seed, measured):
    """Steps of Riemannian Adam on minibatches, as the authors have them; measures of the table at some steps."""
    table = torch.nn.Parameter(table.clone())
    optimizer = uc.SphereAdam([table], lr=lr, lazy=lazy)
    draw, history = generator(seed, 2), []
    for step in range(steps + 1):
        if step in measured:
            points = table.detach()
            degrees = math.degrees(uc.min_angle(points))
            history.append({"step": step, "min_degrees": degrees, "variance": uc.spherical_variance(points)})
        optimizer.zero_grad()
        rows = table if sees_all(objective) else table[torch.randperm(len(table), generator=draw)[:batch]]
        made(rows).backward()
        optimizer.step()
    return history


def run(*, start, objective, lazy, seed, n, d, batch, steps, lr, kappa, records):
    # Denser at the start, where most happens; the last step always.
    measured = {round(steps * (k / (records - 1)) ** 2) for k in range(records)}
    history = disperse(
        points_of(start, n, d, seed, kappa),
        objective,
        made=LARGE[objective](generator(seed, 1)),
        batch=batch,
        steps=steps,
        lr=lr,
        lazy=lazy,
        seed=seed,
        measured=measured,
    )
    return {key: [entry[key] for entry in history] for key in history[0]}


def main(argv=None):
    results = Results("synthetic", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    fixed = {key: results[key] for key in ("n", "d", "batch", "steps", "lr", "kappa", "records")}
    chosen = [(o, False) for o in results["objectives"]] + [(o, True) for o in results["lazy"]]
    settings = [
        {"start": start, "objective": objective, "lazy": lazy, "seed": seed, **fixed}
        for seed in range(results["seeds"])
        for start in results["starts"]
        for objective, lazy in chosen
    ]
    records = results.complete(settings, run)
    summary = {"bound": math.degrees(uc.upper_bound(results["n"], results["d"])), "starts": {}}
    for start in results["starts"]:
        rows = {}
        for objective, lazy in chosen:
            runs = where(records, start=start, objective=objective, lazy=lazy)
            rows[objective + (" (lazy)" if lazy else "")] = {
                "start_degrees": mean_and_error([r["min_degrees"][0] for r in runs]),
                "min_degrees": mean_and_error([r["min_degrees"][-1] for r in runs]),
                "start_variance": mean_and_error([r["variance"][0] for r in runs]),
                "early_variance": mean_and_error([r["variance"][len(r["variance"]) // 2] for r in runs]),
                "early_step": runs[0]["step"][len(runs[0]["step"]) // 2],
                "variance": mean_and_error([r["variance"][-1] for r in runs]),
            }
        summary["starts"][start] = rows
    draw(results, records, chosen)
    return results.finish(summary)


def draw(results, records, chosen):
    figure, panels = axes(2, len(results["starts"]), width=11, height=8.5, sharex=True)
    names = {"variance": "spherical variance", "min_degrees": "smallest angle, degrees"}
    for row, (key, name) in zip(panels, names.items(), strict=True):
        for ax, start in zip(row, results["starts"], strict=True):
            for place, (objective, lazy) in enumerate(chosen):
                runs = where(records, start=start, objective=objective, lazy=lazy)
                middle = [mean_and_error(values) for values in zip(*(r[key] for r in runs), strict=True)]
                ax.errorbar(
                    runs[0]["step"], [m["mean"] for m in middle], [m["error"] for m in middle],
                    color=family_colour(objective), marker=MARKERS[place % len(MARKERS)], markersize=5, capsize=2,
                    linestyle=":" if lazy else "-", linewidth=1.2, label=objective + (" (lazy)" if lazy else ""),
                )  # fmt: skip
            ax.set(title=f"{start} start", ylabel=name)
            if key == "min_degrees":
                ax.set_xlabel("step")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5)
    results.figure(figure)


def report(summary):
    clumped, even = summary["starts"]["clumped"], summary["starts"]["uniform"]
    energies = [o for o in clumped if o.startswith("MHE") and "lazy" not in o]

    def value(rows, objective, key):
        return rows[objective][key]["mean"]

    def named(rows, key, objectives):
        unit, digits = ("°", 2) if "degrees" in key else ("", 4)
        return ", ".join(f"{o} {value(rows, o, key):.{digits}f}{unit}" for o in objectives)

    def ranked(rows, key):
        return sorted((o for o in rows if "lazy" not in o), key=lambda o: -value(rows, o, key))

    def spread(rows, key):
        values = [value(rows, o, key) for o in energies]
        return max(values) - min(values)

    def progress(objective):
        return value(even, objective, "min_degrees") - value(even, objective, "start_degrees")

    globals_ = [*energies, "Sliced 13 axes"]
    others = [o for o in clumped if o not in globals_ and "lazy" not in o]
    near = ["MM geodesic", "KoLeo"]
    rest = [o for o in even if o not in near and "lazy" not in o]
    best_rest = max(rest, key=progress)
    step = clumped["Sliced 13 axes"]["early_step"]
    lazy = [o for o in clumped if "lazy" in o]
    return {
        "claim": "clumped start: MHE and Sliced do best, Sliced faster at first, SSW with 13 circles diverges; "
        "uniform start: "
        "only MM and KoLeo make progress in the smallest angle; the kernel does not matter",
        "got": f"clumped, spherical variance at the end: {named(clumped, 'variance', ranked(clumped, 'variance'))}; "
        "uniform, "
        f"smallest angle: {named(even, 'min_degrees', ranked(even, 'min_degrees'))}",
        "findings": [
            verdict(
                min(value(clumped, o, "variance") for o in globals_)
                > max(value(clumped, o, "variance") for o in others),
                "From a clumped start MHE and Sliced spread the points best.",
                f"Spherical variance at the end: {named(clumped, 'variance', ranked(clumped, 'variance'))}; smallest "
                "angle: "
                f"{named(clumped, 'min_degrees', ranked(clumped, 'min_degrees'))}.",
            ),
            verdict(
                value(clumped, "Sliced 13 axes", "early_variance")
                > max(value(clumped, o, "early_variance") for o in energies),
                "Of MHE and Sliced, Sliced makes faster progress at first.",
                f"Spherical variance after {step} steps: "
                f"{named(clumped, 'early_variance', ranked(clumped, 'early_variance'))}.",
            ),
            verdict(
                value(clumped, "SSW 13", "variance") < 0.5,
                "SSW with 13 circles is unstable from a clumped start and diverges.",
                f"It ends with a spherical variance of {value(clumped, 'SSW 13', 'variance'):.4f} and a smallest "
                "angle of "
                f"{value(clumped, 'SSW 13', 'min_degrees'):.2f}°; Sliced, the same objective, with "
                f"{value(clumped, 'Sliced 13 axes', 'variance'):.4f} and "
                f"{value(clumped, 'Sliced 13 axes', 'min_degrees'):.2f}°.",
            ),
            verdict(
                max(progress(o) for o in rest) < 0.25 * min(progress(o) for o in near),
                "From a uniform start only MM and KoLeo make progress in the smallest angle.",
                f"Gain from {value(even, 'KoLeo', 'start_degrees'):.2f}°: "
                + ", ".join(f"{o} {progress(o):+.2f}°" for o in near)
                + f"; the best other, {best_rest}, {progress(best_rest):+.2f}°. No arrangement exceeds "
                f"{summary['bound']:.2f}°.",
            ),
            verdict(
                spread(clumped, "variance") < 0.05 and spread(clumped, "min_degrees") < 2,
                "For MHE the choice of kernel and distance does not matter here.",
                f"Clumped start, over {len(energies)} kernels: spherical variance differs by "
                f"{spread(clumped, 'variance'):.3f}, the smallest angle by {spread(clumped, 'min_degrees'):.2f}°; "
                "uniform "
                f"start: {spread(even, 'variance'):.4f} and {spread(even, 'min_degrees'):.2f}°.",
            ),
            new(
                all(
                    value(clumped, o, "variance") < value(clumped, o.removesuffix(" (lazy)"), "variance") for o in lazy
                ),
                "How far minibatches move a table depends on the optimiser: Adam with dense updates carries each row "
                "on by "
                "momentum between its turns, a lazy one moves it by one step a turn.",
                "Clumped start, spherical variance dense and lazy: "
                + "; ".join(
                    f"{o.removesuffix(' (lazy)')} {value(clumped, o.removesuffix(' (lazy)'), 'variance'):.3f} and "
                    f"{value(clumped, o, 'variance'):.3f}"
                    for o in lazy
                )
                + ".",
            ),
        ],
    }


if __name__ == "__main__":
    main()
