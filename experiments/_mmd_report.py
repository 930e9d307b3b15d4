"""What the runs with the energy as a squared MMD say of the appendix's claims."""

import math

from _common import mean_and_error
from _verdicts import Case, Claim, Exact, judge, within

LEVEL_MARGIN = 0.03
AROUND = 0.05  # the level of the tests


def report(summary):
    estimates = summary["estimates"]
    clumped = {name: r for name, r in estimates.items() if "clumped" in name}
    gain = [r["drawn_variance"] / r["variance"] for r in estimates.values()]
    return {
        "claim": "MHE minus a constant is an unbiased estimate of the squared MMD to the uniform distribution, with "
        "less variance than one that draws uniform points, and a variance of 4(n − 2)/(n(n − 1)) ζ₁ + O(n⁻²)",
        "got": f"largest deviation of the mean {worst(estimates):.1f} standard errors; drawing uniform points "
        f"multiplies the variance by {min(gain):.1f} to {max(gain):.1f}; corrected formula over measured, clumped: "
        f"{ratios(clumped, 'first_order')}",
        "findings": judge([*of_estimates(summary), *of_tests(summary)]),
    }


def worst(estimates):
    return max(abs(r["z"]) for r in estimates.values())


def ratios(rows, key):
    return ", ".join(f"{name}: {r[key] / r['variance']:.2f}" for name, r in rows.items())


def of_estimates(summary):
    estimates, repeats = summary["estimates"], summary["repeats"]
    clumped = {name: r for name, r in estimates.items() if "clumped" in name}
    even = {name: r for name, r in estimates.items() if "uniform" in name}
    gain = [r["drawn_variance"] / r["variance"] for r in estimates.values()]
    negative = {name: r for name, r in estimates.items() if r["printed"] < 0}
    groups = len(next(iter(estimates.values()))["group_variances"])
    yield Exact(
        "Energy minus the kernel's mean is an unbiased estimate of the squared MMD.",
        True,
        "Every pair of independent points has the mean of the kernel, and the cross term is one constant for every "
        f"point. Over {len(estimates)} cases of {repeats} samples the mean is at most {worst(estimates):.1f} standard "
        "errors from the truth.",
    )
    yield Claim(
        "The energy's estimate of the squared MMD has less variance than the usual one, which draws uniform points.",
        [Case.of(name, mean_and_error(log_ratios(r))) for name, r in estimates.items()],
        seconds=1.0,
        setting=f"{repeats} samples in {groups} groups, each a start; the paper has no experiment",
        evidence=f"That variance is {min(gain):.1f} to {max(gain):.1f} times as large, with as many uniform points as "
        "points. Logarithm of the ratio:",
        brief=f"The usual one has {min(gain):.1f} to {max(gain):.1f} times the variance",
        headline=True,
    )
    yield Exact(
        "The appendix's variance is right as printed, with ζ₁ = E⟨φ(x), μ⟩² − ‖μ‖² (erratum 12).",
        False,
        f"It is negative in {len(negative)} of {len(estimates)} cases, which no variance is. ‖μ‖⁴, the square of the "
        "mean of ⟨φ(x), μ⟩, belongs where ‖μ‖² stands. As printed: "
        + "; ".join(f"{name}: {r['printed']:.1e}, measured {r['variance']:.1e}" for name, r in negative.items())
        + ".",
        headline=True,
    )
    yield Exact(
        "With ‖μ‖⁴, the first order and an O(n⁻²) are the variance, near the uniform distribution as elsewhere.",
        True,
        "Hoeffding (1948): both orders are exact for a mean over pairs. Both orders over measured: "
        f"{ratios(estimates, 'both_orders')}; the first alone, clumped: {ratios(clumped, 'first_order')}. For uniform "
        "points the first is zero, since E k(x, U) is the same for all x, and all of the variance is in the O(n⁻²): "
        f"{ratios(even, 'first_order')}.",
    )
    yield Exact(
        "The appendix's bound on deviations of the estimate holds.",
        True,
        "Hoeffding's inequality, which has twice the exponent that is printed. At 5 % it is "
        + ", ".join(f"{r['bound'] / r['quantile']:.0f}" for r in estimates.values())
        + " times the deviation that 5 % of the samples exceed (as printed, √2 times more): true, and loose.",
    )


def log_ratios(row):
    pairs = zip(row["group_variances"], row["group_drawn_variances"], strict=True)
    return [math.log(drawn / closed) for closed, drawn in pairs]


def share_and_error(shares, tests):
    """The mean of samples that were rejected (1) or not (0), `tests` behind each share."""
    n, share = len(shares) * tests, sum(shares) / len(shares)
    smoothed = (n * share + 1) / (n + 2)  # where all were rejected, or none, there is an error, too
    return {"mean": share, "error": math.sqrt(smoothed * (1 - smoothed) / n), "n": n}


def of_tests(summary):
    power, tests = summary["power"], summary["tests"]
    names = list(next(iter(power.values())))
    shares = {
        f"{name}, {d}": share_and_error([rows[name][0] for case, rows in power.items() if case.endswith(d)], tests)
        for d in sorted({case.split(", ")[1] for case in power})
        for name in names
    }
    means = [found["mean"] for found in shares.values()]
    off = {name: found | {"mean": found["mean"] - AROUND} for name, found in shares.items()}
    yield Claim(
        f"The tests of uniformity keep their level of 5 %, within {100 * LEVEL_MARGIN:.0f} points.",
        [case for name, found in off.items() for case in within(found, LEVEL_MARGIN, name)],
        seconds=1.0,
        setting=f"{tests} samples for each alternative of strength 0, each a start",
        new=True,
        evidence=f"Share rejected: {100 * min(means):.1f} to {100 * max(means):.1f} %. Distance to the margin:",
        digits=3,
    )
    strong = {case: {name: share_and_error([rows[name][-1]], tests) for name in names} for case, rows in power.items()}
    blind = [
        Case.of(f"{name}, {case}", rows[name], least=-0.5, sign=-1)
        for case, rows in strong.items()
        if case.startswith("axial")
        for name in ("Rayleigh", "Ajne")
    ]
    seeing = [Case.of(f"MMD, Laplace, {case}", rows["MMD, Laplace"], least=0.5) for case, rows in strong.items()]
    yield Claim(
        "Rayleigh and Ajne are blind to axial clumps, and reject fewer than half of such samples; the MMD with the "
        "Laplace kernel detects all kinds of clumps that are strong, and rejects more than half.",
        [*blind, *seeing],
        seconds=1.0,
        setting=f"{tests} samples at strength {summary['strengths'][-1]}, each a start",
        new=True,
        evidence="Share beyond a half:",
        headline=True,
    )
