"""Where the rows are: a globe that can be turned in three dimensions, a map of the principal plane in others.

The drawing stands in the page as it is; the page's script only turns it and names what is pointed at.
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
from unclump.report.looked import Looked
from unclump.report.text import escaped, visible

_MOST_ROWS = 4000
_MOST_MARKED = 600
_MOST_LABELS = 9
MAP, GLOBE = (640, 440), (440, 440)
_MARGIN, _RADIUS = 26, 200
_ASIDE = math.radians(15)  # what the globe faces at first is seen a little from the side
_KINDS = ("one", "two")


@dataclass(frozen=True)
class Picture:
    """A drawing and the data its script needs."""

    drawing: str
    data: dict[str, Any]


def pictures(tables: Sequence[Looked], generator: torch.Generator | None) -> list[Picture]:
    """A picture of each table, of the same rows in the same view; what stood out in the first does in all."""
    marked = [(row, group) for group, rows in enumerate(tables[0].marked) for row in rows][:_MOST_MARKED]
    group_of = dict(marked)
    always = torch.tensor([row for row, _ in marked], dtype=torch.long)
    sample = sample_rows(max(looked.health.n for looked in tables), _MOST_ROWS, always, generator)
    drawn = [(looked, *_present(looked, sample)) for looked in tables]
    if tables[0].health.d == 3:
        view = _view(_facing(tables[0]))
        return [
            _globe(looked, looked.x[places].double().numpy(), rows, group_of, view=view, kind=kind)
            for kind, (looked, places, rows) in zip(_KINDS, drawn, strict=False)
        ]
    mean, plane = principal_plane(tables[0].x)
    flat = [((looked.x[places] - mean) @ plane).double().numpy() for looked, places, _ in drawn]
    everything = np.concatenate(flat)
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = np.array(MAP) - 2 * _MARGIN
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    middle = (low + high) / 2
    return [
        _map(looked, (found - middle) * scale * np.array([1, -1]) + np.array(MAP) / 2, rows, group_of, kind)
        for kind, found, (looked, _, rows) in zip(_KINDS, flat, drawn, strict=False)
    ]


def _present(looked: Looked, rows: Int[Tensor, " m"]) -> tuple[Int[Tensor, " k"], list[int]]:
    """Those of the rows that have a direction: their places among these, and their numbers."""
    places = torch.searchsorted(looked.numbers, rows).clamp_max(len(looked.numbers) - 1)
    there = looked.numbers[places] == rows
    return places[there], rows[there].tolist()


def _map(
    looked: Looked, places: Float[np.ndarray, "k 2"], listed: Sequence[int], group_of: dict[int, int], kind: str
) -> Picture:
    """Dots; those of clumps above the others, the first of each with its name."""
    standing_out = np.array([row in group_of for row in listed], dtype=bool)
    size = "small" if len(listed) > 1000 else "medium" if len(listed) > 150 else "large"
    body = svg.dots(places[~standing_out], f"dots {kind} {size}") + svg.dots(places[standing_out], f"dots clump {size}")
    label = f"Map of {len(listed)} rows along the two principal axes; {int(standing_out.sum())} of them stand out."
    drawing = svg.figure(body + _labels(looked, places, listed, group_of), label, size=MAP, kind="map")
    data = {
        "kind": "map",
        "places": [round(float(value), 1) for value in places.flatten()],
        "names": [visible(looked.name(row)) for row in listed],
        "clumps": [group_of.get(row, -1) for row in listed],
    }
    return Picture(drawing, data)


def _labels(looked: Looked, places: Float[np.ndarray, "k 2"], rows: Sequence[int], group_of: dict[int, int]) -> str:
    """The name of the first row of each clump, where it hides no other name."""
    taken: list[tuple[float, float, float]] = []
    parts: list[str] = []
    seen: set[int] = set()
    firsts = sorted((group_of[row], at) for at, row in enumerate(rows) if row in group_of)
    for clump, at in firsts:
        text = visible(looked.name(rows[at]))
        text = text if len(text) <= 24 else f"{text[:23]}…"
        x, y = map(float, places[at])
        end = x + 10 + 7.5 * len(text)
        free = all(abs(y - other) > 15 or end < left or x > right for left, right, other in taken)
        if clump in seen or not free or len(parts) == _MOST_LABELS:
            continue
        seen.add(clump)
        flip = end > MAP[0]
        taken.append((x - (end - x), x, y) if flip else (x, end, y))
        anchor, shift = ("end", -8) if flip else ("start", 8)
        parts.append(
            f'<text class="label" x="{x + shift:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'
        )
    return "".join(parts)


def _globe(
    looked: Looked,
    points: Float[np.ndarray, "k 3"],
    listed: Sequence[int],
    group_of: dict[int, int],
    *,
    view: Float[np.ndarray, "3 3"],
    kind: str,
) -> Picture:
    """Dots on a ball with its meridians, seen from without; the far side is pale."""
    lines = _graticule()
    clumped = np.array([row in group_of for row in listed], dtype=bool)
    middle, size = GLOBE[0] / 2, "medium" if len(listed) > 150 else "large"
    size = "small" if len(listed) > 1500 else size
    turned = points @ view.T
    places = np.stack([middle + _RADIUS * turned[:, 0], middle - _RADIUS * turned[:, 1]], axis=1)
    front = turned[:, 2] >= 0
    grid = [line @ view.T for line in lines]
    body = f'<circle class="ball" cx="{middle:g}" cy="{middle:g}" r="{_RADIUS}"/>'
    body += "".join(
        f'<path class="{style}" data-part="{part}" d="{path}"/>'
        for style, part, path in (
            ("meridian far", "grid-far", "".join(_arc(line, middle, far=True) for line in grid)),
            (f"dots {kind} far {size}", "far", svg.dot_path(places[~front & ~clumped])),
            (f"dots clump far {size}", "clump-far", svg.dot_path(places[~front & clumped])),
            ("meridian", "grid", "".join(_arc(line, middle, far=False) for line in grid)),
            (f"dots {kind} {size}", "near", svg.dot_path(places[front & ~clumped])),
            (f"dots clump {size}", "clump", svg.dot_path(places[front & clumped])),
        )
    )
    label = f"Globe with {len(listed)} rows. Drag it, or use the arrow keys, to turn it."
    drawing = svg.figure(body, label, size=GLOBE, kind="globe").replace('role="img"', 'role="application" tabindex="0"')
    data = {
        "kind": "globe",
        "radius": _RADIUS,
        "view": [round(float(value), 6) for value in view.flatten()],
        "points": [round(float(value), 4) for value in points.flatten()],
        "names": [visible(looked.name(row)) for row in listed],
        "clumps": [group_of.get(row, -1) for row in listed],
    }
    return Picture(drawing, data)


def _facing(looked: Looked) -> Float[np.ndarray, " 3"]:
    """What to look at first: the first group that stands out."""
    place = int(torch.searchsorted(looked.numbers, looked.marked[0][0]))
    facing: Float[np.ndarray, " 3"] = looked.x[place].double().numpy()
    return facing


def _view(facing: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """From the globe's axes (the third is its pole) to the right, upwards and towards the eye, beside a point."""
    turn = -math.atan2(facing[1], facing[0]) + _ASIDE
    tilt = math.asin(max(-0.9, min(0.9, facing[2]))) - _ASIDE
    cosine, sine = math.cos(turn), math.sin(turn)
    about_pole = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1.0]])
    to_eye = np.array([[0, 1.0, 0], [0, 0, 1.0], [1.0, 0, 0]])
    cosine, sine = math.cos(tilt), math.sin(tilt)
    tilted = np.array([[1.0, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    view: Float[np.ndarray, "3 3"] = tilted @ to_eye @ about_pole
    return view


def _graticule() -> list[Float[np.ndarray, "k 3"]]:
    """Meridians and parallels, every 30 degrees. The page's script draws the same ones."""
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


def _arc(line: Float[np.ndarray, "k 3"], middle: float, *, far: bool) -> str:
    """The pieces of a line on one side of the globe."""
    pieces = []
    for a, b in pairwise(line):
        if (a[2] + b[2] < 0) == far:
            ends = (middle + _RADIUS * a[0], middle - _RADIUS * a[1], middle + _RADIUS * b[0], middle - _RADIUS * b[1])
            pieces.append("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*ends))
    return "".join(pieces)
