"""Whether a minute's search from scratch reaches the catalogue's angle, on all of torch's threads.

    python benchmarks/code_minute.py [--only 3] [--most 4]

A search of at most sixty seconds, seed 0, without closed forms and without the catalogue, for sizes that were fixed in
advance. It ends as soon as it has the angle, to 1e-8 degrees; how long that took is written down. Writes
results/code_minute.json after every size, and goes on where it was stopped: --only visits the sizes of a dimension,
--most stops after as many sizes. The machine must be otherwise idle.
"""

import argparse
import json
import math
from pathlib import Path

import torch

from unclump.codes import catalogue
from unclump.codes.constructions.exact import exact_code
from unclump.codes.search.solver import solve

SIZES = {3: range(5, 101, 5), 4: range(20, 81, 20), 5: range(20, 81, 20), 8: range(20, 61, 20)}
SECONDS, SEED = 60.0, 0
TOLERANCE = math.radians(1e-8)


def known_angle(n, d):
    """Of a closed form, or of the catalogue."""
    exact = exact_code(n, d)
    return catalogue.read(catalogue.SHIPPED, n, d).record.angle if exact is None else math.acos(exact.cosine)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results/code_minute.json"))
    parser.add_argument("--only", type=int, metavar="D")
    parser.add_argument("--most", type=int, default=math.inf)
    chosen = parser.parse_args()
    settings = {"seconds": SECONDS, "seed": SEED, "threads": torch.get_num_threads()}
    found = json.loads(chosen.output.read_text()) if chosen.output.exists() else {**settings, "sizes": {}}
    if {key: found[key] for key in settings} != settings:
        raise SystemExit(f"{chosen.output} is of other settings: remove it, or set OMP_NUM_THREADS")
    sizes = [(n, d) for d, numbers in SIZES.items() if chosen.only in (None, d) for n in numbers]
    missing = [(n, d) for n, d in sizes if f"{n} in {d}-D" not in found["sizes"]]
    for n, d in missing[: None if chosen.most == math.inf else chosen.most]:
        known = known_angle(n, d)
        solution = solve(n, d, seed=SEED, time_limit=SECONDS, target=known - TOLERANCE)
        off = math.degrees(solution.angle - known)
        found["sizes"][f"{n} in {d}-D"] = {"n": n, "d": d, "off": off, "took": solution.seconds}
        print(f"{n} in {d}-D  {off:+.1e} degrees in {solution.seconds:.1f} s", flush=True)
        chosen.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
