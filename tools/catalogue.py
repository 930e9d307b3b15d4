"""Search for the codes that the package ships, and keep whatever is better than what is there.

    python tools/catalogue.py 3 4 130 [--seed 0] [--time-limit SECONDS]
    python tools/catalogue.py 8 32 1024 --doubling

Codes in closed form need no entry. A code that is there already is searched for again only with --improve. With
--from-above, a code that is worse than the one with a point more is replaced by that one less a point. With --around,
hops go on from the code that is there, from the one with a point more, less a point, and from the one with a point
less, with a point in its deepest hole.
"""

import argparse
import math
import time

import numpy as np
import torch

from unclump.codes import catalogue
from unclump.codes.bounds.upper_bound import best_bound
from unclump.codes.code import search
from unclump.codes.constructions.exact import exact_code
from unclump.codes.search.restart import effort
from unclump.codes.search.solver import solve
from unclump.codes.verify import minimal_angle
from unclump.dispersion.placing import place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dimension", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--doubling", action="store_true", help="first, 2 first, 4 first, ...")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, help="seconds for a code; then the result depends on the machine")
    parser.add_argument("--from-above", action="store_true", help="no search from scratch: leave out points")
    parser.add_argument("--around", action="store_true", help="no search from scratch: hops from what is there")
    parser.add_argument("--improve", action="store_true", help="search also for codes that are there")
    chosen = parser.parse_args()
    d, n = chosen.dimension, chosen.first
    if chosen.from_above:
        for fewer in range(chosen.last - 1, n - 1, -1):
            if exact_code(fewer, d) is None:
                leave_out(fewer, d)
        return
    if chosen.around and chosen.time_limit is None:
        parser.error("--around goes on until its --time-limit: how many seconds for each code?")
    while n <= chosen.last:
        there = catalogue.read(catalogue.SHIPPED, n, d)
        if exact_code(n, d) is None:
            if chosen.around:
                around(n, d, chosen.seed, chosen.time_limit, there)
            elif there is None or chosen.improve:
                one(n, d, chosen.seed, chosen.time_limit, there)
        n = 2 * n if chosen.doubling else n + 1


def known(n: int, d: int) -> np.ndarray | None:
    """The points of a code in closed form, or of one that is there."""
    exact, there = exact_code(n, d), catalogue.read(catalogue.SHIPPED, n, d)
    return exact.points if exact is not None else None if there is None else there.points


def leave_out(n: int, d: int) -> None:
    """The code of one point more less a point, searched on from there, where it is better than what is there."""
    points, there = known(n + 1, d), catalogue.read(catalogue.SHIPPED, n, d)
    if points is None or (there is not None and minimal_angle(points) <= there.record.angle + 1e-13):
        return
    found, bound = solve(n, d, init=points[1:].copy(), restarts=1), best_bound(n, d)
    command = f"unclump code {n + 1} {d}, less a point, searched on with --seed 0 --restarts 1"
    record = catalogue.Record(minimal_angle(found.points), bound.angle, bound.name, 0, command)
    catalogue.save_if_better(catalogue.SHIPPED, found.points, record)
    print(f"{n} points in {d} dimensions, from above: {math.degrees(record.angle):.12f} degrees", flush=True)


def around(n: int, d: int, seed: int, time_limit: float, there: catalogue.Entry | None) -> None:
    """Hops from the code that is there and from its neighbours, in turns."""
    if there is None:
        print(f"{n} points in {d} dimensions: nothing there to begin with")
        return
    end, generator, best, turn = time.monotonic() + time_limit, np.random.default_rng(seed), there.points, 0
    more, less = known(n + 1, d), known(n - 1, d)
    starts = [lambda: best]
    if more is not None:
        starts.append(lambda: np.delete(more, generator.integers(n + 1), axis=0))
    if less is not None:
        starts.append(lambda: np.vstack([less, place(1, less, generator=torch.Generator().manual_seed(seed + turn))]))
    while time.monotonic() < end:
        left = max(0.1, end - time.monotonic())
        init = starts[turn % len(starts)]()
        trial = solve(n, d, init=init, restarts=1, seed=seed + turn, time_limit=left).points
        best, turn = max(best, trial, key=minimal_angle), turn + 1
    bound = best_bound(n, d)
    command = f"unclump code {n} {d}, and hops from it and its neighbours, --seed {seed} --time-limit {time_limit:g}"
    record = catalogue.Record(minimal_angle(best), bound.angle, bound.name, seed, command)
    better = catalogue.save_if_better(catalogue.SHIPPED, best, record)
    gain = math.degrees(record.angle - there.record.angle)
    print(f"{n} points in {d} dimensions, around: {gain:+.3g} degrees{'' if better else ', not kept'}", flush=True)


def one(n: int, d: int, seed: int, time_limit: float | None, there: catalogue.Entry | None) -> None:
    began, bound = time.monotonic(), best_bound(n, d)
    restarts = effort(n, d).restarts
    limit = {} if time_limit is None else {"time_limit": time_limit}
    found, _ = search(n, d, restarts=None if limit else restarts, seed=seed, target=bound.angle, **limit)
    budget = f"--time-limit {time_limit:g}" if limit else f"--restarts {restarts}"
    command = f"unclump code {n} {d} --fresh --seed {seed} {budget}"
    record = catalogue.Record(minimal_angle(found.points), bound.angle, bound.name, seed, command)
    better = catalogue.save_if_better(catalogue.SHIPPED, found.points, record)
    before = f", {math.degrees(record.angle - there.record.angle):+.3g} against before" if there else ""
    print(
        f"{n} points in {d} dimensions: {math.degrees(record.angle):.12f} of at most {math.degrees(bound.angle):.6f} "
        f"degrees, {time.monotonic() - began:.1f} s{before}{'' if better else ', not kept'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
