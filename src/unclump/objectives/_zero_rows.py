"""Rows of zeros on a CPU: fused loops stop at the first one, and are then run on the nonzero rows only."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from unclump.objectives._pull import Pull
from unclump.ops.dispatch import has_native


def fused_without_zeros(
    objective: Any, x: Float[Tensor, "*sets n d"], draw: Any, needs_grad: bool
) -> tuple[tuple[Float[Tensor, "*sets"], Pull | None] | None, int]:
    """The objective of the nonzero rows, by its fused loop, and the number of these rows.

    None for separate sets, if all rows or too few are nonzero, and if there is no loop for them. Only for the CPU,
    where reading values does not synchronise a device.

    Args:
        objective: An `Objective`; untyped, since its module imports this one.
        x: Raw embeddings.
        draw: The random draw.
        needs_grad: Whether to compute the gradient, which is zero for rows of zeros.
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
    vectors = _scatter(pull.vectors, rows, n, dim=objective.rows_of_pull)
    scale = pull.scale if pull.scale is None or len(pull.scale) == 1 else _scatter(pull.scale, rows, n, dim=0)
    return (value, Pull(vectors, scale)), len(rows)


def _scatter(values: Tensor, rows: Int[Tensor, " k"], n: int, *, dim: int) -> Tensor:
    """Place the values at `rows` along a dimension of size n; all others are zero."""
    shape = list(values.shape)
    shape[dim] = n
    return values.new_zeros(shape).index_copy_(dim, rows, values)
