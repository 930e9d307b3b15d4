"""The solver's loops: C++ in `native/`, which releases the GIL, or `reference.py` without a compiled library.

Points are rows of float64, shape (n, d), and are improved in place. Another thread can set a flag to nonzero to stop a
loop early, with the best so far.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int, UInt8

import unclump._library as library
from unclump.codes.search import reference
from unclump.codes.search.orbits import Orbits
from unclump.kernels import Kernel
from unclump.ops.native.kernel_sum import Code, form_of

Points = Float[np.ndarray, "n d"]
Flag = UInt8[np.ndarray, "1"]


def has_native() -> bool:
    """Whether there is a compiled library."""
    return library.choose()[0] is not None


def encode_kernel(kernel: Kernel) -> Code:
    """Encode a kernel for the loops."""
    code = form_of(kernel)
    if code is None:
        raise TypeError(f"expected unclump.Gaussian, unclump.Laplace or unclump.Riesz, got {type(kernel).__name__}")
    return code


def anneal(
    x: Points, softest: float, sharpest: float, iterations: int, tolerance: float, spacing: float, stop: Flag
) -> float:
    """Minimise the soft maximum of the cosines, doubling p from `softest` to `sharpest`.

    Args:
        x: The points, rows of any nonzero norm.
        softest: The first p: pairs at r times the smallest chord have the weight exp(-p (r^2 - 1) / 2).
        sharpest: The last p.
        iterations: Maximum number for each p.
        tolerance: Bound on the decrease per iteration, relative to the squared spacing over p.
        spacing: Estimate of the final smallest chord, since a start may contain coinciding points.
        stop: Nonzero to stop early.

    Returns:
        The smallest squared chord.
    """
    if not has_native():
        return reference.anneal(x, softest, sharpest, iterations, tolerance, spacing, stop)
    return _call("anneal", "piiddiddp", *_rows(x), softest, sharpest, iterations, tolerance, spacing, _address(stop))


def anneal_orbits(
    orbits: Orbits, softest: float, sharpest: float, iterations: int, tolerance: float, spacing: float, stop: Flag
) -> float:
    """Like `anneal`, for a union of orbits: moves the representatives, so that the symmetry stays exact.

    Only the gradient at the representatives is needed, so a step costs the number of points times that of orbits.
    """
    if not has_native():
        return reference.anneal_orbits(orbits, softest, sharpest, iterations, tolerance, spacing, stop)
    m, d = orbits.representatives.shape
    if orbits.matrices.shape != (orbits.sizes.sum(), d, d) or orbits.sizes.shape != (m,):
        raise ValueError(f"expected {m} orbits with a matrix for each point, got {len(orbits.matrices)} matrices")
    if orbits.matrices.dtype != np.float64 or orbits.sizes.dtype != np.int64:
        raise TypeError(f"expected float64 and int64, got {orbits.matrices.dtype} and {orbits.sizes.dtype}")
    images = _address(orbits.matrices), _address(orbits.sizes)
    schedule = softest, sharpest, iterations, tolerance, spacing, _address(stop)
    return _call("anneal_orbits", "piippddiddp", *_rows(orbits.representatives), *images, *schedule)


def minimise_overlap(
    x: Points, square: float, iterations: int, tolerance: float, stop: Flag, *, limit: float = math.inf
) -> float:
    r"""Minimise the overlap of points that should be at least a distance D apart, and return it.

    .. math:: \sum_{i < j} \max(0, D^2 - \lVert x_i - x_j \rVert^2)^2

    Args:
        x: The points, rows of any nonzero norm.
        square: The squared distance D^2.
        iterations: Maximum number.
        tolerance: Stop after three consecutive decreases below it.
        stop: Nonzero to stop early.
        limit: Stop once it is unlikely that the overlap falls below it; compiled loops only.
    """
    if not has_native():
        return reference.minimise_overlap(x, square, iterations, tolerance, stop)
    settings = square, iterations, tolerance, limit, _address(stop)
    return _call("minimise_overlap", "piididdp", *_rows(x), *settings)


def polish(x: Points, reach: float, steps: int, stop: Flag, *, margin: float = 3e-3, antipodal: bool = False) -> float:
    """Improve a code to full precision by an interior-point method; if no step improves it, leave it unchanged.

    Args:
        x: Unit rows, near a local optimum.
        reach: Pairs within this multiple of the smallest chord are constraints. It stops if other pairs come too close:
            then call it again.
        steps: Maximum number; near an optimum, 25 are enough.
        stop: Nonzero to stop early.
        margin: The fraction of the smallest squared chord to give up initially. A larger one lets the code move
            farther; with 1e-6 it stays at the nearby optimum. Without compiled loops it always does.
        antipodal: Whether rows are lines, for which the smaller angle counts.

    Returns:
        The smallest squared chord.
    """
    if not has_native():
        return reference.polish(x, reach, steps, stop, antipodal=antipodal)
    return _call("polish", "piiiddip", *_rows(x), int(antipodal), reach, margin, steps, _address(stop))


def smallest_squared_chord(x: Points, *, antipodal: bool = False) -> float:
    """The smallest squared chord of points, or of lines, from coordinate differences of the closest pairs."""
    if not has_native():
        return reference.smallest_squared_chord(x, antipodal=antipodal)
    return _call("smallest_squared_chord", "piii", *_rows(x), int(antipodal))


def minimise_energy(x: Points, kernel: Kernel, iterations: int, tolerance: float, spacing: float, stop: Flag) -> float:
    """Minimise the sum of a kernel over all pairs, and return it.

    Args:
        x: The points, rows of any nonzero norm.
        kernel: Gaussian, Laplace or Riesz.
        iterations: Maximum number.
        tolerance: Stop after three consecutive decreases below it.
        spacing: A typical distance between neighbours, which bounds the steps.
        stop: Nonzero to stop early.
    """
    if not has_native():
        return reference.minimise_energy(x, kernel, iterations, tolerance, spacing, stop)
    settings = iterations, tolerance, spacing, _address(stop)
    return _call("minimise_energy", "piiiiddiddp", *_rows(x), *encode_kernel(kernel), *settings)


def energy(u: Points, kernel: Kernel) -> tuple[float, Points]:
    """The sum of a kernel over all pairs of the rows' directions, and its gradient with respect to the rows."""
    gradient = np.empty_like(u)
    return _call("energy", "piipiidd", *_rows(u), _address(gradient), *encode_kernel(kernel)), gradient


def soft_maximum(u: Points, sharpness: float, reference: float, threshold: float | None = None) -> tuple[float, Points]:
    r"""The soft maximum of the cosines of the rows' directions, and its gradient with respect to the rows.

    .. math:: f(x) = \frac1s \log \sum_{i < j} \exp(s \, \langle x_i, x_j \rangle)

    Args:
        u: Rows of any nonzero norm.
        sharpness: s.
        reference: A cosine near the largest, to avoid overflow.
        threshold: Sum only over pairs with a larger cosine, kept in a list. None sums over all pairs.
    """
    gradient = np.empty_like(u)
    settings = sharpness, reference, -2.0 if threshold is None else max(-1.0, threshold)
    return _call("soft_maximum", "piipddd", *_rows(u), _address(gradient), *settings), gradient


def solve_skyline(
    matrix: Float[np.ndarray, "m m"], first: Int[np.ndarray, " m"], b: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"] | None:
    """Solve a symmetric system whose row i starts at column `first[i]`; None if it is not positive semidefinite."""
    if not np.all((first >= 0) & (first <= np.arange(len(first)))):
        raise ValueError("expected each row to start at a column from 0 to its diagonal")
    solution = b.copy()
    starts = first.astype(np.int64)
    is_solved = _call("solve_skyline", "pipp", _address(matrix), len(b), _address(starts), _address(solution))
    return solution if is_solved else None


def _rows(x: Points) -> tuple[int, int, int]:
    if x.dtype != np.float64:
        raise TypeError(f"expected points of float64, got {x.dtype}")
    return _address(x), *x.shape


def _address(array: np.ndarray) -> int:
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array")
    return array.ctypes.data


@lru_cache(maxsize=32)
def _function(name: str, arguments: str) -> Callable[..., float]:
    return library.function(f"codes_{name}", arguments, "d")


def _call(name: str, arguments: str, *values: float) -> float:
    result = _function(name, arguments)(*values)
    if math.isnan(result):
        raise MemoryError("expected enough memory for the search, got none for its matrices")
    return result
