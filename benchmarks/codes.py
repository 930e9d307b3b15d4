"""Fresh solves of spherical codes, with the time each took, beside a table of known angles or energies.

    python benchmarks/codes.py --dimension 3 --first 4 --last 60 --table known_angles.csv
    python benchmarks/codes.py --thomson --first 2 --last 60 --table known_energies.csv

No closed form, no catalogue. The table has columns dim, n, and angle_deg or energy. Prints a line for each code and
writes results/codes.json, or results/thomson.json.
"""

import argparse
import csv
import json
import math
from pathlib import Path

import unclump as uc
from unclump.codes.search.solver import minimal_energy, solve


def read_known(path, dimension, column):
    with path.open() as file:
        return {int(row["n"]): float(row[column]) for row in csv.DictReader(file) if int(row["dim"]) == dimension}


def angle(n, dimension, seed, known):
    solution = solve(n, dimension, seed=seed)
    found = math.degrees(solution.angle)
    return {"angle": found, "off": None if known is None else found - known, "seconds": solution.seconds}


def energy(n, dimension, seed, known):
    solution = minimal_energy(n, dimension, uc.Riesz(s=1.0), seed=seed)
    off = None if known is None else solution.energy / known - 1
    return {"energy": solution.energy, "off": off, "seconds": solution.seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thomson", action="store_true", help="least Coulomb energies instead of largest angles")
    parser.add_argument("--dimension", type=int, default=3)
    parser.add_argument("--first", type=int, default=4)
    parser.add_argument("--last", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    run, column = (energy, "energy") if chosen.thomson else (angle, "angle_deg")
    known = read_known(chosen.table, chosen.dimension, column) if chosen.table else {}
    results = []
    for n in range(chosen.first, chosen.last + 1):
        found = {"n": n, "known": known.get(n), **run(n, chosen.dimension, chosen.seed, known.get(n))}
        results.append(found)
        value = found["energy"] if chosen.thomson else found["angle"]
        beside = "" if found["off"] is None else f"{found['off']:+10.1e}"
        print(f"{n:5d}  {value:18.12f}{beside}  {found['seconds']:8.2f} s", flush=True)
    output = chosen.output or Path("results") / ("thomson.json" if chosen.thomson else "codes.json")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"dimension": chosen.dimension, "seed": chosen.seed, "codes": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
