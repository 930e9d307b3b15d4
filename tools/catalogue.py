"""Search for the codes that the package ships, and keep whatever is better than what is there.

    python tools/catalogue.py 3 4 130 [--seed 0] [--time-limit SECONDS]
    python tools/catalogue.py 8 32 1024 --doubling

Codes in closed form need no entry. A code that is there already is searched for again only with --improve.
"""

import argparse
import math
import time

from unclump.codes import catalogue
from unclump.codes.bounds import best_bound
from unclump.codes.exact import exact_code
from unclump.codes.search import effort
from unclump.codes.solver import solve
from unclump.codes.verify import minimal_angle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dimension", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--doubling", action="store_true", help="first, 2 first, 4 first, ...")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, help="seconds for a code; then the result depends on the machine")
    parser.add_argument("--improve", action="store_true", help="search also for codes that are there")
    chosen = parser.parse_args()
    d, n = chosen.dimension, chosen.first
    while n <= chosen.last:
        there = catalogue.read(catalogue.SHIPPED, n, d)
        if exact_code(n, d) is None and (there is None or chosen.improve):
            one(n, d, chosen.seed, chosen.time_limit, there)
        n = 2 * n if chosen.doubling else n + 1


def one(n: int, d: int, seed: int, time_limit: float | None, there: catalogue.Entry | None) -> None:
    began, bound = time.monotonic(), best_bound(n, d)
    restarts = effort(n, d).restarts
    limit = {} if time_limit is None else {"time_limit": time_limit}
    found = solve(n, d, restarts=None if limit else restarts, seed=seed, target=bound.angle, **limit)
    budget = f"--time-limit {time_limit:g}" if limit else f"--restarts {restarts}"
    command = f"unclump code {n} {d} --fresh --seed {seed} {budget}"
    record = catalogue.Record(minimal_angle(found.points), bound.angle, bound.name, seed, command)
    better = catalogue.keep(catalogue.SHIPPED, found.points, record)
    before = f", {math.degrees(record.angle - there.record.angle):+.3g} against before" if there else ""
    print(
        f"{n} points in {d} dimensions: {math.degrees(record.angle):.12f} of at most {math.degrees(bound.angle):.6f} "
        f"degrees, {time.monotonic() - began:.1f} s{before}{'' if better else ', not kept'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
