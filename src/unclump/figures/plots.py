r"""Figures: functions that draw on matplotlib axes and return them.

Needs matplotlib, from the extra `[report]`. Points need not have unit norm: only their directions are drawn.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_points
from unclump._text import FileError, sanitise
from unclump.figures.data import all_angle_counts, principal_axes, sample_rows, spectrum_shares, uniform_spectrum
from unclump.geometry.uniform_law import UniformLaw, uniform_density
from unclump.measures.angles import nearest_angles
from unclump.measures.rows import directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "angle_histogram",
    "check_figure_target",
    "direction_map",
    "globe",
    "nearest_angle_histogram",
    "save_figure",
    "spectrum",
    "uniform_density",
]


def angle_histogram(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None, bins: int = 180) -> "Axes":
    """Draw a histogram of all pairwise angles, with the exact density for uniformly random directions.

    Example:
        >>> axes = angle_histogram(torch.eye(5))
        >>> axes.get_xlabel()
        'angle between two points, degrees'
    """
    x = directions(points)
    edges = np.linspace(0, math.pi, bins + 1)
    counts = all_angle_counts(x, edges)
    return _histogram(
        axes, edges, counts, uniform_density(_bin_centres(edges), x.shape[1]), "angle between two points, degrees"
    )


def nearest_angle_histogram(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None, bins: int = 90) -> "Axes":
    """Draw a histogram of the angle to the nearest other point, with the exact density for uniform directions.

    A peak at zero means clumps; a histogram left of the curve means that much of the sphere is empty.

    Example:
        >>> axes = nearest_angle_histogram(torch.eye(5))
        >>> axes.get_xlabel()
        'angle to the nearest other point, degrees'
    """
    x = directions(points)
    n, d = x.shape
    angles = nearest_angles(x).cpu().numpy()
    edges = np.linspace(0, nearest_angle_limit(angles, n, d), bins + 1)
    counts = np.histogram(angles, edges)[0].astype(np.float64)
    curve = UniformLaw(n, d).nearest_density(_bin_centres(edges))
    return _histogram(axes, edges, counts, curve, "angle to the nearest other point, degrees")


def nearest_angle_limit(angles: Float[np.ndarray, " n"], n: int, d: int) -> float:
    """Upper end of a histogram of nearest angles, in radians: covers all angles and the density of uniform points."""
    grid = np.linspace(0, math.pi, 2001)
    curve = UniformLaw(n, d).nearest_density(grid)
    curve_end = grid[curve > 1e-3 * curve.max()].max(initial=0)
    return float(min(math.pi, 1.02 * max(angles.max(), curve_end)))


def spectrum(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None) -> "Axes":
    r"""Draw the share of the squared length along each principal axis, times d, next to that of uniform directions.

    A value of one everywhere means that all dimensions are used equally; a first value of 30 in 100 dimensions means a
    cone with 30 % of its squared length along one axis. The curve is the Marchenko-Pastur law (`uniform_spectrum`).

    Example:
        >>> spectrum(torch.eye(5)).get_yscale()
        'log'
    """
    x = directions(points)
    n, d = x.shape
    axes = axes or _new_axes()
    rank, shares, expected = np.arange(1, d + 1), d * spectrum_shares(x), d * uniform_spectrum(n, d)
    axes.plot(rank[shares > 0], shares[shares > 0], marker="." if d <= 100 else None, label="these points")
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
    """Draw directions in the plane of their largest variance.

    Args:
        points: Any table of points.
        names: One per row; marked rows are labelled with theirs.
        marked: Rows to highlight, such as those of a clump.
        most: Maximum number of rows to draw; a larger table is sampled at random, keeping the marked rows.
        generator: Draws the sample.
        axes: Where to draw; None creates new axes.

    Example:
        >>> axes = direction_map(torch.eye(3), names=["a", "b", "c"], marked=[1])
        >>> [text.get_text() for text in axes.texts]
        ['b']
    """
    x = directions(points)
    axes = axes or _new_axes()
    mean, plane = principal_axes(x, 2)
    marked_rows = torch.as_tensor(list(marked), dtype=torch.long)
    xy = ((x[sample_rows(len(x), most, marked_rows, generator)] - mean) @ plane).cpu().numpy()
    axes.scatter(xy[:, 0], xy[:, 1], s=max(2, min(30, 6000 / len(xy))), alpha=0.6, linewidths=0)
    marked_xy = ((x[marked_rows] - mean) @ plane).cpu().numpy()
    if len(marked_xy) > 0:
        axes.scatter(marked_xy[:, 0], marked_xy[:, 1], s=36, facecolors="none", edgecolors="tab:red")
    for row, position in zip(marked_rows.tolist(), marked_xy, strict=True):
        if names is not None:
            text = names[row].replace("$", r"\$")  # no mathtext
            axes.annotate(text, tuple(position), xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set(xlabel="first principal axis", ylabel="second principal axis", aspect="equal")
    return axes


def globe(points: Float[Tensor, "n 3"], *, axes: Any = None) -> "Axes":
    """Draw points in three dimensions on a globe, those on the far side faded."""
    check_points(points)
    if points.shape[1] != 3:
        raise ValueError(f"expected points in 3 dimensions, got {points.shape[1]}; use direction_map instead")
    axes = axes or _new_axes(projection="3d")
    longitude, latitude = np.meshgrid(np.linspace(0, 2 * math.pi, 60), np.linspace(-math.pi / 2, math.pi / 2, 30))
    sphere = np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)
    axes.plot_surface(*sphere, color="lightgrey", alpha=0.25, linewidth=0)
    axes.scatter(*directions(points, at_least=1).cpu().numpy().T, s=30, depthshade=True)
    axes.set_box_aspect((1, 1, 1))
    axes.set_axis_off()
    typed_axes: Axes = axes
    return typed_axes


def save_figure(axes: "Axes", path: str | Path) -> None:
    """Save the figure that contains these axes, in the format of the file suffix."""
    figure: Any = axes.figure
    figure.savefig(path, dpi=150, bbox_inches="tight")


def check_figure_target(path: Path) -> None:
    """Raise if no figure can be saved there, before what it shows is computed."""
    supported = _new_axes().figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in supported:
        raise FileError(f"{sanitise(path)}: is not the name of a figure; name a file that ends in .png, .pdf or .svg")
    if not path.parent.is_dir():
        raise FileError(f"{sanitise(path)}: its folder does not exist; create it first")


def _histogram(
    axes: "Axes | None",
    edges: Float[np.ndarray, " k"],
    counts: Float[np.ndarray, " m"],
    curve: Float[np.ndarray, " m"],
    label: str,
) -> "Axes":
    """Draw counts as a density per degree; `curve` is the uniform density per radian."""
    axes = axes or _new_axes()
    degrees, per_degree = np.degrees(edges), math.pi / 180
    axes.stairs(counts / (counts.sum() * np.diff(degrees)), degrees, fill=True, alpha=0.6, label="these points")
    axes.plot(_bin_centres(degrees), curve * per_degree, color="black", linewidth=1, label="uniform directions")
    axes.set(xlabel=label, ylabel="density, per degree", xlim=(0, degrees[-1]))
    axes.legend(frameon=False)
    return axes


def _bin_centres(edges: Float[np.ndarray, " k"]) -> Float[np.ndarray, " m"]:
    centres: Float[np.ndarray, " m"] = (edges[1:] + edges[:-1]) / 2
    return centres


def _new_axes(**options: Any) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("figures need matplotlib: pip install 'unclump[report]'") from error
    return Figure(figsize=(6, 4.5)).add_subplot(**options)
