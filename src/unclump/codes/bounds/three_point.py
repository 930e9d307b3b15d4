r"""Bachoc and Vallentin's three-point bound: a table of values, each of which was proved in exact arithmetic.

Delsarte's bound uses constraints on the cosines of pairs; the three-point bound those on triples, which is stronger but
requires a semidefinite program. Solving it takes too long for a call, so `three_point.json` has the results: any n
points in d dimensions have a cosine above the one in the table. `python tools/three_point` solves the programs in
floating point, rounds the solutions to fractions, and proves the inequality from these, independently of the solver;
see its `proof`.
"""

import json
import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from unclump.codes.bounds.levenshtein import angle_rounded_up

FILE = Path(__file__).parent / "three_point.json"


@dataclass(frozen=True, order=True)
class Entry:
    """The statement that n points in d dimensions have a cosine above `cosine`, proved at a degree with a slack."""

    d: int
    n: int
    cosine: float
    degree: int
    slack: float

    @property
    def angle(self) -> float:
        """The upper bound on their smallest angle, in radians."""
        return angle_rounded_up(Decimal(self.cosine))


def three_point(n: int, d: int) -> float:
    """The three-point bound on the smallest angle of n points in d dimensions, in radians; infinite without entry.

    The best entry of the table for at most n points.

    References:
        Bachoc and Vallentin. New upper bounds for kissing numbers from semidefinite programming. Journal of the
        American Mathematical Society 21, 2008.

    Example:
        >>> from unclump.codes.bounds.upper_bound import three_point
        >>> math.degrees(three_point(25, 4)) < 60  # at most 24 spheres touch one in four dimensions
        True
    """
    return min((entry.angle for entry in read() if entry.d == d and entry.n <= n), default=math.inf)


@lru_cache
def read() -> tuple[Entry, ...]:
    """The table, sorted by dimensions and points."""
    return tuple(sorted(Entry(**record) for record in json.loads(FILE.read_text())))


def add(entry: Entry) -> None:
    """Write an entry to the table, replacing a weaker one of the same size."""
    others = [e for e in read() if (e.d, e.n) != (entry.d, entry.n) or e.cosine > entry.cosine]
    if not any((e.d, e.n) == (entry.d, entry.n) for e in others):
        others.append(entry)
    FILE.write_text("[\n" + ",\n".join(f"  {json.dumps(asdict(e))}" for e in sorted(others)) + "\n]\n")
    read.cache_clear()
