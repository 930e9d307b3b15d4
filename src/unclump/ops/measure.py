r"""Distances to other points as a loss, with the gradient: what `MaxMin`, `KoLeo` and `Lloyd` are made of.

The other points are selected without gradient; only the distances to them are differentiated.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import apart, push_aside


@dataclass(frozen=True)
class Measured:
    """Distances between points and one other each, and the derivatives by both."""

    distance: Float[Tensor, "b n"]
    vector: Float[Tensor, "b n d"]
    slope: Float[Tensor, "b n"]
    """The derivative of the distance by the point is `slope * vector`, up to a part that is normal to the sphere."""
    sign: Float[Tensor, "b n"] | float
    """The derivative by the other point is `sign` times that by the point."""


def measure(
    x: Float[Tensor, "b n d"],
    others: Float[Tensor, "b n d"],
    r2: Float[Tensor, "b n"],
    *,
    distance: str,
    follows: Bool[Tensor, "b n"] | None = None,
) -> Measured:
    r"""The distances between points of the sphere and one other each.

    .. math:: r = \lVert x - y \rVert, \quad s = \lVert x + y \rVert, \quad \theta = 2 \operatorname{atan2}(r, s),
        \quad \nabla_x r = \frac{x - y}{r}, \quad \nabla_x \theta = \frac{2 (x - y)}{r s} \simeq -\frac{2 (x + y)}{r s}

    The last two differ by a multiple of x, which is normal to the sphere. Of x - y and x + y the shorter one is taken:
    it keeps its digits from coinciding points to antipodes, and the other's length follows from r^2 + s^2 = 4.

    Args:
        x: Points.
        others: The other of each.
        r2: The squared chords between them, measured by differences.
        distance: "chordal", "geodesic" or "squared".
        follows: Whether the point is a later row than the other. Rows that coincide are then taken to be `apart`, the
            later to one side and the earlier to the other; without it they stay where they are.
    """
    coincide, taken = r2 == 0, apart(x.dtype)
    sign: Tensor | float = -1.0
    if distance == "geodesic":
        far = r2 > 2
        sign = torch.where(far, x.new_ones(()), -1)
        vector = torch.addcmul(x, others, sign.unsqueeze(-1))
    else:
        vector = x - others
    if follows is not None:
        side = torch.where(follows, x.new_full((), taken), -taken)
        push_aside(vector, x, (side * coincide).unsqueeze(-1))
    if distance == "geodesic":
        short = vector_norm(vector, dim=-1)
        if follows is not None:
            short.masked_fill_(coincide, taken)
        long = (4 - short.square()).sqrt_()
        half = torch.atan2(short, long)
        # Zero over zero: of a point and itself, or its antipode.
        slope = (-2 * sign / (short * long)).masked_fill_(short == 0, 0)
        return Measured(torch.where(far, math.pi - 2 * half, 2 * half), vector, slope, sign)
    r2 = r2.masked_fill(coincide, taken**2)
    if distance == "squared":
        return Measured(r2, vector, torch.full_like(r2, 2), sign)
    chord = r2.sqrt_()
    return Measured(chord, vector, chord.reciprocal(), sign)
