r"""Objectives of lines through the origin, where a point and its antipode are equivalent."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unclump._checks import check_points
from unclump.objectives._base import Objective, check_objective


class Antipodal(nn.Module):
    r"""An objective of lines: the objective of the points together with their antipodes.

    .. math:: \mathcal{L}(x_1, \dots, x_n, -x_1, \dots, -x_n)

    It does not depend on the signs of the rows. `MaxMin` and `KoLeo` then keep every line away from the nearest other
    one, and `Energy` is the energy of gradient directions in diffusion MRI [1], up to the constant contribution of each
    point with its own antipode. Any objective of directions can be used.

    References:
        [1] Jones, Horsfield and Simmons. Optimal strategies for measuring diffusion in anisotropic systems by magnetic
        resonance imaging. Magnetic Resonance in Medicine 1999.

    Example:
        >>> lines = uc.Antipodal(uc.MaxMin())
        >>> lines(torch.tensor([[1.0, 0.0], [-0.6, 0.8]]))  # acos(0.6), not acos(-0.6)
        tensor(-0.9273)

    Six lines in three dimensions are the diagonals of the icosahedron::

        uc.disperse(uc.uniform(6, 3), uc.Antipodal(uc.KoLeo()), steps=500, lr=0.05)
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        check_objective(objective)
        if getattr(objective, "group_size", None) is not None:
            raise ValueError(
                f"expected an objective of all rows, got {objective!r}: in groups of consecutive rows, a line would "
                "not be compared with the antipodes of others; leave group_size out"
            )
        self.objective = objective

    def forward(
        self,
        embeddings: Float[Tensor, "*sets n d"],
        *,
        against: Float[Tensor, "*sets m d"] | Float[Tensor, "m d"] | None = None,
        weight: Float[Tensor, "*sets n"] | Int[Tensor, "*sets n"] | Bool[Tensor, "*sets n"] | None = None,
    ) -> Float[Tensor, "*sets"]:
        """The objective of the lines, with an optional queue of other lines; `weight` has a mask or weight per line."""
        check_points(embeddings, at_least=0)
        if against is not None:
            check_points(against, at_least=0)
            against = torch.cat([against, -against], dim=-2)
        if isinstance(weight, Tensor):
            weight = torch.cat([weight, weight], dim=-1)
        value: Tensor = self.objective(torch.cat([embeddings, -embeddings], dim=-2), against=against, weight=weight)
        return value
