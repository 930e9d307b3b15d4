r"""Even spacing on circles in float32: ranks by radix sort, and what follows from them in the same pass."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int, UInt32, UInt64
from torch import Tensor

from unclump._numba import share
from unclump._numba.compiler import compiled

_A_THREAD = 2**14  # angles, or entries of a table, that are worth a thread

_DIGIT = 11  # bits a pass: three passes for 32, and counts that stay in the fastest cache
_DIGITS = 2**_DIGIT
_LOW = np.uint64(_DIGITS - 1)
_NUMBER = np.uint64(2**32 - 1)
_SIGN, _ALL, _INFINITY = np.uint32(2**31), np.uint32(2**32 - 1), np.uint32(0x7F800000)


def unevenness(angles: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
    """`unclump.circle.unevenness`."""
    angles = angles.detach().contiguous()
    gaps = torch.empty_like(angles)
    arrays = angles.numpy(), angles.numpy().view(np.uint32), gaps.numpy()
    share(lambda start, stop: _unevenness(*arrays, start, stop), len(angles), at_least=_least(angles))
    return gaps


def coefficients(
    coordinates: Float[Tensor, "k 2 n"], gaps: Float[Tensor, "k n"], inverse_norm: Float[Tensor, " n"], smallest: float
) -> Float[Tensor, "k 2 n"]:
    """Those of the gradient in `unclump.objectives.sliced`, in the place of the coordinates."""
    arrays = coordinates.numpy(), gaps.numpy(), inverse_norm.numpy()
    share(lambda start, stop: _coefficients(*arrays, smallest, start, stop), len(gaps), at_least=_least(gaps))
    return coordinates


def columns(x: Float[Tensor, "n d"], axes: Int[Tensor, " m"]) -> Float[Tensor, "m n"]:
    """The columns `x.mT[axes]`, in one pass over the rows."""
    d = x.shape[1]
    if axes.min() < 0 or axes.max() >= d:  # a loop would read whatever lies there
        raise ValueError(
            f"expected axes from 0 to {d - 1}, got {axes.min()} to {axes.max()}; draw them with axis_circles(..., {d})"
        )
    found = x.new_empty(len(axes), len(x))
    arrays = x.detach().contiguous().numpy(), axes.numpy(), found.numpy()
    share(lambda start, stop: _columns(*arrays, start, stop), len(x), at_least=_least(x.mT))
    return found


def from_columns(given: Float[Tensor, "m n"], axes: Int[Tensor, " m"], d: int) -> Float[Tensor, "n d"]:
    """A table of zeros but for the given columns, added where an axis comes again: in one pass over the rows."""
    x = given.new_empty(given.shape[1], d)
    arrays = given.contiguous().numpy(), axes.numpy(), x.numpy()
    share(lambda start, stop: _from_columns(*arrays, start, stop), len(x), at_least=_least(x.mT))
    return x


def _least(rows: Tensor) -> int:
    """How many rows are worth a thread."""
    return max(1, _A_THREAD // rows.shape[1])


@compiled
def _unevenness(
    angles: Float[np.ndarray, "k n"],
    bits: UInt32[np.ndarray, "k n"],
    gaps: Float[np.ndarray, "k n"],
    start: int,
    stop: int,
) -> None:
    n = angles.shape[1]
    keys, spare = np.empty(n, np.uint64), np.empty(n, np.uint64)
    step = np.float32(math.pi / n)
    for circle in range(start, stop):
        total = 0.0
        for i in range(n):
            total += angles[circle, i]
        mean = np.float32(total / n)
        for rank, key in enumerate(_ascending(bits[circle], keys, spare)):
            here = key & _NUMBER
            gaps[circle, here] = angles[circle, here] - mean - np.float32(2 * rank + 1 - n) * step


@compiled
def _ascending(
    bits: UInt32[np.ndarray, " n"], keys: UInt64[np.ndarray, " n"], spare: UInt64[np.ndarray, " n"]
) -> UInt64[np.ndarray, " n"]:
    """Numbers of the angles in ascending order, in the lower halves of the keys; equal angles keep their order."""
    starts = np.zeros((3, _DIGITS), np.uint32)
    for i in range(len(bits)):
        key = np.uint64(_ordered(bits[i]))
        keys[i] = (key << np.uint64(32)) | np.uint64(i)
        for digit in range(3):
            starts[digit, (key >> np.uint64(_DIGIT * digit)) & _LOW] += 1
    for digit in range(3):
        before = np.uint32(0)
        for value in range(_DIGITS):
            starts[digit, value], before = before, before + starts[digit, value]
        shift = np.uint64(32 + _DIGIT * digit)
        for key in keys:
            here = (key >> shift) & _LOW
            spare[starts[digit, here]] = key
            starts[digit, here] += 1
        keys, spare = spare, keys
    return keys


@compiled
def _ordered(bits: np.uint32) -> np.uint32:
    """A number that compares as the float32 with these bits: the zeros are equal, and NaN comes last."""
    if (bits & ~_SIGN) > _INFINITY:
        return _ALL
    if bits == _SIGN:
        return _SIGN
    return bits ^ (_ALL if bits & _SIGN else _SIGN)


@compiled
def _coefficients(
    coordinates: Float[np.ndarray, "k 2 n"],
    gaps: Float[np.ndarray, "k n"],
    inverse_norm: Float[np.ndarray, " n"],
    smallest: float,
    start: int,
    stop: int,
) -> None:
    least, count = np.float32(smallest), np.float32(len(gaps))
    for circle in range(start, stop):
        first, second = coordinates[circle, 0], coordinates[circle, 1]
        for i in range(gaps.shape[1]):
            along, across = first[i] * inverse_norm[i], second[i] * inverse_norm[i]
            radius = along * along + across * across
            turn = gaps[circle, i] * inverse_norm[i] / ((least if radius < least else radius) * count)
            first[i], second[i] = -turn * across, turn * along


@compiled
def _columns(
    x: Float[np.ndarray, "n d"], axes: Int[np.ndarray, " m"], found: Float[np.ndarray, "m n"], start: int, stop: int
) -> None:
    for i in range(start, stop):
        for m in range(len(axes)):
            found[m, i] = x[i, axes[m]]


@compiled
def _from_columns(
    given: Float[np.ndarray, "m n"], axes: Int[np.ndarray, " m"], x: Float[np.ndarray, "n d"], start: int, stop: int
) -> None:
    for i in range(start, stop):
        x[i] = 0
        for m in range(len(axes)):
            x[i, axes[m]] += given[m, i]
