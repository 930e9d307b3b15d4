"""The data of the map, for the page's script: names, coordinates, neighbours, columns and groups of the rows shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from unclump.report.columns import label_column, numeric_column
from unclump.report.encoding import encode, encode_angles, encode_counts, encode_points
from unclump.report.layouts import Layout, lay_out
from unclump.report.neighbour_lists import NeighbourLists, find_neighbours
from unclump.report.shown_rows import NEIGHBOURS, choose_rows
from unclump.report.table_view import TableView
from unclump.report.text import make_printable


@dataclass(frozen=True, eq=False)
class MapData:
    """What the map shows.

    Attributes:
        rows: The numbers of the rows on the map.
        layouts: Where they are.
        has_labels: Whether there are columns of labels.
        is_sample: Whether a table has more rows than the map.
        json: All of it, for the script.
    """

    rows: Int[Tensor, " m"]
    layouts: list[Layout]
    has_labels: bool
    is_sample: bool
    json: dict[str, Any]


def build_map(
    tables: Sequence[TableView],
    labels: Mapping[str, Sequence[str]],
    *,
    layout: str,
    generator: torch.Generator,
    device: torch.device | None,
    progress: bool,
) -> MapData:
    """Choose the rows, lay them out, and find their neighbours."""
    rows = choose_rows(tables, generator)
    seed = int(torch.randint(2**31, (), generator=generator))
    near = [find_neighbours(view, rows, k=NEIGHBOURS, device=device, progress=progress) for view in tables]
    layouts = lay_out(
        [view.table.directions(rows[view.locate(rows)[0]]).float() for view in tables], layout=layout, seed=seed
    )
    # Neighbours that are not on the map are named after those that are.
    others = torch.unique(torch.cat([lists.rows.flatten() for lists in near]))
    named = torch.cat([rows, others[~torch.isin(others, rows)]])
    shared = [label_column(title, [values[row] for row in rows.tolist()]) for title, values in labels.items()]
    has_norms = any(view.norms.max() - view.norms.min() > 1e-4 * view.norms.max() for view in tables)
    per_table = [_table_columns(view, lists, rows, has_norms) for view, lists in zip(tables, near, strict=True)]
    data = {
        "shown": len(rows),
        "numbers": encode_counts(named.numpy()),
        "names": _names(tables, named),
        "highlighted": _group_of_rows(tables[0], rows),
        "columns": shared,
        "tables": [
            {
                "layouts": [_encode_layout(laid, table, lists.present, len(rows)) for laid in layouts],
                "neighbours": _encode_neighbours(lists, named, len(rows)),
                "columns": columns,
                "groups": _groups(view, rows),
            }
            for table, (view, lists, columns) in enumerate(zip(tables, near, per_table, strict=True))
        ],
    }
    is_sample = any(len(lists.present) < len(view.rows) for view, lists in zip(tables, near, strict=True))
    return MapData(rows, layouts, bool(labels), is_sample, data)


def _names(tables: Sequence[TableView], rows: Int[Tensor, " m"]) -> list[str] | None:
    """Names from the first table that has the row; None for tables without names."""
    if all(view.health.names is None for view in tables):
        return None
    views = [next(view for view in tables if row < view.health.n) for row in rows.tolist()]
    return [make_printable(view.name(row)) for view, row in zip(views, rows.tolist(), strict=True)]


def _table_columns(
    view: TableView, near: NeighbourLists, rows: Int[Tensor, " m"], has_norms: bool
) -> list[dict[str, Any]]:
    """Norm (unless all are the same), nearest angle, and how often a row is a neighbour of those on the map.

    The columns of two tables are the same.
    """
    norms = view.norms[view.locate(rows)[1]]
    lists = near.rows.flatten()
    occurrences = torch.bincount(torch.searchsorted(rows, lists[torch.isin(lists, rows)]), minlength=len(rows))
    columns = [
        ("norm", norms, ""),
        ("angle to the nearest", torch.rad2deg(near.angles[:, 0]), "°"),
        ("times a neighbour", occurrences[near.present], ""),
    ]
    if not has_norms:
        columns = columns[1:]
    return [
        numeric_column(title, _spread(values.double().unsqueeze(1), near.present, len(rows))[:, 0], unit=unit)
        for title, values, unit in columns
    ]


def _spread(values: Tensor, present: Int[Tensor, " a"], m: int) -> Any:
    """Values of the rows in a table as those of all m rows on the map: NaN where the table has none."""
    spread = torch.full((m, values.shape[1]), torch.nan, dtype=torch.float64)
    spread[present] = values.double()
    return spread.numpy()


def _encode_layout(laid: Layout, table: int, present: Int[Tensor, " a"], m: int) -> dict[str, Any]:
    points = _spread(torch.from_numpy(laid.points[table]), present, m)
    return {"title": laid.title, "kind": laid.kind, **encode_points(points)}


def _encode_neighbours(near: NeighbourLists, named: Int[Tensor, " a"], m: int) -> dict[str, Any]:
    """Neighbours by their places in `named`; the number of these stands for none."""
    order = named.argsort()
    places = order[torch.searchsorted(named[order], near.rows)]
    k = places.shape[1]
    index, angles = np.full((m, k), len(named)), np.zeros((m, k))
    index[near.present], angles[near.present] = places.numpy(), near.angles.double().numpy()
    return {"k": k, "index": encode_counts(index), "angles": encode_angles(angles)}


def _groups(view: TableView, rows: Int[Tensor, " m"]) -> list[dict[str, str]]:
    """The places on the map of the rows of each listed group."""
    return [encode_counts(_places(rows, group)) for group in view.listed_groups]


def _group_of_rows(view: TableView, rows: Int[Tensor, " m"]) -> dict[str, str]:
    """The number of the highlighted group of every row on the map, from 1 on; 0 is none."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for number, group in enumerate(view.highlighted, start=1):
        numbers[_places(rows, group)] = number
    return encode(numbers, "u32")


def _places(rows: Int[Tensor, " m"], group: Sequence[int]) -> Int[np.ndarray, " a"]:
    """Where the rows of a group are among the sorted `rows`; those that are not there are left out."""
    members = torch.tensor(sorted(group), dtype=torch.long)
    return torch.searchsorted(rows, members[torch.isin(members, rows)]).numpy()
