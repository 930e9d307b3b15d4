"""What each part of the search for spherical codes finds alone, and what the moves find without each, in equal time.

    python benchmarks/code_moves.py --seconds 3 --processes 2

For every size and every part: a number of seconds of processor time on one thread. Starts of one kind are annealed, and
polished if they come near the best; "orbits" are moved within the symmetry of a random group. A move goes on from the
best of eight random starts, accepted when the polished angle grows, and begins anew after a hundred in vain; the walk
by overlaps likewise. Variants are those of the best start, or of what moves or the walk have made of it. The result is
the difference of the best angle to that of the catalogue, in degrees: zero is as good. Writes results/code_moves.json
after every size, and goes on where it was stopped.
"""

import argparse
import json
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from unclump.codes import catalogue
from unclump.codes.search.abelian import random_permutations
from unclump.codes.search.moves import MOVES, move
from unclump.codes.search.orbits import random_orbits
from unclump.codes.search.permuted import PermutedStarts
from unclump.codes.search.pool import Candidate
from unclump.codes.search.restart import CodeSearch
from unclump.codes.search.starts import START_KINDS

SIZES = [*((n, 3) for n in (69, 86, 93, 102, 120, 136)), (50, 4), (45, 5), (60, 10), (38, 13), (40, 16), (36, 17)]
PATIENCE = 100
WORTH_POLISHING = 0.9999  # of the best angle: a polish may take as long as a hundred starts
SOFT, SHARP, SOFTER = (4.0, 50, 1e-3), (64.0, 50, 1e-3), (16.0, 50, 1e-3)


class RegularStarts(PermutedStarts):
    """By groups that act regularly on parts of the points alone."""

    def random_permutations(self):
        return random_permutations(self.n, self.generator)


class Trial:
    """The search for one size, for a number of seconds of processor time."""

    def __init__(self, n, d, seconds):
        self.flag = np.zeros(1, np.uint8)
        threading.Thread(target=self.wait_until, args=[time.process_time() + seconds], daemon=True).start()
        self.generator = np.random.default_rng([n, d])
        self.search = CodeSearch(n, d, seed=0, init=None, target=math.inf)

    def wait_until(self, end):
        while time.process_time() < end:
            time.sleep(0.01)
        self.flag[0] = 1

    def start(self, kind, permuted=None, above=0.0):
        """An annealed start, polished if its angle is not far below another."""
        code = self.search.start(kind, SOFT, self.generator, self.flag, permuted)
        if code.score > WORTH_POLISHING * above:
            self.search.improve(code, self.flag, rounds=1)
        return code

    def best_random(self):
        return max((self.start("random") for _ in range(8)), key=lambda code: code.score)

    def starts(self, kind, *, by=None):
        """Starts of one kind; `by` draws again from the groups that led to the best codes."""
        permuted = None if by is None else by(self.search.n, self.search.d, self.generator)
        best = 0.0
        while not self.flag[0]:
            best = max(best, self.start(kind, permuted, best).score)
        return best

    def orbits(self):
        best = 0.0
        while not self.flag[0]:
            orbits = random_orbits(self.search.n, self.search.d, self.generator)
            best = max(best, self.search.search_orbits(orbits, self.generator, self.flag).score)
        return best

    def moves(self, step, *, overlap=False, variants=False, schedule=SHARP):
        """Moves by `step` from random starts, or none of them; before that the overlap reduced, after it variants."""
        best = 0.0
        while not self.flag[0]:
            code, idle = self.best_random(), 0
            if overlap:
                self.search.reduce_overlap(code, PATIENCE, self.generator, self.flag)
            while step is not None and idle < PATIENCE and not self.flag[0]:
                trial = Candidate(step(code.points, self.generator), 0.0)
                idle += 1
                if self.search.follow(trial, code, schedule, self.flag):
                    code, idle = trial, 0
            if variants:
                self.search.settle(code, PATIENCE, self.generator, self.flag)
            best = max(best, code.score)
        return best


def move_without(left_out):
    """Any of the moves but one."""
    others = [step for step in MOVES if step is not left_out]
    return lambda x, generator: others[generator.integers(len(others))](x, generator)


PARTS: dict[str, Callable[[Trial], float]] = {
    **{f"starts: {kind}": lambda trial, kind=kind: trial.starts(kind) for kind in START_KINDS},
    "starts: permuted, best groups again": lambda trial: trial.starts("permuted", by=PermutedStarts),
    "starts: permuted, those without actions": lambda trial: trial.starts("permuted", by=RegularStarts),
    "orbits": Trial.orbits,
    **{f"move: {step.__name__}": lambda trial, step=step: trial.moves(step) for step in MOVES},
    "all moves": lambda trial: trial.moves(move),
    "all moves, softer": lambda trial: trial.moves(move, schedule=SOFTER),
    **{f"all but: {step.__name__}": lambda trial, step=step: trial.moves(move_without(step)) for step in MOVES},
    "overlap": lambda trial: trial.moves(None, overlap=True),
    "overlap, then all moves": lambda trial: trial.moves(move, overlap=True),
    "variants": lambda trial: trial.moves(None, variants=True),
    "all moves, then variants": lambda trial: trial.moves(move, variants=True),
    "overlap, then variants": lambda trial: trial.moves(None, overlap=True, variants=True),
}


def measure(n, d, seconds):
    """The difference of each part's best angle to that of the catalogue, in degrees."""
    known = catalogue.read(catalogue.SHIPPED, n, d).record.angle
    return {name: math.degrees(part(Trial(n, d, seconds)) - known) for name, part in PARTS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=1, help="sizes that are measured at the same time")
    parser.add_argument("--output", type=Path, default=Path("results/code_moves.json"))
    chosen = parser.parse_args()
    found = json.loads(chosen.output.read_text()) if chosen.output.exists() else {}
    if found and (found["seconds"] != chosen.seconds or list(found["rows"]) != list(PARTS)):
        raise SystemExit(f"{chosen.output} is of other parts or seconds: remove it")
    rows = found.get("rows") or {name: {} for name in PARTS}
    missing = [(n, d) for n, d in SIZES if f"{n} in {d}-D" not in next(iter(rows.values()))]
    with ProcessPoolExecutor(chosen.processes) as pool:
        running = {pool.submit(measure, n, d, chosen.seconds): f"{n} in {d}-D" for n, d in missing}
        for future in as_completed(running):
            for name, off in future.result().items():
                rows[name][running[future]] = off
                print(f"{running[future]}  {name:<40}{off:+.2e}", flush=True)
            chosen.output.write_text(json.dumps({"seconds": chosen.seconds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
