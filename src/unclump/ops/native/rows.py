r"""The update rules of `unclump.ops.row_update`, one pass over the rows: same formulas, same names."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.projection import dot
from unclump.ops.native.team import team

_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd, and without a pattern: the high bits of its multiples fall everywhere
_AT_A_TIME = 16  # rows; of a few hundred dimensions they stay in the fastest cache

Points = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, "n 1"]
Rows = Int[np.ndarray, " k"]


def sgd_update(
    x: Tensor,
    grad: Tensor,
    momentum_buffer: Tensor | None,
    *,
    rows: Tensor | None,
    lr: float,
    momentum: float,
    retraction: str,
    threads: int,
) -> None:
    """`row_update.sgd_update`, in place: on all rows, or on those named, by the sum of each one's gradients."""
    tables = [None if table is None else table.detach().numpy() for table in (x, grad, momentum_buffer, rows)]
    choices = float(lr), float(momentum), retraction == "exp"
    _sgd_by_team(*tables, *choices, threads)
    # Autograd must refuse a backward pass through values that are no longer there.
    torch.autograd.graph.increment_version([table for table in (x, momentum_buffer) if table is not None])


def adam_update(
    x: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    steps: Tensor,
    *,
    rows: Tensor | None,
    lazy: bool,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    retraction: str,
    threads: int,
) -> None:
    """`row_update.adam_update`, in place: on all rows; on those named, by the sum of each one's gradients; or
    where `lazy` on those with a gradient.
    """
    given = (x, grad, exp_avg, exp_avg_sq, steps, rows)
    tables = [None if table is None else table.detach().numpy() for table in given]
    choices = lazy, float(lr), float(betas[0]), float(betas[1]), float(eps), retraction == "exp"
    _adam_by_team(*tables, *choices, threads)
    torch.autograd.graph.increment_version([x, exp_avg, exp_avg_sq, steps])


@compiled
def _sgd_by_team(
    x: Points, grad: Points, momentum_buffer: Points | None, rows: Rows | None,
    lr: float, momentum: float, exact: bool, threads: int,
) -> None:  # fmt: skip
    rows, grad = summed_rows(rows, grad)
    team(_sgd, (x, grad, momentum_buffer, rows, lr, momentum, exact), len(grad), threads)


@compiled
def _adam_by_team(
    x: Points, grad: Points, exp_avg: Points, exp_avg_sq: Column, steps: Int[np.ndarray, "n 1"], rows: Rows | None,
    lazy: bool, lr: float, beta1: float, beta2: float, eps: float, exact: bool, threads: int,
) -> None:  # fmt: skip
    rows, grad = summed_rows(rows, grad)
    given = (x, grad, exp_avg, exp_avg_sq, steps, rows, lazy, lr, beta1, beta2, eps, exact)
    team(_adam, given, len(grad), threads)


# Rows are reached as table[i, j], never as table[i]: a view costs two atomic operations and most of the vectorisation.
# In Adam's loops indices are unsigned: those that may be negative count from the end, and a loop must look first.


@compiled_in_any_order
def _sgd(
    x: Points,
    grad: Points,
    momentum_buffer: Points | None,
    rows: Rows | None,
    lr: float,
    momentum: float,
    exact: bool,
    start: int,
    stop: int,
) -> None:
    """Sums are taken in loops that write nothing, which have one order wherever the tables lie in memory.

    So the step is not kept but computed again, which takes no longer than to write it down and read it.
    """
    number = x.dtype.type
    for k in range(start, stop):
        i = k if rows is None else rows[k]
        radial, speed, squared = dot(x, i, grad, k), number(0), number(0)
        for j in range(x.shape[1]):
            v = _velocity(x, i, grad, k, momentum_buffer, number(momentum), radial, j)
            speed += v * v
        turn, rate = _turn(speed, lr, exact)
        cosine, sine, inward = number(turn), number(rate), number(rate * speed)
        for j in range(x.shape[1]):
            y = cosine * x[i, j] - sine * _velocity(x, i, grad, k, momentum_buffer, number(momentum), radial, j)
            squared += y * y
        inverse = number(1 / math.sqrt(squared))
        for j in range(x.shape[1]):
            v = _velocity(x, i, grad, k, momentum_buffer, number(momentum), radial, j)
            y = cosine * x[i, j] - sine * v
            if momentum_buffer is not None:
                momentum_buffer[i, j] = cosine * v + inward * x[i, j]
            if speed != 0:  # or rounding would move the row
                x[i, j] = inverse * y


@compiled_in_any_order
def _velocity(
    x: Points, i: int, grad: Points, k: int, momentum_buffer: Points | None, momentum: float, radial: float, j: int
) -> float:
    """An entry of the tangent vector to step against: the gradient, and the momentum so far."""
    tangent: float = grad[k, j] - radial * x[i, j]
    if momentum_buffer is not None:
        tangent += momentum * momentum_buffer[i, j]
    return tangent


@compiled_in_any_order
def _adam(
    x: Points,
    grad: Points,
    exp_avg: Points,
    exp_avg_sq: Column,
    steps: Int[np.ndarray, "n 1"],
    rows: Rows | None,
    lazy: bool,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    exact: bool,
    start: int,
    stop: int,
) -> None:
    """A few rows at a time, first the moments of all and then the steps: one's roots are not waited for by the next."""
    number = x.dtype.type
    corrected, rate, second = 0, lr, 1.0  # as of which step the bias is corrected: dense rows share it
    log1 = math.log(beta1) if beta1 > 0 else -math.inf
    log2 = math.log(beta2) if beta2 > 0 else -math.inf
    lengths, rates = np.empty(_AT_A_TIME), np.empty(_AT_A_TIME)
    cosines, sines = np.empty(_AT_A_TIME, x.dtype), np.empty(_AT_A_TIME, x.dtype)
    for first in range(start, stop, _AT_A_TIME):
        count = min(_AT_A_TIME, stop - first)
        for t in range(count):
            k = np.uintp(first + t)
            lengths[t] = rates[t] = 0
            if lazy and not _any(grad, k):
                continue
            i = k if rows is None else np.uintp(rows[k])
            steps[i, 0] += 1
            if steps[i, 0] != corrected:
                corrected = steps[i, 0]
                rate, second = -lr / math.expm1(corrected * log1), -1 / math.expm1(corrected * log2)
            radial, speed, length = dot(x, i, grad, k), number(0), number(0)
            for j in range(np.uintp(x.shape[1])):
                tangent = grad[k, j] - radial * x[i, j]
                moment = exp_avg[i, j] + number(1 - beta1) * (tangent - exp_avg[i, j])
                exp_avg[i, j] = moment
                speed += tangent * tangent
                length += moment * moment
            exp_avg_sq[i, 0] += number(1 - beta2) * (speed - exp_avg_sq[i, 0])
            lengths[t], rates[t] = length, rate / (math.sqrt(exp_avg_sq[i, 0] * second) + eps)
        for t in range(count):
            cosines[t], sines[t] = _turn(lengths[t], rates[t], exact)
        for t in range(count):
            if lengths[t] != 0:  # or rounding would move the row
                k = np.uintp(first + t)
                i = k if rows is None else np.uintp(rows[k])
                _step(x, i, exp_avg, i, cosines[t], sines[t])


@compiled
def summed_rows(rows: Rows | None, grad: Points) -> tuple[Rows | None, Points]:
    """The different rows in the order they come, and the sums of the gradients of each; where they are all, as given.

    By a table of places, at most half of them taken, where each number looks for itself from its own place on.
    """
    if rows is None:
        return rows, grad
    size, unused = 2, np.uint64(63)
    while size < 2 * len(rows):
        size, unused = 2 * size, unused - np.uint64(1)
    places, different, sums, count = np.full(size, -1), np.empty_like(rows), np.empty_like(grad), 0
    for i in range(len(rows)):
        place = np.int64((np.uint64(rows[i]) * _SCATTER) >> unused)
        while places[place] >= 0 and different[places[place]] != rows[i]:
            place = (place + 1) & (size - 1)
        k = places[place]
        if k < 0:
            places[place], different[count] = count, rows[i]
            for j in range(grad.shape[1]):
                sums[count, j] = grad[i, j]
            count += 1
        else:
            for j in range(grad.shape[1]):
                sums[k, j] += grad[i, j]
    return different[:count], sums[:count]


@compiled_in_any_order
def _step(x: Points, i: int, v: Points, k: int, cosine: float, sine: float) -> None:
    """Replace x by the unit vector y along cosine * x - sine * v, and v by its part that is tangent at y."""
    squared, along = x.dtype.type(0), x.dtype.type(0)
    for j in range(np.uintp(x.shape[1])):
        y = cosine * x[i, j] - sine * v[k, j]
        squared += y * y
        along += y * v[k, j]
    inverse, radial = x.dtype.type(1 / math.sqrt(squared)), along / squared
    for j in range(np.uintp(x.shape[1])):
        y = cosine * x[i, j] - sine * v[k, j]
        v[k, j] -= radial * y
        x[i, j] = inverse * y


@compiled
def _turn(squared_speed: float, rate: float, exact: bool) -> tuple[float, float]:
    """The cosine of the angle to turn by, and its sine over the speed."""
    square = rate * rate * squared_speed
    if not exact:
        cosine = 1 / math.sqrt(1 + square)
        return cosine, rate * cosine
    if square < 0.01:  # almost every step: the series are right to the last digit, at a tenth of the time
        cosine = 1 - square * (1 / 2 - square * (1 / 24 - square * (1 / 720 - square * (1 / 40320 - square / 3628800))))
        sinc = 1 - square * (1 / 6 - square * (1 / 120 - square * (1 / 5040 - square / 362880)))
        return cosine, rate * sinc
    length = math.sqrt(square)
    return math.cos(length), rate * math.sin(length) / length


@compiled
def _any(x: Points, i: int) -> bool:
    """Whether an entry of the row is not zero; NaN is not."""
    found = False
    for j in range(np.uintp(x.shape[1])):
        found |= x[i, j] != 0
    return found
