"""A table as a data frame of pandas, and as its first rows with a figure in a notebook."""

from typing import TYPE_CHECKING

import torch

from unclump._frames import data_frame
from unclump._notebook import card, full_grid, note
from unclump.measures.pair_figure import pair_figure
from unclump.ops.project import project

if TYPE_CHECKING:
    import pandas

    from unclump.tables.files._table import Table

_ROWS, _COLUMNS = 5, 6  # shown
_SAMPLE = 256  # rows whose angles are drawn


def as_frame(table: "Table") -> "pandas.DataFrame":
    """One column for each dimension, indexed by the names."""
    points = table.points.detach().cpu()
    points = points.float() if points.dtype == torch.bfloat16 else points  # which NumPy does not have
    columns = {str(number): column.numpy() for number, column in enumerate(points.unbind(dim=1))}
    return data_frame(columns, index=table.names, name=None if table.names is None else "name")


def as_html(table: "Table") -> str:
    """The first rows, and a histogram of the angles between a few hundred rows."""
    n, d = table.points.shape
    names = [str(row) for row in range(_ROWS)] if table.names is None else table.names
    more = ["…"] if d > _COLUMNS else []
    rows = [
        (name, *(f"{value:.4g}" for value in point), *more)
        for name, point in zip(names[:_ROWS], table.points[:_ROWS, :_COLUMNS].tolist(), strict=False)
    ]
    rows += [("…", *[""] * (len(rows[0]) - 1))] if n > _ROWS else []
    heading = ("", *map(str, range(min(d, _COLUMNS))), *more)
    title = f"{n} rows x {d} dimensions, {str(table.points.dtype).removeprefix('torch.')}"
    source = [note(f"from {table.source.path.name}")] if table.source is not None else []
    return card(title, *source, full_grid(heading, rows), figure=_histogram(table))


def _histogram(table: "Table") -> str:
    """The angles of pairs of rows that are evenly spaced over the table; rows without a direction are left out."""
    n = len(table.points)
    x = table.points[torch.arange(min(n, _SAMPLE)) * n // min(n, _SAMPLE)].detach().cpu().double()
    x = project(x[x.isfinite().all(dim=1) & x.any(dim=1)])
    return pair_figure(x) if len(x) > 1 else ""
