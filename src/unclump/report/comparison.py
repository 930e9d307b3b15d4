"""Before and after, row by row: how far rows moved, and whether their neighbours stayed."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.measures.overlap import neighbour_overlap
from unclump.report.charts import move_chart
from unclump.report.looked import Looked
from unclump.report.parts import figures, section, table, tiles
from unclump.report.text import count, degrees

_NEIGHBOURS = 10
_SAMPLE = 1000
_MOST_LISTED = 7


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found; angles in radians.

    Attributes:
        before: The table before the change.
        after: The table after it.
        rows: The numbers of the rows that have a direction in both tables.
        moves: The angle between their directions before and after.
        overlap: The mean share of a row's nearest neighbours that stayed.
        neighbours: How many were looked at.
        sampled: Over how many rows.
    """

    before: Looked
    after: Looked
    rows: Int[Tensor, " m"]
    moves: Float[Tensor, " m"]
    overlap: float
    neighbours: int
    sampled: int


def compare(before: Looked, after: Looked, generator: torch.Generator | None) -> Comparison:
    """Rows are matched by their numbers; of a longer table the last have no match."""
    rows = before.numbers[torch.isin(before.numbers, after.numbers)]
    if len(rows) < 2:
        raise ValueError(f"expected two tables with rows in common, got {len(rows)} with a direction in both")
    old, new = (looked.x[torch.searchsorted(looked.numbers, rows)] for looked in (before, after))
    k, sampled = min(_NEIGHBOURS, len(rows) - 1), min(_SAMPLE, len(rows))
    stayed = neighbour_overlap(old, new, neighbours=k, samples=_SAMPLE, generator=generator)
    return Comparison(before, after, rows, angle(old.double(), new.double()), stayed, k, sampled)


def comparison_section(found: Comparison) -> str:
    """What moved, how far, and what stayed near."""
    before, after = found.before, found.after
    moves = found.moves.numpy()
    still = int((moves < 1e-6).sum())  # single precision tells directions apart to 1e-7
    cells = [
        ("A row moved, median", degrees(float(np.median(moves))), f"at most {degrees(float(moves.max()))}"),
        ("Rows that stayed", count(still), f"of {count(len(moves))}"),
        (
            "Neighbours kept",
            f"{found.overlap:.0%}",
            f"of {found.neighbours} nearest neighbours, over {count(found.sampled)} rows",
        ),
    ]
    farthest = found.moves.topk(min(_MOST_LISTED, len(moves)))
    rows = [
        [before.name_html(int(found.rows[place])), degrees(move)]
        for move, place in zip(farthest.values.tolist(), farthest.indices.tolist(), strict=True)
    ]
    drawing = figures([move_chart(moves)], [""], ["The angle between a row before and after."])
    listed = f"<div><h3>Farthest moved</h3>{table(['Row', 'Angle'], rows, numbers=[1])}</div>"
    return section(
        "What moved", tiles(cells), f'<div class="pair">{drawing}{listed}</div>', note=_matched(before, after)
    )


def _matched(before: Looked, after: Looked) -> str:
    """How rows were matched, and what was odd about it."""
    first, second = before.health, after.health
    said = "Rows are matched by their number."
    if first.n != second.n:
        said += f" {count(abs(first.n - second.n))} rows at the end are in one table only."
    if first.names is not None and second.names is not None:
        both = min(first.n, second.n)
        others = sum(a != b for a, b in zip(first.names[:both], second.names[:both], strict=True))
        said += f" {count(others)} of them have another name after: are they in the same order?" if others else ""
    return said
