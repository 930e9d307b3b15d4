r"""Distances to other points as a loss, with the gradient: what `MaxMin`, `KoLeo` and `Lloyd` are made of.

The other points are selected without gradient; only the distances to them are differentiated.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import apart, push_aside


@dataclass(frozen=True)
class Measured:
    """Distances between points and one other each, and the derivatives by both."""

    distance: Float[Tensor, "*sets n 1"]
    vector: Float[Tensor, "*sets n d"]
    slope: Float[Tensor, "*sets n 1"] | float
    """The derivative of the distance by the point is `slope * vector`, up to a part that is normal to the sphere."""
    sign: Float[Tensor, "*sets n 1"] | float
    """The derivative by the other point is `sign` times that by the point."""


def measure(
    x: Float[Tensor, "*sets n d"],
    others: Float[Tensor, "*sets n d"],
    r2: Float[Tensor, "*sets n 1"],
    *,
    distance: str,
    after: Int[Tensor, "*sets n 1"] | None = None,
) -> Measured:
    r"""The distances between points of the sphere and one other each.

    .. math:: r = \lVert x - y \rVert, \quad s = \lVert x + y \rVert, \quad \theta = 2 \operatorname{atan2}(r, s),
        \quad \nabla_x r = \frac{x - y}{r}, \quad \nabla_x \theta = \frac{2 (x - y)}{r s} \simeq -\frac{2 (x + y)}{r s}

    The last two differ by a multiple of x, which is normal to the sphere. Of x - y and x + y the shorter one is taken:
    it keeps its digits from coinciding points to antipodes, and the other's length follows from r^2 + s^2 = 4.

    Args:
        x: Points.
        others: The other of each.
        r2: The squared chords between them, as far as a product can tell; NaN where there is a NaN among all others.
        distance: "chordal", "geodesic" or "squared".
        after: By how many rows the point comes after the other. Rows that coincide are then taken to be `apart`, the
            later to one side and the earlier to the other; without it they stay where they are.
    """
    if distance == "geodesic":
        far = r2 > 2
        sign = torch.where(far, x.new_ones(()), -1)
        vector = torch.addcmul(x, others, sign)
        short = vector_norm(vector, dim=-1, keepdim=True)
        if after is not None:
            _take_apart(vector, x, short, (short + far) == 0, after)
        long = (4 - short.square()).sqrt_()
        angle = torch.atan2(short, long).mul_(2)
        # Zero over zero: of a point and itself, or its antipode.
        slope = (-2 * sign / (short * long)).masked_fill_(short == 0, 0)
        turn = torch.where(far, math.pi - angle, angle).masked_fill_(r2.isnan(), math.nan)
        return Measured(turn, vector, slope, sign)
    vector = x - others
    chord = vector_norm(vector, dim=-1, keepdim=True).masked_fill_(r2.isnan(), math.nan)
    if after is not None:
        _take_apart(vector, x, chord, chord == 0, after)
    if distance == "squared":
        return Measured(chord.square_(), vector, 2.0, -1.0)
    return Measured(chord, vector, chord.reciprocal(), -1.0)


def _take_apart(
    vector: Float[Tensor, "*sets n d"],
    x: Float[Tensor, "*sets n d"],
    length: Float[Tensor, "*sets n 1"],
    coincide: Bool[Tensor, "*sets n 1"],
    after: Int[Tensor, "*sets n 1"],
) -> None:
    """Make, in place, the vectors between points that coincide `apart` long."""
    taken = apart(x.dtype)
    push_aside(vector, x, torch.copysign(coincide * taken, after))
    length.masked_fill_(coincide, taken)
