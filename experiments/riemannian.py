"""Riemannian Adam against Adam in the ambient space with projection, on the Tammes problem with 24 points.

    python experiments/riemannian.py [--quick] [--seeds 5] [--steps 10000]

The setting is that of `tammes.py`, whose runs are taken over where they are there. "projected" gives torch's Adam the
gradient as it comes, which also points off the sphere, and puts the points back after each step; "projected, tangent"
gives it the gradient of the projected points, which lies in the tangent space.
"""

import json
import math
from functools import partial

import torch
from _common import BLACK, BLUE, ORANGE, SMALL, Results, axes, generator, mean_and_error, new, product, verdict, where
from tammes import degrees, nearest_angle_columns

import unclump as uc

FULL = {"n": 24, "d": 3, "objectives": list(SMALL), "steps": 10_000, "lr": 0.005, "seeds": 5}
QUICK = {"objectives": ["MHE Laplace geodesic", "KoLeo", "Sliced 1"], "steps": 200, "seeds": 1}
WAYS = ["Riemannian", "projected", "projected, tangent"]


class Raw(torch.nn.Module):
    """An objective of the points as they are, not of their projections: its gradient may leave the tangent space."""

    def __init__(self, objective):
        super().__init__()
        self.objective = objective

    def forward(self, points):
        return self.objective.value(points)


def run(*, n, d, way, objective, seed, steps, lr):
    made = SMALL[objective](generator(seed, n, 1))
    points = uc.disperse(
        uc.uniform(n, d, generator=generator(seed, n)),
        Raw(made) if way == "projected" else made,
        steps=steps,
        lr=lr,
        optimizer=None if way == "Riemannian" else partial(torch.optim.Adam, lr=lr),
        measure_every=steps,
    ).points
    return {"degrees": degrees(points)}


def main(argv=None):
    results = Results("riemannian", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    tammes = results.folder / "tammes.json"
    if tammes.exists():
        same = [r for r in json.loads(tammes.read_text())["runs"] if r["n"] == results["n"] and r.get("decay") is False]
        same = [r | {"way": "Riemannian"} for r in same]
        results.runs += [r for r in same if r not in results.runs]
    fixed = {key: [results[key]] for key in ("n", "d", "steps", "lr")}
    settings = product(way=WAYS, seed=range(results["seeds"]), objective=results["objectives"], **fixed)
    records = results.complete(settings, run)
    known = uc.spherical_code(results["n"], results["d"])
    summary = {"known": math.degrees(known.min_angle), "rows": {}}
    for objective in results["objectives"]:
        chosen = {way: where(records, way=way, objective=objective) for way in WAYS}
        row = {way: mean_and_error([min(r["degrees"]) for r in chosen[way]]) for way in WAYS}
        for way in WAYS[1:]:
            gains = [min(r["degrees"]) - min(p["degrees"]) for r, p in zip(chosen[WAYS[0]], chosen[way], strict=True)]
            row[f"gain over {way}"] = mean_and_error(gains)  # paired: the starts are the same
        summary["rows"][objective] = row
    draw(results, records, known)
    return results.finish(summary)


def draw(results, records, known):
    figure, panels = axes(2, 1, width=9.5, height=7.5, sharex=True, sharey=True)
    for ax, way in zip(panels, (WAYS[1], WAYS[0]), strict=True):
        nearest_angle_columns(ax, results["objectives"], where(records, way=way), math.degrees(known.min_angle), True)
        ax.set(ylabel="angle to the nearest, degrees", title=f"{way} Adam")
    panels[0].get_legend().remove()
    results.figure(figure)
    figure, ax = axes(width=9, height=4)
    for shift, way, colour, marker in ((-0.12, WAYS[1], ORANGE, "s"), (0.12, WAYS[2], BLUE, "o")):
        for place, objective in enumerate(results["objectives"]):
            pairs = [where(records, objective=objective, way=w) for w in (WAYS[0], way)]
            gain = mean_and_error([min(a["degrees"]) - min(b["degrees"]) for a, b in zip(*pairs, strict=True)])
            label = f"Riemannian minus {way}" if place == 0 else None
            ax.errorbar(place + shift, gain["mean"], gain["error"], color=colour, fmt=marker, capsize=3, label=label)
    ax.axhline(0, color=BLACK, linewidth=1)
    ax.set_xticks(range(len(results["objectives"])), results["objectives"], rotation=40, ha="right")
    ax.set(ylabel="gain in the smallest angle, degrees", title="mean and standard error over paired starts")
    ax.legend(fontsize=8)
    results.figure(figure, "_gain")


def report(summary):
    rows = summary["rows"]
    gains = {o: row["gain over projected"] for o, row in rows.items()}
    tangent = {o: row["gain over projected, tangent"] for o, row in rows.items()}

    def named(chosen, signs):
        return ", ".join(f"{o} {signs[o]['mean']:+.2f} ± {signs[o]['error']:.2f}" for o in chosen)

    clear = [o for o in gains if gains[o]["mean"] > 2 * gains[o]["error"]]
    worse = [o for o in gains if gains[o]["mean"] < -2 * gains[o]["error"]]
    better = [o for o in gains if gains[o]["mean"] > 0]
    lost = [o for o in gains if o not in better and o != "KoLeo"]
    return {
        "claim": "Riemannian Adam ends with larger angles than projected Adam, for all objectives but KoLeo",
        "got": f"larger for {len(better)} of {len(gains)} objectives, clearly (by two standard errors) for "
        f"{len(clear)}, "
        f"clearly smaller for {len(worse)}; KoLeo {gains['KoLeo']['mean']:+.2f}°",
        "findings": [
            verdict(
                not lost and len(clear) > len(gains) / 2,
                "Riemannian optimisation is better for all objectives except KoLeo.",
                f"Gain in the smallest angle, degrees, over paired starts: {named(gains, gains)}.",
            ),
            new(
                True,
                "What the projected step loses by the gradient's radial part alone.",
                "Gain over projected Adam that is given the gradient within the tangent space: "
                f"{named(tangent, tangent)}.",
            ),
        ],
    }


if __name__ == "__main__":
    main()
