"""Pictures of the rows: a rotatable globe in three dimensions, a map of the principal plane in others.

Each picture is static SVG; the page's script rotates the globe and labels the row under the pointer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.figures.data import principal_plane, sample_rows
from unclump.report import svg
from unclump.report.table_view import TableView
from unclump.report.text import escape, make_printable

_MAX_ROWS = 4000
_MAX_HIGHLIGHTED = 600
_MAX_LABELS = 9
MAP_SIZE, GLOBE_SIZE = (640, 440), (440, 440)
_MARGIN, _RADIUS = 26, 200
_VIEW_OFFSET = math.radians(15)  # the initial view is slightly off the focus, in longitude and latitude
_COLOURS = ("one", "two")


@dataclass(frozen=True)
class Picture:
    """A drawing, and the data that its script needs."""

    drawing: str
    data: dict[str, Any]


def draw_pictures(tables: Sequence[TableView], generator: torch.Generator | None) -> list[Picture]:
    """One picture per table: same rows, same view, and the rows highlighted in the first highlighted in all."""
    highlighted = [(row, group) for group, rows in enumerate(tables[0].highlighted) for row in rows]
    highlighted = highlighted[:_MAX_HIGHLIGHTED]
    group_of = dict(highlighted)
    keep = torch.tensor([row for row, _ in highlighted], dtype=torch.long)
    sample = sample_rows(max(table.health.n for table in tables), _MAX_ROWS, keep, generator)
    selected = [(table, *_select_rows(table, sample)) for table in tables]
    if tables[0].health.d == 3:
        view = _view_matrix(_initial_focus(tables[0]))
        return [
            _draw_globe(table, table.x[indices].double().numpy(), rows, group_of, view=view, colour=colour)
            for colour, (table, indices, rows) in zip(_COLOURS, selected, strict=False)
        ]
    mean, plane = principal_plane(tables[0].x)
    projected = [((table.x[indices] - mean) @ plane).double().numpy() for table, indices, _ in selected]
    combined = np.concatenate(projected)
    low, high = combined.min(axis=0), combined.max(axis=0)
    available = np.array(MAP_SIZE) - 2 * _MARGIN
    scale = float((available / np.maximum(high - low, 1e-9)).min())
    centre = (low + high) / 2
    return [
        _draw_map(table, (xy - centre) * scale * np.array([1, -1]) + np.array(MAP_SIZE) / 2, rows, group_of, colour)
        for colour, xy, (table, _, rows) in zip(_COLOURS, projected, selected, strict=False)
    ]


def _select_rows(table: TableView, rows: Int[Tensor, " m"]) -> tuple[Int[Tensor, " k"], list[int]]:
    """Of `rows`, those that have a direction: their indices into `table.x`, and their row numbers."""
    indices = torch.searchsorted(table.rows, rows).clamp_max(len(table.rows) - 1)
    has_direction = table.rows[indices] == rows
    return indices[has_direction], rows[has_direction].tolist()


def _draw_map(
    table: TableView, xy: Float[np.ndarray, "k 2"], rows: Sequence[int], group_of: dict[int, int], colour: str
) -> Picture:
    """Dots, with clumps on top and the first row of each clump labelled."""
    highlighted = np.array([row in group_of for row in rows], dtype=bool)
    size = "small" if len(rows) > 1000 else "medium" if len(rows) > 150 else "large"
    body = svg.dots(xy[~highlighted], f"dots {colour} {size}") + svg.dots(xy[highlighted], f"dots clump {size}")
    label = f"Map of {len(rows)} rows along the two principal axes; {int(highlighted.sum())} of them are highlighted."
    drawing = svg.figure(body + _draw_labels(table, xy, rows, group_of), label, size=MAP_SIZE, kind="map")
    data = {
        "kind": "map",
        "xy": [round(float(value), 1) for value in xy.flatten()],
        "names": [make_printable(table.name(row)) for row in rows],
        "clumps": [group_of.get(row, -1) for row in rows],
    }
    return Picture(drawing, data)


def _draw_labels(table: TableView, xy: Float[np.ndarray, "k 2"], rows: Sequence[int], group_of: dict[int, int]) -> str:
    """The name of the first row of each clump, where it overlaps no other label."""
    occupied: list[tuple[float, float, float]] = []  # left, right, y
    labels: list[str] = []
    labelled: set[int] = set()
    candidates = sorted((group_of[row], index) for index, row in enumerate(rows) if row in group_of)
    for clump, index in candidates:
        text = make_printable(table.name(rows[index]))
        text = text if len(text) <= 24 else f"{text[:23]}…"
        x, y = map(float, xy[index])
        end = x + 10 + 7.5 * len(text)
        is_free = all(abs(y - other_y) > 15 or end < left or x > right for left, right, other_y in occupied)
        if clump in labelled or not is_free or len(labels) == _MAX_LABELS:
            continue
        labelled.add(clump)
        flip = end > MAP_SIZE[0]
        occupied.append((x - (end - x), x, y) if flip else (x, end, y))
        anchor, shift = ("end", -8) if flip else ("start", 8)
        labels.append(
            f'<text class="label" x="{x + shift:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    return "".join(labels)


def _draw_globe(
    table: TableView,
    points: Float[np.ndarray, "k 3"],
    rows: Sequence[int],
    group_of: dict[int, int],
    *,
    view: Float[np.ndarray, "3 3"],
    colour: str,
) -> Picture:
    """Dots on a ball with a graticule, the far side faded."""
    highlighted = np.array([row in group_of for row in rows], dtype=bool)
    centre, size = GLOBE_SIZE[0] / 2, "medium" if len(rows) > 150 else "large"
    size = "small" if len(rows) > 1500 else size
    rotated = points @ view.T
    xy = np.stack([centre + _RADIUS * rotated[:, 0], centre - _RADIUS * rotated[:, 1]], axis=1)
    front = rotated[:, 2] >= 0
    grid = [line @ view.T for line in _graticule()]
    body = f'<circle class="ball" cx="{centre:g}" cy="{centre:g}" r="{_RADIUS}"/>'
    body += "".join(
        f'<path class="{style}" data-part="{part}" d="{path}"/>'
        for style, part, path in (
            ("meridian far", "grid-far", "".join(_arc_path(line, centre, far=True) for line in grid)),
            (f"dots {colour} far {size}", "far", svg.dot_path(xy[~front & ~highlighted])),
            (f"dots clump far {size}", "clump-far", svg.dot_path(xy[~front & highlighted])),
            ("meridian", "grid", "".join(_arc_path(line, centre, far=False) for line in grid)),
            (f"dots {colour} {size}", "near", svg.dot_path(xy[front & ~highlighted])),
            (f"dots clump {size}", "clump", svg.dot_path(xy[front & highlighted])),
        )
    )
    label = f"Globe with {len(rows)} rows. Drag it, or use the arrow keys, to rotate it."
    drawing = svg.figure(body, label, size=GLOBE_SIZE, kind="globe")
    data = {
        "kind": "globe",
        "radius": _RADIUS,
        "view": [round(float(value), 6) for value in view.flatten()],
        "points": [round(float(value), 4) for value in points.flatten()],
        "names": [make_printable(table.name(row)) for row in rows],
        "clumps": [group_of.get(row, -1) for row in rows],
    }
    return Picture(drawing.replace('role="img"', 'role="application" tabindex="0"'), data)


def _initial_focus(table: TableView) -> Float[np.ndarray, " 3"]:
    """The point that the globe first faces: the first highlighted row."""
    index = int(torch.searchsorted(table.rows, table.highlighted[0][0]))
    focus: Float[np.ndarray, " 3"] = table.x[index].double().numpy()
    return focus


def _view_matrix(focus: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """Maps points (third axis: the pole) to (right, up, towards the viewer), almost facing `focus`."""
    turn = -math.atan2(focus[1], focus[0]) + _VIEW_OFFSET
    tilt = math.asin(max(-0.9, min(0.9, focus[2]))) - _VIEW_OFFSET
    cosine, sine = math.cos(turn), math.sin(turn)
    about_pole = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1.0]])
    to_viewer = np.array([[0, 1.0, 0], [0, 0, 1.0], [1.0, 0, 0]])
    cosine, sine = math.cos(tilt), math.sin(tilt)
    about_horizontal = np.array([[1.0, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    view: Float[np.ndarray, "3 3"] = about_horizontal @ to_viewer @ about_pole
    return view


def _graticule() -> list[Float[np.ndarray, "k 3"]]:
    """Meridians and parallels, every 30 degrees; `graticule` in page.js draws the same."""
    t = np.radians(np.arange(0, 361, 5))
    parallels = [
        np.stack([math.cos(r) * np.cos(t), math.cos(r) * np.sin(t), np.full_like(t, math.sin(r))], axis=1)
        for r in np.radians([-60, -30, 0, 30, 60])
    ]
    meridians = [
        np.stack([np.cos(t) * math.cos(a), np.cos(t) * math.sin(a), np.sin(t)], axis=1)
        for a in np.radians(np.arange(0, 180, 30))
    ]
    return parallels + meridians


def _arc_path(line: Float[np.ndarray, "k 3"], centre: float, *, far: bool) -> str:
    """Path data of the segments on one side of the globe."""
    segments = []
    for a, b in pairwise(line):
        if (a[2] + b[2] < 0) == far:
            ends = (centre + _RADIUS * a[0], centre - _RADIUS * a[1], centre + _RADIUS * b[0], centre - _RADIUS * b[1])
            segments.append("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*ends))
    return "".join(segments)
