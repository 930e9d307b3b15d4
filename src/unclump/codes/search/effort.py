"""How much work a restart does, and what a polish costs."""

from dataclasses import dataclass

from unclump.codes.search.loops import has_native
from unclump.codes.search.spacing import estimate_spacing

SOFT_MOVES_FROM = 8  # dimensions: there, moves that begin softer gain as much as many starts do


@dataclass(frozen=True)
class Effort:
    """The work of a restart, and the default number of restarts."""

    starts: int
    patience: int
    restarts: int


def effort(n: int, d: int, number: int = 0) -> Effort:
    """Enough to find the best known codes in 3-D up to 60 points; less if a start takes seconds or without native code.

    Restarts cycle through three kinds: many starts and few moves; few starts and many moves of points or caps; few
    groups and many moves of orbits. From eight dimensions on, many starts are followed by many moves, too.
    """
    size = _anneal_size(n, d)
    many, few = (64, 8) if size < 10 else (16, 4)
    patience = min(200, max(4, int(400 / (1 + size))))
    if not has_native():
        many, few, patience = 8, 2, max(4, patience // 8)
    restarts = 4 if n <= 24 and d <= 4 else max(2, min(32, n - 20, int(200 / size)))
    if number % 3 == 0:
        return Effort(many, patience // 4 if d < SOFT_MOVES_FROM else patience, restarts)
    return Effort(few, patience, restarts)


def starts_in_many_dimensions(n: int, d: int) -> int:
    """Starts that take some five seconds of one thread, in a restart of as long again.

    In ten or more dimensions the best of them is rare, and moves seldom lead from another one to it.
    """
    many = effort(n, d).starts
    return max(many, min(512, int(1000 / _anneal_size(n, d)))) if has_native() else many


def _anneal_size(n: int, d: int) -> float:
    return n * n * d / 30_000  # 1 for a hundred points in 3-D, whose annealing takes about a millisecond


def polish_cost(n: int, d: int) -> float:
    """Estimated cost of a skyline Cholesky factorisation for points sorted along an axis; a step has one to six."""
    operations = (n * (d - 1)) ** 3 / 3 * min(1.0, 2 * estimate_spacing(n, d)) ** 2
    return operations if has_native() else 100 * operations
