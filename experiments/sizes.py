"""How large objectives are: values and gradients for uniform and for clumped points, over n and d.

    python experiments/sizes.py [--quick]

Clumped points are power spherical with kappa = 100. The gradient is that by one row, root mean square over rows, times
n: what a row would feel if the objective were its own term, not one of n. A weight that holds for many n needs it to
stay the same as n grows. Writes results/sizes.json and docs/sizes.md.
"""

from _common import Results, clump, generator, markdown, product, where
from torch.linalg import vector_norm

import unclump as uc

OBJECTIVES = {
    "MaxMin()": lambda g: uc.MaxMin(),
    "KoLeo()": lambda g: uc.KoLeo(),
    "Energy(Riesz())": lambda g: uc.Energy(uc.Riesz()),
    "Energy(Gaussian())": lambda g: uc.Energy(uc.Gaussian()),
    "Uniformity()": lambda g: uc.Uniformity(),
    "MMD()": lambda g: uc.MMD(),
    "Lloyd(512)": lambda g: uc.Lloyd(512, generator=g),
    "Sliced(13)": lambda g: uc.Sliced(13, generator=g),
    "SSW(13)": lambda g: uc.SSW(13, generator=g),
    "SphericalVariance()": lambda g: uc.SphericalVariance(),
}
LINEAR = ("Lloyd", "Sliced", "SSW", "SphericalVariance")
FULL = {"points": [100, 1000, 10_000, 100_000], "dimensions": [16, 64, 512], "most": 2 * 10**11}
QUICK = {"points": [20, 50], "dimensions": [4], "most": 10**9}
STARTS = {"uniform": lambda n, d: uc.uniform(n, d, generator=generator(n, d)), "clumped": lambda n, d: clump(n, d, 0)}


def run(*, objective, start, n, d):
    x = STARTS[start](n, d)
    value, gradient = OBJECTIVES[objective](generator(0)).value_and_gradient(x)
    norms = vector_norm(gradient.double(), dim=1)
    return {"value": round(value.item(), 6), "push": round(n * norms.square().mean().sqrt().item(), 6)}


def tables(results, records, measure):
    """A table for each dimension, with a column for each start and number of points."""
    for d in results["dimensions"]:
        columns = [(start, n) for start in STARTS for n in results["points"]]
        rows = []
        for name in OBJECTIVES:
            cells = [where(records, objective=name, start=start, n=n, d=d) for start, n in columns]
            rows.append([f"`{name}`", *(f"{cell[0][measure]:.3g}" if cell else "" for cell in cells)])
        head = ["objective", *(f"{start}, {n:,}" for start, n in columns)]
        yield "\n".join([f"d = {d}:", "", *markdown(head, rows), ""])


def page(results, records):
    """The text of docs/sizes.md."""
    values, pushes = ("\n".join(tables(results, records, measure)) for measure in ("value", "push"))
    return f"""# How large objectives are

`python experiments/sizes.py` writes this page and `results/sizes.json`. Use it to carry a [weight](weights.md) from one
objective to another. Points are uniform, or clumped around one direction (power spherical, kappa 100); cells are empty
where there are too many pairs for this program.

## Values

{values}
## Gradients

The norm of the gradient of a row, root mean square over rows, times n: what a row feels at weight one. All objectives
are means over rows, so this does not grow with n where the points are clumped. The closer points are to uniform, the
less is left to do: kernels and circles notice, nearest neighbours do not. `Lloyd` moves only the rows whose cells were
sampled.

{pushes}"""


def main(argv=None):
    results = Results("sizes", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    settings = product(objective=list(OBJECTIVES), start=list(STARTS), n=results["points"], d=results["dimensions"])
    few = [
        one for one in settings if one["objective"].startswith(LINEAR) or one["n"] ** 2 * one["d"] <= results["most"]
    ]
    records = results.complete(few, run)
    summary = results.finish({})
    results.page("sizes", page(results, records))
    return summary


if __name__ == "__main__":
    main()
