"""The points of an objective, with their weights: those of the call, of its queue, and of other processes.

**Rows without a direction take no part.** A row of zeros, as `padding_idx` makes one, is treated like one that a mask
leaves out: its weight is zero, it is not a neighbour of any row, counts in no mean, and has no gradient. The same holds
in a queue and on other ranks. `among` decides this on the device, from the norms, without a synchronisation. A single
table whose other rows a fused loop of the CPU can process is handled in `_zero_rows.py` instead.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.ops.dispatch import has_native


@dataclass(eq=False)
class Others:
    """What the points of this process are compared with. A single table without weights is the simplest case.

    Attributes:
        ranks: The processes.
        table: The fixed points, which are the same on all ranks, and then those of this process, as
            `Objective.normalise` has them.
        against: The fixed points; None without any.
        scale: What `Objective.normalise` gave for the points, such as one over their norms; None for raw ones.
        mask: Which points of this process take part, those whose weight is positive; None for all.
        against_mask: Which fixed points take part; None where `mask` is, or without any.
        joined_mask: The two masks, in the order of the table, where they are parts of one tensor.
        weights: Of this process's points; None where they are ones, or zero and one as in `mask`.
        mass: The sum of the weights of all points, on all ranks; infinite where `too_few` for an objective that then
            `vanishes`. For others all points take part there, unless they have `needs_zero_rows = False`.
        fixed_mass: The sum of the weights of the fixed points.
        count: How many points take part, fixed ones at most as many as others; None without weights.
        fewest: How many the objective needs.
        is_weighted: Whether the call had weights or a mask, rather than rows without a direction.
    """

    ranks: Alone
    table: Float[Tensor, "*sets nm d"] | None = None
    against: Float[Tensor, "*sets m d"] | None = None
    scale: Float[Tensor, "*sets n 1"] | None = None
    mask: Bool[Tensor, "*sets n"] | None = None
    against_mask: Bool[Tensor, "*sets m"] | None = None
    joined_mask: Bool[Tensor, "*sets nm"] | None = None
    weights: Float[Tensor, "*sets n"] | None = None
    mass: Float[Tensor, "*sets"] | float = 0.0
    fixed_mass: Float[Tensor, "*sets"] | float = 0.0
    count: Float[Tensor, "*sets"] | None = None
    fewest: int = 0
    is_weighted: bool = False

    @property
    def is_binary(self) -> bool:
        """Whether all weights are zero or one."""
        return self.weights is None

    @property
    def weight(self) -> Float[Tensor, "*sets n"] | None:
        """The weights of this process's points, as numbers; None for ones."""
        if self.mask is None or not isinstance(self.mass, Tensor):
            return None
        return self.mask.to(self.mass.dtype) if self.weights is None else self.weights

    @property
    def factors(self) -> Float[Tensor, "*sets n"] | Bool[Tensor, "*sets n"] | None:
        """What multiplies the terms of a sum over points: the weights, or the mask, which needs no conversion."""
        return self.mask if self.weights is None else self.weights

    @property
    def too_few(self) -> Bool[Tensor, "*sets"] | None:
        """Whether weights leave fewer points than the objective needs, or none but fixed ones; None without weights."""
        return None if self.count is None else self.count < self.fewest

    @property
    def fixed(self) -> int:
        """The number of fixed rows, including those without a direction."""
        return 0 if self.against is None else self.against.shape[-2]

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
        return torch.cat([self.against_mask, self.mask], dim=-1) if self.joined_mask is None else self.joined_mask

    @property
    def weight_with_fixed(self) -> Float[Tensor, "*sets nm"] | None:
        """The weights of the fixed points, and then of those of this process."""
        return None if self.weight is None else self.after_fixed(self.weight)

    @property
    def all_factors(self) -> Float[Tensor, "*sets m"] | Bool[Tensor, "*sets m"] | None:
        """Weights or a mask: of the fixed points, and then of the points of all ranks; None for ones."""
        if self.ranks.size == 1:
            return self.mask_with_fixed if self.is_binary else self.weight_with_fixed
        if self.weight is None:
            return None
        weight = self.after_fixed(self.ranks.columns(self.weight))  # as numbers: ranks exchange no booleans
        return weight > 0 if self.is_binary else weight

    def after_fixed(self, weight: Float[Tensor, "*sets n"]) -> Float[Tensor, "*sets nm"]:
        """The weights of the fixed points, and then these."""
        fixed = self.against_weight
        return weight if fixed is None else torch.cat([fixed, weight], dim=-1)

    def with_fixed(self, x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets nm d"]:
        """The fixed points, and then those of this process."""
        return x if self.against is None else torch.cat([self.against, x], dim=-2)

    def power_sum(self, power: int) -> Float[Tensor, "*sets"] | float:
        """The sum of this power of the weights of all points, on all ranks."""
        return self.mass if self.weights is None else self.ranks.sum(self.weights.pow(power).sum(dim=-1))

    @property
    def shares(self) -> Float[Tensor, "*sets n"] | float:
        """The share of each local point in a mean over all points; without weights, the same for all."""
        if self.factors is None or isinstance(self.mass, float):
            return 1 / self.mass
        return self.factors / self.mass.unsqueeze(-1)


def among(
    objective: Any, x: Tensor, against: Tensor | None, weight: Tensor | None, ranks: Alone, *, is_binary: bool
) -> tuple[Tensor, Others]:
    """The rows as `Objective.normalise` returns them, and the points that take part.

    Args:
        objective: An `Objective`, whose file imports this one.
        x: Rows of sets, masked ones zero where the objective needs that.
        against: The queue, one for all sets or one for each.
        weight: Of the rows, as the call had them.
        ranks: The processes.
        is_binary: Whether these weights are zero or one.
    """
    is_weighted = weight is not None
    if against is not None and against.ndim < x.ndim:
        against = against.expand(*x.shape[:-2], -1, -1)
    x, table, against, scale, masks = _directed(objective, x, against, ranks)
    if weight is not None:
        weight = weight.to(x.dtype)
        if masks is None:
            masks = _Masks(weight > 0, None if against is None else x.new_ones(against.shape[:-1], dtype=torch.bool))
        elif not (is_binary and objective.needs_zero_rows):  # otherwise masked rows are zeros, and masked already
            weight = weight * masks.own
            masks = _Masks(weight > 0, masks.fixed)
    if masks is None:
        fixed = 0 if against is None else against.shape[-2]
        return x, Others(ranks, table, against, scale, mass=float(ranks.total), fixed_mass=float(fixed))
    weights, fewest = None if is_binary else weight, objective.fewest
    mass = count = ranks.sum(masks.own.sum(dim=-1, dtype=x.dtype))
    if weights is not None:
        mass, count = ranks.sum(weights.sum(dim=-1)), ranks.sum((weights != 0).sum(dim=-1, dtype=x.dtype))
    fixed_mass: Tensor | float = 0.0
    if masks.fixed is not None:
        fixed_mass = masks.fixed.sum(dim=-1, dtype=x.dtype)
        count = count + torch.minimum(count, fixed_mass)  # at least one is no fixed one
    if objective.vanishes and count is mass:
        mass = torch.threshold(count, fewest - 0.5, math.inf)
    elif objective.vanishes:
        mass = mass.masked_fill(count < fewest, math.inf)
    elif objective.needs_zero_rows:  # so that what is dropped there is finite
        too_few = (count < fewest).unsqueeze(-1)
        masks = _Masks(masks.own | too_few, None if masks.fixed is None else masks.fixed | too_few)
        weights = None if weights is None else weights.masked_fill(too_few, 1)
        mass = mass.masked_fill(too_few.squeeze(-1), ranks.total)
        if against is not None and isinstance(fixed_mass, Tensor):
            fixed_mass = fixed_mass.masked_fill(too_few.squeeze(-1), against.shape[-2])
    return x, Others(ranks, table, against, scale, *masks, weights, mass, fixed_mass, count, fewest, is_weighted)


class _Masks(NamedTuple):
    own: Bool[Tensor, "*sets n"]
    fixed: Bool[Tensor, "*sets m"] | None
    joined: Bool[Tensor, "*sets nm"] | None = None
    """Both, if they are the parts of one tensor."""


def _directed(
    objective: Any, x: Tensor, against: Tensor | None, ranks: Alone
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, _Masks | None]:
    """Normalised rows and queue in one table, the rows' scale, and a mask of rows with a direction; None for all."""
    if not objective.needs_directions:
        return x, None, against, None, None
    if against is None:
        x, scale = objective.normalise(x)
        table, masks = x, _Masks((scale != 0).squeeze(-1), None)  # NaN takes part
    elif objective.joins_queue:
        parts = against.shape[-2], x.shape[-2]
        table, scales = objective.normalise(torch.cat([against, x], dim=-2))
        against, x = table.split(parts, dim=-2)
        joined = (scales != 0).squeeze(-1)
        fixed, own = joined.split(parts, dim=-1)
        masks = _Masks(own, fixed, joined)
        scale = scales[..., parts[0] :, :]
    else:
        x, scale = objective.normalise(x)
        against, against_scale = objective.normalise(against)
        table, masks = None, _Masks((scale != 0).squeeze(-1), (against_scale != 0).squeeze(-1))
    # The compiled loops of a CPU wait for nothing: there, a table without rows of zeros needs no weights.
    is_whole = ranks.size == 1 and has_native(x) and bool(masks.own.all())
    if is_whole and (masks.fixed is None or bool(masks.fixed.all())):
        return x, table, against, scale, None
    return x, table, against, scale, masks
