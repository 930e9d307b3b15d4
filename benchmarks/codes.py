"""Fresh solves of spherical codes, with the time each took, beside a table of known angles.

    python benchmarks/codes.py --dimension 3 --first 4 --last 60 --table known.csv

The table has columns dim, n and angle_deg. Prints a line for each code and writes results/codes.json.
"""

import argparse
import csv
import json
import math
from pathlib import Path

from unclump.codes.solver import solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimension", type=int, default=3)
    parser.add_argument("--first", type=int, default=4)
    parser.add_argument("--last", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/codes.json"))
    chosen = parser.parse_args()
    known = {}
    if chosen.table:
        with chosen.table.open() as file:
            known = {(int(row["n"]), int(row["dim"])): float(row["angle_deg"]) for row in csv.DictReader(file)}
    solve(4, chosen.dimension, restarts=1)  # compiles
    results = []
    for n in range(chosen.first, chosen.last + 1):
        solution = solve(n, chosen.dimension, seed=chosen.seed)
        angle, table = math.degrees(solution.angle), known.get((n, chosen.dimension))
        results.append({"n": n, "angle": angle, "table": table, "seconds": round(solution.seconds, 3)})
        beside = "" if table is None else f"  {angle - table:+.1e}"
        print(f"{n:5d}  {angle:.12f}°{beside}  {solution.seconds:8.2f} s", flush=True)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"dimension": chosen.dimension, "seed": chosen.seed, "codes": results}
    chosen.output.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
