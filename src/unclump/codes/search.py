"""One restart of the solver: several starts, the best of them polished, and hops from it until it is not bettered."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump.codes.anneal import SHARPEST, anneal, spacing_estimate
from unclump.codes.hops import hop
from unclump.codes.polish import least_square, polish
from unclump.codes.pool import Flag, Found
from unclump.codes.starts import KINDS, start

Points = Float[np.ndarray, "n d"]
Report = Callable[[float], None]

REACHED = 1e-13  # radians from the target
# First p, iterations for each, tolerance. What is too quick for one size is just right for another: they take turns.
_SCHEDULES = ((4.0, 50, 1e-3), (4.0, 100, 1e-4), (32.0, 50, 1e-3), (8.0, 100, 1e-4))
_AFTER_HOP = ((64.0, 50, 1e-3), (32.0, 100, 1e-4))
_REACH, _STEPS = 1.25, 50
_WORTH_POLISHING = 0.997  # of the best angle: what a polish adds to an annealed code is less than the rest


@dataclass(frozen=True)
class Effort:
    """How much work a restart is, and how many there are unless told."""

    starts: int
    patience: int
    restarts: int


def effort(n: int, d: int) -> Effort:
    """Enough for the best known codes in 3-D up to 60 points."""
    return Effort(starts=16, patience=100, restarts=8)


def angle_of_square(square: float) -> float:
    """The angle of a squared chord, exact at both ends."""
    return 2 * math.atan2(math.sqrt(square), math.sqrt(4 - square))


@dataclass(frozen=True)
class CodeSearch:
    """The largest least angle of n points in d dimensions."""

    n: int
    d: int
    seed: int
    init: Points | str | None
    target: float

    def __call__(self, number: int, flag: Flag, report: Report) -> Found:
        """Restart `number`; ended early by the flag, with what there is."""
        generator = np.random.default_rng([self.seed, number])
        spacing = spacing_estimate(self.n, self.d)
        best = self._first(number, generator, spacing, flag)
        self._polish(best, flag, rounds=4)
        report(best.score)
        idle = 0
        while idle < effort(self.n, self.d).patience and not flag[0] and best.score < self.target - REACHED:
            trial = Found(hop(best.points, generator), 0.0)
            softest, iterations, tolerance = _AFTER_HOP[best.hops % len(_AFTER_HOP)]
            cosine = anneal(trial.points, softest, SHARPEST, iterations, tolerance, spacing, flag)
            best.hops += 1
            idle += 1
            if math.acos(cosine) > _WORTH_POLISHING * best.score:
                self._polish(trial, flag)
                if trial.score > best.score + 1e-12:
                    idle = 0
                    self._polish(trial, flag, rounds=4)
                    best.points, best.score = trial.points, trial.score
                    report(best.score)
        if flag[0]:
            self._polish(best, np.zeros(1, np.uint8))
        return best

    def _first(self, number: int, generator: np.random.Generator, spacing: float, flag: Flag) -> Found:
        if isinstance(self.init, np.ndarray) and number == 0:
            return Found(self.init.copy(), angle_of_square(least_square(self.init)), starts=1)
        kinds = (self.init,) if isinstance(self.init, str) else KINDS
        best = Found(np.empty((0, 0)), -1.0)
        count = effort(self.n, self.d).starts
        for index in range(count):
            turn = index + number * count
            x = start(self.n, self.d, kinds[turn % len(kinds)], generator)
            softest, iterations, tolerance = _SCHEDULES[turn // len(kinds) % len(_SCHEDULES)]
            angle = math.acos(anneal(x, softest, SHARPEST, iterations, tolerance, spacing, flag))
            best.starts += 1
            if angle > best.score:
                best.points, best.score = x, angle
            if flag[0]:
                break
        return best

    def _polish(self, found: Found, flag: Flag, rounds: int = 1) -> None:
        square = least_square(found.points)
        for _ in range(rounds):
            last, square = square, polish(found.points, _REACH, _STEPS, flag)
            if square < last * (1 + 1e-14):
                break
        found.score = angle_of_square(square)
