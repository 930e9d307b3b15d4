"""Before and after, row by row: how far rows moved, and whether they kept their neighbours."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.measures.overlap import share_kept
from unclump.report.charts import move_chart
from unclump.report.components import render_figures, render_section, render_table, render_tiles
from unclump.report.table_view import TableView
from unclump.report.text import format_count, format_degrees
from unclump.tables.rows import BLOCK
from unclump.tables.sampled_search import nearest_in_table

_NEIGHBOURS = 10
_SAMPLE = 1000
_MAX_LISTED = 7


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `compare`; angles in radians.

    Attributes:
        before: The table before the change.
        after: The table after it.
        rows: The numbers of the rows that have a direction in both tables.
        moves: The angle between the two directions of each of these rows.
        overlap: The mean share of a row's nearest neighbours that it kept.
        neighbours: The number of neighbours per row.
        sampled: The number of rows whose neighbours were compared.
    """

    before: TableView
    after: TableView
    rows: Int[Tensor, " m"]
    moves: Float[Tensor, " m"]
    overlap: float
    neighbours: int
    sampled: int


def compare(
    before: TableView, after: TableView, generator: torch.Generator | None, device: torch.device | None = None
) -> Comparison:
    """Compare rows by their numbers; surplus rows at the end of the longer table have no match."""
    rows = before.rows[torch.isin(before.rows, after.rows)]
    if len(rows) < 2:
        raise ValueError(f"expected at least 2 rows with a direction in both tables, got {len(rows)}")
    old, new = before.table, after.table
    some_rows = torch.split(rows, max(1, BLOCK // old.d))
    moves = torch.cat([angle(old.directions(some), new.directions(some)) for some in some_rows])
    k = min(_NEIGHBOURS, len(rows) - 1)
    sampled = rows[torch.randperm(len(rows), generator=generator)[:_SAMPLE].sort().values]
    near = [nearest_in_table(table, rows, sampled, k=k, device=device) for table in (old, new)]
    return Comparison(before, after, rows, moves, share_kept(*near), k, len(sampled))


def comparison_section(comparison: Comparison) -> str:
    """How far rows moved, which moved farthest, and how many neighbours they kept."""
    before, after = comparison.before, comparison.after
    moves = comparison.moves.numpy()
    unmoved = int((moves < 1e-6).sum())  # single precision resolves directions to about 1e-7
    median, largest = format_degrees(float(np.median(moves))), format_degrees(float(moves.max()))
    cells = [
        ("Median move of a row", median, f"at most {largest}", False),
        ("Rows that stayed", format_count(unmoved), f"of {format_count(len(moves))}", False),
        (
            "Neighbours kept",
            f"{comparison.overlap:.0%}",
            f"of {comparison.neighbours} nearest neighbours, over {format_count(comparison.sampled)} rows",
            False,
        ),
    ]
    farthest = comparison.moves.topk(min(_MAX_LISTED, len(moves)))
    rows = [
        [before.render_name(int(comparison.rows[index])), format_degrees(move)]
        for move, index in zip(farthest.values.tolist(), farthest.indices.tolist(), strict=True)
    ]
    chart = render_figures([move_chart(moves)], [""], ["The angle between a row before and after."])
    listing = f"<div><h3>Farthest moved</h3>{render_table(['Row', 'Angle'], rows, numbers=[1])}</div>"
    body = f'<div class="pair">{chart}{listing}</div>'
    return render_section("What moved", render_tiles(cells), body, note=_matching_note(before, after))


def _matching_note(before: TableView, after: TableView) -> str:
    """How rows were matched, and signs of a wrong match."""
    first, second = before.health, after.health
    note = "Rows are matched by row number."
    if first.n != second.n:
        note += f" {format_count(abs(first.n - second.n))} rows at the end are in one table only."
    if first.names is not None and second.names is not None:
        shared = min(first.n, second.n)
        renamed = sum(a != b for a, b in zip(first.names[:shared], second.names[:shared], strict=True))
        if renamed:
            note += f" {format_count(renamed)} of them have a different name after: is the order the same?"
    return note
