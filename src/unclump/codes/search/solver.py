r"""The solver: restarts from random and symmetric points, each followed by basin hopping, on all of torch's threads.

A restart is a function of the seed and its number alone, so the result is the same on any number of threads. The loops
are compiled by numba, at the first call on a machine.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from unclump._checks import check_choice, check_count, check_kernel, check_number, check_positive
from unclump.codes.search.pool import best_of, compile_loops
from unclump.codes.search.starts import KINDS
from unclump.kernels import Kernel
from unclump.ops import native

Points = Float[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A code, and what it took to find it."""

    points: Points
    angle: float
    """The least angle between two of the points, in radians."""
    starts: int
    hops: int
    seconds: float
    seed: int


@dataclass(frozen=True, eq=False)
class EnergySolution(Solution):
    """Points of low energy, and what it took to find them."""

    energy: float
    """The sum of the kernel over all pairs."""


def solve(
    n: int,
    d: int,
    *,
    restarts: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    init: Points | str | None = None,
    progress: bool = False,
    target: float | None = None,
) -> Solution:
    """The points with the largest least angle that restarts and hops find.

    Args:
        n: How many points, at least two.
        d: In how many dimensions, at least two.
        restarts: How many restarts. None is a number that depends on the size or, with a time limit, no limit.
        seed: The same seed and number of restarts give the same points, on any number of threads.
        time_limit: Seconds after which the best so far is returned; compiling the loops does not count.
        init: How to start: "random", "cyclic" (orbits of a rotation), "antipodal" (pairs of opposite points), "blocks"
            (orthonormal bases and their negatives), or points to improve. None takes turns.
        progress: Show a bar on stderr, with the best angle so far in degrees.
        target: An angle in radians at which to stop, such as an upper bound.

    Returns:
        The best of all restarts, polished. Ctrl-C returns the best so far.

    Example:
        >>> solution = solve(4, 3, restarts=1)
        >>> print(f"{math.degrees(solution.angle):.10f}")
        109.4712206345
    """
    began = time.monotonic()
    _check(n, d, restarts, seed, time_limit, init)
    if target is not None:
        check_number("target", target)
    from unclump.codes.search.restart import REACHED, CodeSearch, effort

    if time_limit is not None:
        compile_loops(CodeSearch(5, 3, seed, None, math.inf))
    search = CodeSearch(n, d, seed, _unit(init), math.inf if target is None else target)
    found = best_of(
        search,
        restarts=effort(n, d).restarts if restarts is None and time_limit is None else restarts,
        time_limit=time_limit,
        enough=search.target - REACHED,
        progress=progress,
        describe=lambda angle: f"{math.degrees(angle):.8f}°",
    )
    return Solution(found.points, found.score, found.starts, found.hops, time.monotonic() - began, seed)


def minimal_energy(
    n: int,
    d: int,
    kernel: Kernel,
    *,
    restarts: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    init: Points | str | None = None,
    progress: bool = False,
) -> EnergySolution:
    """The points with the least sum of a kernel over all pairs that restarts and hops find.

    Args:
        n: How many points, at least two.
        d: In how many dimensions, at least two.
        kernel: Gaussian, Laplace or Riesz. Riesz with s = 1 is Thomson's problem of electrons on a sphere.
        restarts: See `solve`, as for all that follows.
        seed: See `restarts`.
        time_limit: See `restarts`.
        init: See `restarts`.
        progress: Show a bar on stderr, with the least energy so far.

    Example:
        >>> from unclump import Riesz
        >>> solution = minimal_energy(4, 3, Riesz(s=1.0), restarts=1)
        >>> print(f"{solution.energy:.10f}")  # six edges of the tetrahedron, sqrt(8 / 3) long
        3.6742346142
    """
    began = time.monotonic()
    _check(n, d, restarts, seed, time_limit, init)
    check_kernel(kernel, Kernel)
    from unclump.codes.search.energy_search import EnergySearch, default_restarts, kernel_parameters
    from unclump.codes.search.polish import least_square
    from unclump.codes.search.restart import angle_of_square

    parameters = kernel_parameters(kernel)
    if time_limit is not None:
        compile_loops(EnergySearch(5, 3, seed, None, parameters))
    found = best_of(
        EnergySearch(n, d, seed, _unit(init), parameters),
        restarts=default_restarts(n, d) if restarts is None and time_limit is None else restarts,
        time_limit=time_limit,
        enough=math.inf,
        progress=progress,
        describe=lambda score: f"{-score:.10g}",
    )
    angle = angle_of_square(least_square(found.points))
    seconds = time.monotonic() - began
    return EnergySolution(found.points, angle, found.starts, found.hops, seconds, seed, -found.score)


def _check(
    n: int, d: int, restarts: int | None, seed: int, time_limit: float | None, init: Points | str | None
) -> None:
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    check_count("seed", seed, at_least=0)
    if restarts is not None:
        check_count("restarts", restarts)
    if time_limit is not None:
        check_positive("time_limit", time_limit)
    if isinstance(init, str):
        check_choice("init", init, KINDS)
    elif init is not None:
        if not isinstance(init, np.ndarray):
            raise TypeError(
                f"expected init to be one of {', '.join(map(repr, KINDS))} or a NumPy array, got {type(init).__name__}"
            )
        if init.shape != (n, d):
            raise ValueError(f"expected init of shape ({n}, {d}), one row a point, got {init.shape}")
        lengths = np.linalg.norm(init.astype(np.float64), axis=1)
        if not np.all((lengths > 0) & np.isfinite(lengths)):
            raise ValueError("expected finite, nonzero rows in init; a row of zeros, NaN or infinity has no direction")
    if not native.ENABLED:
        raise ModuleNotFoundError("the solver's loops need numba: pip install 'unclump[fast]'")


def _unit(init: Points | str | None) -> Points | str | None:
    if not isinstance(init, np.ndarray):
        return init
    x = init.astype(np.float64)
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True))
