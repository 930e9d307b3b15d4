r"""Figures: functions that draw on matplotlib axes and return them.

The extra `[report]` brings matplotlib.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import gammaln
from torch import Tensor

from unclump._checks import check_points
from unclump.pairs import upper_triangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLOCK = 1024


def uniform_density(angle: Float[np.ndarray, " k"], d: int) -> Float[np.ndarray, " k"]:
    r"""The density of the angle between two uniformly random directions in d dimensions, at angles in radians.

    .. math:: \frac{\Gamma(d/2)}{\sqrt\pi \, \Gamma((d-1)/2)} \sin^{d-2} \theta

    Example:
        >>> uniform_density(np.array([math.pi / 2]), 3)  # half the sine
        array([0.5])
    """
    constant = math.exp(gammaln(d / 2) - gammaln((d - 1) / 2)) / math.sqrt(math.pi)
    density: Float[np.ndarray, " k"] = constant * np.sin(angle) ** (d - 2)
    return density


def angle_histogram(points: Float[Tensor, "n d"], *, axes: "Axes | None" = None, bins: int = 180) -> "Axes":
    """All pairwise angles as a histogram, with the exact curve of uniformly random directions over it."""
    check_points(points, at_least=2)
    axes = axes or _axes()
    n, d = points.shape
    edges, counts = np.linspace(0, math.pi, bins + 1), np.zeros(bins)
    for rows, columns in upper_triangle(n, _BLOCK):
        found = torch.acos((points[rows] @ points[columns].mT).clamp(-1, 1))
        angles = found[torch.ones_like(found, dtype=torch.bool).triu(1)] if rows == columns else found.flatten()
        counts += np.histogram(angles.numpy(), edges)[0]
    width = edges[1] - edges[0]
    share = counts / (counts.sum() * width)
    axes.stairs(share, np.degrees(edges), fill=True, alpha=0.6, label="these points")
    middle = (edges[1:] + edges[:-1]) / 2
    axes.plot(np.degrees(middle), uniform_density(middle, d), color="black", linewidth=1, label="uniform directions")
    axes.set(xlabel="angle between two points, degrees", ylabel="density", xlim=(0, 180))
    axes.legend(frameon=False)
    return axes


def globe(points: Float[Tensor, "n 3"], *, axes: Any = None) -> "Axes":
    """Points in three dimensions on a globe; those on the far side are pale."""
    check_points(points)
    if points.shape[1] != 3:
        raise ValueError(f"expected points in 3 dimensions, got {points.shape[1]}; see angle_histogram for others")
    axes = axes or _axes(projection="3d")
    turn, rise = np.meshgrid(np.linspace(0, 2 * math.pi, 60), np.linspace(-math.pi / 2, math.pi / 2, 30))
    sphere = np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)
    axes.plot_surface(*sphere, color="lightgrey", alpha=0.25, linewidth=0)
    axes.scatter(*points.numpy().T, s=30, depthshade=True)
    axes.set_box_aspect((1, 1, 1))
    axes.set_axis_off()
    drawn: Axes = axes
    return drawn


def save_figure(axes: "Axes", path: str | Path) -> None:
    """Write the figure that holds these axes, in the format that the file's name ends in."""
    figure: Any = axes.figure
    figure.savefig(path, dpi=150, bbox_inches="tight")


def _axes(**choices: Any) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("figures need matplotlib: pip install 'unclump[report]'") from error
    return Figure(figsize=(6, 4.5)).add_subplot(**choices)
