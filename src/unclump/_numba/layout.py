"""Points of float32 laid out for products by tiles."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from unclump._numba import threads
from unclump._numba.compiler import compiled, compiled_in_any_order
from unclump._numba.product import WIDTH, Chunks, chunks, padded
from unclump._numba.projection import A_THREAD, project_rows, squared_norm
from unclump._numba.team import team

Points = Float32[np.ndarray, "n d"]
Single = Float32[np.ndarray, " m"]
Lengths = Float64[np.ndarray, " n"]


class Laid(NamedTuple):
    """What loops over blocks of pairs need of the points."""

    x: Points
    """Rows of zeros follow the points."""
    chunks: Chunks
    """The same, sixteen columns at a time."""
    squares: Single
    """Their squared norms, almost one."""
    inverse_norms: Lengths
    """One over their norms, to double precision; zero for a row of zeros."""


def lay_out(given: Points) -> Laid:
    points = _room(*given.shape)
    _lay_out(given, *points)
    return points


def project_and_lay_out(given: Points) -> tuple[Laid, Single]:
    """The directions of the embeddings given, and one over their norms."""
    points, inverse = _room(*given.shape), np.empty(len(given), np.float32)
    _project_and_lay_out_by_team(given, inverse, *points, threads(given.size, at_least=A_THREAD))
    return points, inverse


def _room(n: int, d: int) -> Laid:
    x, tiles = np.zeros((padded(n), d), np.float32), np.zeros((chunks(d), padded(n), WIDTH), np.float32)
    return Laid(x, tiles, np.zeros(padded(n), np.float32), np.empty(n))


@compiled
def _lay_out(x: Points, points: Points, laid_out: Chunks, squares: Single, inverse_norms: Lengths) -> None:
    points[: len(x)] = x
    _lay_out_rows(points, laid_out, squares, inverse_norms, 0, len(x))


@compiled
def _project_and_lay_out_by_team(
    given: Points, inverse: Single, points: Points, laid_out: Chunks, squares: Single, inverse_norms: Lengths,
    threads: int,
) -> None:  # fmt: skip
    team(_project_and_lay_out, (given, inverse, points, laid_out, squares, inverse_norms), len(given), threads)


@compiled
def _project_and_lay_out(
    given: Points, inverse: Single, points: Points, laid_out: Chunks, squares: Single, inverse_norms: Lengths,
    start: int, stop: int,
) -> None:  # fmt: skip
    project_rows(given, inverse, points, start, stop)
    _lay_out_rows(points, laid_out, squares, inverse_norms, start, stop)


@compiled_in_any_order
def _lay_out_rows(
    points: Points, laid_out: Chunks, squares: Single, inverse_norms: Lengths, start: int, stop: int
) -> None:
    for i in range(start, stop):
        for first in range(0, points.shape[1], WIDTH):
            for j in range(min(WIDTH, points.shape[1] - first)):
                laid_out[first // WIDTH, i, j] = points[i, first + j]
        squared = squared_norm(points, i)
        squares[i] = squared
        inverse_norms[i] = 1 / math.sqrt(squared) if squared > 0 else 0.0
