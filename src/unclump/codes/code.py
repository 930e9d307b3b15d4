"""Spherical codes: the best n directions in d dimensions known to this package, with an upper bound on any code."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump._text import counted
from unclump.codes import catalogue, code_display
from unclump.codes.bounds.three_point import three_point
from unclump.codes.bounds.upper_bound import Bound, best_bound, best_line_bound
from unclump.codes.catalogue.published import Published, published
from unclump.codes.constructions.exact import exact_code, exact_subset
from unclump.codes.constructions.lines import exact_lines
from unclump.codes.search.solver import Solution, minimal_energy, solve, validate_options
from unclump.codes.symmetry import Symmetry, symmetry
from unclump.codes.verify import Contacts, contacts
from unclump.kernels import Kernel

if TYPE_CHECKING:
    import pandas

_BOUND_TOLERANCE = 1e-10  # radians: a code this close to a bound attains it
_MAX_VERIFIED = 20_000  # larger closed-form codes are not measured pair by pair, which would take minutes


@dataclass(frozen=True, eq=False, repr=False)
class Code:
    """A spherical code: directions with a large minimal angle. Prints as a table, with angles in degrees.

    A notebook shows it as a table with a histogram of the angles of all pairs.

    Attributes:
        points: Unit rows, shape (n, d), float64.
        min_angle: The smallest angle between two of them, in radians, computed from the points in extended precision.
        upper_bound: A proved upper bound on the minimal angle of n points in d dimensions.
        bound_name: The author of the bound.
        proof: Why no code is better: who proved it, or which bound it attains; "" if this is an open problem.
        source: Where it comes from: the name of a construction, or the command of a catalogue entry or a search.
        energy: The sum of the kernel over all pairs, or None without a kernel.
        antipodal: Whether the points are directions of lines through the origin, and angles are those of lines.
    """

    points: Float[Tensor, "n d"]
    min_angle: float
    upper_bound: float
    bound_name: str
    proof: str
    source: str
    energy: float | None = None
    antipodal: bool = False

    @property
    def optimal(self) -> bool:
        """Whether the code is proved to have the largest possible minimal angle."""
        return self.proof != ""

    @property
    def gap(self) -> float:
        """Upper bound on the improvement that is still possible, in radians."""
        return max(0.0, self.upper_bound - self.min_angle)

    @property
    def published(self) -> Published | None:
        """The best published angle for this size in our table, with its source; None if there is none."""
        return None if self.antipodal else published(*self.points.shape)

    @cached_property
    def contacts(self) -> Contacts:
        """The contact graph: pairs at the minimal angle, and the rattlers, which are free to move."""
        if not self.antipodal:
            return contacts(self.points.numpy())
        n, graph = len(self.points), contacts(_both_directions(self.points.numpy()))
        pairs = np.sort(graph.pairs % n, axis=1)
        return Contacts(np.unique(pairs, axis=0), np.unique(graph.rattlers % n))

    @cached_property
    def symmetry(self) -> Symmetry | None:
        """The isometries that permute the points except rattlers; for lines, the points in both directions.

        None if it would take too long to find them.
        """
        return symmetry(_both_directions(self.points.numpy()) if self.antipodal else self.points.numpy())

    def to_dict(self) -> dict[str, Any]:
        """Convert all but the points to numbers and strings, for JSON; angles in degrees."""
        return code_display.as_dict(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert all but the points to a data frame of one row, to be stacked with those of other codes."""
        return code_display.as_frame(self)

    def __repr__(self) -> str:
        n, d = self.points.shape
        lines = "; lines" if self.antipodal else ""
        return f"Code({n} x {d}{lines}; smallest angle {math.degrees(self.min_angle):.6g} degrees; {self.source})"

    def __str__(self) -> str:
        return code_display.as_text(self)

    def _repr_html_(self) -> str:
        return code_display.as_html(self)


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
    antipodal: bool = False,
    progress: bool = False,
) -> Code:
    """Find n directions in d dimensions, with the largest minimal angle known to this package.

    Returns a code in closed form if one is known, otherwise that of the catalogue. If there is none, it searches, which
    takes seconds to minutes, or longer beyond a thousand points: `time_limit` limits it, and Ctrl-C returns the best so
    far. With `restarts`, `time_limit` or `init`, it searches instead of reading the catalogue; a code in closed form is
    still returned without a search, unless `fresh` is true.

    Args:
        n: Number of directions, at least two.
        d: Dimension, at least two.
        restarts: Number of restarts of the search. None chooses it by the size.
        seed: For the search: the same seed and number of restarts give the same points.
        time_limit: Search for this many seconds.
        init: Start of the search: "random", "symmetric", "antipodal", "blocks", "permuted", or points to improve, of
            shape (n, d).
        kernel: Minimise the energy instead, the sum of the kernel over all pairs: `Riesz(s=1.0)` is Thomson's problem.
        fresh: Search even if a closed form or a catalogue entry exists.
        antipodal: Find lines through the origin instead, where x and -x are equivalent.
        progress: Show a progress bar with the best angle so far.

    Example:
        >>> code = spherical_code(24, 3)
        >>> print(f"{code.source}: {math.degrees(code.min_angle):.12f} degrees, {code.proof}")
        snub cube: 43.690767107676 degrees, Robinson 1961
    """
    init = init.detach().cpu().numpy() if isinstance(init, Tensor) else init
    validate_options(n, d, restarts, seed, time_limit, init, antipodal=antipodal)
    options = {"restarts": restarts, "seed": seed, "time_limit": time_limit, "init": init, "progress": progress}
    bounds, exact_codes = (best_line_bound, exact_lines) if antipodal else (best_bound, exact_code)
    if kernel is not None:
        if antipodal:
            raise ValueError("expected no kernel for lines (antipodal=True), got one; lines have no energies yet")
        lowest = minimal_energy(n, d, kernel, **options)  # type: ignore[arg-type]
        source = f"least energy of {kernel!r}, {_describe_search(lowest)}"
        return _make_code(lowest.points, best_bound(n, d), source, energy=lowest.energy)
    if not fresh and (exact := exact_codes(n, d)) is not None:
        is_large = n > _MAX_VERIFIED
        angle = math.acos(exact.cosine) if is_large else catalogue.angle_of(exact.points, antipodal=antipodal)
        bound = Bound(angle, exact.proof) if exact.proof else bounds(n, d)
        points = torch.from_numpy(exact.points)
        return Code(points, angle, bound.angle, bound.name, exact.proof, exact.name, antipodal=antipodal)
    must_search = fresh or restarts is not None or time_limit is not None or init is not None
    if not must_search and (entry := catalogue.look_up(n, d, antipodal=antipodal)) is not None:
        bound = Bound(entry.record.bound, entry.record.bound_name)
        if not antipodal:
            bound = min(bound, Bound(three_point(n, d), "Bachoc and Vallentin"), key=lambda bound: bound.angle)
        return _make_code(entry.points, bound, f"catalogue: {entry.record.command}", antipodal=antipodal)
    bound = bounds(n, d)
    solution, source = search(n, d, target=bound.angle, antipodal=antipodal, **options)
    return _make_code(solution.points, bound, source, antipodal=antipodal)


def _both_directions(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
    return np.concatenate([x, -x])


def search(n: int, d: int, *, antipodal: bool = False, **options: Any) -> tuple[Solution, str]:
    """The solution of `solve` and its source; if a subset of a larger closed-form code is better, improve that one."""
    solution = solve(n, d, antipodal=antipodal, **options)
    subset = None if antipodal else exact_subset(n, d)
    if subset is None or math.acos(subset.cosine) <= solution.angle + _BOUND_TOLERANCE:
        return solution, _describe_search(solution)
    improved = solve(n, d, **{**options, "init": subset.points, "restarts": 1, "time_limit": None})
    return improved, f"{subset.name}; {_describe_search(improved)}"


def _make_code(
    points: Float[np.ndarray, "n d"], bound: Bound, source: str, *, energy: float | None = None, antipodal: bool = False
) -> Code:
    angle = catalogue.angle_of(points, antipodal=antipodal)
    proof = f"meets the bound of {bound.name}" if angle >= bound.angle - _BOUND_TOLERANCE else ""
    return Code(torch.from_numpy(points), angle, bound.angle, bound.name, proof, source, energy, antipodal)


def _describe_search(run: Solution) -> str:
    tries = f"{counted(run.starts, 'start')}, {counted(run.hops, 'hop')}"
    return f"search with seed {run.seed}: {tries}, {run.seconds:.1f} s"
