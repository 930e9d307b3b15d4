"""Value and gradient in float32 beside those of the same points in float64: relative errors on easy and hard tables.

    python benchmarks/accuracy.py [--native] [--quick] [--only NAME] [--output results/accuracy.json]

The points are float32 numbers, and float64 gets the very same ones: the error is that of the arithmetic, which begins
with the projection of raw embeddings, and not that of rounding the table. The error of a gradient is the norm of the
difference, over all rows, by the norm of the gradient. Random objectives have the same circles, samples or starts on
both sides. Compiled loops are switched off, as on a GPU, under torch.compile and in a plain install; --native leaves
them on. The file keeps the results of both.
"""

import argparse
import importlib.util
import json
import math
import os
from pathlib import Path

import torch

LOOPS_OFF = {"UNCLUMP_NATIVE": "0"}
CASES = Path(__file__).parent.parent / "tests" / "cases.py"
N, DIMENSIONS, PAIRS = 512, (64, 3), 8
GAPS = [10.0**-power for power in range(2, 8)]
CONES = (0.1, 1.0, 10.0)


def _unit(x):
    return torch.nn.functional.normalize(x, dim=-1)


def _generic(n, d, generator):
    return _unit(torch.randn(n, d, generator=generator, dtype=torch.float64))


def _turned(x, angle, generator):
    """Points turned by the angle into random directions."""
    v = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    v = _unit(v - (v * x).sum(dim=-1, keepdim=True) * x)
    return math.cos(angle) * x + math.sin(angle) * v if isinstance(angle, float) else angle.cos() * x + angle.sin() * v


def near_duplicates(n, d, generator, *, gap):
    """Generic points, and a few pairs that are as near as that."""
    x = _generic(n, d, generator)
    pairs = min(PAIRS, n // 4)
    x[:pairs] = _turned(x[pairs : 2 * pairs], gap, generator)
    return x


def cone(n, d, generator, *, degrees):
    """Points around one axis, at most so far from it."""
    axis = _generic(1, d, generator).expand(n, d)
    radius = torch.rand(n, 1, generator=generator, dtype=torch.float64) ** (1 / (d - 1))
    return _turned(axis, math.radians(degrees) * radius, generator)


def antipodes(n, d, generator, *, off):
    """Pairs of opposite points, or nearly so."""
    x = _generic(n // 2, d, generator)
    return torch.cat([x, -x if off == 0 else -_turned(x, off, generator)])


TABLES = {
    "generic": _generic,
    **{f"near {gap:.0e}": lambda *of, gap=gap: near_duplicates(*of, gap=gap) for gap in GAPS},
    **{f"cone {degrees:g}°": lambda *of, degrees=degrees: cone(*of, degrees=degrees) for degrees in CONES},
    "antipodes": lambda *of: antipodes(*of, off=0),
    "antipodes 1e-03 off": lambda *of: antipodes(*of, off=1e-3),
}


def objectives():
    """Name -> maker, as the tests list them."""
    spec = importlib.util.spec_from_file_location("cases", CASES)
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    return cases.OBJECTIVES


def with_fixed_draw(uc, module, d):
    """A module as a function of embeddings that draws the same numbers in every precision."""
    generator = torch.Generator().manual_seed(1)
    if isinstance(module, uc.Sliced):  # and SSW
        function = uc.ssw if isinstance(module, uc.SSW) else uc.sliced
        if module.axis_aligned:
            axes = uc.axis_circles(module.circles, d, generator=generator)
            return lambda e: function(uc.project(e), axes)
        circles = uc.great_circles(module.circles, d, generator=generator)
        return lambda e: function(uc.project(e), circles.to(e.dtype))
    if isinstance(module, uc.Lloyd):
        samples = uc.uniform(module.samples, d, generator=generator)
        return lambda e: uc.lloyd(uc.project(e), samples.to(e.dtype))
    if isinstance(module, uc.Polarization):
        starts = uc.uniform(module.samples, d, generator=generator)
        return lambda e: uc.polarization(uc.project(e), module.kernel, starts.to(e.dtype), steps=module.steps)
    return module


def value_and_gradient(objective, x):
    x = x.clone().requires_grad_()
    value = objective(x)
    value.backward()
    return value.item(), x.grad.double()


def errors(objective, x):
    """Relative errors of value and gradient in float32; None where they are not finite, or zero in float64."""
    value, gradient = value_and_gradient(objective, x)
    exact_value, exact_gradient = value_and_gradient(objective, x.double())
    norm = torch.linalg.vector_norm(exact_gradient).item()
    off = torch.linalg.vector_norm(gradient - exact_gradient).item()
    found = {
        "value": abs(value - exact_value) / abs(exact_value) if exact_value else math.nan,
        "gradient": off / norm if norm else math.nan,
    }
    return {key: error if math.isfinite(error) else None for key, error in found.items()}


def scientific(error):
    return "-" if error is None else f"{error:.0e}"


def print_table(found, tables, d, part):
    print(f"\nd = {d}, relative error of the {part}")
    print(f"{'':<50}" + "".join(f"{name.removesuffix(' off'):>16}" for name in tables))
    for name, row in found.items():
        print(f"{name:<50}" + "".join(f"{scientific(row[f'{d}|{table}'][part]):>16}" for table in tables))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", action="store_true", help="leave compiled loops on")
    parser.add_argument("--quick", action="store_true", help="few points and tables")
    parser.add_argument("--only", metavar="NAME", help="objectives whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("results/accuracy.json"))
    chosen = parser.parse_args()
    if not chosen.native:
        os.environ.update(LOOPS_OFF)
    import unclump as uc

    n = 24 if chosen.quick else N
    tables = {name: TABLES[name] for name in (("generic", "near 1e-03") if chosen.quick else TABLES)}
    found = {}
    for name, make in objectives().items():
        if (chosen.only or "").lower() not in name.lower():
            continue
        found[name] = {}
        for d in DIMENSIONS:
            objective = with_fixed_draw(uc, make(), d)
            for table, points in tables.items():
                x = points(n, d, torch.Generator().manual_seed(0)).float()
                found[name][f"{d}|{table}"] = errors(objective, x)
    for d in DIMENSIONS:
        for part in ("value", "gradient"):
            print_table(found, tables, d, part)
    whole = json.loads(chosen.output.read_text()) if chosen.output.exists() else {}
    whole = {**whole, "n": n, "pairs": min(PAIRS, n // 4), "native" if chosen.native else "reference": found}
    chosen.output.parent.mkdir(exist_ok=True)
    chosen.output.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
