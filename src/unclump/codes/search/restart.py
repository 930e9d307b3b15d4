"""One restart of the solver: several starts, polishing of the best, and moves while they improve it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unclump.codes.search.effort import SOFT_MOVES_FROM, effort, polish_cost, starts_in_many_dimensions
from unclump.codes.search.loops import (
    Flag,
    Points,
    anneal,
    anneal_orbits,
    has_native,
    polish,
    smallest_squared_chord,
)
from unclump.codes.search.moves import move
from unclump.codes.search.orbit_moves import promising_orbits
from unclump.codes.search.orbits import Orbits, random_orbits
from unclump.codes.search.overlap_walk import reduce_overlap
from unclump.codes.search.permuted import PermutedStarts
from unclump.codes.search.pool import Candidate
from unclump.codes.search.spacing import angle_of_squared_chord, estimate_spacing
from unclump.codes.search.starts import QUICK_KINDS, make_start
from unclump.codes.search.variants import best_variant

Report = Callable[[float], None]
Schedule = tuple[float, int, float]  # first p, iterations per p, tolerance

TARGET_TOLERANCE = 1e-13  # radians

_SHARPEST = 2048.0  # the last p, at which only nearly active pairs count

# No schedule is best for all sizes, so several alternate. In many dimensions the best codes have a soft energy near the
# least: many starts by slower schedules find them. There, moves of orbits take too long in the end.
_SCHEDULES = ((4.0, 50, 1e-3), (4.0, 100, 1e-4), (32.0, 50, 1e-3), (8.0, 100, 1e-4))
_MANY_DIMENSIONS, _TOO_MANY_FOR_ORBITS = 5, 10
_KINDS_IN_MANY = ("random", "permuted", "permuted", "antipodal", "permuted")
_SCHEDULES_IN_MANY = ((4.0, 100, 1e-4), (2.0, 100, 1e-4), (2.0, 200, 1e-5), (4.0, 400, 1e-6))
_AFTER_MOVE = ((64.0, 50, 1e-3), (256.0, 50, 1e-3), (64.0, 50, 1e-3), (32.0, 100, 1e-4))
_SOFT_MOVES = ((8.0, 60, 1e-3), (16.0, 60, 1e-3), (32.0, 60, 1e-3), (64.0, 60, 1e-3))  # softer: they go farther
_AFTER_ORBITS = (512.0, 50, 1e-3)
_SHARPER = (2 * _SHARPEST, 128 * _SHARPEST, 200, 1e-4)
_SCREENING = (4 * _SHARPEST, 64 * _SHARPEST, 80, 1e-3)

_REACH, _STEPS, _ROUNDS = 1.25, 100, 4
# Of polishes, from one that may move on to a better code nearby to one that stays: where many points are loose, one may
# come to rest early, and the next goes on.
_MARGINS = (3e-3, 3e-4, 3e-5, 3e-6)
_WORTH_POLISHING = 0.997  # of the best angle: polishing gains less than the rest
_SCREENED = 0.9999  # of the best angle, where a sharper anneal precedes the polish, which then gains little
_STARTS_PER_SCREENING = 32  # for every so many starts, one more is annealed more sharply; below, none
_SAME = 1e-7  # radians between two angles at which the sharper anneal ends for the same code
# Operations per polish step: fewer than an anneal; after every move; once per restart, when time is up or not.
_QUICK, CHEAP, _BRIEF, _AFFORDABLE = 5e6, 1e8, 1e9, 2e10

_OVERLAP_PATIENCE = 5  # moves without improvement, relative to those of the angle: they cost less
_ALMOST, _FEW_VARIANTS = 1 - 5e-5, 20  # of the best angle: one of so many variants may be better
_VARIANTS = 4e8  # operations for all variants of a code
_SYMMETRIC_PATIENCE = 40


@dataclass(frozen=True)
class CodeSearch:
    """Search for n points in d dimensions with the largest minimal angle."""

    n: int
    d: int
    seed: int
    init: Points | str | None
    target: float

    def __call__(self, number: int, flag: Flag, report: Report) -> Candidate:
        """Run restart `number`; the flag stops it early with the best so far."""
        generator = np.random.default_rng([self.seed, number])
        if self.init is None and number % 3 == 2 and self.d < _TOO_MANY_FOR_ORBITS:
            best = self._best_symmetric(number, generator, flag, report)
        else:
            best = self._best_start(number, generator, flag)
        self.improve(best, flag, rounds=_ROUNDS)
        report(best.score)
        patience = effort(self.n, self.d, number).patience
        if number % 3 == 1 or isinstance(self.init, np.ndarray):
            self.reduce_overlap(best, patience, generator, flag)
            report(best.score)
        self.settle(best, patience, generator, flag)
        report(best.score)
        schedules, idle = _AFTER_MOVE if self.d < SOFT_MOVES_FROM else _SOFT_MOVES, 0
        while idle < patience and not flag[0] and best.score < self.target - TARGET_TOLERANCE:
            trial = Candidate(move(best.points, generator), 0.0)
            is_better = self.follow(trial, best, schedules[best.hops % len(schedules)], flag)
            best.hops += 1
            idle += 1
            if is_better:
                idle = 0
                best.points, best.score, best.screened = trial.points, trial.score, None
                report(best.score)
        if self._polish_cost() < (_BRIEF if flag[0] else _AFFORDABLE):
            # When time is up, run a single round, which is not stopped early.
            self.polish(best, *((np.zeros(1, np.uint8), 1) if flag[0] else (flag, _ROUNDS)))
            report(best.score)
        return best

    def _best_start(self, number: int, generator: np.random.Generator, flag: Flag) -> Candidate:
        """The best of several annealed starts, or of `init` with and without annealing."""
        if isinstance(self.init, np.ndarray) and number == 0:
            unchanged = Candidate(self.init.copy(), angle_of_squared_chord(smallest_squared_chord(self.init)), starts=1)
            annealed = Candidate(self.init.copy(), 0.0, starts=1)
            self._anneal(annealed, _AFTER_MOVE[0], flag)
            return max(unchanged, annealed, key=lambda code: code.score)
        in_many = self._takes_many_starts(number)
        schedules = _SCHEDULES_IN_MANY if in_many else _SCHEDULES
        kinds: tuple[str, ...] = _KINDS_IN_MANY if in_many else QUICK_KINDS
        if isinstance(self.init, str):
            kinds = (self.init,)
        count = starts_in_many_dimensions(self.n, self.d) if in_many else effort(self.n, self.d, number).starts
        trials: list[Candidate] = []
        permuted = PermutedStarts(self.n, self.d, generator)
        for index in range(count):
            turn = index + number * count
            kind, schedule = kinds[turn % len(kinds)], schedules[turn // len(kinds) % len(schedules)]
            trials.append(self.start(kind, schedule, generator, flag, permuted))
            if flag[0]:
                break
        best = self._best_sharpened(trials, flag)
        best.starts = len(trials)
        return best

    def _best_sharpened(self, trials: list[Candidate], flag: Flag) -> Candidate:
        """The best of the most promising after a sharper anneal, by which codes of many contacts gain more."""
        promising = sorted(trials, key=lambda code: code.score, reverse=True)
        if len(trials) >= _STARTS_PER_SCREENING:
            promising = promising[: 1 + len(trials) // _STARTS_PER_SCREENING]
            for code in promising:
                self._sharpen(code, _SCREENING, flag)
        return max(promising, key=lambda code: code.score)

    def _sharpen(self, code: Candidate, schedule: tuple[float, float, int, float], flag: Flag) -> float:
        """Anneal with higher sharpness, and take the result if it is better; return its angle."""
        points = code.points.copy()
        angle = angle_of_squared_chord(anneal(points, *schedule, estimate_spacing(self.n, self.d), flag))
        if angle > code.score:
            code.points, code.score = points, angle
        return angle

    def _takes_many_starts(self, number: int) -> bool:
        """Whether a restart has most of its work in starts; up to nine dimensions these alternate with long walks."""
        return self.d >= _MANY_DIMENSIONS and (number % 3 == 0 or self.d >= _TOO_MANY_FOR_ORBITS)

    def start(
        self,
        kind: str,
        schedule: Schedule,
        generator: np.random.Generator,
        flag: Flag,
        permuted: PermutedStarts | None = None,
    ) -> Candidate:
        """Anneal a start; a symmetric one first with exact symmetry, then without, which may break it.

        `permuted` draws again from the groups that have led to the best of its starts.
        """
        softest, iterations, tolerance = schedule
        if kind == "symmetric":
            orbits = random_orbits(self.n, self.d, generator)
            anneal_orbits(orbits, softest, _SHARPEST, iterations, tolerance, estimate_spacing(self.n, self.d), flag)
            code, schedule = Candidate(orbits.points, 0.0), _AFTER_ORBITS
        elif kind == "permuted" and permuted is not None:
            code = Candidate(permuted.draw(), 0.0)
        else:
            code = Candidate(make_start(self.n, self.d, kind, generator), 0.0)
        self._anneal(code, schedule, flag)
        if kind == "permuted" and permuted is not None:
            permuted.note(code.score)
        return code

    def follow(self, trial: Candidate, best: Candidate, schedule: Schedule, flag: Flag) -> bool:
        """Anneal the result of a move, and polish it if it is promising; return whether it is better than the best."""
        self._anneal(trial, schedule, flag)
        if trial.score > _WORTH_POLISHING * best.score and self._may_be_better(trial, best, flag):
            self.improve(trial, flag, rounds=1)
        is_better = trial.score > best.score + 1e-12
        if is_better:
            self.improve(trial, flag, rounds=_ROUNDS)
        return is_better

    def _may_be_better(self, trial: Candidate, best: Candidate, flag: Flag) -> bool:
        """Whether it is worth a polish; where one takes many times as long as an anneal, a sharper anneal decides.

        In more than a few dimensions that comes within 1e-4 of the polished angle, mostly, and a good part of all moves
        lead back to the best code, which it recognises.
        """
        if self._polish_cost() < _QUICK:
            return True
        spacing = estimate_spacing(self.n, self.d)
        if best.screened is None:
            best.screened = angle_of_squared_chord(anneal(best.points.copy(), *_SCREENING, spacing, flag))
        screened = self._sharpen(trial, _SCREENING, flag)
        return trial.score > _SCREENED * best.score and abs(screened - best.screened) > _SAME

    def _best_symmetric(self, number: int, generator: np.random.Generator, flag: Flag, report: Report) -> Candidate:
        """The best of searches within the symmetry of random groups."""
        best = Candidate(np.empty((0, 0)), -1.0)
        while best.starts < effort(self.n, self.d, number).starts and (not flag[0] or best.starts == 0):
            code = self.search_orbits(random_orbits(self.n, self.d, generator), generator, flag)
            best.starts, best.hops = best.starts + 1, best.hops + code.hops
            if code.score > best.score:
                best.points, best.score = code.points, code.score
                report(best.score)
            if best.score >= self.target - TARGET_TOLERANCE:
                break
        return best

    def search_orbits(self, orbits: Orbits, generator: np.random.Generator, flag: Flag) -> Candidate:
        """Move orbits within their symmetry; codes near the best are polished without it, which may break it."""
        best = Candidate(np.empty((0, 0)), -1.0)
        for found in promising_orbits(orbits, _SYMMETRIC_PATIENCE, generator, flag):
            code = Candidate(found.points, 0.0)
            self._anneal(code, (_SHARPEST, *_AFTER_ORBITS[1:]), flag)
            self.improve(code, flag, rounds=1)
            best.hops += 1
            if code.score > best.score:
                best.points, best.score = code.points, code.score
        return best

    def reduce_overlap(self, best: Candidate, patience: int, generator: np.random.Generator, flag: Flag) -> None:
        """Walk by overlaps, and look for variants of every code that is about as good as the best."""

        def better_angle(x: Points) -> Candidate | None:
            code = Candidate(x.copy(), 0.0)
            is_better = self.follow(code, best, _AFTER_ORBITS, flag)
            if not is_better and code.score > _ALMOST * best.score:
                self.settle(code, _FEW_VARIANTS, generator, flag)
                is_better = code.score > best.score + 1e-12
            return code if is_better else None

        enough = self.target - TARGET_TOLERANCE
        reduce_overlap(best, enough, _OVERLAP_PATIENCE * patience, better_angle, generator, flag)

    def settle(self, code: Candidate, patience: int, generator: np.random.Generator, flag: Flag) -> None:
        """Take the best variant of a polished code, in fewer steps where a polish is expensive."""
        if has_native() and code.score < self.target - TARGET_TOLERANCE:
            steps = min(patience, int(_VARIANTS / self._polish_cost()))
            code.points = best_variant(code.points, steps, generator, flag)
            code.score = angle_of_squared_chord(smallest_squared_chord(code.points))

    def _anneal(self, code: Candidate, schedule: Schedule, flag: Flag) -> None:
        softest, iterations, tolerance = schedule
        spacing = estimate_spacing(self.n, self.d)
        square = anneal(code.points, softest, _SHARPEST, iterations, tolerance, spacing, flag)
        code.score = angle_of_squared_chord(square)

    def improve(self, code: Candidate, flag: Flag, rounds: int) -> None:
        """Polish, or anneal with higher sharpness if a polish is expensive."""
        if self._polish_cost() < CHEAP:
            self.polish(code, flag, rounds)
        else:
            self._sharpen(code, _SHARPER, flag)

    def polish(self, code: Candidate, flag: Flag, rounds: int) -> None:
        """Polish until a round gains nothing."""
        square = smallest_squared_chord(code.points)
        for _ in range(rounds):
            last = square
            for margin in _MARGINS if rounds > 1 and has_native() else _MARGINS[:1]:
                square = polish(code.points, _REACH, _STEPS, flag, margin=margin)
            if square < last * (1 + 1e-14):
                break
        code.score = angle_of_squared_chord(square)

    def _polish_cost(self) -> float:
        return polish_cost(self.n, self.d)
