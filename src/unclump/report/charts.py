"""The charts of the page: histograms of angles and the spectrum, each with the curve of uniform directions."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from unclump.figures.data import uniform_spectrum
from unclump.figures.plots import nearest_angle_limit
from unclump.geometry.uniform_law import UniformLaw, cap_angle, uniform_density
from unclump.report import svg
from unclump.report.text import format_degrees

_MAX_BINS = 80
_RESOLUTION = 300  # points of a curve
_AXIS = 44  # pixels of the labels left of a chart


def pair_charts(tables: Sequence[Float[np.ndarray, " _"]], d: int) -> list[str]:
    """The angles between pairs, one chart per table, on the same axes."""
    low = min(cap_angle(1e-4, d), *(np.quantile(angles, 2e-4) for angles in tables))
    high = max(cap_angle(1 - 1e-4, d), *(np.quantile(angles, 1 - 2e-4) for angles in tables))
    x_range = 5.0 * math.floor(math.degrees(low) / 5), 5.0 * math.ceil(math.degrees(high) / 5)
    grid = np.radians(np.linspace(*x_range, _RESOLUTION))
    return _histograms(tables, x_range, grid, [uniform_density(grid, d)] * len(tables), "angle between two rows")


def nearest_charts(tables: Sequence[tuple[int, Float[np.ndarray, " _"]]], d: int) -> list[str]:
    """The angles to the nearest other row, one chart per (n, angles of all n rows or of a sample), on the same axes."""
    x_range = 0.0, max(math.degrees(nearest_angle_limit(angles, n, d)) for n, angles in tables)
    grid = np.radians(np.linspace(*x_range, _RESOLUTION))
    curves = [UniformLaw(n, d).nearest_density(grid) for n, _ in tables]
    return _histograms([angles for _, angles in tables], x_range, grid, curves, "angle to the nearest other row")


def _histograms(
    tables: Sequence[Float[np.ndarray, " _"]],
    x_range: tuple[float, float],
    grid: Float[np.ndarray, " k"],
    curves: Sequence[Float[np.ndarray, " k"]],
    title: str,
) -> list[str]:
    edges = np.linspace(*x_range, _bin_count(min(map(len, tables))) + 1)
    width = math.radians(edges[1] - edges[0])
    shares = [np.histogram(np.degrees(angles), edges)[0] / len(angles) for angles in tables]
    expected = [width * curve for curve in curves]
    top = max(_ceiling(share, float(curve.max())) for share, curve in zip(shares, expected, strict=True))
    frame = svg.Frame(*x_range, 0.0, top, left=_AXIS)
    charts = []
    for colour, angles, share, curve in zip(("one", "two"), tables, shares, expected, strict=False):
        median = format_degrees(float(np.median(angles)))
        label = f"Histogram of the {title}: median {median}, with the curve of uniform directions."
        body = _axes(frame, title, "°") + svg.steps(frame, edges, share, f"bars {colour}")
        body += svg.line(frame, np.degrees(grid), curve, "uniform") + _cut_marks(frame, edges, share)
        charts.append(svg.figure(body, label))
    return charts


def _ceiling(shares: Float[np.ndarray, " k"], curve: float = 0.0) -> float:
    """The top of a histogram's axis: one or two bars that would flatten all else, as of duplicates, are cut."""
    highest, others = float(shares.max()), max(float(np.sort(shares)[-3]), curve)
    return 1.06 * (3 * others if 0 < 6 * others < highest else max(highest, curve))


def _axes(frame: svg.Frame, title: str, suffix: str) -> str:
    """The axes of a histogram; the vertical one is the share of the rows or pairs in a bar."""
    ticks = svg.round_ticks(0, 100 * frame.top, 5)
    y_axis = svg.y_ticks(frame, [tick / 100 for tick in ticks], [f"{tick:g}%" for tick in ticks])
    return svg.x_axis(frame, title, svg.round_ticks(frame.low, frame.high), suffix) + y_axis


def _cut_marks(frame: svg.Frame, edges: Float[np.ndarray, " k"], shares: Float[np.ndarray, " m"]) -> str:
    """The true height beside every bar that the axis cuts."""
    cut = np.flatnonzero(shares > frame.top)
    return "".join(svg.cut_mark(frame, float(edges[bar]), float(edges[bar + 1]), f"{shares[bar]:.0%}") for bar in cut)


def spectrum_charts(tables: Sequence[tuple[int, Float[np.ndarray, " d"]]]) -> list[str]:
    """The share of each principal axis times d, one chart per (n, shares), on the same logarithmic axes."""
    d = len(tables[0][1])
    scaled = [d * shares for _, shares in tables]
    expected = [d * uniform_spectrum(n, d) for n, _ in tables]
    positive = np.concatenate([values[values > 0] for values in (*scaled, *expected)])
    low = max(-4, math.floor(math.log10(positive.min()) * 2) / 2)
    high = max(math.ceil(math.log10(positive.max()) * 2) / 2, low + 1)
    frame = svg.Frame(0.5 if d <= 40 else 1, d + 0.5 if d <= 40 else d, low, high, left=_AXIS)
    rank = np.unique(np.geomspace(1, d, _RESOLUTION).round().astype(int)) if d > _RESOLUTION else np.arange(1, d + 1)
    ticks = _log_ticks(low, high)
    charts = []
    for colour, values, uniform in zip(("one", "two"), scaled, expected, strict=False):
        label = (
            f"Share of the squared length along each of the {d} principal axes, times {d}: "
            f"from {values[0]:.3g} down to {values[-1]:.3g}; "
            f"uniform directions from {uniform[0]:.3g} to {uniform[-1]:.3g}."
        )
        x = rank.astype(float)
        body = svg.x_axis(frame, "principal axis", [t for t in svg.round_ticks(0, d, 6) if t >= 1 and t == int(t)])
        body += svg.y_ticks(frame, [math.log10(t) for t in ticks], [f"{t:g}×" for t in ticks])
        body += svg.line(frame, x, _clipped_log(uniform[rank - 1], low), "uniform")
        body += svg.line(frame, x, _clipped_log(values[rank - 1], low), f"curve {colour}")
        if d <= 40:
            dots = np.stack([frame.x(x), frame.y(_clipped_log(values[rank - 1], low))], axis=1)
            body += svg.dots(dots, f"dots {colour}")
        charts.append(svg.figure(body, label))
    return charts


def move_chart(moves: Float[np.ndarray, " n"]) -> str:
    """A histogram of the angle by which each row moved, from none to the largest."""
    end = max(math.degrees(float(moves.max())) * 1.001, 1e-6)
    edges = np.linspace(0, end, _bin_count(len(moves)) + 1)
    shares = np.histogram(np.degrees(moves), edges)[0] / len(moves)
    frame = svg.Frame(0.0, end, 0.0, _ceiling(shares), left=_AXIS)
    median, largest = format_degrees(float(np.median(moves))), format_degrees(float(moves.max()))
    label = f"Histogram of how far rows moved: median {median}, at most {largest}."
    body = _axes(frame, "angle a row moved", "°") + svg.steps(frame, edges, shares, "bars two")
    return svg.figure(body + _cut_marks(frame, edges, shares), label)


def _bin_count(samples: int) -> int:
    """Enough bins to show the shape, few enough to average out the noise."""
    return int(min(_MAX_BINS, max(12, 2 * samples**0.4)))


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between 10^low and 10^high, with 2 and 5 times each on a short axis."""
    steps = (1,) if high - low > 2 else (1, 2, 5)
    values = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [value for value in values if low - 1e-9 <= math.log10(value) <= high + 1e-9]


def _clipped_log(values: Float[np.ndarray, " k"], low: float) -> Float[np.ndarray, " k"]:
    logarithms: Float[np.ndarray, " k"] = np.log10(np.maximum(values, 10.0 ** (low - 1)))
    return logarithms
