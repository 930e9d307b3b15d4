"""Points of float32 laid out for products by tiles."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.product import WIDTH, Chunks, chunks, padded
from unclump.ops.native.projection import project_rows, squared_norm
from unclump.ops.native.team import team

Points = Float32[np.ndarray, "n d"]
Single = Float32[np.ndarray, " m"]
Lengths = Float64[np.ndarray, " n"]


class Laid(NamedTuple):
    """What loops over blocks of pairs need of the points."""

    x: Points
    """Rows of zeros follow the points."""
    chunks: Chunks
    """The same, sixteen columns at a time; what is beyond the last is nobody's."""
    squares: Single
    """Their squared norms, almost one."""
    inverse_norms: Lengths
    """One over their norms, to double precision; zero for a row of zeros."""


@compiled
def project_and_lay_out(given: Points, threads: int) -> tuple[Laid, Single]:
    """The directions of the embeddings given, and one over their norms."""
    points, inverse = _room(*given.shape), np.empty(len(given), np.float32)
    team(_project_and_lay_out, (given, inverse, points), len(given), threads)
    return points, inverse


@compiled
def _room(n: int, d: int) -> Laid:
    rows, single = padded(n), np.float32
    x, tiles, squares = np.empty((rows, d), single), np.empty((chunks(d), rows, WIDTH), single), np.empty(rows, single)
    x[n:], tiles[:, n:], squares[n:] = 0, 0, 0
    return Laid(x, tiles, squares, np.empty(n))


@compiled
def _project_and_lay_out(given: Points, inverse: Single, points: Laid, start: int, stop: int) -> None:
    project_rows(given, inverse, points.x, start, stop)
    _lay_out_rows(points, start, stop)


@compiled_in_any_order
def _lay_out_rows(points: Laid, start: int, stop: int) -> None:
    x, tiles = points.x, points.chunks
    for i in range(start, stop):
        for first in range(0, x.shape[1], WIDTH):
            for j in range(min(WIDTH, x.shape[1] - first)):
                tiles[first // WIDTH, i, j] = x[i, first + j]
        squared = squared_norm(x, i)
        points.squares[i] = squared
        points.inverse_norms[i] = 1 / math.sqrt(squared) if squared > 0 else 0.0
