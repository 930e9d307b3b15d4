"""Lines in three dimensions: the catalogue beside searches from scratch, and beside the best of simple restarts.

    python benchmarks/code_lines.py

For every number of lines up to fifty: the angle that `spherical_code` gives; that of a search with another seed and a
fixed number of restarts, which reads no catalogue; and the best of ten random starts, annealed and polished, without
moves. Writes results/code_lines.json after every size, and goes on where it was stopped.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np

from unclump.codes import spherical_code
from unclump.codes.search.loops import anneal, polish
from unclump.codes.search.solver import solve
from unclump.codes.search.spacing import estimate_spacing

SIZES = range(4, 51)
SEED, RESTARTS, SIMPLE = 1000, 3, 10
GO = np.zeros(1, np.uint8)


def simple_restart(n, generator):
    """Random lines, both directions of each, annealed together: the gradient keeps them opposite."""
    x = generator.standard_normal((n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    both = np.concatenate([x, -x])
    anneal(both, 4.0, 2048.0, 100, 1e-4, estimate_spacing(2 * n, 3), GO)
    lines = both[:n].copy()
    polish(lines, 1.25, 50, GO, antipodal=True)
    cosines = np.abs(lines @ lines.T)
    np.fill_diagonal(cosines, 0.0)
    return math.acos(cosines.max())


def compare(n):
    code = spherical_code(n, 3, antipodal=True)
    searched = solve(n, 3, antipodal=True, seed=SEED, restarts=RESTARTS, target=code.upper_bound)
    generator = np.random.default_rng([SEED, n])
    simple = max(simple_restart(n, generator) for _ in range(SIMPLE))
    return {
        "angle": math.degrees(code.min_angle),
        "bound": math.degrees(code.upper_bound),
        "source": code.source.split(":")[0],
        "searched": math.degrees(searched.angle - code.min_angle),
        "simple": math.degrees(simple - code.min_angle),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results/code_lines.json"))
    output = parser.parse_args().output
    settings = {"seed": SEED, "restarts": RESTARTS, "simple": SIMPLE}
    found = json.loads(output.read_text()) if output.exists() else {**settings, "sizes": {}}
    if {key: found[key] for key in settings} != settings:
        raise SystemExit(f"{output} is of other settings: remove it")
    for n in SIZES:
        if str(n) in found["sizes"]:
            continue
        found["sizes"][str(n)] = row = compare(n)
        print(f"{n:3d}  {row['angle']:.9f}  searched {row['searched']:+.1e}  simple {row['simple']:+.1e}", flush=True)
        output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
