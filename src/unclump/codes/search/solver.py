r"""The solver: restarts from random and symmetric points, each followed by basin hopping, on all of torch's threads.

A restart depends only on the seed and its number, so the result is the same for any number of threads.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from unclump._checks import check_choice, check_count, check_kernel, check_number, check_positive
from unclump.codes.search.effort import effort
from unclump.codes.search.energy_search import EnergySearch, default_restarts
from unclump.codes.search.line_search import LineSearch
from unclump.codes.search.loops import Points, encode_kernel
from unclump.codes.search.pool import run_restarts
from unclump.codes.search.restart import TARGET_TOLERANCE, CodeSearch
from unclump.codes.search.starts import START_KINDS
from unclump.codes.verify import minimal_angle
from unclump.kernels import Kernel


@dataclass(frozen=True, eq=False)
class Solution:
    """A code, and the work it took to find it."""

    points: Points
    angle: float
    """The minimal angle between two of the points, in radians."""
    starts: int
    hops: int
    seconds: float
    seed: int


@dataclass(frozen=True, eq=False)
class EnergySolution(Solution):
    """Points of low energy, and the work it took to find them."""

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
    antipodal: bool = False,
) -> Solution:
    """Search for the points with the largest minimal angle, by restarts and hops.

    Args:
        n: Number of points, at least two.
        d: Dimension, at least two.
        restarts: Number of restarts. None chooses it by the size or, with a time limit, sets no limit.
        seed: The same seed and number of restarts give the same points, on any number of threads.
        time_limit: Time in seconds after which the best code so far is returned.
        init: How to start: "random", "symmetric" (orbits of a random group), "antipodal" (pairs of opposite points),
            "blocks" (orthonormal bases and their negatives), "permuted" (by a random group, as isometries), or points
            to improve. None alternates between the kinds.
        progress: Show a progress bar on stderr with the best angle so far in degrees.
        target: An angle in radians at which to stop, such as an upper bound.
        antipodal: Search for lines through the origin, whose smallest angle is at most a right angle; the points are
            one direction per line. `init` must be None, or directions of lines to improve.

    Returns:
        The best of all restarts, polished. Ctrl-C returns the best so far.

    Example:
        >>> solution = solve(4, 3, restarts=1)
        >>> print(f"{math.degrees(solution.angle):.10f}")
        109.4712206345
    """
    start_time = time.monotonic()
    validate_options(n, d, restarts, seed, time_limit, init, antipodal=antipodal)
    if target is not None:
        check_number("target", target)
    target = math.inf if target is None else target
    start = _unit_init(init)
    search: CodeSearch | LineSearch
    if antipodal:
        search = LineSearch(n, d, seed, start if isinstance(start, np.ndarray) else None, target)
    else:
        search = CodeSearch(n, d, seed, start, target)
    best = run_restarts(
        search,
        restarts=effort(n, d).restarts if restarts is None and time_limit is None else restarts,
        time_limit=time_limit,
        sufficient_score=search.target - TARGET_TOLERANCE,
        progress=progress,
        describe=lambda angle: f"{math.degrees(angle):.8f}°",
    )
    return Solution(best.points, best.score, best.starts, best.hops, time.monotonic() - start_time, seed)


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
    """Search for the points with the smallest sum of a kernel over all pairs, by restarts and hops.

    Args:
        n: Number of points, at least two.
        d: Dimension, at least two.
        kernel: Gaussian, Laplace or Riesz. Riesz with s = 1 is Thomson's problem of electrons on a sphere.
        restarts: See `solve`.
        seed: See `solve`.
        time_limit: See `solve`.
        init: See `solve`.
        progress: Show a progress bar on stderr with the lowest energy so far.

    Example:
        >>> from unclump import Riesz
        >>> solution = minimal_energy(4, 3, Riesz(s=1.0), restarts=1)
        >>> print(f"{solution.energy:.10f}")  # six edges of the tetrahedron, sqrt(8 / 3) long
        3.6742346142
    """
    start_time = time.monotonic()
    validate_options(n, d, restarts, seed, time_limit, init)
    check_kernel(kernel, Kernel)
    encode_kernel(kernel)  # raises for kernels without a loop
    best = run_restarts(
        EnergySearch(n, d, seed, _unit_init(init), kernel),
        restarts=default_restarts(n, d) if restarts is None and time_limit is None else restarts,
        time_limit=time_limit,
        sufficient_score=math.inf,
        progress=progress,
        describe=lambda score: f"{-score:.10g}",
    )
    angle = minimal_angle(best.points)
    seconds = time.monotonic() - start_time
    return EnergySolution(best.points, angle, best.starts, best.hops, seconds, seed, -best.score)


def validate_options(
    n: int,
    d: int,
    restarts: int | None,
    seed: int,
    time_limit: float | None,
    init: Points | str | None,
    *,
    antipodal: bool = False,
) -> None:
    """Raise if a search does not take these options."""
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    check_count("seed", seed, at_least=0)
    if restarts is not None:
        check_count("restarts", restarts)
    if time_limit is not None:
        check_positive("time_limit", time_limit)
    if isinstance(init, str):
        if antipodal:
            raise ValueError(f"expected no init, or directions of lines to improve, for antipodal codes, got {init!r}")
        check_choice("init", init, START_KINDS)
    elif init is not None:
        if not isinstance(init, np.ndarray):
            kinds = ", ".join(map(repr, START_KINDS))
            raise TypeError(f"expected init to be one of {kinds} or a NumPy array, got {type(init).__name__}")
        if init.shape != (n, d):
            raise ValueError(f"expected init of shape ({n}, {d}), one row per point, got {init.shape}")
        lengths = np.linalg.norm(init.astype(np.float64), axis=1)
        if not np.all((lengths > 0) & np.isfinite(lengths)):
            raise ValueError("expected finite, nonzero rows in init; a row of zeros, NaN or infinity has no direction")


def _unit_init(init: Points | str | None) -> Points | str | None:
    if not isinstance(init, np.ndarray):
        return init
    x = init.astype(np.float64)
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True))
