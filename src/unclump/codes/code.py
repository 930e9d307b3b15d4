"""Spherical codes: n directions in d dimensions as far apart as is known, with a bound on how far they could be."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count
from unclump.codes import catalogue
from unclump.codes.bounds.upper_bound import Bound, best_bound
from unclump.codes.constructions.exact import exact_above, exact_code
from unclump.codes.search.solver import Solution, minimal_energy, solve
from unclump.codes.verify import Contacts, contacts, minimal_angle
from unclump.kernels import Kernel

_MEETS = 1e-10  # radians from a bound at which a code is taken to attain it
_VERIFIED = 20_000  # codes in closed form with more points are not measured pair by pair: it takes minutes


@dataclass(frozen=True, eq=False)
class Code:
    """Directions that keep their distance.

    Attributes:
        points: Unit rows, shape (n, d), float64.
        min_angle: The smallest angle between two of them, in radians, computed from the points in extended precision.
        upper_bound: No code of as many points in this dimension has a larger one.
        proof: Why no code is better: who proved it, or which bound it meets; "" where nobody knows.
        source: Where it comes from: its name, the catalogue's or the solver's command.
        energy: The sum of the kernel over all pairs, where a kernel was asked for.
    """

    points: Float[Tensor, "n d"] = field(repr=False)
    min_angle: float
    upper_bound: float
    bound_name: str
    proof: str
    source: str
    energy: float | None = None

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no code has a larger smallest angle."""
        return self.proof != ""

    @property
    def gap(self) -> float:
        """How much larger the smallest angle might be, in radians, as far as is proved."""
        return max(0.0, self.upper_bound - self.min_angle)

    @cached_property
    def contacts(self) -> Contacts:
        """The contact graph: pairs at the smallest angle, and the rattlers that nothing holds in place."""
        return contacts(self.points.numpy())


def spherical_code(
    n: int,
    d: int,
    *,
    restarts: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    init: Float[Tensor, "n d"] | Float[np.ndarray, "n d"] | str | None = None,
    kernel: Kernel | None = None,
    fresh: bool = False,
    progress: bool = False,
) -> Code:
    """The n directions in d dimensions with the largest smallest angle that is known here.

    Codes known in closed form are built; others come from the catalogue; the rest is searched for.

    Args:
        n: How many directions, at least two.
        d: In how many dimensions, at least two.
        restarts: Search, this many times over, where no closed form is known. None: as many as the size needs.
        seed: For the search: the same seed and number of restarts give the same points.
        time_limit: Search for that many seconds.
        init: Search from here: "random", "cyclic", "antipodal", "blocks", or points of shape (n, d) to improve.
        kernel: Find the points of least energy instead, the sum of the kernel over all pairs: `Riesz(s=1.0)` is
            Thomson's problem.
        fresh: Search, whatever is known.
        progress: Show a bar with the best angle so far.

    Example:
        >>> code = spherical_code(24, 3)
        >>> print(f"{code.source}: {math.degrees(code.min_angle):.12f} degrees, {code.proof}")
        snub cube: 43.690767107676 degrees, Robinson 1961
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    init = init.detach().cpu().numpy() if isinstance(init, Tensor) else init
    choices = {"restarts": restarts, "seed": seed, "time_limit": time_limit, "init": init, "progress": progress}
    if kernel is not None:
        found = minimal_energy(n, d, kernel, **choices)  # type: ignore[arg-type]
        return _of(found.points, best_bound(n, d), f"least energy of {kernel!r}, {_how(found)}", energy=found.energy)
    searching = fresh or restarts is not None or time_limit is not None or init is not None
    if not fresh and (exact := exact_code(n, d)) is not None:
        angle = math.acos(exact.cosine) if n > _VERIFIED else minimal_angle(exact.points)
        bound = Bound(angle, exact.proof) if exact.proof else best_bound(n, d)
        return Code(torch.from_numpy(exact.points), angle, bound.angle, bound.name, exact.proof, exact.name)
    if not searching and (entry := catalogue.look_up(n, d)) is not None:
        return _of(
            entry.points, Bound(entry.record.bound, entry.record.bound_name), f"catalogue: {entry.record.command}"
        )
    bound = best_bound(n, d)
    solution, how = search(n, d, target=bound.angle, **choices)
    return _of(solution.points, bound, how)


def search(n: int, d: int, **choices: Any) -> tuple[Solution, str]:
    """What `solve` finds, and how; not below what is left of a larger code in closed form, searched on from there."""
    found, above = solve(n, d, **choices), exact_above(n, d)
    if above is None or math.acos(above.cosine) <= found.angle + _MEETS:
        return found, _how(found)
    better = solve(n, d, **{**choices, "init": above.points, "restarts": 1, "time_limit": None})
    return better, f"{above.name}; {_how(better)}"


def _of(points: Float[np.ndarray, "n d"], bound: Bound, source: str, energy: float | None = None) -> Code:
    angle = minimal_angle(points)
    proof = f"meets the bound of {bound.name}" if angle >= bound.angle - _MEETS else ""
    return Code(torch.from_numpy(points), angle, bound.angle, bound.name, proof, source, energy)


def _how(found: Solution) -> str:
    return f"search with seed {found.seed}: {found.starts} starts, {found.hops} hops, {found.seconds:.1f} s"
