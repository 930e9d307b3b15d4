r"""Sums of rows by index, which accumulate gradients at the nearest neighbours of points.

.. math:: s_i = \sum_{j : k_j = i} v_j

On a GPU, torch uses atomics, whose order varies. The Triton kernel has a fixed order, so that results are bitwise
reproducible.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._precision import flat_row_index
from unclump.ops.dispatch import has_triton, register


def add_rows(
    table: Float[Tensor, "*sets n d"],
    index: Int[Tensor, "*sets k"],
    values: Float[Tensor, "*sets k d"],
) -> Float[Tensor, "*sets n d"]:
    """Add values, in place, to the rows with these indices.

    Example:
        >>> from unclump.ops.add_rows import add_rows
        >>> add_rows(torch.zeros(3, 1), torch.tensor([2, 0, 2]), torch.tensor([[1.0], [2.0], [3.0]])).mT
        tensor([[2., 0., 4.]])
    """
    if torch.compiler.is_compiling():
        return table.add_(sum_rows(table.shape[-2], index, values))
    rows = table if table.ndim == 2 else table.view(-1, table.shape[-1])
    numbers, added = flat_row_index(index, table.shape[-2]), values.flatten(0, -2)
    if has_triton(rows, added) and rows.is_contiguous():
        from unclump.ops.triton import add_rows as kernels

        kernels.add_rows(rows, numbers, added)
    else:
        rows.index_add_(0, numbers, added)
    return table


def sum_rows(n: int, index: Int[Tensor, "*sets k"], values: Float[Tensor, "*sets k d"]) -> Float[Tensor, "*sets {n} d"]:
    """For each of n rows, the sum of the values with its index."""
    return _sum_rows(index, values, n)  # type: ignore[no-any-return]


def _fake(index: Tensor, values: Tensor, n: int) -> Tensor:
    return values.new_empty((*values.shape[:-2], n, values.shape[-1]))


@register("sum_rows(Tensor index, Tensor values, SymInt n) -> Tensor", _fake)
def _sum_rows(index: Tensor, values: Tensor, n: int) -> Tensor:
    *sets, _, d = values.shape
    rows, numbers, total = values.flatten(0, -2), flat_row_index(index, n), math.prod(sets) * n
    if has_triton(rows):
        from unclump.ops.triton import add_rows as kernels

        return kernels.sum_rows(total, numbers, rows).view(*sets, n, d)
    return values.new_zeros(()).expand(total, d).index_add(0, numbers, rows).view(*sets, n, d)
