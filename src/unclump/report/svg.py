"""Small SVG charts: a frame with ticks, steps, lines and dots. Colours come from the style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump.report.text import escape, escape_prose

WIDTH, HEIGHT = 400, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 14, 16, 10, 40


@dataclass(frozen=True)
class Frame:
    """The data range of a chart, and its mapping to SVG coordinates."""

    low: float
    high: float
    bottom: float
    top: float
    left: int = _LEFT

    def x(self, value: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Horizontal SVG coordinates of data values."""
        return self.left + (value - self.low) / (self.high - self.low) * (WIDTH - self.left - _RIGHT)

    def y(self, value: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Vertical SVG coordinates of data values, clipped to the frame."""
        height = HEIGHT - _TOP - _BOTTOM
        fraction: Float[np.ndarray, " k"] = (value - self.bottom) / (self.top - self.bottom)
        return _TOP + height - height * fraction.clip(0, 1)


def figure(body: str, label: str, *, size: tuple[int, int] = (WIDTH, HEIGHT), kind: str = "chart") -> str:
    """An SVG element with a label for screen readers."""
    box = f"0 0 {size[0]} {size[1]}"
    return f'<svg class="{kind}" viewBox="{box}" role="img" aria-label="{escape_prose(label)}">{body}</svg>'


def steps(frame: Frame, edges: Float[np.ndarray, " k"], heights: Float[np.ndarray, " m"], style: str) -> str:
    """A histogram as one filled path."""
    x, y = frame.x(edges), frame.y(heights)
    base = _number(frame.y(np.array([frame.bottom]))[0])
    path = "".join(f"V{_number(top)}H{_number(right)}" for top, right in zip(y, x[1:], strict=True))
    return f'<path class="{style}" d="M{_number(x[0])} {base}{path}V{base}Z"/>'


def line(frame: Frame, x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"], style: str) -> str:
    """A curve."""
    vertices = zip(frame.x(x), frame.y(y), strict=True)
    path = "L".join(f"{_number(a)} {_number(b)}" for a, b in vertices)
    return f'<path class="{style}" d="M{path}"/>'


def dot_path(xy: Float[np.ndarray, "k 2"]) -> str:
    """Path data of round dots: strokes of zero length with round caps."""
    return "".join(f"M{_number(x)} {_number(y)}h0" for x, y in xy)


def dots(xy: Float[np.ndarray, "k 2"], style: str) -> str:
    """Round dots as one path."""
    return f'<path class="{style}" d="{dot_path(xy)}"/>'


def x_axis(frame: Frame, title: str, ticks: Sequence[float], suffix: str = "") -> str:
    """The horizontal axis with its title, and a grid line at every tick."""
    floor, ceiling = HEIGHT - _BOTTOM, _TOP
    parts = [f'<path class="axis" d="M{frame.left} {floor}H{WIDTH - _RIGHT}"/>']
    for value, x in zip(ticks, frame.x(np.array(ticks, dtype=np.float64)), strict=True):
        parts.append(f'<path class="grid" d="M{_number(x)} {ceiling}V{floor}"/>')
        parts.append(_text("tick", x, floor + 15, "middle", f"{value:g}{suffix}"))
    middle = (frame.left + WIDTH - _RIGHT) / 2
    parts.append(_text("title", middle, HEIGHT - 6, "middle", title))
    return "".join(parts)


def y_ticks(frame: Frame, values: Sequence[float], labels: Sequence[str]) -> str:
    """Horizontal grid lines with labels left of the frame."""
    parts = []
    for y, label in zip(frame.y(np.array(values, dtype=np.float64)), labels, strict=True):
        parts.append(f'<path class="grid" d="M{frame.left} {_number(y)}H{WIDTH - _RIGHT}"/>')
        parts.append(_text("tick", frame.left - 6, y + 4, "end", label))
    return "".join(parts)


def cut_mark(frame: Frame, left: float, right: float, text: str) -> str:
    """A gap across a bar that goes beyond the frame, and its true height beside it."""
    start, end = frame.x(np.array([left, right]))
    gap = f'<path class="cut" d="M{_number(start - 3)} {_TOP + 12}L{_number(end + 3)} {_TOP + 6}"/>'
    is_right = end + 40 > WIDTH
    return gap + _text("tick", start - 5 if is_right else end + 5, _TOP + 9, "end" if is_right else "start", text)


def round_ticks(low: float, high: float, limit: int = 7) -> list[float]:
    """At most `limit` round numbers from low to high.

    Example:
        >>> round_ticks(0.0, 180.0)
        [0, 30, 60, 90, 120, 150, 180]
    """
    raw = (high - low) / (limit - 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 3, 5, 10) if s * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _text(style: str, x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="{style}" x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
