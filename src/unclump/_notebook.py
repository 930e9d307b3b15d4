"""Results in a notebook: a table with a small figure, as a few kilobytes of HTML, in the notebook's own colours."""

import html
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from unclump._text import sanitise

_WIDTH, _HEIGHT = 260, 110  # of a figure
_BASE, _TOP = 90, 8  # of its plot
_MAX_BINS = 40
_MAX_POINTS = 100  # of a curve
_MAX_ROWS = 8  # of a long table


def card(title: str, *parts: str, figure: str = "") -> str:
    """A title above pieces of HTML, with a figure beside them."""
    figure = f'<div style="flex:none;margin:4px 0">{figure}</div>' if figure else ""
    body = f'<div style="display:flex;flex-wrap:wrap;gap:4px 24px"><div>{"".join(parts)}</div>{figure}</div>'
    return f'<div style="font-size:13px"><b>{escape(title)}</b>{body}</div>'


def grid(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers. The middle rows of a long table are omitted."""
    if len(rows) > _MAX_ROWS:
        half = _MAX_ROWS // 2
        rows = [*rows[:half], ["…"] * len(rows[0]), *rows[-half:]]
    return full_grid(heading, rows)


def full_grid(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with all its rows."""
    lines = [_line("th", heading)] if any(heading) else []
    return f'<table style="margin:4px 0">{"".join([*lines, *(_line("td", row) for row in rows)])}</table>'


def text_grid(rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and text of any length."""
    left = 'style="text-align:left"'
    lines = (f"<tr><td {left}>{escape(name)}</td><td {left}>{escape_prose(text)}</td></tr>" for name, text in rows)
    return f'<table style="margin:4px 0">{"".join(lines)}</table>'


def note(text: str) -> str:
    """A line of text."""
    return f'<div style="max-width:32em;overflow-wrap:anywhere">{escape_prose(text)}</div>'


def histogram(
    values: Float[np.ndarray, " n"],
    limits: tuple[float, float],
    label: str,
    *,
    unit: str = "",
    density: Float[np.ndarray, " k"] | None = None,
) -> str:
    """A histogram; `density`, that of uniform points at evenly spaced values in the limits, is drawn over it."""
    bins = int(min(_MAX_BINS, max(8, 2 * len(values) ** 0.4)))
    counts, edges = np.histogram(values, bins, limits)
    heights = counts / max(1, len(values)) / (edges[1] - edges[0])
    other = 0.0 if density is None else float(density.max())
    # A single bar that would flatten all others, such as that of duplicates, is cut off at the top.
    second = float(np.sort(heights)[-2])
    top = max(other, second if heights.max() > 4 * max(second, other) > 0 else float(heights.max()))
    x, y = _scale(edges, *limits, 0, _WIDTH), _scale(heights.clip(max=top), 0.0, top, _BASE, _TOP)
    path = "".join(f"V{a}H{b}" for a, b in zip(y, x[1:], strict=True))
    body = f'<path fill="currentColor" opacity=".35" d="M0 {_BASE}{path}V{_BASE}Z"/>'
    if density is not None:
        body += _curve(np.linspace(*limits, len(density)), density, limits, (0.0, top), dashed=True)
    return _figure(body, limits, label, unit)


def curve(x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"], label: str) -> str:
    """A curve whose vertical axis starts at zero."""
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_POINTS)).round().astype(int))
    limits = float(x.min()), float(x.max())
    return _figure(_curve(x[chosen], y[chosen], limits, (0.0, float(y.max())), dashed=False), limits, label, "")


def escape(text: str) -> str:
    """Escape untrusted text for HTML: one line without control characters, shortened."""
    return html.escape(sanitise(text))


def escape_prose(text: str) -> str:
    """Escape text of any length for HTML, word by word."""
    return " ".join(map(escape, text.split()))


def _line(cell: str, texts: Sequence[str]) -> str:
    first, *others = map(escape, texts)
    style = ' style="text-align:right"' if cell == "th" else ""  # header cells are centred by default
    numbers = "".join(f"<{cell}{style}>{text}</{cell}>" for text in others)
    return f'<tr style="text-align:right"><{cell} style="text-align:left">{first}</{cell}>{numbers}</tr>'


def _curve(
    x: Float[np.ndarray, " k"],
    y: Float[np.ndarray, " k"],
    across: tuple[float, float],
    up: tuple[float, float],
    *,
    dashed: bool,
) -> str:
    vertices = zip(_scale(x, *across, 0, _WIDTH), _scale(y, *up, _BASE, _TOP), strict=True)
    style = ' stroke-dasharray="4 3"' if dashed else ""
    path = "L".join(f"{a} {b}" for a, b in vertices)
    return f'<path fill="none" stroke="currentColor" stroke-width="1.5"{style} d="M{path}"/>'


def _figure(body: str, limits: tuple[float, float], label: str, unit: str) -> str:
    low, high = (f"{value:.3g}{unit}" for value in limits)
    axis = f'<path stroke="currentColor" opacity=".6" d="M0 {_BASE}H{_WIDTH}"/>'
    text = 'fill="currentColor" font-size="11"'
    words = (
        f'<text {text} y="{_HEIGHT - 6}">{low}</text><text {text} x="{_WIDTH / 2:g}" y="{_HEIGHT - 6}" '
        f'text-anchor="middle">{escape_prose(label)}</text>'
        f'<text {text} x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{high}</text>'
    )
    start = f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape_prose(label)}">'
    return f"{start}{body}{axis}{words}</svg>"


def _scale(values: Float[np.ndarray, " k"], low: float, high: float, start: float, stop: float) -> list[str]:
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return [f"{value:.1f}".removesuffix(".0") for value in (start + share * (stop - start)).tolist()]
