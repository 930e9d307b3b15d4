"""Keep points apart on spheres."""

from unclump.kernels import Gaussian, Kernel, Laplace, Riesz, kernel_mean
from unclump.objectives import *  # noqa: F403 its __all__ is the list of objectives
from unclump.objectives import __all__ as _objectives
from unclump.sphere import angle, axis_circles, chord, great_circles, project

__all__ = [  # noqa: PLE0604
    "Gaussian",
    "Kernel",
    "Laplace",
    "Riesz",
    "angle",
    "axis_circles",
    "chord",
    "great_circles",
    "kernel_mean",
    "project",
    *_objectives,
]
