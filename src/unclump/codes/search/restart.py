"""One restart of the solver: several starts, the best of them polished, and hops from it until it is not bettered."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump.codes.search.anneal import SHARPEST, anneal, spacing_estimate
from unclump.codes.search.hops import hop
from unclump.codes.search.polish import least_square, polish
from unclump.codes.search.pool import Flag, Found
from unclump.codes.search.starts import KINDS, start

Points = Float[np.ndarray, "n d"]
Report = Callable[[float], None]

REACHED = 1e-13  # radians from the target

# First p, iterations for each, tolerance. What is too quick for one size is just right for another: they take turns.
_SCHEDULES = ((4.0, 50, 1e-3), (4.0, 100, 1e-4), (32.0, 50, 1e-3), (8.0, 100, 1e-4))
_AFTER_HOP = ((64.0, 50, 1e-3), (256.0, 50, 1e-3), (64.0, 50, 1e-3), (32.0, 100, 1e-4))
_SHARPER = (2 * SHARPEST, 128 * SHARPEST, 200, 1e-4)

_REACH, _STEPS, _ROUNDS = 1.25, 50, 4
_WORTH_POLISHING = 0.997  # of the best angle: what a polish adds to an annealed code is less than the rest
_CHEAP, _POSSIBLE = 1e8, 2e10  # operations in a step of the polish: after every hop, or once in a restart


@dataclass(frozen=True)
class Effort:
    """How much work a restart is, and how many there are unless told."""

    starts: int
    patience: int
    restarts: int


def effort(n: int, d: int, number: int = 0) -> Effort:
    """Enough for the best known codes in 3-D up to 60 points; less of everything where a start takes seconds.

    Restarts take turns: many starts and few hops find symmetric codes, few starts and many hops the others.
    """
    size = n * n * d / 30_000  # one is a hundred points in 3-D, whose annealing takes a hundredth of a second
    many, few = (64, 8) if size < 10 else (16, 4)
    patience = min(200, max(4, int(400 / (1 + size))))
    restarts = 4 if n <= 24 and d <= 4 else max(2, min(32, n - 20, int(200 / size)))
    return Effort(many, patience // 4, restarts) if number % 2 == 0 else Effort(few, patience, restarts)


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
        best = self._first(number, generator, flag)
        self._improve(best, flag, rounds=_ROUNDS)
        report(best.score)
        idle, patience = 0, effort(self.n, self.d, number).patience
        while idle < patience and not flag[0] and best.score < self.target - REACHED:
            trial = Found(hop(best.points, generator), 0.0)
            self._anneal(trial, _AFTER_HOP[best.hops % len(_AFTER_HOP)], flag)
            best.hops += 1
            idle += 1
            if trial.score > _WORTH_POLISHING * best.score:
                self._improve(trial, flag, rounds=1)
                if trial.score > best.score + 1e-12:
                    idle = 0
                    self._improve(trial, flag, rounds=_ROUNDS)
                    best.points, best.score = trial.points, trial.score
                    report(best.score)
        if self._operations() < (_CHEAP if flag[0] else _POSSIBLE):
            self._polish(best, np.zeros(1, np.uint8) if flag[0] else flag, rounds=_ROUNDS)
            report(best.score)
        return best

    def _first(self, number: int, generator: np.random.Generator, flag: Flag) -> Found:
        """The best of several starts, or the given points."""
        if isinstance(self.init, np.ndarray) and number == 0:
            given = Found(self.init.copy(), angle_of_square(least_square(self.init)), starts=1)
            annealed = Found(self.init.copy(), 0.0, starts=1)
            self._anneal(annealed, _AFTER_HOP[0], flag)
            return max(given, annealed, key=lambda found: found.score)
        kinds = (self.init,) if isinstance(self.init, str) else KINDS
        best = Found(np.empty((0, 0)), -1.0)
        count = effort(self.n, self.d, number).starts
        for index in range(count):
            turn = index + number * count
            trial = Found(start(self.n, self.d, kinds[turn % len(kinds)], generator), 0.0)
            self._anneal(trial, _SCHEDULES[turn // len(kinds) % len(_SCHEDULES)], flag)
            best.starts += 1
            if trial.score > best.score:
                best.points, best.score = trial.points, trial.score
            if flag[0]:
                break
        return best

    def _anneal(self, found: Found, schedule: tuple[float, int, float], flag: Flag) -> None:
        softest, iterations, tolerance = schedule
        spacing = spacing_estimate(self.n, self.d)
        found.score = math.acos(anneal(found.points, softest, SHARPEST, iterations, tolerance, spacing, flag))

    def _improve(self, found: Found, flag: Flag, rounds: int) -> None:
        """Polish, or, where that takes long, sharpen."""
        if self._operations() < _CHEAP:
            self._polish(found, flag, rounds)
            return
        sharper = found.points.copy()
        angle = math.acos(anneal(sharper, *_SHARPER, spacing_estimate(self.n, self.d), flag))
        if angle > found.score:
            found.points, found.score = sharper, angle

    def _polish(self, found: Found, flag: Flag, rounds: int) -> None:
        square = least_square(found.points)
        for _ in range(rounds):
            last, square = square, polish(found.points, _REACH, _STEPS, flag)
            if square < last * (1 + 1e-14):
                break
        found.score = angle_of_square(square)

    def _operations(self) -> float:
        """In a step of the polish: a Cholesky factor, narrow where neighbours are near along an axis."""
        return (self.n * (self.d - 1)) ** 3 / 3 * min(1.0, 2 * spacing_estimate(self.n, self.d)) ** 2
