r"""Distances to the nearest points as a loss, with the gradient: what `MaxMin`, `KoLeo` and `Lloyd` are made of.

The neighbours are selected without gradient; only the distances to them are differentiated.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import apart, push_aside


@dataclass(frozen=True)
class Measured:
    """Distances between points and one other each, and the derivatives by both."""

    distance: Float[Tensor, "b n"]
    by_point: Float[Tensor, "b n d"]
    """The derivative of the distance by the point, up to a part that is normal to the sphere."""
    sign: Float[Tensor, "b n 1"] | float
    """The derivative by the other point is `sign` times that by the point."""


def measure(
    x: Float[Tensor, "b n d"],
    others: Float[Tensor, "b n d"],
    *,
    distance: str,
    side: Int[Tensor, "b n"] | None = None,
) -> Measured:
    r"""The distances between points of the sphere and one other each, by the differences of their coordinates.

    .. math:: r = \lVert x - y \rVert, \quad s = \lVert x + y \rVert, \quad \theta = 2 \operatorname{atan2}(r, s),
        \quad \nabla_x r = \frac{x - y}{r}, \quad \nabla_x \theta = \frac{2 (x - y)}{r s} \simeq -\frac{2 (x + y)}{r s}

    The last two differ by a multiple of x, which is normal to the sphere: the smaller of both is taken, and is finite
    from coinciding points to antipodes.

    Args:
        x: Points.
        others: The other of each.
        distance: "chordal", "geodesic" or "squared".
        side: 1 where the other is an earlier row, -1 where it is a later one. Rows that coincide are then taken to be
            `apart`, the earlier to one side and the later to the other; without it they stay where they are.
    """
    vector = x - others
    chord = vector_norm(vector, dim=-1)
    if side is not None:
        coincide = chord == 0
        chord = torch.where(coincide, apart(x.dtype), chord)
        push = torch.where(coincide, apart(x.dtype) * side.to(x.dtype), 0)
        push_aside(vector, x, push.unsqueeze(-1))
    if distance == "squared":
        return Measured(chord.square(), vector.mul_(2), -1.0)
    if distance == "chordal":
        return Measured(chord, vector.div_(chord.unsqueeze(-1)), -1.0)
    total = x + others
    length = vector_norm(total, dim=-1)
    far = (length < chord).unsqueeze(-1)
    slope = 2 / (chord * length)
    # Zero over zero: of a point and itself, or its antipode.
    slope = torch.where(slope.isinf(), 0, slope).unsqueeze(-1)
    by_point = torch.where(far, total.neg_(), vector).mul_(slope)
    return Measured(2 * torch.atan2(chord, length), by_point, torch.where(far, 1.0, -1.0).to(x.dtype))
