"""One restart of the search for lines: starts or symmetries, polishing of the best, and moves while they improve it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump.codes.search.effort import effort, polish_cost
from unclump.codes.search.groups import Group
from unclump.codes.search.loops import Flag, Points, anneal_orbits, polish, smallest_squared_chord
from unclump.codes.search.moves import lines_into_holes, shake
from unclump.codes.search.orbit_moves import promising_orbits
from unclump.codes.search.orbits import Orbits, random_orbits
from unclump.codes.search.pool import Candidate
from unclump.codes.search.restart import CHEAP, TARGET_TOLERANCE
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing

_SHARPEST, _ITERATIONS, _TOLERANCE = 2048.0, 50, 1e-3
_REACH, _STEPS = 1.25, 50
_WORTH_POLISHING = 0.997
_SYMMETRIC_PATIENCE = 40


@dataclass(frozen=True)
class LineSearch:
    """Search for n lines in d dimensions with the largest minimal angle, as 2 n points, each with its antipode."""

    n: int
    d: int
    seed: int
    init: Points | None
    target: float

    def __call__(self, number: int, flag: Flag, report: Callable[[float], None]) -> Candidate:
        """Run restart `number`; the flag stops it early with the best so far."""
        generator = np.random.default_rng([self.seed, number])
        work = effort(2 * self.n, self.d, number)
        best = Candidate(np.empty((0, 0)), -1.0)
        for index in range(work.starts):
            if self.init is None and number % 3 == 2:
                trial = self._search_orbits(generator, flag)
            else:
                trial = self._start(index, number, generator, flag)
            best.starts += 1
            if trial.score > best.score:
                best.points, best.score = trial.points, trial.score
            if flag[0] or (self.init is not None and number == 0):
                break
        self._polish(best, flag)
        report(best.score)
        idle = 0
        while idle < work.patience and not flag[0] and best.score < self.target - TARGET_TOLERANCE:
            step = lines_into_holes if best.hops % 3 else shake
            trial = self._anneal(step(best.points, generator), 64.0, flag)
            best.hops += 1
            idle += 1
            if trial.score > _WORTH_POLISHING * best.score:
                self._polish(trial, flag)
                if trial.score > best.score + 1e-12:
                    best.points, best.score, idle = trial.points, trial.score, 0
                    report(best.score)
        # After the time limit, polish only if it takes almost no time.
        self._polish(best, np.zeros(1, np.uint8) if polish_cost(2 * self.n, self.d) < CHEAP else flag)
        return best

    def _start(self, index: int, number: int, generator: np.random.Generator, flag: Flag) -> Candidate:
        """The lines of `init`, random lines or, every third time, orbits of a group that contains -1."""
        if self.init is not None and number == 0:
            square = smallest_squared_chord(self.init, antipodal=True)
            return Candidate(self.init.copy(), angle_of_squared_chord(square))
        if index % 3 < 2:
            return self._anneal(generator.standard_normal((self.n, self.d)), 4.0, flag)
        orbits = random_orbits(2 * self.n, self.d, generator, antipodal=True)
        anneal_orbits(orbits, 4.0, _SHARPEST, _ITERATIONS, _TOLERANCE, estimate_spacing(2 * self.n, self.d), flag)
        return self._anneal(one_of_each_pair(orbits.points), 512.0, flag)

    def _search_orbits(self, generator: np.random.Generator, flag: Flag) -> Candidate:
        """The best lines found by moves of orbits, within the symmetry of a random group that contains -1."""
        best = Candidate(np.empty((0, 0)), -1.0)
        orbits = random_orbits(2 * self.n, self.d, generator, antipodal=True)
        for found in promising_orbits(orbits, _SYMMETRIC_PATIENCE, generator, flag):
            lines = self._anneal(one_of_each_pair(found.points), _SHARPEST, flag)
            self._polish(lines, flag)
            best = max(best, lines, key=lambda code: code.score)
        return best

    def _anneal(self, x: Points, softest: float, flag: Flag) -> Candidate:
        """Anneal the 2 n points, as orbits of size two."""
        both = np.stack([np.eye(self.d), -np.eye(self.d)])
        sizes = np.full(self.n, 2, dtype=np.int64)
        orbits = Orbits(np.ascontiguousarray(x), np.tile(both, (self.n, 1, 1)), sizes, Group("Ci", both))
        spacing = estimate_spacing(2 * self.n, self.d)
        square = anneal_orbits(orbits, softest, _SHARPEST, _ITERATIONS, _TOLERANCE, spacing, flag)
        lines = orbits.representatives / np.linalg.norm(orbits.representatives, axis=1, keepdims=True)
        return Candidate(lines, angle_of_squared_chord(max(0.0, square)))

    def _polish(self, code: Candidate, flag: Flag) -> None:
        code.score = angle_of_squared_chord(polish(code.points, _REACH, _STEPS, flag, antipodal=True))


def one_of_each_pair(x: Points) -> Float[np.ndarray, "m d"]:
    """One point of each antipodal pair; points may coincide if their antipodes do."""
    cosines, kept = x @ x.T, []
    for i in range(len(x)):
        if cosines[i, i] < 2:
            kept.append(i)
            cosines[:, [i, cosines[i].argmin()]] = 2  # above all cosines: neither is chosen again
    half: Float[np.ndarray, "m d"] = x[kept]
    return half
