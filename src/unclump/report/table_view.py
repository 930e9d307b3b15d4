"""A table prepared for the report: its measured health, its rows, of which some are read when needed, and names."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump.figures.data import pair_angles
from unclump.geometry.sphere import angle
from unclump.report.text import render_name
from unclump.tables.commands import Paths, better_path
from unclump.tables.files import Table
from unclump.tables.health import Health, health
from unclump.tables.rows import Rows, without
from unclump.tables.sampled_search import nearest_in_table

_MAX_GROUPS, _MAX_HUBS = 25, 10  # listed
_CLOSEST_CANDIDATES = 40  # rows among which the closest pairs are searched
_MAX_PAIRS, _MAX_VALUES = 1_000_000, 2**28  # sampled pairs, and coordinates read for them: all pairs would be too slow


@dataclass(frozen=True, eq=False)
class TableView:
    """A table and its measurements.

    Attributes:
        paths: The files of commands on it, without folders.
        health: What was measured.
        rows: The numbers of the rows that have a direction.
        table: All of its rows, which may be a memory map.
        norms: Of the rows that have a direction.
        pair_angles: The angles of all pairs, or of a random sample.
    """

    paths: Paths
    health: Health
    rows: Int[Tensor, " n"]
    table: Rows
    norms: Float[Tensor, " n"]
    pair_angles: Float[np.ndarray, " k"]

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return str(self.paths.file)

    def name(self, row: int) -> str:
        """The name of a row, or "row N" in a table without names."""
        return f"row {row}" if self.health.names is None else self.health.names[row]

    def render_name(self, row: int) -> str:
        """The name as HTML, followed by the row number since names may repeat; the script selects the row by it."""
        number = "" if self.health.names is None else f' <small class="row">{row}</small>'
        return f'<span data-row="{row}">{render_name(self.name(row))}{number}</span>'

    def locate(self, rows: Int[Tensor, " m"]) -> tuple[Int[Tensor, " a"], Int[Tensor, " a"]]:
        """Those of `rows` that have a direction: their places in `rows`, and among those that have one."""
        places = torch.searchsorted(self.rows, rows).clamp_max(len(self.rows) - 1)
        present = (self.rows[places] == rows).nonzero().flatten()
        return present, places[present]

    @property
    def has_all_pairs(self) -> bool:
        """Whether `pair_angles` holds every pair rather than a sample."""
        return len(self.pair_angles) == math.comb(len(self.rows), 2)

    @cached_property
    def closest_pairs(self) -> list[tuple[int, int, float]]:
        """Disjoint pairs as (row, row, angle), closest first."""
        first = self.health.nearest_angles.argsort(stable=True)[:_CLOSEST_CANDIDATES]
        candidates = (self.rows if self.health.sampled is None else self.health.sampled)[first]
        # Single precision cannot separate near-duplicates.
        nearest = nearest_in_table(self.table, self.rows, candidates, k=1, dtype=torch.float64)[:, 0]
        angles = angle(*map(self.table.directions, (candidates, nearest))).tolist()
        pairs: list[tuple[int, int, float]] = []
        used: set[int] = set()
        for i, j, pair_angle in sorted(
            zip(candidates.tolist(), nearest.tolist(), angles, strict=True), key=lambda pair: pair[2]
        ):
            if i not in used and j not in used:
                used |= {i, j}
                pairs.append((i, j, pair_angle))
        return pairs

    @property
    def listed_groups(self) -> list[Sequence[int]]:
        """The largest groups of near duplicates, by row numbers."""
        return [group.rows for group in self.health.clumps[:_MAX_GROUPS]]

    @property
    def hubs(self) -> list[int]:
        """The rows that are neighbours of the most others, most first."""
        top = self.health.occurrences.topk(min(_MAX_HUBS, len(self.health.occurrences)))
        return [int(row) for row in self.rows[top.indices]]

    @property
    def highlighted(self) -> list[Sequence[int]]:
        """Groups of rows to highlight on the map: near duplicates, or the closest pairs if there are none."""
        if self.health.clumps:
            return [group.rows for group in self.health.clumps]
        return [pair[:2] for pair in self.closest_pairs[:8]]


def measure_table(
    table: Table,
    generator: torch.Generator,
    *,
    progress: bool,
    measured: Health | None = None,
    device: torch.device | None = None,
) -> TableView:
    """Measure the health of a table, unless it was measured before, and the angles of its pairs."""
    points = table.points.detach().cpu()
    measured = measured or health(points, names=table.names, generator=generator, device=device, progress=progress)
    every = Rows(points)
    rows = without(len(points), [bad.row for bad in measured.bad_rows]).nonzero().flatten()
    norms = torch.cat([vector_norm(block.double(), dim=1) for _, block in every.blocks()])[rows]
    n, d = len(rows), every.d
    limit = min(_MAX_PAIRS, _MAX_VALUES // d)
    angles = pair_angles(lambda some: every.directions(rows[some]), n, d, limit=limit, generator=generator)
    return TableView(_paths(table), measured, rows, every, norms, angles)


def _paths(table: Table) -> Paths:
    source = table.source
    if source is None:
        return Paths(Path("table"), Path("table-better"))
    is_own = source.names_path is None or source.names_path.absolute() == source.path  # as in the folder of a model
    names = None if is_own else source.names_path
    return Paths(source.path, better_path(source.path, source.format), source.tensor, names).without_folders()
