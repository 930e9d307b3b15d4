"""Which rows the map shows: all, or as many as keep the page small and the search for their neighbours short."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from unclump.figures.data import sample_rows
from unclump.report.table_view import TableView
from unclump.report.text import embed_json, make_printable

MAX_ROWS = 50_000
NEIGHBOURS = 10
_MAX_BYTES = 7_500_000  # of the rows' data; the page is to stay below 10 MB
_MAX_PRODUCTS = 10**12  # multiplications of the neighbour search: about half a minute on two cores
_MIN_ROWS = 2_000
_MAX_HIGHLIGHTED = 600
_ROW_BYTES = 120  # coordinates, neighbours, angles and columns of a row in one table
_NAME_SAMPLE = 1_000


def choose_rows(tables: Sequence[TableView], generator: torch.Generator | None) -> Int[Tensor, " m"]:
    """The sorted numbers of the rows to show: a random sample with all groups and hubs, or every row."""
    n = max(view.health.n for view in tables)
    keep = torch.tensor(sorted({row for view in tables for row in _notable(view)}), dtype=torch.long)
    rows = sample_rows(n, _row_limit(tables, n), keep, generator)
    return rows[torch.isin(rows, torch.cat([view.rows for view in tables]))]


def _row_limit(tables: Sequence[TableView], n: int) -> int:
    """How many rows fit into the page and into the time."""
    name_bytes = _mean_name_bytes(tables[0])
    fits = int(_MAX_BYTES / (len(tables) * _ROW_BYTES + name_bytes))
    in_time = int(_MAX_PRODUCTS / sum(len(view.rows) * view.table.d for view in tables))
    if n <= min(MAX_ROWS, fits, in_time):
        return n
    # A sample's neighbours are mostly other rows, whose names the page needs as well.
    fits = int(_MAX_BYTES / (len(tables) * (_ROW_BYTES + NEIGHBOURS * (name_bytes + 5)) + name_bytes))
    return max(_MIN_ROWS, min(MAX_ROWS, fits, in_time))


def _mean_name_bytes(view: TableView) -> float:
    step = max(1, view.health.n // _NAME_SAMPLE)
    names = [make_printable(view.name(row)) for row in range(0, view.health.n, step)]
    return len(embed_json(names)) / len(names)


def _notable(view: TableView) -> list[int]:
    highlighted = [row for rows in view.highlighted for row in rows][:_MAX_HIGHLIGHTED]
    return highlighted + view.hubs
