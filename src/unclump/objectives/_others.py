"""Who takes part in an objective: its points, fixed ones, and those of other processes, each with its weight.

**Rows without a direction take no part.** A row of zeros, as `padding_idx` makes one, is treated like one that a mask
leaves out: its weight is zero, it is no other's neighbour, counts in no mean, and has no gradient. The same holds in a
queue and on other ranks. `among` decides this on the device, from the norms: nothing waits for its values. A single
table of which a fused loop of the CPU can do the other rows does not come here: see `_zero_rows.py`.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unclump._precision import as_sets
from unclump.distributed.ranks import Alone
from unclump.ops.dispatch import has_native


@dataclass(eq=False)
class Others:
    """What the points of this process are among. A single table without weights is the simplest case.

    Attributes:
        ranks: The processes.
        against: Points that do not move, the same on all ranks, as `Objective.normalise` has them.
        scale: What `Objective.normalise` gave for the points, such as one over their norms; None for raw ones.
        weight: Of this rank's points; None for ones.
        mask: Which of them take part, those whose weight is positive; None for all.
        against_mask: Which fixed points take part; None where `mask` is.
        mass: The sum of the weights of all points, on all ranks; infinite where `too_few` for an objective that then
            `vanishes`. For others all points take part there, unless they have `needs_zero_rows = False`.
        count: How many points take part, fixed ones at most as many as others; None without weights.
        fewest: How many the objective needs.
        is_binary: Whether all weights are zero or one.
        is_weighted: Whether the call had weights or a mask, rather than rows without a direction.
    """

    ranks: Alone
    against: Float[Tensor, "*sets m d"] | None = None
    scale: Float[Tensor, "*sets n 1"] | None = None
    weight: Float[Tensor, "*sets n"] | None = None
    mask: Bool[Tensor, "*sets n"] | None = None
    against_mask: Bool[Tensor, "*sets m"] | None = None
    mass: Float[Tensor, "*sets"] | float = 0.0
    count: Float[Tensor, "*sets"] | None = None
    fewest: int = 0
    is_binary: bool = True
    is_weighted: bool = False

    @property
    def too_few(self) -> Bool[Tensor, "*sets"] | None:
        """Whether weights leave fewer points than the objective needs, or none but fixed ones; None without weights."""
        return None if self.count is None else self.count < self.fewest

    @property
    def fixed(self) -> int:
        """How many rows do not move, those without a direction among them."""
        return 0 if self.against is None else self.against.shape[-2]

    @property
    def fixed_mass(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the weights of the fixed points."""
        if self.against_mask is None or self.weight is None:
            return float(self.fixed)
        return self.against_mask.sum(dim=-1, dtype=self.weight.dtype)

    @property
    def mass_with_fixed(self) -> Float[Tensor, "*sets"] | float:
        """The sum of the weights of all points, on all ranks, and the fixed ones."""
        return self.mass if self.against is None else self.mass + self.fixed_mass

    @property
    def against_weight(self) -> Float[Tensor, "*sets m"] | None:
        """The weights of the fixed points, zero or one; None where `weight` is."""
        return None if self.against_mask is None or self.weight is None else self.against_mask.to(self.weight.dtype)

    @property
    def mask_with_fixed(self) -> Bool[Tensor, "*sets nm"] | None:
        """The masks of the fixed points and of those of this process."""
        if self.mask is None or self.against_mask is None:
            return self.mask
        return torch.cat([self.against_mask, self.mask], dim=-1)

    @property
    def weight_with_fixed(self) -> Float[Tensor, "*sets nm"] | None:
        """The weights of the fixed points, and then of those of this process."""
        return None if self.weight is None else self.after_fixed(self.weight)

    def after_fixed(self, weight: Float[Tensor, "*sets n"]) -> Float[Tensor, "*sets nm"]:
        """The weights of the fixed points, and then these."""
        fixed = self.against_weight
        return weight if fixed is None else torch.cat([fixed, weight], dim=-1)

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
    is_weighted, sets = weight is not None, x.shape[:-2]
    x, scale, mask, against, against_mask = _directed(objective, x, against, ranks)
    if against is not None:
        against = as_sets(against.expand(*sets, -1, -1))
    if weight is not None:
        weight = weight.to(x.dtype)
        if mask is None:
            mask = weight > 0
        elif not (is_binary and objective.needs_zero_rows):  # otherwise masked rows are zeros, and masked already
            weight = weight * mask
            mask = weight > 0
    if mask is None:
        return x, Others(ranks, against, scale, mass=float(ranks.total))
    if weight is None or is_binary:
        weight = mask.to(x.dtype)
    mass = count = ranks.sum(weight.sum(dim=-1))
    if not is_binary:
        count = ranks.sum((weight != 0).to(x.dtype).sum(dim=-1))
    if against is not None:
        against_mask = x.new_ones((), dtype=torch.bool) if against_mask is None else against_mask
        against_mask = against_mask.expand(against.shape[:-1])
        count = count + torch.minimum(count, against_mask.sum(dim=-1, dtype=x.dtype))  # at least one is no fixed one
    if objective.vanishes and count is mass:
        mass = torch.threshold(count, objective.fewest - 0.5, math.inf)
    elif objective.vanishes:
        mass = mass.masked_fill(count < objective.fewest, math.inf)
    elif objective.needs_zero_rows:  # so that what is dropped there is finite
        too_few = count < objective.fewest
        mask, weight = mask | too_few.unsqueeze(-1), weight.masked_fill(too_few.unsqueeze(-1), 1)
        mass = mass.masked_fill(too_few, ranks.total)
        against_mask = None if against_mask is None else against_mask | too_few.unsqueeze(-1)
    fewest = objective.fewest
    return x, Others(ranks, against, scale, weight, mask, against_mask, mass, count, fewest, is_binary, is_weighted)


def _directed(
    objective: Any, x: Tensor, against: Tensor | None, ranks: Alone
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """The rows normalised, with their scale, the queue, and for both which have a direction; None for all."""
    if not objective.needs_directions:
        return x, None, None, against, None
    x, scale = objective.normalise(x)
    mask, against_mask = (scale != 0).squeeze(-1), None  # NaN takes part
    if against is not None:
        against, against_scale = objective.normalise(against)
        against_mask = (against_scale != 0).squeeze(-1)
    # The compiled loops of a CPU wait for nothing: there, a table without rows of zeros needs no weights.
    is_whole = ranks.size == 1 and has_native(x) and bool(mask.all())
    if is_whole and (against_mask is None or bool(against_mask.all())):
        return x, scale, None, against, None
    return x, scale, mask, against, against_mask
