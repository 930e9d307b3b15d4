"""All dispersion objectives: as functions of points on the sphere, as modules of raw embeddings, and by name."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from inspect import signature
from typing import Any

from unclump._checks import check_choice
from unclump.kernels import FramePotential, Gaussian, Kernel, Laplace, Riesz
from unclump.objectives._base import Objective
from unclump.objectives.energy import MMD, Energy, energy, mmd
from unclump.objectives.lloyd import Lloyd, lloyd
from unclump.objectives.nearest import KoLeo, MaxMin, koleo, max_min
from unclump.objectives.polarization import Polarization, polarization
from unclump.objectives.sigreg import SIGReg, sigreg
from unclump.objectives.sliced import SSW, Sliced, sliced, ssw
from unclump.objectives.spectral import LogDet, log_det
from unclump.objectives.uniformity import Uniformity, alignment, uniformity
from unclump.objectives.variance import SphericalVariance, negative_spherical_variance
from unclump.objectives.visreg import VISReg, visreg

_OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "max_min": MaxMin,
    "koleo": KoLeo,
    "energy": Energy,
    "frame_potential": partial(Energy, FramePotential()),
    "uniformity": Uniformity,
    "mmd": MMD,
    "lloyd": Lloyd,
    "sliced": Sliced,
    "ssw": SSW,
    "log_det": LogDet,
    "polarization": Polarization,
    "spherical_variance": SphericalVariance,
}
_KERNELS: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "riesz": Riesz,
    "frame_potential": FramePotential,
}


def list_objectives() -> tuple[str, ...]:
    """The names that `objective` accepts.

    Example:
        >>> list_objectives()[:3]
        ('max_min', 'koleo', 'energy')
    """
    return tuple(_OBJECTIVES)


def objective(name: str, **options: Any) -> Objective:
    """Create an objective by name, for configuration files; see `list_objectives`.

    A kernel may be an object, a name, or a mapping with its name and options.

    Example:
        >>> objective("sliced", circles=13)
        Sliced(circles=13, axis_aligned=False, reduction='mean')
        >>> objective("energy", kernel={"name": "riesz", "s": 2.0})
        Energy(kernel=Riesz(s=2.0, distance='chordal'))
    """
    check_choice("the objective's name", name, _OBJECTIVES)
    if "kernel" in options:
        options["kernel"] = _make_kernel(options["kernel"])
    _check_options(f"objective {name!r}", _OBJECTIVES[name], options)
    return _OBJECTIVES[name](**options)


def _make_kernel(kernel: Kernel | str | Mapping[str, Any]) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str | Mapping):
        raise TypeError(f"expected a kernel, its name, or a mapping with its name and options, got {kernel!r}")
    options = {"name": kernel} if isinstance(kernel, str) else dict(kernel)
    if "name" not in options:
        example = {"name": "riesz", "s": 2.0}
        raise ValueError(f"expected a mapping with the name of a kernel, such as {example}, got {kernel!r}")
    name = options.pop("name")
    check_choice("the kernel's name", name, _KERNELS)
    _check_options(f"kernel {name!r}", _KERNELS[name], options)
    return _KERNELS[name](**options)


def _check_options(what: str, constructor: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise on unknown options; their values are checked by the constructor."""
    parameters = signature(constructor).parameters.values()
    known = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    unknown = [option for option in options if option not in known]
    if unknown:
        matches = get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {matches[0]!r}?" if matches else ""
        raise TypeError(
            f"{what} does not take these options: {', '.join(unknown)}; it takes {', '.join(known) or 'none'}{hint}"
        )


__all__ = [
    "MMD",
    "SSW",
    "Energy",
    "KoLeo",
    "Lloyd",
    "LogDet",
    "MaxMin",
    "Objective",
    "Polarization",
    "SIGReg",
    "Sliced",
    "SphericalVariance",
    "Uniformity",
    "VISReg",
    "alignment",
    "energy",
    "koleo",
    "list_objectives",
    "lloyd",
    "log_det",
    "max_min",
    "mmd",
    "negative_spherical_variance",
    "objective",
    "polarization",
    "sigreg",
    "sliced",
    "ssw",
    "uniformity",
    "visreg",
]
