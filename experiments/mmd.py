"""The energy as a squared maximum mean discrepancy: unbiased, its variance, its bound, and its power as a test.

    python experiments/mmd.py [--quick] [--repeats 1000] [--tests 400]

Energy minus the kernel's mean estimates the squared MMD to the uniform distribution from n points. Many samples of 100
points show its mean and its variance, beside the appendix's formula (as it is printed, as it should be, and with both
orders), beside the usual estimate that draws uniform points as well, and beside the bound on its deviations. Then the
share of samples that tests of uniformity reject at 5 %, for alternatives of growing strength. The paper has the
statements without an experiment: the setting is ours.
"""

import math

import torch
from _common import BLACK, BLUE, GREEN, ORANGE, PINK, RED, Results, axes, generator, mean_and_error, where
from _mmd_report import report

import unclump as uc

__all__ = ["FULL", "QUICK", "main", "report"]

FULL = {
    "n": 100,
    "dimensions": [3, 16],
    "repeats": 1000,
    "reference": 10_000,
    "tests": 400,
    "strengths": [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0],
}
QUICK = {"dimensions": [3], "repeats": 60, "reference": 1000, "tests": 12, "strengths": [0.0, 3.0]}
KERNELS = {
    "Laplace geodesic": (uc.Laplace(1.0), uc.Laplace(2.0)),
    "RBF chordal": (uc.Gaussian(1.0), uc.Gaussian(2.0)),
}  # with the square of each, which is of the same family
SOURCES = ["uniform", "clumped"]
GROUPS = 10  # of independent samples, each with a variance of its own
ALTERNATIVES = ["clumped", "bimodal", "axial"]
TESTS = {
    "Rayleigh": uc.rayleigh_test,
    "Bingham": uc.bingham_test,
    "Ajne": uc.ajne_test,
    "Giné": uc.gine_test,
    "MMD, Laplace": lambda x: uc.mmd_test(x, uc.Laplace(1.0)),
    "MMD, RBF": lambda x: uc.mmd_test(x, uc.Gaussian(1.0)),
}


def sample(n, d, source, strength, draw):
    """Points around the first axis (clumped), the first two (bimodal), or both ends of the first (axial)."""
    if source == "uniform" or strength == 0:
        return uc.uniform(n, d, generator=draw, dtype=torch.float64)
    kappa = torch.tensor(strength * math.sqrt(d), dtype=torch.float64)  # as hard to see in all dimensions
    points = uc.VonMisesFisher(torch.eye(d, dtype=torch.float64)[0], kappa).sample((n,), generator=draw)
    half = torch.rand(n, generator=draw) < 0.5
    if source == "bimodal":
        points[half] = points[half][:, [1, 0, *range(2, d)]]
    if source == "axial":
        points[half] = -points[half]
    return points


def drawn_mmd(x, kernel, draw):
    """The usual estimate, with as many uniform points instead of the closed form."""
    n = len(x)
    u = uc.uniform(*x.shape, generator=draw, dtype=x.dtype)
    own, other, both = (float(uc.energy(points, kernel)) for points in (x, u, torch.cat([x, u])))
    across = (2 * n * (2 * n - 1) * both - n * (n - 1) * (own + other)) / (2 * n * n)
    return own + other - 2 * across


def run_estimates(*, kernel, source, n, d, repeats, reference):
    kernel, square = KERNELS[kernel]
    large = sample(reference, d, source, 1.0, generator(1, d))
    mean = float(uc.energy(large, kernel))
    second = float(uc.energy(large, square)) - mean**2  # of one pair
    whole = uc.mmd_variance(large, kernel)  # of an estimate from all the points of the large sample
    m = reference
    first = (whole * m * (m - 1) - 2 * second) / (4 * (m - 2))  # of a point's mean over all others
    draw = generator(2, d)
    closed, drawn = [], []
    for _ in range(repeats):
        x = sample(n, d, source, 1.0, draw)
        closed.append(float(uc.mmd(x, kernel)))
        drawn.append(drawn_mmd(x, kernel, draw))
    values, usual = (torch.tensor(found, dtype=torch.float64) for found in (closed, drawn))
    groups = max(1, min(GROUPS, repeats // 2))
    truth = 0.0 if source == "uniform" else float(uc.mmd(large, kernel))
    truth_error = 0.0 if source == "uniform" else math.sqrt(max(whole, 0.0))
    error = math.hypot(float(values.std()) / math.sqrt(repeats), truth_error)
    deviations = values - truth
    return {
        "truth": truth,
        "mean": float(values.mean()),
        "z": (float(values.mean()) - truth) / error,
        "variance": float(values.var()),
        "printed": 4 * (n - 2) / (n * (n - 1)) * (first + mean**2 - mean),  # erratum 12: |mu|^2 for |mu|^4
        "first_order": 4 * (n - 2) / (n * (n - 1)) * first,
        "both_orders": (4 * (n - 2) * first + 2 * second) / (n * (n - 1)),
        "drawn_variance": float(usual.var()),
        "group_variances": [float(part.var()) for part in values.tensor_split(groups)],
        "group_drawn_variances": [float(part.var()) for part in usual.tensor_split(groups)],
        "beyond_bound": float((deviations > uc.mmd_deviation(n, kernel, 0.05)).double().mean()),
        "bound": uc.mmd_deviation(n, kernel, 0.05),
        "paper_bound": uc.mmd_deviation(n, kernel, 0.05) * math.sqrt(2),
        "quantile": float(deviations.quantile(0.95)),
    }


def run_power(*, alternative, strength, n, d, tests):
    draw = generator(3, d, ALTERNATIVES.index(alternative), round(100 * strength))
    rejected = dict.fromkeys(TESTS, 0)
    for _ in range(tests):
        x = sample(n, d, alternative, strength, draw)
        for name, test in TESTS.items():
            rejected[name] += test(x).pvalue < 0.05
    return {"rejected": {name: count / tests for name, count in rejected.items()}}


def main(argv=None):
    results = Results("mmd", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    numbers = {"n": results["n"], "repeats": results["repeats"], "reference": results["reference"]}
    settings = [
        {"kernel": kernel, "source": source, "d": d, **numbers}
        for d in results["dimensions"]
        for kernel in KERNELS
        for source in SOURCES
    ]
    estimates = results.complete(settings, run_estimates)
    settings = [
        {"alternative": alternative, "strength": strength, "d": d, "n": results["n"], "tests": results["tests"]}
        for d in results["dimensions"]
        for alternative in ALTERNATIVES
        for strength in results["strengths"]
    ]
    powers = results.complete(settings, run_power)
    shown = [key for key in estimates[0] if key not in ("kernel", "source", "d", *numbers, "seconds")]
    summary = {
        "estimates": {f"{r['kernel']}, {r['source']}, d = {r['d']}": {k: r[k] for k in shown} for r in estimates},
        "power": {
            f"{alternative}, d = {d}": {
                name: [r["rejected"][name] for r in where(powers, alternative=alternative, d=d)] for name in TESTS
            }
            for d in results["dimensions"]
            for alternative in ALTERNATIVES
        },
        "strengths": results["strengths"],
        "tests": results["tests"],
        "repeats": results["repeats"],
    }
    draw_variance(results, estimates)
    draw_power(results, powers)
    return results.finish(summary)


def draw_variance(results, estimates):
    figure, ax = axes(width=10, height=4.6)
    places = torch.arange(len(estimates))
    shown = [
        ("printed", "the appendix as printed", PINK, "v", -0.3),
        ("first_order", "the appendix corrected: first order", ORANGE, "^", -0.15),
        ("both_orders", "both orders", BLUE, "o", 0.15),
        ("drawn_variance", "measured, with uniform points drawn", RED, "s", 0.3),
    ]
    measured = [mean_and_error(r["group_variances"]) for r in estimates]
    ax.errorbar(
        places, [r["variance"] for r in estimates], [2 * m["error"] for m in measured], color=BLACK, fmt="_",
        markersize=16, capsize=4, label=f"measured, {results['repeats']} samples; bars: 2 standard errors",
    )  # fmt: skip
    for key, label, colour, marker, shift in shown:
        ax.plot(places + shift, [r[key] for r in estimates], marker, color=colour, fillstyle="none", label=label)
    ax.axhline(0, color=BLACK, linewidth=0.8)
    ax.set_yscale("symlog", linthresh=1e-5)  # the printed form is negative
    ax.set_ylim(-0.03, 0.1)
    names = [f"{r['kernel']}\n{r['source']}, d = {r['d']}" for r in estimates]
    ax.set_xticks(range(len(names)), names, fontsize=7, rotation=25, ha="right")
    ax.set(ylabel=f"variance of the estimate, n = {results['n']}", title="variance of the squared MMD's estimate")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    results.figure(figure, "_variance")


def draw_power(results, powers):
    rows = len(results["dimensions"])
    figure, panels = axes(rows, 3, width=11, height=3.4 * rows, sharex=True, sharey=True, squeeze=False)
    looks = zip(
        TESTS, (BLUE, ORANGE, GREEN, RED, BLACK, PINK), "os^vDP", ("-", "--", "-.", ":", "-", "--"), strict=True
    )
    for place, (name, colour, marker, line) in enumerate(looks):
        for row, d in zip(panels, results["dimensions"], strict=True):
            for ax, alternative in zip(row, ALTERNATIVES, strict=True):
                shown = where(powers, alternative=alternative, d=d)
                ys = [r["rejected"][name] for r in shown]
                ax.plot(  # hollow, and each smaller than the last: several coincide
                    [r["strength"] for r in shown], ys, color=colour, marker=marker, linestyle=line, label=name,
                    fillstyle="none", markersize=10 - place,
                )  # fmt: skip
                ax.set(title=f"{alternative}, d = {d}", ylim=(-0.03, 1.03))
    for ax in panels[-1]:
        ax.set_xlabel("concentration κ / √d")
    for ax in panels[:, 0]:
        ax.set_ylabel("share rejected at 5 %")
    for ax in panels.flat:
        ax.axhline(0.05, color=BLACK, linewidth=0.8, linestyle=":")
    told = f"each point: {powers[0]['tests']} samples; dotted line: the level of the test"
    shown = panels[0, 0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=6, fontsize=8, title=told, title_fontsize=9)
    results.figure(figure, "_power")


if __name__ == "__main__":
    main()
