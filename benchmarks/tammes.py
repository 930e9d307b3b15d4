"""The paper's objectives on the Tammes problem, beside the solver of spherical codes: smallest angle and time.

    python benchmarks/tammes.py [--n 24] [--steps 10000] [--output results/tammes24.json]

Every objective starts from the same uniform points in three dimensions, with SphereAdam at a learning rate of 0.005, as
in the paper. The last row is a fresh search: no closed form, no catalogue.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from tqdm import tqdm

import unclump as uc

OBJECTIVES = {
    "MHE (RBF, chordal)": lambda: uc.Energy(uc.Gaussian()),
    "MHE (RBF, geodesic)": lambda: uc.Energy(uc.Gaussian(distance="geodesic")),
    "MHE (Laplace, chordal)": lambda: uc.Energy(uc.Laplace(distance="chordal")),
    "MHE (Laplace, geodesic)": lambda: uc.Energy(uc.Laplace()),
    "MHE (Riesz, chordal)": lambda: uc.Energy(uc.Riesz()),
    "MHE (Riesz, geodesic)": lambda: uc.Energy(uc.Riesz(distance="geodesic")),
    "MM (geodesic)": uc.MaxMin,
    "MM (chordal)": lambda: uc.MaxMin(distance="chordal"),
    "MM (squared)": lambda: uc.MaxMin(distance="squared"),
    "KoLeo": uc.KoLeo,
    "Lloyd (300)": lambda: uc.Lloyd(300, generator=torch.Generator().manual_seed(0)),
    "SSW (50)": lambda: uc.SSW(50, generator=torch.Generator().manual_seed(0)),
    "Sliced (1)": lambda: uc.Sliced(1, generator=torch.Generator().manual_seed(0)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=24)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path("results/tammes24.json"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # a table this small is faster without a second
    start = uc.uniform(chosen.n, 3, generator=torch.Generator().manual_seed(0))
    found = {}
    for name, make in tqdm(OBJECTIVES.items()):
        begin = time.perf_counter()
        points = uc.disperse(start, make(), steps=chosen.steps, lr=0.005, measure_every=chosen.steps).points
        found[name] = {"degrees": math.degrees(uc.min_angle(points)), "seconds": time.perf_counter() - begin}
    uc.spherical_code(5, 3, fresh=True, restarts=1)  # compiles
    begin = time.perf_counter()
    code = uc.spherical_code(chosen.n, 3, fresh=True, restarts=4)
    found["spherical_code"] = {"degrees": math.degrees(code.min_angle), "seconds": time.perf_counter() - begin}
    for name, row in found.items():
        print(f"{name:<26}{row['degrees']:14.9f} degrees{row['seconds']:9.2f} s")
    chosen.output.parent.mkdir(exist_ok=True)
    chosen.output.write_text(json.dumps({"n": chosen.n, "steps": chosen.steps, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
