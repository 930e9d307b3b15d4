"""How many circles the sliced objective needs: the Monte Carlo estimate of its value, and of its gradient.

    python experiments/sliced_convergence.py [--quick] [--circles 10000]

10,000 uniform points in 128 dimensions, held fixed. For independent uniform points the angles on any circle are uniform
and independent, so that the objective on each is Watson's statistic in disguise: its mean is pi^2/6 (1 - 1/n), its
standard deviation 2 pi^2 / sqrt(360) for many points, whatever the dimension. The gradient is another matter: those of
two disjoint sets of circles are compared.
"""

import math
import statistics

import torch
from _common import BLACK, BLUE, ORANGE, Results, axes, generator, mean_and_error, where
from _verdicts import Case, Claim, Exact, judge

import unclump as uc

FULL = {"n": 10_000, "d": 128, "circles": 10_000, "seeds": 5, "tables": 4000}
QUICK = {"n": 1_000, "d": 16, "circles": 400, "tables": 300, "seeds": 1}
CLOSE = 0.05
FEW = 1000  # points of the tables that are drawn anew for each circle
BLOCK = 50  # circles whose gradients are summed before they are compared


def run(*, n, d, circles, seed, axis_aligned):
    x = uc.uniform(n, d, generator=generator(seed, 0))
    drawn = (uc.axis_circles if axis_aligned else uc.great_circles)(circles, d, generator=generator(seed, 1))
    values, sums, agreement = [], [torch.zeros(n, d), torch.zeros(n, d)], {}
    for start in range(0, circles, 2 * BLOCK):
        for half in (0, 1):
            total = torch.zeros(n, d)
            for circle in drawn[start + half * BLOCK : start + (half + 1) * BLOCK]:
                points = x.clone().requires_grad_()
                value = uc.sliced(points, circle[None], reduction="sum")
                total += torch.autograd.grad(value, points)[0]
                values.append(value.item())
            sums[half] += total
        used = start // 2 + BLOCK  # in each half
        if used & (used - 1) == 0 or (used // BLOCK) & (used // BLOCK - 1) == 0 or start + 2 * BLOCK >= circles:
            cosine = torch.nn.functional.cosine_similarity(sums[0].flatten(), sums[1].flatten(), dim=0)
            agreement[used] = float(cosine)
    running = torch.tensor(values, dtype=torch.float64).cumsum(0) / torch.arange(1, circles + 1)
    return {"values": [round(value, 5) for value in values], "final": float(running[-1]), "gradients": agreement}


def run_fresh(*, tables, d):
    """One circle each of many tables: what the closed form speaks of, the points being random too."""
    draw = generator(5, d)
    values = []
    for _ in range(tables):
        x = uc.uniform(FEW, d, generator=draw)
        values.append(float(uc.sliced(x, uc.great_circles(1, d, generator=draw), reduction="sum")))
    return {"values": [round(value, 5) for value in values]}


def main(argv=None):
    results = Results("sliced_convergence", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    settings = [
        {"n": results["n"], "d": results["d"], "circles": results["circles"], "seed": seed, "axis_aligned": aligned}
        for seed in range(results["seeds"])
        for aligned in (False, True)
    ]
    records = results.complete(settings, run)
    (fresh,) = results.complete([{"tables": results["tables"], "d": results["d"]}], run_fresh)
    drawn = torch.tensor(fresh["values"], dtype=torch.float64)
    values = torch.tensor(records[0]["values"], dtype=torch.float64)
    running = values.cumsum(0) / torch.arange(1, len(values) + 1)
    random = where(records, axis_aligned=False)
    few = min(int(k) for k in random[0]["gradients"])
    thousands = values[: len(values) // 1000 * 1000].reshape(-1, 1000).mean(dim=1)
    summary = {
        "seconds": max(r["seconds"] for r in records),
        "few_gradients": mean_and_error([{int(k): v for k, v in r["gradients"].items()}[few] for r in random]),
        **({"by_thousand": mean_and_error((thousands / values.mean() - 1).abs().tolist())} if len(thousands) else {}),
        "expected": math.pi**2 / 6 * (1 - 1 / results["n"]),
        "expected_deviation": 2 * math.pi**2 / math.sqrt(360),
        "fresh": {
            "expected": math.pi**2 / 6 * (1 - 1 / FEW),
            "mean": float(drawn.mean()),
            "error": float(drawn.std()) / math.sqrt(len(drawn)),
            "deviation": float(drawn.std()),
        },
        "mean": float(values.mean()),
        "deviation": float(values.std()),
        "axes_mean": records[1]["final"],
        "axes_deviation": float(torch.tensor(records[1]["values"]).std()),
        "off_by": {k: abs(float(running[k - 1] / running[-1]) - 1) for k in checkpoints(len(values))},
        "standard_error": {k: float(values.std() / values.mean()) / math.sqrt(k) for k in checkpoints(len(values))},
        "gradients": mean_cosines(random),
        "gradients_axes": mean_cosines(where(records, axis_aligned=True)),
    }
    draw(results, running, values, records, summary)
    return results.finish(summary)


def mean_cosines(records):
    """By the number of circles, over the starts; a record that was read has its numbers as words."""
    found = [{int(k): cosine for k, cosine in r["gradients"].items()} for r in records]
    return {str(k): statistics.fmean(cosines[k] for cosines in found) for k in found[0]}


def checkpoints(count):
    return [k for k in (1, 10, 100, 1000, 10_000) if k <= count]


def draw(results, running, values, records, summary):
    figure, (left, right) = axes(1, 2, width=11, height=4)
    ks = torch.logspace(0, math.log10(len(running)), 400).round().long().unique()  # no more than the eye can see
    running = running[ks - 1]
    band = values.std() / ks.sqrt()
    left.fill_between(ks, running[-1] - band, running[-1] + band, color=BLUE, alpha=0.15, label="± standard error")
    left.plot(ks, running, color=BLUE, label="mean over the circles so far")
    left.axhline(summary["expected"], color=BLACK, linestyle="--", linewidth=1, label="π²/6 (1 − 1/n)")
    left.set(xscale="log", xlabel="circles", ylabel="sliced objective", ylim=(0.5, 3.0))
    left.set_title(f"value, n = {results['n']:,}, d = {results['d']}, one table")
    left.legend(fontsize=8)
    for aligned, colour, marker, name in ((False, BLUE, "o", "great"), (True, ORANGE, "s", "axis-aligned")):
        starts = [{int(k): v for k, v in r["gradients"].items()} for r in where(records, axis_aligned=aligned)]
        middle = {k: mean_and_error([one[k] for one in starts]) for k in sorted(starts[0])}
        right.errorbar(
            list(middle), [m["mean"] for m in middle.values()], [m["error"] for m in middle.values()], color=colour,
            marker=marker, capsize=3, label=f"{name} circles",
        )  # fmt: skip
    right.set(xscale="log", xlabel="circles in each of two disjoint sets", ylim=(-0.05, 1.05))
    right.set(ylabel="cosine between their gradients")
    right.set_title(f"gradient, starts: {results['seeds']}; bars: standard error")
    right.legend(fontsize=8)
    results.figure(figure)


def report(summary):
    error, gradients = summary["standard_error"], summary["gradients"]
    many = max(gradients, key=int)
    return {
        "claim": "the value converges quickly; 1000 circles are more than enough",
        "got": f"value with all circles {summary['mean']:.4f} (mean over uniform tables {summary['expected']:.4f}), "
        f"standard error with 1000 circles {100 * error['1000']:.1f} %; cosine between gradients of two sets of {many} "
        f"circles {gradients[many]:.3f}",
        "findings": judge(claims(summary)),
    }


def claims(summary):
    error, fresh, seconds = summary["standard_error"], summary["fresh"], summary["seconds"]
    yield Claim(
        f"1000 circles estimate the value of the sliced objective well: within {100 * CLOSE:.0f} %.",
        [Case.of("sets of 1000 circles", summary["by_thousand"], least=-CLOSE, sign=-1)]
        if "by_thousand" in summary
        else [],
        seconds=1.0,
        evidence="Relative standard error: "
        + ", ".join(f"{k} circles {100 * e:.1f} %" for k, e in error.items())
        + ". Share by which disjoint sets are closer, each a start:",
        setting="disjoint sets of circles on one table, compared with the mean of all",
        digits=3,
    )
    yield Exact(
        "For uniform points the sliced objective has mean π²/6 (1 − 1/n) on every circle, in any dimension, and a "
        "standard deviation of 2π²/√360: what a run should fall below.",
        abs(fresh["mean"] - fresh["expected"]) < 3.5 * fresh["error"],
        "Not in the paper: angles of uniform points on a circle are uniform, and the objective is Watson's statistic. "
        f"With points drawn anew for every circle {fresh['mean']:.3f} ± {fresh['error']:.3f} against "
        f"{fresh['expected']:.3f}, and {fresh['deviation']:.3f} against {summary['expected_deviation']:.3f}; the one "
        f"table of the figure has {summary['mean']:.3f}.",
    )
    few = min(summary["gradients"], key=int)
    shown = sorted(summary["gradients"].items(), key=lambda item: int(item[0]))
    yield Claim(
        "The gradient converges far more slowly than the value: a step mostly follows the circles it drew.",
        [Case.of(f"{few} circles", summary["few_gradients"], least=-0.5, sign=-1)],
        seconds=seconds,
        new=True,
        evidence="Cosine between the gradients of two disjoint sets of circles, mean over the starts: "
        + ", ".join(f"{k} circles {v:.3f}" for k, v in shown)
        + ". Below a half by:",
        brief=f"The cosine between the gradients of two disjoint sets of {few} circles is "
        f"{summary['few_gradients']['mean']:.2f}",
        digits=3,
        headline=True,
    )


if __name__ == "__main__":
    main()
