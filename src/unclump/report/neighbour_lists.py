"""The nearest neighbours of the rows on the map, among all rows of their table."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.report.table_view import TableView
from unclump.tables.rows import BLOCK
from unclump.tables.sampled_search import nearest_in_table


@dataclass(frozen=True, eq=False)
class NeighbourLists:
    """Neighbours by row number, nearest first.

    Attributes:
        present: The positions, among the rows asked for, of those that have a direction in the table.
        rows: The row numbers of the neighbours of each of these.
        angles: The angles to them, in radians.
    """

    present: Int[Tensor, " a"]
    rows: Int[Tensor, "a k"]
    angles: Float[Tensor, "a k"]


def find_neighbours(
    view: TableView, rows: Int[Tensor, " m"], *, k: int, device: torch.device | None, progress: bool
) -> NeighbourLists:
    """Search the whole table for the k nearest others of `rows`."""
    present, _ = view.locate(rows)
    rows, k = rows[present], min(k, len(view.rows) - 1)
    index = nearest_in_table(view.table, view.rows, rows, k=k, device=device, progress=progress)
    angles = torch.empty(index.shape, dtype=torch.float64)
    for some in torch.split(torch.arange(len(rows)), max(1, BLOCK // view.table.d)):
        angles[some] = view.table.angles_to(view.table.directions(rows[some]), index[some])
    angles, order = angles.sort(dim=1, stable=True)
    return NeighbourLists(present, index.gather(1, order), angles)
