r"""Figures: functions that draw on matplotlib axes and return them.

The extra `[report]` brings matplotlib. Points need not be unit: only their directions are drawn.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import gammaln
from torch import Tensor

from unclump._checks import check_points
from unclump.figures.data import all_angle_counts, principal_plane, sample_rows, spectrum_shares, uniform_spectrum
from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.angles import nearest_angles
from unclump.measures.rows import directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "angle_histogram",
    "direction_map",
    "globe",
    "nearest_angle_histogram",
    "save_figure",
    "spectrum",
    "uniform_density",
]


def uniform_density(angle: Float[np.ndarray, " k"], d: int) -> Float[np.ndarray, " k"]:
    r"""The density of the angle between two uniformly random directions in d dimensions, at angles in radians.

    .. math:: f(\theta) = \frac{\Gamma(d/2)}{\sqrt\pi \, \Gamma((d-1)/2)} \sin^{d-2} \theta

    Example:
        >>> uniform_density(np.array([math.pi / 2]), 3)  # half the sine
        array([0.5])
    """
    constant = math.exp(gammaln(d / 2) - gammaln((d - 1) / 2)) / math.sqrt(math.pi)
    density: Float[np.ndarray, " k"] = constant * np.sin(angle) ** (d - 2)
    return density


def angle_histogram(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None, bins: int = 180) -> "Axes":
    """All pairwise angles as a histogram, with the exact curve of uniformly random directions over it.

    Example:
        >>> axes = angle_histogram(torch.eye(5))
        >>> axes.get_xlabel()
        'angle between two points, degrees'
    """
    x = directions(points)
    edges = np.linspace(0, math.pi, bins + 1)
    counts = all_angle_counts(x, edges)
    return _histogram(
        axes, edges, counts, uniform_density(_middles(edges), x.shape[1]), "angle between two points, degrees"
    )


def nearest_angle_histogram(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None, bins: int = 90) -> "Axes":
    """The angle of every point to its nearest other one, with the exact curve of uniformly random directions over it.

    A pile at zero is a clump; a pile left of the curve is a table that leaves much of the sphere empty.

    Example:
        >>> axes = nearest_angle_histogram(torch.eye(5))
        >>> axes.get_xlabel()
        'angle to the nearest other point, degrees'
    """
    x = directions(points)
    n, d = x.shape
    found = nearest_angles(x).cpu().numpy()
    edges = np.linspace(0, nearest_end(found, n, d), bins + 1)
    counts = np.histogram(found, edges)[0].astype(np.float64)
    curve = UniformLaw(n, d).nearest_density(_middles(edges))
    return _histogram(axes, edges, counts, curve, "angle to the nearest other point, degrees")


def nearest_end(found: Float[np.ndarray, " n"], n: int, d: int) -> float:
    """Where a histogram of nearest angles ends, in radians: beyond all of them and what uniform directions reach."""
    grid = np.linspace(0, math.pi, 2001)
    curve = UniformLaw(n, d).nearest_density(grid)
    reached = grid[curve > 1e-3 * curve.max()].max(initial=0)
    return float(min(math.pi, 1.02 * max(found.max(), reached)))


def spectrum(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None) -> "Axes":
    r"""The share of the squared length along each principal axis, times d, beside that of uniform directions.

    One everywhere is a table that uses all dimensions alike; a first value of 30 in 100 dimensions is a cone that
    spends 30 % of its length on one direction. The curve is the law of Marchenko and Pastur (`uniform_spectrum`).

    Example:
        >>> spectrum(torch.eye(5)).get_yscale()
        'log'
    """
    x = directions(points)
    n, d = x.shape
    axes = axes or _axes()
    rank, found, expected = np.arange(1, d + 1), d * spectrum_shares(x), d * uniform_spectrum(n, d)
    axes.plot(rank[found > 0], found[found > 0], marker="." if d <= 100 else None, label="these points")
    axes.plot(rank[expected > 0], expected[expected > 0], color="black", linewidth=1, label="uniform directions")
    axes.set(xlabel="principal axis", ylabel="share of the squared length, times d", yscale="log")
    axes.legend(frameon=False)
    return axes


def direction_map(
    points: Float[Tensor, "n d"],
    *,
    names: Sequence[str] | None = None,
    marked: Sequence[int] = (),
    most: int = 5000,
    generator: torch.Generator | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Directions in the plane along which they vary most.

    Args:
        points: Any table of points.
        names: One for each row; those of the marked rows are written beside them.
        marked: Rows to stand out, such as those of a clump.
        most: Of more rows than that, as many at random and the marked ones are drawn.
        generator: For that sample.
        axes: Where to draw.

    Example:
        >>> axes = direction_map(torch.eye(3), names=["a", "b", "c"], marked=[1])
        >>> [text.get_text() for text in axes.texts]
        ['b']
    """
    x = directions(points)
    axes = axes or _axes()
    mean, plane = principal_plane(x)
    chosen = torch.as_tensor(list(marked), dtype=torch.long)
    places = ((x[sample_rows(len(x), most, chosen, generator)] - mean) @ plane).cpu().numpy()
    axes.scatter(places[:, 0], places[:, 1], s=max(2, min(30, 6000 / len(places))), alpha=0.6, linewidths=0)
    found = ((x[chosen] - mean) @ plane).cpu().numpy()
    if len(found) > 0:
        axes.scatter(found[:, 0], found[:, 1], s=36, facecolors="none", edgecolors="tab:red")
    for row, place in zip(chosen.tolist(), found, strict=True):
        if names is not None:
            text = names[row].replace("$", r"\$")  # names are no formulas
            axes.annotate(text, tuple(place), xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set(xlabel="first principal axis", ylabel="second principal axis", aspect="equal")
    return axes


def globe(points: Float[Tensor, "n 3"], *, axes: Any = None) -> "Axes":
    """Points in three dimensions on a globe; those on the far side are pale."""
    check_points(points)
    if points.shape[1] != 3:
        raise ValueError(f"expected points in 3 dimensions, got {points.shape[1]}; see direction_map for others")
    axes = axes or _axes(projection="3d")
    turn, rise = np.meshgrid(np.linspace(0, 2 * math.pi, 60), np.linspace(-math.pi / 2, math.pi / 2, 30))
    sphere = np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)
    axes.plot_surface(*sphere, color="lightgrey", alpha=0.25, linewidth=0)
    axes.scatter(*directions(points, at_least=1).cpu().numpy().T, s=30, depthshade=True)
    axes.set_box_aspect((1, 1, 1))
    axes.set_axis_off()
    drawn: Axes = axes
    return drawn


def save_figure(axes: "Axes", path: str | Path) -> None:
    """Write the figure that holds these axes, in the format that the file's name ends in."""
    figure: Any = axes.figure
    figure.savefig(path, dpi=150, bbox_inches="tight")


def _histogram(
    axes: "Axes | None",
    edges: Float[np.ndarray, " k"],
    counts: Float[np.ndarray, " m"],
    curve: Float[np.ndarray, " m"],
    label: str,
) -> "Axes":
    """Counts as a density over degrees, and the curve of uniform directions, a density over radians."""
    axes = axes or _axes()
    degrees, per_degree = np.degrees(edges), math.pi / 180
    axes.stairs(counts / (counts.sum() * np.diff(degrees)), degrees, fill=True, alpha=0.6, label="these points")
    axes.plot(_middles(degrees), curve * per_degree, color="black", linewidth=1, label="uniform directions")
    axes.set(xlabel=label, ylabel="density, per degree", xlim=(0, degrees[-1]))
    axes.legend(frameon=False)
    return axes


def _middles(edges: Float[np.ndarray, " k"]) -> Float[np.ndarray, " m"]:
    middles: Float[np.ndarray, " m"] = (edges[1:] + edges[:-1]) / 2
    return middles


def _axes(**choices: Any) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("figures need matplotlib: pip install 'unclump[report]'") from error
    return Figure(figsize=(6, 4.5)).add_subplot(**choices)
