"""Steps of Riemannian SGD and Adam on the rows of parameters, in place: all parameters of a width in one launch.

A program has some whole rows of one parameter. Where that is, it reads from a table of addresses, which only changes
when a tensor moves. The formulas are those of `unclump.ops.update_rules`; half precision is computed in float32, from
the nearest points of the sphere, and rounded when written.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from unclump.ops.triton.projection import whole_rows
from unclump.ops.update_rules import adam_update

MOST = tl.constexpr(torch.finfo(torch.float32).max ** 0.45)  # of a gradient, whose squared length must not overflow
_COLUMNS = 8  # of the table: up to six addresses, the number of the first program, and of the rows
_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


@triton.jit
@no_type_check
def _place(table, count, d, ROWS: tl.constexpr, BLOCK_D: tl.constexpr, COUNT: tl.constexpr):
    """Of this program: where its parameter is in the table, its rows, which of them there are, and their entries."""
    numbers = tl.arange(0, COUNT)
    first = tl.load(table + numbers * 8 + 6, mask=numbers < count, other=2**40)
    entry = table + 8 * (tl.sum((first <= tl.program_id(0)).to(tl.int32), 0) - 1)
    rows = (tl.program_id(0) - tl.load(entry + 6)) * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, BLOCK_D)
    is_row = rows < tl.load(entry + 7)
    return entry, rows, is_row, depth, is_row[:, None] & (depth[None, :] < d)


@triton.jit
@no_type_check
def _named(rows_of, rows, is_row, inside, n):
    """The numbers of the rows to touch; those outside of the parameter are left out, so that no other memory is."""
    number = tl.load(rows_of + rows, mask=is_row, other=0)
    is_row = is_row & (number >= 0) & (number < n)
    return number, is_row, inside & is_row[:, None]


@triton.jit
@no_type_check
def _unit(x):
    """Without the rounding of norms, which would add up; zeros stay."""
    norm = tl.sqrt_rn(tl.sum(x * x, 1))
    return x / tl.where(norm == 0, 1.0, norm)[:, None]


@triton.jit
@no_type_check
def _tangent(x, v):
    return v - tl.sum(x * v, 1)[:, None] * x


@triton.jit
@no_type_check
def _bounded(grad, x):
    """The gradient, clamped, but NaN is NaN; zero for points without a direction."""
    most = tl.where(tl.max(tl.abs(x), 1) == 0, 0.0, MOST)[:, None]
    return tl.where(grad > most, most, tl.where(grad < -most, -most, grad))


@triton.jit
@no_type_check
def _turn(speed, rate, EXP: tl.constexpr):
    """Of the step -rate v, where v has this norm: the cosine of its angle, and the sine over the norm."""
    length = rate * speed
    if EXP:
        cosine = tl.cos(length)
        sine = rate * tl.where(length == 0, 1.0, tl.sin(length) / tl.where(length == 0, 1.0, length))
    else:
        cosine = 1 / tl.sqrt(1 + length * length)
        sine = rate * cosine
    return cosine, sine


@triton.jit
@no_type_check
def _sgd(
    table, rows_of, lr, count, n, d, momentum,
    HAS_MOMENTUM: tl.constexpr, HAS_ROWS: tl.constexpr, READ_LR: tl.constexpr, EXP: tl.constexpr,
    TYPE: tl.constexpr, GRAD_TYPE: tl.constexpr, IS_HALF: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    entry, rows, is_row, depth, inside = _place(table, count, d, ROWS, BLOCK_D, COUNT)
    rate = tl.load(lr).to(tl.float32) if READ_LR else lr
    number = rows
    if HAS_ROWS:
        number, is_row, inside = _named(rows_of, rows, is_row, inside, n)
    place = number[:, None] * d + depth[None, :]
    points = tl.load(entry).to(tl.pointer_type(TYPE)) + place
    gradients = tl.load(entry + 1).to(tl.pointer_type(GRAD_TYPE)) + rows[:, None] * d + depth[None, :]
    x = tl.load(points, mask=inside, other=0.0).to(tl.float32)
    if IS_HALF:
        x = _unit(x)
    u = _tangent(x, _bounded(tl.load(gradients, mask=inside, other=0.0).to(tl.float32), x))
    if HAS_MOMENTUM:
        buffer = tl.load(entry + 2).to(tl.pointer_type(tl.float32)) + place
        u = momentum * tl.load(buffer, mask=inside, other=0.0) + u
    squared = tl.sum(u * u, 1)
    cosine, sine = _turn(tl.sqrt_rn(squared), rate, EXP)
    tl.store(points, _unit(cosine[:, None] * x - sine[:, None] * u).to(TYPE), mask=inside)
    if HAS_MOMENTUM:  # carried along the great circle of the step
        tl.store(buffer, cosine[:, None] * u + (sine * squared)[:, None] * x, mask=inside)


@triton.jit
@no_type_check
def _adam(
    table, rows_of, lr, count, n, d, decay, decay_sq, log_beta, log_beta_sq, eps,
    AMSGRAD: tl.constexpr, LAZY: tl.constexpr, HAS_ROWS: tl.constexpr, READ_LR: tl.constexpr, EXP: tl.constexpr,
    TYPE: tl.constexpr, GRAD_TYPE: tl.constexpr, IS_HALF: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    entry, rows, is_row, depth, inside = _place(table, count, d, ROWS, BLOCK_D, COUNT)
    step_size = tl.load(lr).to(tl.float32) if READ_LR else lr
    gradients = tl.load(entry + 1).to(tl.pointer_type(GRAD_TYPE)) + rows[:, None] * d + depth[None, :]
    grad = tl.load(gradients, mask=inside, other=0.0).to(tl.float32)
    if LAZY:  # rows without a gradient are left out: NaN is one
        is_row = is_row & (tl.max((grad != 0).to(tl.int32), 1) > 0)
        inside = inside & is_row[:, None]
    number = rows
    if HAS_ROWS:
        number, is_row, inside = _named(rows_of, rows, is_row, inside, n)
    place = number[:, None] * d + depth[None, :]
    points = tl.load(entry).to(tl.pointer_type(TYPE)) + place
    x = tl.load(points, mask=inside, other=0.0).to(tl.float32)
    if IS_HALF:
        x = _unit(x)
    grad = _tangent(x, _bounded(grad, x))
    moments = tl.load(entry + 2).to(tl.pointer_type(tl.float32)) + place
    squares = tl.load(entry + 3).to(tl.pointer_type(tl.float32)) + number
    counts = tl.load(entry + 4).to(tl.pointer_type(tl.int64)) + number
    moment = tl.load(moments, mask=inside, other=0.0)
    moment += decay * (grad - moment)
    square = tl.load(squares, mask=is_row, other=0.0)
    square += decay_sq * (tl.sum(grad * grad, 1) - square)
    steps = tl.load(counts, mask=is_row, other=0) + 1
    largest = square
    if AMSGRAD:
        maxima = tl.load(entry + 5).to(tl.pointer_type(tl.float32)) + number
        before = tl.load(maxima, mask=is_row, other=0.0)
        largest = tl.where(before > square, before, square)
        tl.store(maxima, largest, mask=is_row)
    # In double precision, one number a row: 1 - beta^t as written has four digits left in float32 at t = 1.
    first = 1 - tl.exp(steps.to(tl.float64) * log_beta)
    second = 1 - tl.exp(steps.to(tl.float64) * log_beta_sq)
    rate = step_size / first.to(tl.float32) / (tl.sqrt_rn(largest / second.to(tl.float32)) + eps)
    rate = tl.where(largest == 0, 0.0, rate)  # without a gradient so far there is no step even if eps is zero
    cosine, sine = _turn(tl.sqrt_rn(tl.sum(moment * moment, 1)), rate, EXP)
    y = _unit(cosine[:, None] * x - sine[:, None] * moment)
    tl.store(points, y.to(TYPE), mask=inside)
    tl.store(moments, _tangent(y, moment), mask=inside)
    tl.store(squares, square, mask=is_row)
    tl.store(counts, steps, mask=is_row)


def update(
    rule: Any,
    members: Sequence[tuple[Tensor, Tensor, tuple[Tensor | None, ...]]],
    *,
    rows: Tensor | None = None,
    lazy: bool = False,
) -> None:
    """A rule of `unclump.ops.update_rules`, its choices given, on parameters of one width: points, gradient, state.

    Args:
        rule: `sgd_update`, plain or with momentum, or `adam_update`, as a partial function.
        members: Contiguous tables of the same width and dtypes, with the same parts of a state.
        rows: The rows to touch of a single parameter, each once; None for all. Numbers outside of it are left out.
        lazy: Of all rows, touch those whose gradient is not zero.
    """
    gradients = [grad.contiguous() for _, grad, _ in members]
    x, _, state = members[0]
    counts = [len(grad) for grad in gradients]
    _, choices = whole_rows(1, x.shape[-1])
    entries, programs = [], 0
    for (points, _, tables), grad, count in zip(members, gradients, counts, strict=True):
        addresses = [0 if one is None else one.data_ptr() for one in (points, grad, *tables)]
        entries += [*addresses, *(6 - len(addresses)) * [0], programs, count]
        programs += triton.cdiv(count, choices["ROWS"])
    options = dict(rule.keywords)
    lr = options["lr"]
    if isinstance(lr, Tensor):
        lr = lr if lr.device == x.device else float(lr)
    shared = {
        "HAS_ROWS": rows is not None, "READ_LR": isinstance(lr, Tensor), "EXP": options["retraction"] == "exp",
        "TYPE": _TYPES[x.dtype], "GRAD_TYPE": _TYPES[gradients[0].dtype], "IS_HALF": x.dtype != torch.float32,
        "COUNT": triton.next_power_of_2(len(members)), **choices,
    }  # fmt: skip
    table = _on_device(tuple(entries), x.device)
    arguments = table, table if rows is None else rows.contiguous(), lr, len(members), *x.shape
    if rule.func is adam_update:
        betas = options["betas"]
        logarithms = (math.log(beta) if beta > 0 else -math.inf for beta in betas)
        numbers = *(1 - beta for beta in betas), *logarithms, options["eps"]
        _adam[(programs,)](*arguments, *numbers, AMSGRAD=state[3] is not None, LAZY=lazy, **shared)
    else:
        _sgd[(programs,)](*arguments, options["momentum"], HAS_MOMENTUM=state[0] is not None, **shared)
    written = [one for points, _, tables in members for one in (points, *tables) if one is not None]
    torch.autograd.graph.increment_version(written)  # no backward pass through values that are no longer there


@lru_cache(maxsize=256)
def _on_device(entries: tuple[int, ...], device: torch.device) -> Tensor:
    """The table of addresses, copied when one of them is new; the host does not wait for it."""
    table = torch.tensor(entries, dtype=torch.long).view(-1, _COLUMNS)
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table
