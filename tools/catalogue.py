"""Search for the codes that the package ships, and keep whatever is better than what is there.

    python tools/catalogue.py 3:131-200 4:101-200 5:41 --time-limit 20 --rounds 3

Each argument is a dimension and a range of sizes. A round visits every size once, those without an entry first, for the
given number of seconds: half of it for a search from scratch, with the number of the round as seed, half for searches
from the code that is there, from the one with a point more, less a point, and from the one with a point less, with a
point in its deepest hole. Every improvement is saved at once, so that the program can be stopped and started again at
any time. After every round a code that is worse than the one with a point more is replaced by that one less a point.
Codes in closed form need no entry.
"""

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np
import torch

from unclump.codes import catalogue
from unclump.codes.bounds.upper_bound import best_bound
from unclump.codes.code import search
from unclump.codes.constructions.exact import exact_code
from unclump.codes.search.solver import solve
from unclump.codes.verify import minimal_angle
from unclump.dispersion.placing import place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", metavar="D:FIRST-LAST", help="a dimension and the sizes to visit")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for a visit")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--first-round", type=int, default=0, help="its number, the seed of its searches")
    chosen = parser.parse_args()
    sizes = [size for text in chosen.sizes for size in parse_sizes(text) if exact_code(size[1], size[0]) is None]
    for number in range(chosen.first_round, chosen.first_round + chosen.rounds):
        for d, n in sorted(sizes, key=lambda size: is_shipped(*size)):
            visit(n, d, number, chosen.time_limit)
        for d, n in sorted(sizes, reverse=True):
            leave_out(n, d)


def parse_sizes(text: str) -> Iterator[tuple[int, int]]:
    """The pairs (d, n) of "3:131-200", or of "5:41"."""
    dimension, _, sizes = text.partition(":")
    first, _, last = sizes.partition("-")
    return ((int(dimension), n) for n in range(int(first), int(last or first) + 1))


def is_shipped(d: int, n: int) -> bool:
    return n in catalogue.read_index(catalogue.SHIPPED / f"{d}.zip")


def known(n: int, d: int) -> np.ndarray | None:
    """The points of a code in closed form, or of one that is there."""
    if (exact := exact_code(n, d)) is not None:
        return exact.points
    entry = catalogue.read(catalogue.SHIPPED, n, d)
    return None if entry is None else entry.points


def visit(n: int, d: int, seed: int, seconds: float) -> None:
    """Search from scratch, then from what is known."""
    end, bound = time.monotonic() + seconds, best_bound(n, d)
    found, _ = search(n, d, seed=seed, target=bound.angle, time_limit=seconds / 2)
    keep(found.points, seed, f"--fresh --seed {seed} --time-limit {seconds / 2:g}")
    generator, turn = np.random.default_rng([seed, n, d]), 0
    more, less = known(n + 1, d), known(n - 1, d)
    while time.monotonic() < end:
        start = known(n, d)
        if turn % 3 == 1 and more is not None:
            start = np.delete(more, generator.integers(n + 1), axis=0)
        elif turn % 3 == 2 and less is not None:
            start = np.vstack([less, place(1, less, generator=torch.Generator().manual_seed(seed + turn))])
        remaining = max(0.1, end - time.monotonic())
        found = solve(n, d, init=start, restarts=1, seed=seed + turn, time_limit=remaining, target=bound.angle)
        keep(
            found.points, seed, f"--fresh, and moves from it and its neighbours --seed {seed} --time-limit {seconds:g}"
        )
        turn += 1


def leave_out(n: int, d: int) -> None:
    """Where the code of one point more is better than what is there: it less a point, searched on for a second."""
    more, current = known(n + 1, d), catalogue.read(catalogue.SHIPPED, n, d)
    if more is None or (current is not None and minimal_angle(more) <= current.record.angle + 1e-13):
        return
    found = solve(n, d, init=more[1:].copy(), restarts=1, time_limit=1.0)
    keep(found.points, 0, f"from {n + 1} points less one --seed 0 --time-limit 1")


def keep(points: np.ndarray, seed: int, how: str) -> None:
    """Save the points if they are better than what is there."""
    n, d = points.shape
    current = catalogue.read(catalogue.SHIPPED, n, d)
    angle, bound = minimal_angle(points), best_bound(n, d)
    command = f"unclump code {n} {d} {how}"
    record = catalogue.Record(angle, bound.angle, bound.name, seed, command, catalogue.today())
    if catalogue.save_if_better(catalogue.SHIPPED, points, record):
        gain = "" if current is None else f", {math.degrees(angle - current.record.angle):+.3g}"
        moment = time.strftime("%Y-%m-%d %H:%M")
        print(f"{moment}  {n} points in {d} dimensions: {math.degrees(angle):.12f} degrees{gain}, {how}", flush=True)


if __name__ == "__main__":
    main()
