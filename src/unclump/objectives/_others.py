"""Who else takes part in an objective: fixed points, weights, and the points of other processes."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from unclump.distributed.ranks import Alone


@dataclass(frozen=True)
class Others:
    """What the points of this process are among. A single table without weights is the simplest case.

    Attributes:
        against: Unit points that do not move, the same on all ranks.
        weight: Of this rank's points; None for ones.
        ranks: The processes.
        is_alone: Whether there are no fixed points, weights and other processes.
    """

    against: Float[Tensor, "*sets m d"] | None
    weight: Float[Tensor, "*sets n"] | None
    ranks: Alone
    is_alone: bool

    @property
    def fixed(self) -> int:
        """How many points do not move."""
        return 0 if self.against is None else self.against.shape[-2]

    @property
    def mask(self) -> Bool[Tensor, "*sets n"] | None:
        """Which points take part; None for all."""
        return None if self.weight is None else self.weight > 0

    @property
    def mask_with_fixed(self) -> Bool[Tensor, "*sets nm"] | None:
        """The same of the fixed points and those of this process."""
        return None if self.mask is None else pad(self.mask, (self.fixed, 0), value=True)

    def with_fixed(self, x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets nm d"]:
        """The fixed points, and then those of this process."""
        return x if self.against is None else torch.cat([self.against, x], dim=-2)

    @property
    def mass(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the weights of all points, on all ranks."""
        return float(self.ranks.total) if self.weight is None else self.ranks.sum(self.weight.sum(dim=-1))

    @property
    def squares(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the squared weights of all points, on all ranks."""
        return self.mass if self.weight is None else self.ranks.sum(self.weight.square().sum(dim=-1))

    @property
    def shares(self) -> Float[Tensor, "*sets n"] | float:
        """The part of every point here in a mean over all points; without weights, the same for all."""
        if self.weight is None or isinstance(self.mass, float):
            return 1 / self.mass
        return self.weight / self.mass.unsqueeze(-1)
