"""The timing table: steps a second on 20,000 points in 64 dimensions, and what they spend their time on.

    python experiments/timing.py [--quick] [--rounds 5]

The paper's table counts the measures in: the authors' loop computes the smallest angle over all pairs inside the timed
region of every step (ltl-uva/ledoh-torch at 882a1c1, examples/bench/bench_simple.py). Here are the step alone and its
two parts, which are those of `python benchmarks/steps.py`, the run that docs/speed.md shows, and the measures of all
pairs, timed here on one thread.
"""

import json
import time

from _common import BLACK, BLUE, FOLDER, ORANGE, SKY, Results, axes, generator, mean_and_error
from _verdicts import Case, Claim, judge

import unclump as uc

FULL = {"n": 20_000, "d": 64, "rounds": 5}
QUICK = {"n": 500, "d": 16, "rounds": 2}
PAPER = {  # row of benchmarks/steps.py: steps a second, with their standard errors
    "MHE (RBF)": (79.40, 0.06),
    "KoLeo": (90.52, 0.07),
    "MM (geodesic)": (91.29, 0.06),
    "Lloyd": (90.98, 0.07),
    "Sliced (13 axes)": (87.72, 0.14),
    "SSW (13)": (53.78, 0.25),
    "SSW (1)": (81.16, 0.12),
}
SEES_ALL = ("Sliced", "SSW")


def run(*, round_, n, d):
    table = uc.uniform(n, d, generator=generator(round_))
    begin = time.perf_counter()
    uc.min_angle(table)
    uc.spherical_variance(table)
    return {"measures_ms": 1e3 * (time.perf_counter() - begin)}


def steps():
    """Of the benchmark, dense rows: the best time of both parts, and of every round the step's, where it is noted."""
    file = json.loads((FOLDER / "steps.json").read_text())
    noted = file.get("rounds", {})
    return {
        name: {
            side: {"parts": file["ms"][side][f"{name}|dense"], "rounds": noted.get(side, {}).get(f"{name}|dense", [])}
            for side in ("ours", "peer")
        }
        for name in PAPER
    }


def main(argv=None):
    results = Results("timing", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    if results.jobs > 1:
        raise SystemExit("timing: expected --jobs 1, got more: runs at a time would take each other's time")
    uc.min_angle(uc.uniform(100, results["d"], generator=generator(0)))  # loads the loops
    settings = [{"round_": round_, "n": results["n"], "d": results["d"]} for round_ in range(results["rounds"])]
    measures = [r["measures_ms"] for r in results.complete(settings, run)]
    draw(results, table({"measures_rounds_ms": measures}))
    return results.finish({"measures_rounds_ms": measures})


def table(summary):
    """A row an objective. Steps are those of the benchmark's file as it is now, which other pages show, too."""
    measures = summary["measures_rounds_ms"]
    rows = {}
    for name, found in steps().items():
        ours, peer = found["ours"]["parts"], found["peer"]["parts"]
        rows[name] = {
            "paper": PAPER[name][0],
            "paper_error": PAPER[name][1],
            "objective_ms": ours[0],
            "optimiser_ms": ours[1],
            "peer_objective_ms": peer[0],
            "peer_optimiser_ms": peer[1],
            "rounds_ms": found["ours"]["rounds"],
            "measures_rounds_ms": measures,
            "measures_ms": min(measures),
        }
    return rows


def draw(results, rows):
    figure, (left, right) = axes(1, 2, width=12, height=4.4, sharey=True)
    names = list(rows)
    objective, optimiser, measures, paper = (
        [row[key] for row in rows.values()] for key in ("objective_ms", "optimiser_ms", "measures_ms", "paper")
    )
    left.barh(names, objective, color=BLUE, label="objective, forward and backward")
    left.barh(names, optimiser, left=objective, color=ORANGE, hatch="//", edgecolor="white", label="optimiser")
    left.set(xlabel="milliseconds", title="the step alone (benchmarks/steps.py)")
    left.invert_yaxis()
    alone = [a + b for a, b in zip(objective, optimiser, strict=True)]
    for name, best in zip(names, alone, strict=True):
        every = [best, *rows[name]["rounds_ms"]]
        label = "its rounds, fastest to slowest" if name == names[0] else None
        left.errorbar(best, name, xerr=[[0], [max(every) - best]], color=BLACK, capsize=4, linewidth=1.2, label=label)
    right.plot(alone, names, "o", color=BLUE, label="the step alone")
    right.plot(
        [a + b for a, b in zip(alone, measures, strict=True)], names, "s", color=SKY, label="with measures of all pairs"
    )
    right.plot(
        [1e3 / rate for rate in paper], names, "x", color=BLACK, label="the paper, with measures, on its machine"
    )
    right.set(xlabel="milliseconds, logarithmic", xscale="log", title="with measures, as the authors timed it")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    results.figure(figure)


def report(summary):
    rows = table(summary)
    alone = {name: 1e3 / (row["objective_ms"] + row["optimiser_ms"]) for name, row in rows.items()}
    shown = ", ".join(f"{name} {rate:.0f}" for name, rate in alone.items())
    measures = min(summary["measures_rounds_ms"])
    return {
        "claim": "53.8 to 91.3 steps a second; MHE is slower than the others, SSW with 13 circles slowest",
        "got": f"steps a second, the step alone: {shown}; the measures of all pairs take {measures:.0f} ms more",
        "findings": judge(claims(rows)),
    }


def slower(rows, one, other):
    """By how many milliseconds a step of the first takes longer, round by round; of the best where none is noted."""
    pairs = list(zip(rows[one]["rounds_ms"], rows[other]["rounds_ms"], strict=True)) or [
        tuple(rows[name]["objective_ms"] + rows[name]["optimiser_ms"] for name in (one, other))
    ]
    return Case.of(f"than {other}", mean_and_error([a - b for a, b in pairs]))


def claims(rows):
    judged = {"seconds": 1.0, "unit": " ms", "setting": "the step alone, on this machine"}
    yield Claim(
        "With the amount of computation balanced, MHE is slower than the others.",
        [slower(rows, "MHE (RBF)", name) for name in ("KoLeo", "MM (geodesic)", "Lloyd", "Sliced (13 axes)")],
        evidence="A step takes longer by:",
        headline=True,
        **judged,
    )
    yield Claim(
        "SSW with 13 circles is the slowest.",
        [slower(rows, "SSW (13)", name) for name in rows if name != "SSW (13)"],
        evidence="A step takes longer by:",
        **judged,
    )
    share = [r["measures_ms"] / (r["measures_ms"] + r["objective_ms"] + r["optimiser_ms"]) for r in rows.values()]
    batched = [row for name, row in rows.items() if not name.startswith(SEES_ALL)]
    ours = [r["optimiser_ms"] / (r["objective_ms"] + r["optimiser_ms"]) for r in batched]
    peer = [r["peer_optimiser_ms"] / (r["peer_objective_ms"] + r["peer_optimiser_ms"]) for r in batched]
    longer = {
        name: [ms - row["objective_ms"] - row["optimiser_ms"] for ms in row["measures_rounds_ms"]]
        for name, row in rows.items()
    }
    yield Claim(
        "A loop that measures all pairs at every step spends most of its time in the measures.",
        [Case.of(f"than a step of {name}", mean_and_error(values)) for name, values in longer.items()],
        new=True,
        evidence=f"They take {100 * min(share):.0f} to {100 * max(share):.0f} % of such a step. Of the step alone, "
        "where the objective sees a minibatch, the optimiser's update of the whole table takes "
        f"{100 * min(ours):.0f} to {100 * max(ours):.0f} % with ours and {100 * min(peer):.0f} to "
        f"{100 * max(peer):.0f} % with geoopt's. The measures take longer by:",
        brief=f"They take at least {100 * min(share):.1f} % of such a loop's time",
        headline=True,
        **judged,
    )


if __name__ == "__main__":
    main()
