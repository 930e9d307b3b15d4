"""One restart of the solver: several starts, the best of them polished, and hops from it while they improve."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unclump.codes.search.hops import hop
from unclump.codes.search.loops import Flag, Points, anneal, has_native, polish, smallest_squared_chord
from unclump.codes.search.pool import Candidate
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing
from unclump.codes.search.starts import START_KINDS, make_start

Report = Callable[[float], None]

TARGET_TOLERANCE = 1e-13  # radians

_SHARPEST = 2048.0  # the last p: only the pairs that are all but active count

# First p, iterations per p, tolerance. No schedule is best for all sizes, so they alternate.
_SCHEDULES = ((4.0, 50, 1e-3), (4.0, 100, 1e-4), (32.0, 50, 1e-3), (8.0, 100, 1e-4))
_AFTER_HOP = ((64.0, 50, 1e-3), (256.0, 50, 1e-3), (64.0, 50, 1e-3), (32.0, 100, 1e-4))
_SHARPER = (2 * _SHARPEST, 128 * _SHARPEST, 200, 1e-4)

_REACH, _STEPS, _ROUNDS = 1.25, 50, 4
_WORTH_POLISHING = 0.997  # of the best angle: a polish gains less than the rest
_CHEAP, _AFFORDABLE = 1e8, 2e10  # operations per polish step: after every hop, or once per restart


@dataclass(frozen=True)
class Effort:
    """The work of a restart, and the default number of restarts."""

    starts: int
    patience: int
    restarts: int


def effort(n: int, d: int, number: int = 0) -> Effort:
    """Enough to find the best known codes in 3-D up to 60 points, less if a start takes seconds or nothing is compiled.

    Restarts alternate: many starts and few hops find symmetric codes, few starts and many hops the others.
    """
    size = n * n * d / 30_000  # 1 for a hundred points in 3-D, which anneal in about 10 ms
    many, few = (64, 8) if size < 10 else (16, 4)
    patience = min(200, max(4, int(400 / (1 + size))))
    if not has_native():
        many, few, patience = 8, 2, max(4, patience // 8)
    restarts = 4 if n <= 24 and d <= 4 else max(2, min(32, n - 20, int(200 / size)))
    return Effort(many, patience // 4, restarts) if number % 2 == 0 else Effort(few, patience, restarts)


@dataclass(frozen=True)
class CodeSearch:
    """Search for n points in d dimensions with the largest minimal angle."""

    n: int
    d: int
    seed: int
    init: Points | str | None
    target: float

    def __call__(self, number: int, flag: Flag, report: Report) -> Candidate:
        """Run restart `number`; the flag ends it early with the best so far."""
        generator = np.random.default_rng([self.seed, number])
        best = self._best_start(number, generator, flag)
        self._improve(best, flag, rounds=_ROUNDS)
        report(best.score)
        idle, patience = 0, effort(self.n, self.d, number).patience
        while idle < patience and not flag[0] and best.score < self.target - TARGET_TOLERANCE:
            trial = Candidate(hop(best.points, generator), 0.0)
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
        if self._polish_cost() < (_CHEAP if flag[0] else _AFFORDABLE):
            self._polish(best, np.zeros(1, np.uint8) if flag[0] else flag, rounds=_ROUNDS)
            report(best.score)
        return best

    def _best_start(self, number: int, generator: np.random.Generator, flag: Flag) -> Candidate:
        """The best of several annealed starts, or of `init` and `init` annealed."""
        if isinstance(self.init, np.ndarray) and number == 0:
            unchanged = Candidate(self.init.copy(), angle_of_squared_chord(smallest_squared_chord(self.init)), starts=1)
            annealed = Candidate(self.init.copy(), 0.0, starts=1)
            self._anneal(annealed, _AFTER_HOP[0], flag)
            return max(unchanged, annealed, key=lambda code: code.score)
        kinds = (self.init,) if isinstance(self.init, str) else START_KINDS
        best = Candidate(np.empty((0, 0)), -1.0)
        count = effort(self.n, self.d, number).starts
        for index in range(count):
            turn = index + number * count
            trial = Candidate(make_start(self.n, self.d, kinds[turn % len(kinds)], generator), 0.0)
            self._anneal(trial, _SCHEDULES[turn // len(kinds) % len(_SCHEDULES)], flag)
            best.starts += 1
            if trial.score > best.score:
                best.points, best.score = trial.points, trial.score
            if flag[0]:
                break
        return best

    def _anneal(self, code: Candidate, schedule: tuple[float, int, float], flag: Flag) -> None:
        softest, iterations, tolerance = schedule
        spacing = estimate_spacing(self.n, self.d)
        square = anneal(code.points, softest, _SHARPEST, iterations, tolerance, spacing, flag)
        code.score = angle_of_squared_chord(square)

    def _improve(self, code: Candidate, flag: Flag, rounds: int) -> None:
        """Polish, or anneal with higher sharpness if a polish is expensive."""
        if self._polish_cost() < _CHEAP:
            self._polish(code, flag, rounds)
            return
        sharper = code.points.copy()
        angle = angle_of_squared_chord(anneal(sharper, *_SHARPER, estimate_spacing(self.n, self.d), flag))
        if angle > code.score:
            code.points, code.score = sharper, angle

    def _polish(self, code: Candidate, flag: Flag, rounds: int) -> None:
        square = smallest_squared_chord(code.points)
        for _ in range(rounds):
            last, square = square, polish(code.points, _REACH, _STEPS, flag)
            if square < last * (1 + 1e-14):
                break
        code.score = angle_of_squared_chord(square)

    def _polish_cost(self) -> float:
        """Estimated operations of a polish step: a skyline Cholesky factorisation of points sorted along an axis."""
        operations = (self.n * (self.d - 1)) ** 3 / 3 * min(1.0, 2 * estimate_spacing(self.n, self.d)) ** 2
        return operations if has_native() else 100 * operations
