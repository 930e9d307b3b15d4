"""Time and peak memory of every measure and pairwise objective on a large table.

    python benchmarks/memory.py [--n 100000] [--d 64] [--output results/memory.json]

Each runs in a process of its own. Memory is the peak of the process less what it held when the table was there.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

import unclump as uc

MEASURES = {
    "nearest_angles": uc.nearest_angles,
    "mean_angle": uc.mean_angle,
    "median_angle": uc.median_angle,
    "spherical_variance": uc.spherical_variance,
    "effective_rank": uc.effective_rank,
    "covering_radius": uc.covering_radius,
}
OBJECTIVES = {
    "MaxMin": uc.MaxMin(),
    "KoLeo": uc.KoLeo(),
    "Energy": uc.Energy(),
    "MMD": uc.MMD(),
    "Uniformity": uc.Uniformity(),
}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB


def worker(name, n, d):
    x = uc.uniform(n, d, generator=torch.Generator().manual_seed(0))
    before, begin = peak(), time.perf_counter()
    if name in MEASURES:
        MEASURES[name](x)
    else:
        OBJECTIVES[name](x.requires_grad_()).backward()
    print(json.dumps({"seconds": time.perf_counter() - begin, "mebibytes": peak() - before}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker")
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--output", type=Path, default=Path("results/memory.json"))
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.n, arguments.d)
        return
    found = {}
    for name in tqdm([*MEASURES, *OBJECTIVES]):
        command = [sys.executable, __file__, "--worker", name, "--n", str(arguments.n), "--d", str(arguments.d)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        found[name] = json.loads(result.stdout)
    print(f"n = {arguments.n}, d = {arguments.d}\n{'':<20}{'seconds':>10}{'MiB':>10}")
    for name, row in found.items():
        print(f"{name:<20}{row['seconds']:10.2f}{row['mebibytes']:10.0f}")
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps({"n": arguments.n, "d": arguments.d, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
