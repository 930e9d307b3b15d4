r"""What the objectives of nearest neighbours share: the search, and the mean of a term of the distance."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_choice, check_count
from unclump._precision import apart, take_rows
from unclump.distributed.gathering import nearest_among, nearest_in_groups, select_among
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import tangent
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops import faiss_search
from unclump.ops.measure import Measured, measure
from unclump.ops.native.nearest import fused_mean_of_nearest
from unclump.ops.project import project


class _Near(NamedTuple):
    """The k nearest of every point."""

    numbers: Int[Tensor, "*sets nk 1"]
    """Through all ranks; -1 for fixed points."""
    measured: Measured
    parts: Float[Tensor, "*sets nk 1"] | float | None
    """The part of each in the value of its point; None for one."""
    values: Float[Tensor, "*sets n 1"]
    """For every point the distance to its nearest, or the logarithm; the mean over k of them."""


class OfNeighbours(Objective):
    """A mean over points of the distances to their nearest, or of the logarithms."""

    choices = ("k", "group_size", "distance", "neighbours")
    supports_weights = True
    supports_second_derivatives = True
    vanishes = True
    distances: tuple[str, ...]
    logarithm = False
    """Whether the mean is that of the distances' logarithms."""

    recall = 1.0
    """The part of the nearest neighbours that the latest search found, measured on a sample."""

    def __init__(self, k: int, group_size: int | None, distance: str, neighbours: str, gather: Gather) -> None:
        super().__init__(gather=gather)
        check_count("k", k)
        if group_size is not None:
            check_count("group_size", group_size, at_least=2)
            if group_size <= k:
                raise ValueError(
                    f"expected group_size > k, got group_size={group_size} and k={k}: a point of such a group has "
                    f"{group_size - 1} others; choose a smaller k or larger groups"
                )
        check_choice("distance", distance, self.distances)
        check_choice("neighbours", neighbours, faiss_search.NEIGHBOURS)
        if neighbours != "exact" and (k > 1 or group_size is not None):
            raise ValueError(
                f"expected neighbours='exact' with k > 1 or group_size, got {neighbours!r}, which looks for the one "
                "nearest through a whole table"
            )
        self.k, self.group_size, self.distance, self.neighbours = k, group_size, distance, neighbours
        self.has_fused = self.has_fused and neighbours == "exact" and k == 1 and group_size is None

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        fused = fused_mean_of_nearest(
            embeddings, distance=self.distance, logarithm=self.logarithm, needs_grad=needs_grad
        )
        return None if fused is None else (fused[0], None if fused[1] is None else Pull(fused[1]))

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        shares, near = others.shares, self._measure(x, others)
        shares = shares if isinstance(shares, float) else shares.unsqueeze(-1)
        value = others.ranks.sum((near.values * shares).sum(dim=(-2, -1))).neg()
        return value, self._pull(x, others, near, shares) if needs_grad else None

    def terms(
        self,
        x: Float[Tensor, "*sets n d"],
        others: Others,
        draw: None,
        left: Float[Tensor, "*sets n"] | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        near = self._measure(x, others)
        return -near.values.squeeze(-1), None if left is None else self._pull(x, others, near, left.unsqueeze(-1))

    def _measure(self, x: Float[Tensor, "*sets n d"], others: Others) -> _Near:
        """The nearest of every point, and the distances to them."""
        points, numbers, r2 = self._search(x, others)
        first, n = others.ranks.before, x.shape[-2]
        own = torch.arange(first, first + n, device=x.device).unsqueeze(-1)
        after, parts = self._each(own) - numbers, self._parts(r2, others)
        measured = measure(self._each(x), points, r2, distance=self.distance, logarithm=self.logarithm, after=after)
        values = measured.value if parts is None else self._of_rows(_part_of(measured.value, parts))
        return _Near(numbers, measured, parts, values)

    def _pull(
        self, x: Float[Tensor, "*sets n d"], others: Others, near: _Near, left: Float[Tensor, "*sets n 1"] | float
    ) -> Pull:
        """The gradient of minus the sum of the points' values, weighted by `left`."""
        (_, vector, slope, side), numbers = near.measured, near.numbers
        slope = slope * (left if isinstance(left, float) else self._each(left))
        slope = slope if near.parts is None else _part_of(slope, near.parts)
        if others.against is None and isinstance(side, float):
            pushes = vector.mul_(slope)
            gradient = pushes.neg()
        else:
            gradient, slope = vector * -slope, slope * side
            pushes = vector.mul_(slope if others.against is None else slope * (numbers >= 0))  # fixed ones do not move
            numbers = numbers.clamp_min(0)
        gradient = others.ranks.add_back(self._of_rows(gradient), numbers.squeeze(-1), pushes)
        return Pull(tangent(x, gradient), others.scale)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: None) -> Float[Tensor, "*sets"]:
        x, n = project(embeddings), embeddings.shape[-2]
        points, numbers, r2 = self._search(x.detach(), others)
        points = torch.where(numbers < 0, points, take_rows(x, numbers.squeeze(-1).clamp_min(0)))
        x = self._each(x)
        first = others.ranks.before
        own = torch.arange(first, first + n, device=x.device).unsqueeze(-1)
        after = self._each(own) - numbers
        difference = x - points
        pushed = measure(x.detach(), points.detach(), r2, distance="squared", after=after).vector
        coincide = (difference == 0).all(dim=-1, keepdim=True)
        chord = vector_norm(torch.where(coincide, pushed, difference), dim=-1, keepdim=True)
        # Of rows that coincide, the distance that they are taken to have, with the push as its slope.
        between = apart(x.dtype) + (difference * pushed).sum(dim=-1, keepdim=True) / apart(x.dtype)
        chord = torch.where(coincide, between, chord)
        if self.distance == "squared":
            chord = chord.square()
        elif self.distance == "geodesic":
            chord = 2 * torch.atan2(chord, vector_norm(x + points, dim=-1, keepdim=True))
        values = torch.log(chord) if self.logarithm else chord
        values = self._of_rows(_part_of(values, self._parts(r2, others))).squeeze(-1)
        return -(values * others.shares).sum(dim=-1)

    def _search(
        self, x: Float[Tensor, "*sets n d"], others: Others
    ) -> tuple[Float[Tensor, "*sets nk d"], Int[Tensor, "*sets nk 1"], Float[Tensor, "*sets nk 1"] | None]:
        """Find the k nearest of every point: coordinates, row numbers over all ranks (-1 if fixed), and squared chords.

        The chords are None where `measure` needs none.
        """
        if self.k == others.ranks.size == 1 and self.group_size is None and self.neighbours == "exact":
            table = None if others.against is None else others.table
            return select_among(x, table, mask=others.mask_with_fixed, needs_chords=self.distance == "geodesic")
        self._check_others(others)
        if self.group_size is not None:
            return nearest_in_groups(x, others.ranks, k=self.k, group_size=self.group_size, mask=others.mask)
        if self.neighbours == "exact":
            fixed, mask, fixed_mask, spare = others.against, others.mask, others.against_mask, 0 if self.k == 1 else 1
            return nearest_among(x, others.ranks, k=self.k, fixed=fixed, mask=mask, fixed_mask=fixed_mask, spare=spare)
        rows = torch.arange(len(x), device=x.device) if others.mask is None else others.mask.nonzero().squeeze(1)
        near, self.recall = faiss_search.nearest(x[rows])
        near = rows.new_zeros(len(x)).index_copy_(0, rows, rows[near])
        points = x[near]
        return points, near.unsqueeze(-1), (x - points).square().sum(dim=-1, keepdim=True)

    def _check_others(self, others: Others) -> None:
        """Raise if the points cannot be divided into groups, or are too few for k neighbours."""
        rows = others.ranks.total
        if self.neighbours != "exact" and (others.against is not None or others.is_weighted or others.ranks.size > 1):
            raise ValueError(
                f"expected neighbours='exact' with against, weight or gather, got {self.neighbours!r}, "
                "which looks through one table only"
            )
        if self.group_size is None:
            if rows + others.fixed <= self.k:
                raise ValueError(
                    f"expected more than k={self.k} points, got {rows + others.fixed}: every one has "
                    f"{rows + others.fixed - 1} others; choose a smaller k, or pass more rows"
                )
            return
        if others.against is not None or others.is_weighted:
            raise ValueError(
                "expected neither against nor weight with group_size, got "
                f"{'weight' if others.is_weighted else 'against'}: groups are of whole batches; leave group_size out"
            )
        if rows % self.group_size != 0:
            raise ValueError(
                f"expected a multiple of group_size={self.group_size} rows, got {rows}; drop the last batch, or "
                "choose groups of a size that divides it"
            )

    def _parts(
        self, r2: Float[Tensor, "*sets nk 1"] | None, others: Others
    ) -> Float[Tensor, "*sets nk 1"] | float | None:
        """The share of each neighbour in the term of a point: the same for all unmasked ones; None for one.

        In a group, a mask may leave a point without others: then its term is zero.
        """
        if self.k == 1 and (others.mask is None or self.group_size is None):
            return None
        if others.mask is None:
            return 1 / self.k
        assert r2 is not None
        exists = (r2 != torch.inf).to(r2.dtype)
        return exists / self._each(self._of_rows(exists).clamp_min(1))

    def _each(self, x: Shaped[Tensor, "*sets n d"]) -> Shaped[Tensor, "*sets nk d"]:
        """Every row k times, once for each of its nearest."""
        return x if self.k == 1 else x.repeat_interleave(self.k, dim=-2)

    def _of_rows(self, x: Float[Tensor, "*sets nk d"]) -> Float[Tensor, "*sets n d"]:
        """For every point, the sum over its nearest."""
        return x if self.k == 1 else x.view(*x.shape[:-2], x.shape[-2] // self.k, self.k, x.shape[-1]).sum(dim=-2)


def _part_of(term: Float[Tensor, "*shape"] | float, part: Float[Tensor, "*shape"] | float | None) -> Any:
    """The part of a term; zero where the part is, whatever the term of a neighbour that does not exist may be."""
    if part is None:
        return term
    return term * part if isinstance(part, float) else torch.where(part > 0, term * part, 0)
