r"""What the objectives of nearest neighbours share: the search, and the mean of a term of the distance."""

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_choice, check_count
from unclump._precision import take_rows
from unclump.distributed.gathering import nearest_among, nearest_in_groups, select_among
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import tangent
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops import faiss_search
from unclump.ops.measure import measure
from unclump.ops.native.nearest import fused_mean_of_nearest
from unclump.ops.project import project


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
        shares = others.shares
        terms, pull = self.terms(x, others, draw, shares if needs_grad else None)
        return others.ranks.sum((terms * shares).sum(dim=-1)), pull

    def terms(
        self,
        x: Float[Tensor, "*sets n d"],
        others: Others,
        draw: None,
        left: Float[Tensor, "*sets n"] | float | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        points, numbers, r2 = self._search(x, others)
        after, k, parts = self._after(numbers, others), self.k, self._parts(r2, others)
        measured = measure(x if k == 1 else self._each(x), points, r2, distance=self.distance, after=after)
        terms = self._term(measured.distance)
        terms = (terms if parts is None else self._of_rows(_part_of(terms, parts))).squeeze(-1)
        if left is None:
            return terms, None
        slope = measured.slope / measured.distance if self.logarithm else measured.slope
        slope = slope * (left if isinstance(left, float) else self._each(left.unsqueeze(-1)))
        slope = slope if parts is None else _part_of(slope, parts)
        of_others = measured.side
        if others.against is not None:
            of_others = of_others * (numbers >= 0).to(x.dtype)  # which a number times a mask would not have
            numbers = numbers.clamp_min(0)
        if isinstance(of_others, Tensor):
            gradient, pushes = measured.vector * -slope, measured.vector.mul_(slope * of_others)
        else:
            pushes = measured.vector.mul_(slope)
            gradient = pushes.neg()
        gradient = self._of_rows(gradient)
        gradient = others.ranks.add_back(gradient, numbers.squeeze(-1), pushes)
        return terms, Pull(tangent(x, gradient), others.scale)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: None) -> Float[Tensor, "*sets"]:
        x = project(embeddings)
        points, numbers, r2 = self._search(x.detach(), others)
        points = torch.where(numbers < 0, points, take_rows(x, numbers.squeeze(-1).clamp_min(0)))
        x = self._each(x)
        difference, after = x - points, self._after(numbers, others)
        taken_apart = measure(x.detach(), points.detach(), r2, distance="squared", after=after).vector
        chord = vector_norm(difference + (taken_apart - difference.detach()), dim=-1, keepdim=True)
        if self.distance == "squared":
            chord = chord.square()
        elif self.distance == "geodesic":
            chord = 2 * torch.atan2(chord, vector_norm(x + points, dim=-1, keepdim=True))
        terms = self._of_rows(_part_of(self._term(chord), self._parts(r2, others))).squeeze(-1)
        return (terms * others.shares).sum(dim=-1)

    def _term(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What is averaged, of the distance of every point to its nearest."""
        return torch.log(distance).neg_() if self.logarithm else -distance

    def _search(
        self, x: Float[Tensor, "*sets n d"], others: Others
    ) -> tuple[Float[Tensor, "*sets nk d"], Int[Tensor, "*sets nk 1"], Float[Tensor, "*sets nk 1"] | None]:
        """The k nearest of every point: where, their numbers through all ranks, -1 if fixed, and squared chords.

        The chords are None where `measure` needs none.
        """
        self._check_others(others)
        if self.group_size is not None:
            return nearest_in_groups(x, others.ranks, k=self.k, group_size=self.group_size, mask=others.mask)
        if self.neighbours == "exact":
            fixed, mask, fixed_mask, ranks = others.against, others.mask, others.against_mask, others.ranks
            if self.k == ranks.size == 1:
                needs_chords = self.distance == "geodesic"
                return select_among(x, fixed=fixed, mask=mask, fixed_mask=fixed_mask, needs_chords=needs_chords)
            spare = 0 if self.k == 1 else 1
            return nearest_among(x, ranks, k=self.k, fixed=fixed, mask=mask, fixed_mask=fixed_mask, spare=spare)
        rows = torch.arange(len(x), device=x.device) if others.mask is None else others.mask.nonzero().squeeze(1)
        near, self.recall = faiss_search.nearest(x[rows])
        near = rows.new_zeros(len(x)).index_copy_(0, rows, rows[near])
        points = x[near]
        return points, near.unsqueeze(-1), (x - points).square().sum(dim=-1, keepdim=True)

    def _check_others(self, others: Others) -> None:
        """Refuse points that do not make groups, or are fewer than are looked for."""
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

    def _after(self, numbers: Int[Tensor, "*sets nk 1"], others: Others) -> Int[Tensor, "*sets nk 1"]:
        """By how many rows a point comes after each of its nearest, which have these numbers."""
        first, n = others.ranks.before, numbers.shape[-2] // self.k
        return self._each(torch.arange(first, first + n, device=numbers.device).unsqueeze(-1)) - numbers

    def _parts(
        self, r2: Float[Tensor, "*sets nk 1"] | None, others: Others
    ) -> Float[Tensor, "*sets nk 1"] | float | None:
        """The part of each of its nearest in the term of a point: the same for all that a mask leaves; None is one.

        In a group, a mask may leave a point without others: then its term is zero.
        """
        if self.k == 1 and (others.weight is None or self.group_size is None):
            return None
        if others.weight is None:
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
