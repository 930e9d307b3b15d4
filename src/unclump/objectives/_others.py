"""Who takes part in an objective: its points, fixed ones, and those of other processes, each with its weight.

**Rows without a direction take no part.** A row of zeros, as `padding_idx` makes one, is treated like one that a mask
leaves out: its weight is zero, it is no other's neighbour, counts in no mean, and has no gradient. The same holds in a
queue and on other ranks. `among` decides this on the device, from the norms: nothing waits for its values. A single
table of which a fused loop of the CPU can do the other rows does not come here: see `_zero_rows.py`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unclump._precision import as_sets
from unclump.distributed.ranks import Alone
from unclump.ops.dispatch import has_native


@dataclass(frozen=True)
class Others:
    """What the points of this process are among. A single table without weights is the simplest case.

    Attributes:
        ranks: The processes.
        against: Points that do not move, the same on all ranks, as `Objective.normalise` has them.
        scale: What `Objective.normalise` gave for the points, such as one over their norms; None for raw ones.
        weight: Of this rank's points; None for ones. Where there are too few points all weights are ones, unless the
            objective has `needs_zero_rows = False`.
        against_weight: Of the fixed points, zero or one; None where `weight` is.
        mass: The sum of the weights of all points, on all ranks.
        too_few: Whether weights leave fewer points than the objective needs, or none here; None without weights.
        is_binary: Whether all weights are zero or one.
        is_weighted: Whether the call had weights or a mask, rather than rows without a direction.
    """

    ranks: Alone
    against: Float[Tensor, "*sets m d"] | None = None
    scale: Float[Tensor, "*sets n 1"] | None = None
    weight: Float[Tensor, "*sets n"] | None = None
    against_weight: Float[Tensor, "*sets m"] | None = None
    mass: Float[Tensor, "*sets"] | float = 0.0
    too_few: Bool[Tensor, "*sets"] | None = None
    is_binary: bool = True
    is_weighted: bool = False

    @property
    def fixed(self) -> int:
        """How many rows do not move, those without a direction among them."""
        return 0 if self.against is None else self.against.shape[-2]

    @property
    def fixed_mass(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the weights of the fixed points."""
        return float(self.fixed) if self.against_weight is None else self.against_weight.sum(dim=-1)

    @property
    def mass_with_fixed(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the weights of all points, on all ranks, and the fixed ones."""
        return self.mass if self.against is None else self.mass + self.fixed_mass

    @property
    def mask(self) -> Bool[Tensor, "*sets n"] | None:
        """Which points take part; None for all."""
        return None if self.weight is None else self.weight > 0

    @property
    def against_mask(self) -> Bool[Tensor, "*sets m"] | None:
        """Which fixed points take part; None for all."""
        return None if self.against_weight is None else self.against_weight > 0

    @property
    def mask_with_fixed(self) -> Bool[Tensor, "*sets nm"] | None:
        """The masks of the fixed points and of those of this process."""
        weight = self.weight_with_fixed
        return None if weight is None else weight > 0

    @property
    def weight_with_fixed(self) -> Float[Tensor, "*sets nm"] | None:
        """The weights of the fixed points, and then of those of this process."""
        return None if self.weight is None else self.after_fixed(self.weight)

    def after_fixed(self, weight: Float[Tensor, "*sets n"]) -> Float[Tensor, "*sets nm"]:
        """The weights of the fixed points, and then these."""
        return weight if self.against_weight is None else torch.cat([self.against_weight, weight], dim=-1)

    def with_fixed(self, x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets nm d"]:
        """The fixed points, and then those of this process."""
        return x if self.against is None else torch.cat([self.against, x], dim=-2)

    def power_sum(self, power: int) -> Float[Tensor, "*sets"] | float:
        """The sum of this power of the weights of all points, on all ranks."""
        if self.weight is None or self.is_binary:
            return self.mass
        return self.ranks.sum(self.weight.pow(power).sum(dim=-1))

    @property
    def shares(self) -> Float[Tensor, "*sets n"] | float:
        """The part of every point here in a mean over all points; without weights, the same for all."""
        if self.weight is None or isinstance(self.mass, float):
            return 1 / self.mass
        return self.weight / self.mass.unsqueeze(-1)


def among(
    objective: Any, x: Tensor, against: Tensor | None, weight: Tensor | None, ranks: Alone, *, is_binary: bool
) -> tuple[Tensor, Others]:
    """The rows as `Objective.normalise` has them, and who takes part.

    Args:
        objective: An `Objective`, whose file imports this one.
        x: Rows of sets, masked ones zero where the objective needs that.
        against: The queue, one for all sets or one for each.
        weight: Of the rows, as the call had them.
        ranks: The processes.
        is_binary: Whether these weights are zero or one.
    """
    scale = directed = fixed_directed = against_weight = None
    is_weighted, sets = weight is not None, x.shape[:-2]
    if objective.needs_directions:
        x, scale = objective.normalise(x)
        directed = (scale != 0).squeeze(-1)  # NaN takes part
        if against is not None:
            against, fixed_scale = objective.normalise(against)
            fixed_directed = (fixed_scale != 0).squeeze(-1)
        # The compiled loops of a CPU wait for nothing: there, a table without rows of zeros needs no weights.
        is_whole = ranks.size == 1 and has_native(x) and bool(directed.all())
        if is_whole and (fixed_directed is None or bool(fixed_directed.all())):
            directed = fixed_directed = None
    if against is not None:
        against = as_sets(against.expand(*sets, -1, -1))
    weight = None if weight is None else weight.to(x.dtype)
    if directed is not None:
        weight = directed.to(x.dtype) if weight is None else directed * weight
    if weight is None:
        return x, Others(ranks, against, scale, mass=float(ranks.total))
    if against is not None:
        ones = x.new_ones(against.shape[:-1])
        against_weight = ones if fixed_directed is None else fixed_directed.to(x.dtype).expand(ones.shape)
    mass = count = ranks.sum(weight.sum(dim=-1))
    if not is_binary:
        count = ranks.sum((weight != 0).to(x.dtype).sum(dim=-1))
    too_few = count < objective.fewest
    if against_weight is not None:
        too_few = (count == 0) | (count + against_weight.sum(dim=-1) < objective.fewest)
    if objective.needs_zero_rows:  # so that what is dropped there is finite
        weight, mass = weight.masked_fill(too_few.unsqueeze(-1), 1), mass.masked_fill(too_few, ranks.total)
        if against_weight is not None:
            against_weight = against_weight.masked_fill(too_few.unsqueeze(-1), 1)
    return x, Others(ranks, against, scale, weight, against_weight, mass, too_few, is_binary, is_weighted)
