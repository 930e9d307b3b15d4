"""Small vector drawings: a frame with ticks, steps, lines and dots. Colours come from the page's style."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump.report.text import escaped, words

WIDTH, HEIGHT = 400, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 14, 16, 10, 40


@dataclass(frozen=True)
class Frame:
    """Where values go on the paper."""

    low: float
    high: float
    bottom: float
    top: float
    left: int = _LEFT

    def x(self, value: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """From values to the right."""
        return self.left + (value - self.low) / (self.high - self.low) * (WIDTH - self.left - _RIGHT)

    def y(self, value: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """From values upwards; what is outside stays at the border."""
        height = HEIGHT - _TOP - _BOTTOM
        share: Float[np.ndarray, " k"] = (value - self.bottom) / (self.top - self.bottom)
        return _TOP + height - height * share.clip(0, 1)


def figure(body: str, label: str, *, size: tuple[int, int] = (WIDTH, HEIGHT), kind: str = "chart") -> str:
    """A drawing with a description for those who cannot see it."""
    return f'<svg class="{kind}" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{words(label)}">{body}</svg>'


def steps(frame: Frame, edges: Float[np.ndarray, " k"], heights: Float[np.ndarray, " m"], style: str) -> str:
    """A histogram as one filled path."""
    x, y = frame.x(edges), frame.y(heights)
    base = _number(frame.y(np.array([frame.bottom]))[0])
    path = "".join(f"V{_number(top)}H{_number(right)}" for top, right in zip(y, x[1:], strict=True))
    return f'<path class="{style}" d="M{_number(x[0])} {base}{path}V{base}Z"/>'


def line(frame: Frame, x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"], style: str) -> str:
    """A curve."""
    places = zip(frame.x(x), frame.y(y), strict=True)
    path = "L".join(f"{_number(a)} {_number(b)}" for a, b in places)
    return f'<path class="{style}" d="M{path}"/>'


def dot_path(places: Float[np.ndarray, "k 2"]) -> str:
    """Round dots: strokes without length."""
    return "".join(f"M{_number(x)} {_number(y)}h0" for x, y in places)


def dots(places: Float[np.ndarray, "k 2"], style: str) -> str:
    """Round dots as one path."""
    return f'<path class="{style}" d="{dot_path(places)}"/>'


def x_axis(frame: Frame, title: str, ticks: Sequence[float], suffix: str = "") -> str:
    """The horizontal axis with its title, and a faint line at every tick."""
    floor, ceiling = HEIGHT - _BOTTOM, _TOP
    parts = [f'<path class="axis" d="M{frame.left} {floor}H{WIDTH - _RIGHT}"/>']
    for value, at in zip(ticks, frame.x(np.array(ticks, dtype=np.float64)), strict=True):
        parts.append(f'<path class="grid" d="M{_number(at)} {ceiling}V{floor}"/>')
        parts.append(_text("tick", at, floor + 15, "middle", f"{value:g}{suffix}"))
    middle = (frame.left + WIDTH - _RIGHT) / 2
    parts.append(_text("title", middle, HEIGHT - 6, "middle", title))
    return "".join(parts)


def y_ticks(frame: Frame, values: Sequence[float], labels: Sequence[str]) -> str:
    """Horizontal lines with their values, left of the frame."""
    parts = []
    for at, label in zip(frame.y(np.array(values, dtype=np.float64)), labels, strict=True):
        parts.append(f'<path class="grid" d="M{frame.left} {_number(at)}H{WIDTH - _RIGHT}"/>')
        parts.append(_text("tick", frame.left - 6, at + 4, "end", label))
    return "".join(parts)


def round_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """At most that many round numbers from low to high.

    Example:
        >>> round_ticks(0.0, 180.0)
        [0, 30, 60, 90, 120, 150, 180]
    """
    raw = (high - low) / (most - 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 3, 5, 10) if s * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _text(style: str, x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="{style}" x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}">{escaped(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
