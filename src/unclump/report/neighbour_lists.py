"""The nearest neighbours of the rows on the map, among all rows of their table."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from unclump.geometry.sphere import angle
from unclump.ops.nearest import nearest_of_rows
from unclump.report.table_view import TableView

_BLOCK = 2_000  # rows searched at a time, for the progress bar


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


def find_neighbours(view: TableView, rows: Int[Tensor, " m"], *, k: int, progress: bool) -> NeighbourLists:
    """Search the whole table for the k nearest others of `rows`."""
    present, places = view.locate(rows)
    k = min(k, len(view.rows) - 1)
    found = []
    with tqdm(total=len(places), desc="neighbours", unit="row", disable=not progress, leave=False) as bar:
        for block in torch.split(places, _BLOCK):
            found.append(nearest_of_rows(view.x, block, k=k))
            bar.update(len(block))
    index = torch.cat(found)
    angles = torch.stack([angle(view.x[places], view.x[column]) for column in index.unbind(dim=1)], dim=1)
    angles, order = angles.sort(dim=1, stable=True)
    return NeighbourLists(present, view.rows[index.gather(1, order)], angles)
