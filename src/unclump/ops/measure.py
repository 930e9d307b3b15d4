r"""Distances to other points as a loss, with the gradient: what `MaxMin`, `KoLeo` and `Lloyd` are made of.

The other points are selected without gradient; only the distances to them are differentiated.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import apart, take_apart


class Measured(NamedTuple):
    """Distances between points and one other each, or their logarithms, and the derivatives by both."""

    value: Float[Tensor, "*sets n 1"]
    vector: Float[Tensor, "*sets n d"]
    slope: Float[Tensor, "*sets n 1"] | Float[Tensor, ""]
    """The derivative of the value by the point is `slope * vector`, up to a part that is normal to the sphere."""
    side: Float[Tensor, "*sets n 1"] | float
    """The derivative by the other point is minus `side` times that by the point."""


def measure(
    x: Float[Tensor, "*sets n d"],
    others: Float[Tensor, "*sets n d"],
    r2: Float[Tensor, "*sets n 1"] | None,
    *,
    distance: str,
    logarithm: bool = False,
    after: Int[Tensor, "*sets n 1"] | None = None,
) -> Measured:
    r"""The distances between points of the sphere and one other each.

    .. math:: r = \lVert x - y \rVert, \quad \cos \theta = 1 - r^2 / 2, \quad \sin \theta = r \sqrt{1 - r^2 / 4},
        \quad \nabla_x r = \frac{x - y}{r}, \quad \nabla_x \theta = \frac{x - y}{\sin \theta}
        \simeq -\frac{x + y}{\sin \theta}

    The last two differ by a multiple of x, which is normal to the sphere. Of x - y and x + y the shorter one is taken,
    which keeps its digits from coinciding points to antipodes; the angle between x and -y has the same sine and minus
    the cosine.

    Args:
        x: Points.
        others: The other of each.
        r2: The squared chords between them, as far as a product can tell; NaN where there is a NaN among all others.
            None for chords if such others are those measured.
        distance: "chordal", "geodesic" or "squared".
        logarithm: Whether the value is the logarithm of the distance; not of a squared one.
        after: By how many rows the point comes after the other. Rows that coincide are then taken to be `apart`, and
            pushed, the later to one side and the earlier to the other; without it they stay where they are.
    """
    if distance == "geodesic":
        assert r2 is not None
        cosine = 2 - r2  # twice, roughly: its sign counts
        side = torch.copysign(x.new_ones(()), cosine)
        vector = torch.addcmul(x, others, side, value=-1)
        short = vector_norm(vector, dim=-1, keepdim=True)
        if after is not None:
            take_apart(vector, x, short, short == side - 1, after)
        q = short.square()
        # At least as large as the root of the smallest square: the slope times the vector is at most one.
        sine = torch.rsub(q, 1, alpha=0.25).sqrt_().mul_(short).clamp_min_(apart(x.dtype) ** 3)
        angle = torch.atan2(sine, torch.copysign(torch.rsub(q, 1, alpha=0.5), cosine))
        angle.masked_fill_(r2.isnan(), math.nan)
        if logarithm:
            return Measured(angle.log(), vector, side / sine.mul_(angle), side)
        return Measured(angle, vector, side / sine, side)
    vector = x - others
    chord = vector_norm(vector, dim=-1, keepdim=True)
    if r2 is not None:
        chord.masked_fill_(r2.isnan(), math.nan)
    if after is not None:
        take_apart(vector, x, chord, chord == 0, after)
    if distance == "squared":
        return Measured(chord.square_(), vector, chord.new_full((), 2.0), 1.0)
    return Measured(chord.log(), vector, chord.pow(-2), 1.0) if logarithm else Measured(chord, vector, 1 / chord, 1.0)
