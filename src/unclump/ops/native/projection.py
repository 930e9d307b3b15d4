"""Projection onto the sphere, one pass over the rows there and one back; and what loops over rows share."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unclump.ops.native import threads
from unclump.ops.native.compiler import compiled, compiled_in_any_order
from unclump.ops.native.team import team

A_THREAD = 2**13  # entries that are worth a thread: a hundredth of a millisecond
_SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)  # with all their digits

Points = Float[np.ndarray, "n d"]


def arrays(*tensors: Tensor | None) -> tuple[Any, ...]:
    return tuple(None if tensor is None else tensor.detach().numpy() for tensor in tensors)


def project(x: Tensor) -> tuple[Tensor, Tensor]:
    """`unclump.geometry.sphere.project` of float32, and one over the norms."""
    x = x.detach().contiguous()
    y, inverse = torch.empty_like(x), x.new_empty(x.shape[:-1])
    tables = arrays(_rows(x), inverse.view(-1), _rows(y))
    _project_by_team(*tables, threads_for(x))
    return y, inverse


def project_backward(y: Tensor, inverse: Tensor, grad: Tensor) -> Tensor:
    r"""The gradient by what was projected, :math:`(g - \langle y, g \rangle y) / \lVert x \rVert`."""
    result = torch.empty_like(y)
    tables = arrays(_rows(y), inverse.view(-1), _rows(grad.contiguous()), _rows(result))
    _project_backward_by_team(*tables, threads_for(y))
    return result


def _rows(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])


def threads_for(x: Tensor) -> int:
    """How many threads may go over the entries."""
    return threads(x.numel(), at_least=A_THREAD)


@compiled
def _project_by_team(x: Points, inverse: Float[np.ndarray, " n"], y: Points, threads: int) -> None:
    team(project_rows, (x, inverse, y), len(x), threads)


@compiled
def _project_backward_by_team(
    y: Points, inverse: Float[np.ndarray, " n"], grad: Points, result: Points, threads: int
) -> None:
    team(project_rows_backward, (y, inverse, grad, result), len(y), threads)


@compiled
def one_over(norm: float) -> float:
    """One over a norm; where single precision does not hold it, the largest number."""
    return min(1 / norm, LARGEST) if norm != 0 else 0.0


@compiled_in_any_order
def project_rows(x: Points, inverse: Float[np.ndarray, " n"], y: Points, start: int, stop: int) -> None:
    for i in range(start, stop):
        norm = math.sqrt(squared_norm(x, i))
        inverse[i] = one_over(norm)
        if _SMALLEST <= inverse[i] < LARGEST:
            for j in range(x.shape[1]):
                y[i, j] = inverse[i] * x[i, j]
        else:  # more than single precision holds, or less; or a row of zeros
            for j in range(x.shape[1]):
                y[i, j] = np.float64(x[i, j]) / norm if norm != 0 else 0.0


@compiled_in_any_order
def project_rows_backward(
    y: Points, inverse: Float[np.ndarray, " n"], grad: Points, result: Points | None, start: int, stop: int
) -> None:
    """Into `result`, or without one in place: an array given twice would go without vector instructions."""
    for i in range(start, stop):
        radial, scale = dot(y, i, grad, i), inverse[i]
        for j in range(y.shape[1]):
            tangent = scale * (grad[i, j] - radial * y[i, j])
            if result is None:
                grad[i, j] = tangent
            else:
                result[i, j] = tangent


@compiled_in_any_order
def squared_norm(x: Points, i: int) -> float:
    """In double precision, where the squares of single neither vanish nor overflow."""
    squared = 0.0
    for j in range(x.shape[1]):
        squared += np.float64(x[i, j]) * np.float64(x[i, j])
    return squared


@compiled_in_any_order
def dot(x: Points, i: int, y: Points, k: int) -> float:
    total: float = x.dtype.type(0)
    for j in range(np.uintp(x.shape[1])):
        total += x[i, j] * y[k, j]
    return total
