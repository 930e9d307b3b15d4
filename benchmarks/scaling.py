"""Cost against the number of points, from a thousand to a million in 64 dimensions, with fitted exponents.

    python benchmarks/scaling.py [--largest 1000000] [--output scaling.json] [--figure scaling.png]

Writes the times to results/, and a figure for the page of speeds. Measures that look at every pair are run as far as
a minute allows.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

import unclump as uc

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from _common import COLOURS, MARKERS, axes

D = 64
PATIENCE = 20.0  # seconds: nothing larger is tried once a size takes this long


def gradient_of(objective):
    def run(x):
        x = x.requires_grad_()
        x.grad = None
        objective(x).backward()

    return run


def optimiser():
    made = {}

    def run(x):
        if x.data_ptr() not in made:
            made.clear()
            parameter = torch.nn.Parameter(x.detach())
            parameter.grad = torch.randn_like(parameter)
            made[x.data_ptr()] = uc.SphereAdam([parameter], lr=1e-3)
        made[x.data_ptr()].step()

    return run


def parts():
    return {
        "Sliced (1)": gradient_of(uc.Sliced(1)),
        "Sliced (13 axes)": gradient_of(uc.Sliced(13, axis_aligned=True)),
        "Lloyd (512)": gradient_of(uc.Lloyd(512)),
        "SphereAdam": optimiser(),
        "spherical_variance": uc.spherical_variance,
        "effective_rank": uc.effective_rank,
        "min_angle": uc.min_angle,
        "KoLeo": gradient_of(uc.KoLeo()),
        "Energy (RBF)": gradient_of(uc.Energy(uc.Gaussian())),
    }


def best_time(run, x):
    run(x)
    times = []
    while len(times) < 5 and (not times or sum(times) < 2):
        begin = time.perf_counter()
        run(x)
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path("results/scaling.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/images/scaling.png"))
    chosen = parser.parse_args()
    sizes = [n for n in (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= chosen.largest]
    found = {name: {} for name in parts()}
    for n in sizes:
        x = uc.uniform(n, D, generator=torch.Generator().manual_seed(0))
        for name, run in parts().items():
            growth = 10 if name in ("min_angle", "KoLeo", "Energy (RBF)") else 3
            if not found[name] or growth * list(found[name].values())[-1] < PATIENCE:
                found[name][n] = best_time(run, x.detach())
                print(f"{name:<20}{n:>9}{found[name][n]:12.5f} s", flush=True)
    exponents = {}
    for name, times in found.items():
        large = [(math.log(n), math.log(t)) for n, t in times.items() if n >= 10_000]
        exponents[name] = float(np.polyfit(*zip(*large, strict=True), 1)[0]) if len(large) > 1 else math.nan
        print(f"{name:<20} n^{exponents[name]:.2f} from ten thousand on")
    chosen.output.parent.mkdir(exist_ok=True)
    chosen.output.write_text(json.dumps({"d": D, "seconds": found, "exponents": exponents}, indent=1) + "\n")
    draw(found, exponents, chosen.figure)


def draw(found, exponents, path):
    figure, ax = axes(width=7.5, height=4.6)
    for place, (name, times) in enumerate(found.items()):
        look = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "fillstyle": "none"}
        sizes = [int(n) for n in times]
        ax.loglog(sizes, list(times.values()), label=f"{name}: n^{exponents[name]:.2f}", **look)
    ax.set(xlabel=f"points in {D} dimensions", ylabel="seconds")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
