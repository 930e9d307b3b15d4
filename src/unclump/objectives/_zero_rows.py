"""Rows of zeros on a CPU: the fused loops stop at the first one, and run again on the rows that have a direction."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from unclump.objectives._pull import Pull
from unclump.ops.dispatch import has_native


def fused_without_zeros(
    objective: Any, x: Float[Tensor, "*sets n d"], draw: Any, needs_grad: bool
) -> tuple[tuple[Float[Tensor, "*sets"], Pull | None] | None, int]:
    """The objective of the rows that have a direction, by its fused loop, and how many they are.

    None for separate sets, where all rows have one or too few, and where no loop takes them. Only for loops of a CPU,
    which look at values anyway.

    Args:
        objective: An `Objective`, whose file imports this one.
        x: Raw embeddings.
        draw: The random part.
        needs_grad: Whether there is a gradient, which is zero for rows of zeros.
    """
    n = x.shape[-2]
    if x.ndim > 2 or not objective.needs_directions or not has_native(x):
        return None, n
    rows = objective.normalise(x)[1].squeeze(-1).nonzero().squeeze(-1)
    if not objective.fewest <= len(rows) < n:
        return None, n
    result = objective.fused(x.index_select(0, rows), draw, needs_grad)
    if result is None or result[1] is None:
        return result, len(rows)
    value, pull = result
    vectors = _among_zeros(pull.vectors, rows, n, dim=objective.rows_of_pull)
    scale = pull.scale if pull.scale is None or len(pull.scale) == 1 else _among_zeros(pull.scale, rows, n, dim=0)
    return (value, Pull(vectors, scale)), len(rows)


def _among_zeros(values: Tensor, rows: Int[Tensor, " k"], n: int, *, dim: int) -> Tensor:
    """These as slices along a dimension of n, zero where there are none."""
    shape = list(values.shape)
    shape[dim] = n
    return values.new_zeros(shape).index_copy_(dim, rows, values)
