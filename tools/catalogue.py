"""Search for the codes that the package ships, and keep whatever is better than what is there.

    python tools/catalogue.py 3:131-200 4:101-200 5:41 --time-limit 20 --rounds 3
    python tools/catalogue.py 3:4-50 --lines --restarts 12 --first-round 1
    python tools/catalogue.py 8:17-64 11:96 11:128 --words --time-limit 60
    python tools/catalogue.py 8:17-64 9:19-64 --sections
    python tools/catalogue.py 3:15-200 16:36-64 --polish
    python tools/catalogue.py --merge ../elsewhere/src/unclump/codes/catalogue

Each argument is a dimension and a range of sizes. A round visits every size once, those without an entry first, for the
given number of seconds: half of it for a search from scratch, with the number of the round as seed, half for searches
from the code that is there, from the one with a point more, less a point, and from the one with a point less, with a
point in its deepest hole. A visit that improved a code is followed by another, up to two, each of twice the time and
with a seed a thousand higher. Every improvement is saved at once, so that the program can be stopped and started again
at any time. After every round a code that is worse than the one with a point more is replaced by that one less a point,
and one that is worse than a code in fewer dimensions, with or without points on the other axes, by that. Codes in
closed form need no entry. With --restarts a visit is a search from scratch with as many restarts instead, on any
machine the same. With --words a round searches every dimension for the given time among the words of coding theory;
with --sections, it takes the sections of all codes in a dimension more; with --polish, it only polishes what is there.
With --lines, all of this but words, sections and polishes for lines through the origin. With --merge, whatever is
better in another folder is taken over, after its angle has been computed from its coordinates.
"""

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import block_diag

from unclump.codes import catalogue
from unclump.codes.bounds.upper_bound import best_bound, best_line_bound
from unclump.codes.code import search
from unclump.codes.constructions.exact import exact_code
from unclump.codes.constructions.lines import exact_lines
from unclump.codes.search.pool import Candidate
from unclump.codes.search.restart import CodeSearch
from unclump.codes.search.sections import sections
from unclump.codes.search.solver import solve
from unclump.codes.search.words import cosines, spaces, union_of_orbits
from unclump.dispersion.placing import place

_ALMOST = 0.95  # of a size: so many points are a start for it
_LARGEST_SECTIONED = 600  # points
_AXES = 5  # dimensions in which a code may consist of axes, orthogonal to the rest
_POLISHES = 20  # rounds, at most
_GAIN = 1e-8  # degrees that make another visit worth its time


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", metavar="D:FIRST-LAST", help="a dimension and the sizes to visit")
    parser.add_argument("--lines", action="store_true", help="lines through the origin instead of points")
    parser.add_argument("--words", action="store_true", help="search among words, dimension by dimension")
    parser.add_argument("--sections", action="store_true", help="take sections of the codes in a dimension more")
    parser.add_argument("--polish", action="store_true", help="only polish the codes that are there")
    parser.add_argument("--merge", type=Path, metavar="FOLDER", help="take over what is better in another catalogue")
    parser.add_argument(
        "--time-limit", type=float, default=20.0, help="seconds for a visit, or for a dimension's words"
    )
    parser.add_argument("--restarts", type=int, help="of a search from scratch, instead of a time limit")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--first-round", type=int, default=0, help="its number, the seed of its searches")
    return parser


def main() -> None:
    parser = make_parser()
    chosen = parser.parse_args()
    if bool(chosen.sizes) == bool(chosen.merge) or chosen.words + chosen.sections + chosen.polish + chosen.lines > 1:
        parser.error("expected sizes or --merge, and one of --words, --sections, --polish and --lines")
    codes = Codes(antipodal=chosen.lines)
    if chosen.merge:
        codes.merge(chosen.merge)
    sizes = [size for text in chosen.sizes for size in parse_sizes(text) if codes.exact(size[1], size[0]) is None]
    for number in range(chosen.first_round, chosen.first_round + chosen.rounds):
        for d in sorted({d for d, _ in sizes}, reverse=True):  # sections of sections: the highest dimension first
            of_dimension = sorted(n for dimension, n in sizes if dimension == d)
            if chosen.words:
                codes.search_words(d, of_dimension, number, chosen.time_limit)
            elif chosen.sections:
                codes.search_sections(d, of_dimension, number)
        for d, n in sorted([] if chosen.words or chosen.sections else sizes, key=lambda size: codes.is_shipped(*size)):
            codes.search_again(n, d, number, chosen)
        for d in sorted({d for d, _ in sizes}):
            of_dimension = sorted(n for dimension, n in sizes if dimension == d)
            for n in of_dimension:
                codes.lift(n, d)
            for n in reversed(of_dimension):
                codes.leave_out(n, d)


def parse_sizes(text: str) -> Iterator[tuple[int, int]]:
    """The pairs (d, n) of "3:131-200", or of "5:41"."""
    dimension, _, sizes = text.partition(":")
    first, _, last = sizes.partition("-")
    return ((int(dimension), n) for n in range(int(first), int(last or first) + 1))


class Codes:
    """The codes that the package ships: of points, or of lines through the origin."""

    def __init__(self, *, antipodal: bool) -> None:
        self.antipodal = antipodal
        self.exact = exact_lines if antipodal else exact_code
        self.bound = best_line_bound if antipodal else best_bound

    def read(self, n: int, d: int) -> catalogue.Entry | None:
        return catalogue.read(catalogue.SHIPPED, n, d, antipodal=self.antipodal)

    def is_shipped(self, d: int, n: int) -> bool:
        return n in catalogue.read_index(catalogue.path_of(catalogue.SHIPPED, d, antipodal=self.antipodal))

    def known(self, n: int, d: int) -> np.ndarray | None:
        """The points of a code in closed form, or of one that is there."""
        if (exact := self.exact(n, d)) is not None:
            return exact.points
        entry = self.read(n, d)
        return None if entry is None else entry.points

    def solve(self, n: int, d: int, **options: Any) -> np.ndarray:
        return solve(n, d, target=self.bound(n, d).angle, antipodal=self.antipodal, **options).points

    def search_again(self, n: int, d: int, number: int, chosen: argparse.Namespace) -> None:
        """One visit of a round."""
        if chosen.polish:
            self.polish(n, d)
        elif chosen.restarts is None:
            self.visit_while_better(n, d, number, chosen.time_limit)
        else:
            points = self.solve(n, d, seed=number, restarts=chosen.restarts)
            self.keep(points, number, self.fresh(n, d, f"--seed {number} --restarts {chosen.restarts}"))

    def visit_while_better(self, n: int, d: int, seed: int, seconds: float) -> None:
        """Where one visit improves a code, the entry was weak, and another is likely to."""
        for turn in range(3):
            before = self.angle(n, d)
            self.visit(n, d, seed + 1000 * turn, seconds * 2**turn)
            if math.degrees(self.angle(n, d) - before) < _GAIN:
                break

    def visit(self, n: int, d: int, seed: int, seconds: float) -> None:
        """Search from scratch, then from what is known."""
        end = time.monotonic() + seconds
        if self.antipodal:
            points = self.solve(n, d, seed=seed, time_limit=seconds / 2)
        else:
            points = search(n, d, seed=seed, target=self.bound(n, d).angle, time_limit=seconds / 2)[0].points
        self.keep(points, seed, self.fresh(n, d, f"--seed {seed} --time-limit {seconds / 2:g}"))
        generator, turn = np.random.default_rng([seed, n, d]), 0
        more, less = self.known(n + 1, d), self.known(n - 1, d)
        while time.monotonic() < end:
            start = self.known(n, d)
            if turn % 3 == 1 and more is not None:
                start = np.delete(more, generator.integers(n + 1), axis=0)
            elif turn % 3 == 2 and less is not None:
                others = np.concatenate([less, -less]) if self.antipodal else less
                start = np.vstack([less, place(1, others, generator=torch.Generator().manual_seed(seed + turn))])
            remaining = max(0.1, end - time.monotonic())
            points = self.solve(n, d, init=start, restarts=1, seed=seed + turn, time_limit=remaining)
            self.keep(points, seed, self.visited(n, d, f"--first-round {seed} --time-limit {seconds:g}"))
            turn += 1

    def search_words(self, d: int, sizes: list[int], seed: int, seconds: float) -> None:
        """Unions of orbits of words, and moves from them where they have about as many points as a size."""
        generator, end = np.random.default_rng([seed, d]), time.monotonic() + seconds
        tasks = [(words, float(cosine)) for words in spaces(d) for cosine in cosines(words)]
        angles = {n: self.angle(n, d) for n in sizes}
        while time.monotonic() < end and tasks:
            turn = int(generator.integers(len(tasks)))
            words, cosine = tasks[turn]
            worse = [n for n in sizes if angles[n] < math.acos(cosine) - 1e-9]
            if not worse or worse[0] > len(words.points):
                del tasks[turn]  # sizes only become better
                continue
            points = union_of_orbits(words, cosine, math.ceil(_ALMOST * worse[0]), generator)
            if points is None or len(points) < _ALMOST * worse[0]:
                continue
            how = f"--words --first-round {seed} --time-limit {seconds:g}"
            for n in worse:
                if n <= len(points):
                    self.keep(points[generator.permutation(len(points))[:n]], seed, self.visited(n, d, how))
            n, start = worse[0], points[: worse[0]]
            if len(start) < n:
                holes = place(n - len(start), start, generator=torch.Generator().manual_seed(seed))
                start = np.vstack([start, holes])
            moved = self.solve(n, d, init=start, restarts=1, seed=seed, time_limit=2.0)
            self.keep(moved, seed, self.visited(n, d, how))
            angles = {n: self.angle(n, d) for n in sizes}

    def search_sections(self, d: int, sizes: list[int], seed: int) -> None:
        """Sections of all codes in a dimension more, searched on for a second where they are better than a size."""
        generator = np.random.default_rng([seed, d])
        for more in range(sizes[0] + 1, _LARGEST_SECTIONED + 1):
            code = self.known(more, d + 1)
            for points in () if code is None else sections(code, sizes[0]):
                angle = catalogue.angle_of(points)
                for n in (n for n in sizes if n <= len(points) and self.angle(n, d) < angle - 1e-9):
                    start = points[generator.permutation(len(points))[:n]]
                    moved = self.solve(n, d, init=start, restarts=1, seed=seed, time_limit=1.0)
                    self.keep(moved, seed, self.visited(n, d, f"--sections --first-round {seed}"))

    def polish(self, n: int, d: int) -> None:
        """Polish the code that is there; those of many loose points gain by further rounds."""
        entry = self.read(n, d)
        if entry is not None:
            code = Candidate(entry.points, entry.record.angle)
            CodeSearch(n, d, 0, None, math.inf).polish(code, np.zeros(1, np.uint8), _POLISHES)
            if code.score > entry.record.angle + 1e-13:
                self.keep(code.points, entry.record.seed, self.visited(n, d, "--polish"))

    def merge(self, folder: Path) -> None:
        """Take over what is better in another folder, with its record."""
        for path in sorted((folder / catalogue.LINES if self.antipodal else folder).glob("*.zip")):
            for n in catalogue.read_index(path):
                entry = catalogue.read(folder, n, int(path.stem), antipodal=self.antipodal)
                if entry is not None and self.exact(n, int(path.stem)) is None:
                    self.save(entry.points, entry.record)

    def angle(self, n: int, d: int) -> float:
        """Of the entry that is there; zero without one."""
        index = catalogue.read_index(catalogue.path_of(catalogue.SHIPPED, d, antipodal=self.antipodal))
        return index[n].angle if n in index else 0.0

    def lift(self, n: int, d: int) -> None:
        """Where a code in fewer dimensions, with or without axes orthogonal to it, is better: it, searched on."""
        for less, count in [(1, 0), *((k, k) for k in range(1, min(_AXES, d - 2) + 1))]:
            axes = np.eye(count, less)
            others = axes if self.antipodal else np.concatenate([axes, -axes])
            lower = self.known(n - len(others), d - less)
            if lower is not None and catalogue.angle_of(lower, antipodal=self.antipodal) > self.angle(n, d) + 1e-13:
                points = self.solve(n, d, init=block_diag(lower, others), restarts=1, time_limit=1.0)
                self.keep(points, 0, self.visited(n, d, "--restarts 1"))

    def leave_out(self, n: int, d: int) -> None:
        """Where the code of one point more is better than what is there: it less a point, searched on for a second."""
        more, current = self.known(n + 1, d), self.read(n, d)
        if more is None:
            return
        if current is not None and catalogue.angle_of(more, antipodal=self.antipodal) <= current.record.angle + 1e-13:
            return
        points = self.solve(n, d, init=more[1:].copy(), restarts=1, time_limit=1.0)
        self.keep(points, 0, self.visited(n, d, "--restarts 1"))

    def fresh(self, n: int, d: int, options: str) -> str:
        """The command of a search from scratch."""
        return f"unclump code {n} {d}{' --lines' if self.antipodal else ''} --fresh {options}"

    def visited(self, n: int, d: int, options: str) -> str:
        """The command of this program, which starts from what the catalogue has."""
        return f"python tools/catalogue.py {d}:{n}{' --lines' if self.antipodal else ''} {options}"

    def keep(self, points: np.ndarray, seed: int, command: str) -> None:
        """Save the points if they are better than what is there."""
        n, d = points.shape
        angle, bound = catalogue.angle_of(points, antipodal=self.antipodal), self.bound(n, d)
        self.save(points, catalogue.Record(angle, bound.angle, bound.name, seed, command, catalogue.today()))

    def save(self, points: np.ndarray, record: catalogue.Record) -> None:
        n, d = points.shape
        before = self.angle(n, d)
        if catalogue.save_if_better(catalogue.SHIPPED, points, record, antipodal=self.antipodal):
            gain = f", {math.degrees(record.angle - before):+.3g}" if before else ""
            moment, degrees = time.strftime("%Y-%m-%d %H:%M"), math.degrees(record.angle)
            found = f"{n} {self.things} in {d} dimensions: {degrees:.12f} degrees{gain}"
            print(f"{moment}  {found}, {record.command}", flush=True)

    @property
    def things(self) -> str:
        return "lines" if self.antipodal else "points"


if __name__ == "__main__":
    main()
