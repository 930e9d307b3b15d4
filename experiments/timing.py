"""The timing table: steps a second on 20,000 points in 64 dimensions, and what they spend their time on.

    python experiments/timing.py [--quick] [--rounds 5] [--steps 20]

The paper's table counts the measures in: the authors' loop computes the smallest angle over all pairs inside the timed
region of every step. Here are the step alone, its two parts, and the step with both measures; one thread.
"""

import time

import torch
from _common import BLUE, LARGE, ORANGE, SKY, Results, axes, generator, mean_and_error, new, sees_all, verdict, where

import unclump as uc

FULL = {"n": 20_000, "d": 64, "batch": 512, "steps": 20, "measured_steps": 2, "rounds": 5}
QUICK = {"n": 500, "d": 16, "batch": 64, "steps": 3, "measured_steps": 1, "rounds": 2}
PAPER = {  # steps a second, with their standard errors
    "MHE RBF chordal": (79.40, 0.06),
    "KoLeo": (90.52, 0.07),
    "MM geodesic": (91.29, 0.06),
    "Lloyd 512": (90.98, 0.07),
    "Sliced 13 axes": (87.72, 0.14),
    "SSW 13": (53.78, 0.25),
    "SSW 1": (81.16, 0.12),
}

PARTS = ("objective", "optimiser", "measures")


def run(*, objective, round_, n, d, batch, steps, measured_steps):
    table = torch.nn.Parameter(uc.uniform(n, d, generator=generator(0)))
    optimizer = uc.SphereAdam([table], lr=0.001)
    made, draw = LARGE[objective](generator(1)), generator(2)
    spent = {"objective": 0.0, "optimiser": 0.0}

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        made(table if sees_all(objective) else table[torch.randperm(n, generator=draw)[:batch]]).backward()
        middle = time.perf_counter()
        optimizer.step()
        spent["objective"] += middle - begin
        spent["optimiser"] += time.perf_counter() - middle

    for _ in range(3):  # compiles, fills caches
        step()
    spent.update(objective=0.0, optimiser=0.0)
    for _ in range(steps):
        step()
    parts = {f"{part}_ms": 1e3 * seconds / steps for part, seconds in spent.items()}
    begin = time.perf_counter()
    for _ in range(measured_steps):
        step()
        uc.min_angle(table.detach())
        uc.spherical_variance(table.detach())
    return parts | {"with_measures_ms": 1e3 * (time.perf_counter() - begin) / measured_steps}


def main(argv=None):
    results = Results("timing", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    if results.jobs > 1:
        raise SystemExit("timing: expected --jobs 1, got more: runs at a time would take each other's time")
    fixed = {key: results[key] for key in ("n", "d", "batch", "steps", "measured_steps")}
    settings = [{"round_": r, "objective": o, **fixed} for r in range(results["rounds"]) for o in PAPER]
    records = results.complete(settings, run)
    summary = {}
    for objective, (paper, paper_error) in PAPER.items():
        runs = where(records, objective=objective)
        summary[objective] = {
            "paper": paper,
            "paper_error": paper_error,
            "steps_per_second": mean_and_error([1e3 / (r["objective_ms"] + r["optimiser_ms"]) for r in runs]),
            "with_measures": mean_and_error([1e3 / r["with_measures_ms"] for r in runs]),
            "objective_ms": min(r["objective_ms"] for r in runs),
            "optimiser_ms": min(r["optimiser_ms"] for r in runs),
            "measures_ms": min(r["with_measures_ms"] - r["objective_ms"] - r["optimiser_ms"] for r in runs),
        }
    draw(results, summary)
    return results.finish(summary)


def draw(results, summary):
    figure, (left, right) = axes(1, 2, width=11, height=3.8, sharey=True)
    names = list(summary)
    objective, optimiser, measures = ([row[f"{part}_ms"] for row in summary.values()] for part in PARTS)
    left.barh(names, objective, color=BLUE, label="objective, forward and backward")
    left.barh(names, optimiser, left=objective, color=ORANGE, hatch="//", edgecolor="white", label="optimiser")
    left.set(xlabel="milliseconds", title="the step alone")
    left.invert_yaxis()
    left.legend(fontsize=8)
    steps = [a + b for a, b in zip(objective, optimiser, strict=True)]
    right.barh(names, steps, color=BLUE, label="the step alone")
    right.barh(names, measures, left=steps, color=SKY, hatch="..", edgecolor="white", label="measures of all pairs")
    right.set(xlabel="milliseconds", title="as the authors timed it")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    results.figure(figure)


def report(summary):
    alone = {o: row["steps_per_second"]["mean"] for o, row in summary.items()}
    measured = {o: row["with_measures"]["mean"] for o, row in summary.items()}
    slowest = min(alone, key=alone.__getitem__)

    def named(rates):
        return ", ".join(f"{o} {rate:.1f}" for o, rate in rates.items())

    share = [
        row["measures_ms"] / (row["measures_ms"] + row["objective_ms"] + row["optimiser_ms"])
        for row in summary.values()
    ]
    pairwise = [o for o in alone if not sees_all(o)]
    update = [summary[o]["optimiser_ms"] / (summary[o]["objective_ms"] + summary[o]["optimiser_ms"]) for o in pairwise]
    return {
        "claim": "53.8 to 91.3 steps a second; MHE is slower than the others, SSW with 13 circles slowest",
        "got": f"steps a second, the step alone on one thread: {named(alone)}; with measures: {named(measured)}",
        "findings": [
            verdict(
                alone["MHE RBF chordal"]
                < min(alone[o] for o in ("KoLeo", "MM geodesic", "Lloyd 512", "Sliced 13 axes")),
                "With the amount of computation balanced, MHE is slower than KoLeo, MM, Lloyd and Sliced.",
                f"Steps a second, the step alone: {named(alone)}.",
            ),
            verdict(slowest == "SSW 13", "SSW with 13 circles is the slowest.", f"The slowest is {slowest}."),
            new(
                min(share) > 0.5,
                "A loop that measures all pairs at every step times its measures.",
                f"They take {100 * min(share):.1f} to {100 * max(share):.1f} % of such a step. Of the step alone, the "
                f"optimiser's update of the whole table takes {100 * min(update):.0f} to {100 * max(update):.0f} % "
                "where the "
                "objective sees a minibatch.",
            ),
        ],
    }


if __name__ == "__main__":
    main()
