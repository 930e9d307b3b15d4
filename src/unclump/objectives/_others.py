"""Who else takes part in an objective: fixed points, weights, and the points of other processes."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unclump.distributed.ranks import Alone


@dataclass(frozen=True)
class Others:
    """What the points of this process are among. A single table without weights is the simplest case.

    Attributes:
        against: Unit points that do not move, the same on all ranks.
        weight: Of this rank's points; None for ones.
        ranks: The processes.
        is_alone: Whether there is nobody and nothing else.
    """

    against: Float[Tensor, "b m d"] | None
    weight: Float[Tensor, "b n"] | None
    ranks: Alone
    is_alone: bool

    @property
    def fixed(self) -> int:
        """How many points do not move."""
        return 0 if self.against is None else self.against.shape[1]

    @property
    def mask(self) -> Bool[Tensor, "b n"] | None:
        """Which points take part; None for all."""
        return None if self.weight is None else self.weight > 0

    @property
    def mask_with_fixed(self) -> Bool[Tensor, "b nm"] | None:
        """The same of the fixed points and those of this process."""
        if self.mask is None:
            return None
        return torch.cat([self.mask.new_ones(len(self.mask), self.fixed), self.mask], dim=1)

    def with_fixed(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b nm d"]:
        """The fixed points, and then those of this process."""
        return x if self.against is None else torch.cat([self.against, x], dim=1)

    def mass(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
        """The sum of the weights of all points, on all ranks."""
        if self.weight is None:
            return x.new_full((len(x),), float(self.ranks.total))
        return self.ranks.sum(self.weight.sum(dim=1))

    def squares(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
        """The sum of the squared weights of all points, on all ranks."""
        return self.mass(x) if self.weight is None else self.ranks.sum(self.weight.square().sum(dim=1))

    def shares(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n"] | float:
        """The part of every point here in a mean over all points; without weights, the same for all."""
        return 1 / self.ranks.total if self.weight is None else self.weight / self.mass(x).unsqueeze(1)
