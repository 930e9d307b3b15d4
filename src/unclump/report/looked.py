"""A table as the report sees it: what was measured, the directions of its rows, and what to call them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.figures.data import pair_angles
from unclump.geometry.sphere import angle
from unclump.measures.rows import directions
from unclump.report.text import name_html
from unclump.tables.files import Table
from unclump.tables.health import Health, health

_CLOSEST = 40  # rows whose nearest is looked up by name
_MOST_PAIRS, _MOST_NUMBERS = 1_000_000, 2**28  # of which angles are taken: all pairs would take longer than the rest


@dataclass(frozen=True, eq=False)
class Looked:
    """A table with what was found.

    Attributes:
        file: The name of its file.
        health: What was measured.
        numbers: Of the rows that have a direction.
        x: Their directions, in single precision.
        pairs: The angles of all pairs, or of many random ones.
    """

    file: str
    health: Health
    numbers: Int[Tensor, " n"]
    x: Float[Tensor, "n d"]
    pairs: Float[np.ndarray, " k"]

    def name(self, row: int) -> str:
        """What to call a row."""
        return f"row {row}" if self.health.names is None else self.health.names[row]

    def name_html(self, row: int) -> str:
        """The same for the page, with the row's number beside a name: names may repeat."""
        number = "" if self.health.names is None else f' <small class="row">{row}</small>'
        return name_html(self.name(row)) + number

    @property
    def all_pairs(self) -> bool:
        """Whether `pairs` are all there are."""
        return len(self.pairs) == math.comb(len(self.numbers), 2)

    @cached_property
    def closest(self) -> list[tuple[int, int, float]]:
        """The closest pairs as (row, row, angle), the closest first; every row is in one at most."""
        places = self.health.nearest_angles.argsort(stable=True)[:_CLOSEST]
        points = self.x.double()  # single precision cannot tell near twins apart
        cosines = points[places] @ points.mT
        cosines[torch.arange(len(places)), places] = -2  # no row is its own neighbour
        near = cosines.argmax(dim=1)
        angles = angle(points[places], points[near]).tolist()
        found: list[tuple[int, int, float]] = []
        taken: set[int] = set()
        for first, second, apart in sorted(
            zip(places.tolist(), near.tolist(), angles, strict=True), key=lambda p: p[2]
        ):
            if first not in taken and second not in taken:
                taken |= {first, second}
                found.append((int(self.numbers[first]), int(self.numbers[second]), apart))
        return found

    @property
    def marked(self) -> list[Sequence[int]]:
        """Groups of rows that stand out in a picture: the clumps, or the closest pairs where there are none."""
        if self.health.clumps:
            return [group.rows for group in self.health.clumps]
        return [pair[:2] for pair in self.closest[:8]]


def look(table: Table, generator: torch.Generator, *, progress: bool) -> Looked:
    """Measure a table."""
    found = health(table.points, names=table.names, generator=generator, progress=progress)
    good = torch.ones(len(table.points), dtype=torch.bool)
    good[[bad.row for bad in found.bad_rows]] = False
    numbers = good.nonzero().flatten()
    kept = table.points if good.all() else table.points[numbers]
    x = directions(kept.cpu()).float()
    pairs = pair_angles(x, limit=min(_MOST_PAIRS, _MOST_NUMBERS // x.shape[1]), generator=generator)
    return Looked("table" if table.source is None else table.source.path.name, found, numbers, x, pairs)
