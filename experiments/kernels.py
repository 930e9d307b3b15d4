"""Kernels: how hard they push at each angle, and how their values concentrate with the dimension.

    python experiments/kernels.py [--quick]

The push is the norm of the gradient of k(x, y) by x on the sphere, |k'(r2)| 2 sin(angle). The spread over uniform
points is exact: the square of each kernel is a kernel with twice the parameter, so that both moments are values of
`kernel_mean`; a sample checks it.
"""

import math

import torch
from _common import BLUE, GREEN, ORANGE, Results, axes, generator
from _verdicts import Exact, judge

import unclump as uc

FULL = {"angles": 720, "dimensions": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], "samples": 20_000}
QUICK = {"angles": 180, "dimensions": [16, 64, 256], "samples": 5_000}
FAMILIES = {"RBF": uc.Gaussian, "Laplace": uc.Laplace, "Riesz": uc.Riesz}
DISTANCES = ("chordal", "geodesic", "shifted")
LOOK = {"chordal": (BLUE, "-", "o"), "geodesic": (ORANGE, "--", "s"), "shifted": (GREEN, ":", "^")}
HIGHEST = 1.6  # of the norms that are drawn


def kernels(factor=1.0):
    return {f"{name} {distance}": make(factor, distance) for name, make in FAMILIES.items() for distance in DISTANCES}


def push(kernel, angles):
    """The norm of the Riemannian gradient at these angles, in (0, pi)."""
    derivative = kernel.derivative(4 * torch.sin(angles / 2) ** 2)
    return (derivative.abs() * 2 * torch.sin(angles)).tolist()


def run_push(*, kernel, angles):
    grid = math.pi * (torch.arange(angles, dtype=torch.float64) + 0.5) / angles
    values = push(kernels()[kernel], grid)
    peak = max(range(angles), key=values.__getitem__)
    return {
        "degrees": [round(math.degrees(angle), 6) for angle in grid.tolist()],
        "norms": values,
        "peak_degrees": math.degrees(grid[peak]),
        "falls_from_zero": peak == 0,
        "bounded": push(kernels()[kernel], torch.tensor([1e-6], dtype=torch.float64))[0] < 10,
    }


def run_spread(*, d, samples):
    """Over uniform points, exactly and sampled; the first coordinate is the cosine with a fixed point."""
    draw = generator(d)
    blocks = [uc.uniform(1000, d, generator=draw, dtype=torch.float64)[:, 0] for _ in range(samples // 1000)]
    r2 = 2 - 2 * torch.cat(blocks)
    found = {}
    for name, kernel in kernels().items():
        mean = uc.kernel_mean(kernel, d)
        deviation = math.sqrt(uc.kernel_mean(kernels(2.0)[name], d) - mean**2)
        values = kernel(r2)
        sampled = {"sampled_mean": float(values.mean()), "sampled_deviation": float(values.std())}
        found[name] = {"mean": mean, "deviation": deviation, **sampled}
    return {"kernels": found}


def main(argv=None):
    results = Results("kernels", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    pushes = results.complete([{"kernel": name, "angles": results["angles"]} for name in kernels()], run_push)
    spreads = results.complete([{"d": d, "samples": results["samples"]} for d in results["dimensions"]], run_spread)
    summary = {}
    for name, pushed in zip(kernels(), pushes, strict=True):
        row = of(spreads, name)
        last, before = row[-1], row[-2]
        slope = math.log(last["deviation"] / before["deviation"]) / math.log(last["d"] / before["d"])
        summary[name] = {
            "peak_degrees": pushed["peak_degrees"],
            "falls_from_zero": pushed["falls_from_zero"],
            "bounded": pushed["bounded"],
            "slope": slope,
            "d": last["d"],
            "deviation_times_root_d": last["deviation"] * math.sqrt(last["d"]),
            "relative_times_root_d": last["deviation"] / last["mean"] * math.sqrt(last["d"]),
            "worst_sampling_gap": max(abs(r["sampled_deviation"] / r["deviation"] - 1) for r in row if r["d"] >= 16),
        }
    draw_push(results, pushes)
    draw_spread(results, spreads)
    return results.finish(summary)


def of(spreads, name):
    return [{"d": r["d"]} | r["kernels"][name] for r in spreads]


def draw_push(results, pushes):
    figure, panels = axes(1, 3, width=11, height=3.8, sharex=True, sharey=True)
    for record in pushes:
        family, distance = record["kernel"].split()
        ax, (colour, line, _) = panels[list(FAMILIES).index(family)], LOOK[distance]
        ax.plot(record["degrees"], record["norms"], color=colour, linestyle=line, label=distance, linewidth=2)
        ax.set(title=family, xlabel="angle between the points, degrees", ylim=(0, HIGHEST), xlim=(0, 180))
        ax.set_xticks(range(0, 181, 45))
    panels[0].set(ylabel="norm of the kernel's gradient")
    panels[2].set(title=f"Riesz (cut at {HIGHEST})")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    results.figure(figure, "_push")


def draw_spread(results, spreads):
    figure, panels = axes(1, 2, width=10.5, height=4.8, sharex=True)
    markers = dict(zip(FAMILIES, "os^", strict=True))
    for name in kernels():
        family, distance = name.split()
        row = of(spreads, name)
        colour, line, _ = LOOK[distance]
        for ax, divide in zip(panels, (False, True), strict=True):
            ys = [r["deviation"] / (r["mean"] if divide else 1) for r in row]
            look = {"ms": 8, "fillstyle": "none"} if distance == "shifted" else {"ms": 5}  # where both coincide
            ax.loglog(
                [r["d"] for r in row], ys, color=colour, linestyle=line, marker=markers[family], label=name, **look
            )
    panels[0].set(ylabel="standard deviation of k(x, U)", xlabel="dimensions", title="as the kernels are scaled")
    panels[1].set(ylabel="standard deviation / mean", xlabel="dimensions", title="with the scale removed")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    results.figure(figure, "_spread")


def report(summary):
    rising = [name for name, row in summary.items() if not row["falls_from_zero"]]
    calm = [name for name, row in summary.items() if row["falls_from_zero"] and row["bounded"]]
    slopes = [row["slope"] for row in summary.values()]
    return {
        "claim": "the geodesic Laplace kernel's gradient is bounded and falls with the angle; all kernels of the "
        "Euclidean "
        "distance, and the geodesic RBF, first rise. Values concentrate alike with the dimension, linearly in log-log",
        "got": f"bounded and falling: {', '.join(calm)}; rising first: {', '.join(rising)}; slopes in log-log "
        f"{min(slopes):.3f} to {max(slopes):.3f}",
        "findings": judge(claims(summary, rising, calm)),
    }


def claims(summary, rising, calm):
    chordal = [name for name in summary if name.endswith("chordal")]
    printed = [*(name for name in summary if name.endswith("shifted")), "RBF geodesic"]
    slopes = [row["slope"] for row in summary.values()]
    spread = {name: row["deviation_times_root_d"] for name, row in summary.items()}
    relative = {name: row["relative_times_root_d"] for name, row in summary.items()}

    def sensitive(values, euclidean):
        return [f for f in FAMILIES if values[f"{f} geodesic"] > values[f"{f} {euclidean}"]]

    def named(values):
        return ", ".join(f"{name} {value:.3f}" for name, value in values.items())

    yield Exact(
        "The gradient of the geodesic Laplace kernel is bounded and falls from zero on.",
        "Laplace geodesic" in calm,
        f"It is exp(-angle). Bounded and falling: {', '.join(calm)}.",
    )
    yield Exact(
        "As printed, with 2 - c for the squared distance, the Euclidean kernels and the geodesic RBF first rise.",
        all(name in rising for name in printed),
        "Closed forms, which are largest at "
        + ", ".join(f"{summary[name]['peak_degrees']:.0f}° ({name})" for name in printed)
        + ".",
    )
    yield Exact(
        "All kernels of the Euclidean distance first rise: also with the distance as it is (erratum 1).",
        all(name in rising for name in chordal),
        f"With the true chord only {', '.join(n for n in chordal if n in rising)} does; the others fall from zero on: "
        f"{', '.join(n for n in chordal if n not in rising)}.",
        headline=True,
    )
    yield Exact(
        "All kernels' values concentrate at the same rate, a line in log-log.",
        max(abs(slope + 0.5) for slope in slopes) < 0.05,
        "Both moments are integrals without chance. Slopes of the standard deviation between the last two dimensions: "
        f"{min(slopes):.3f} to {max(slopes):.3f}, that is one over the root of the dimension.",
    )
    yield Exact(
        "In many dimensions spherical kernels vary more than Euclidean ones, except for RBF.",
        sensitive(spread, "chordal") == ["Laplace", "Riesz"]
        and {"Laplace", "Riesz"} <= set(sensitive(spread, "shifted")),
        f"Standard deviation times the root of d, at d = {summary['RBF chordal']['d']}: {named(spread)}.",
    )
    yield Exact(
        "The exception of RBF is the constant factor of the table's Euclidean RBF, which no optimiser that scales "
        "itself can see.",
        len(sensitive(relative, "chordal")) == len(FAMILIES),
        f"Not in the paper. Standard deviation over mean, times the root of d: {named(relative)}: spherical ahead of "
        f"Euclidean for {', '.join(sensitive(relative, 'chordal'))}.",
    )


if __name__ == "__main__":
    main()
