"""What all objectives have in common: the door, the projection, who else takes part, and the way they print."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unclump._checks import check_choice, check_points, check_same_dimension
from unclump.distributed.ranks import Alone, Gather, Ranks, check_gather, louder, rows_here, shown
from unclump.geometry.sphere import project
from unclump.ops.one_pass import Fused, Plain, in_one_pass, possible


@dataclass(frozen=True)
class Others:
    """Who takes part beside the points of this process, and how much each of these counts."""

    against: Float[Tensor, "m d"] | None
    """Points that are kept away from and do not move: the same on all ranks."""
    weight: Float[Tensor, " n"] | None
    """Of this rank's points; None for ones."""
    ranks: Alone
    """The processes."""

    @property
    def fixed(self) -> int:
        """How many points do not move."""
        return 0 if self.against is None else len(self.against)

    def mean(self, terms: Float[Tensor, " n"]) -> Float[Tensor, ""]:
        """The weighted mean of one term for each point of every rank."""
        if self.weight is None:
            return self.ranks.sum(terms.sum()) / self.ranks.total
        return self.ranks.sum(self.weight @ terms) / self.mass(terms)

    def mass(self, like: Tensor) -> Tensor:
        """The sum of all points' weights."""
        if self.weight is None:
            return like.new_tensor(float(self.ranks.total))
        return self.ranks.sum(self.weight.sum())

    def with_fixed(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "nm d"], Float[Tensor, " nm"] | None]:
        """On the first rank the fixed points and then its own, on the others their own; and the weights of all."""
        if self.against is None or self.ranks.rank > 0:
            return x, self.weight
        weight = None if self.weight is None else torch.cat([x.new_ones(self.fixed), self.weight])
        return torch.cat([self.against, x]), weight


class Objective(nn.Module):
    """A scalar of raw embeddings, lower where they are more dispersed. They are projected onto the sphere first.

    Args:
        gather: True, or a `torch.distributed` process group: the points of all its ranks take part, and gradients are
            right after their average over ranks, as DDP takes it. `Shards()` for the rows of a table that is spread
            over ranks, whose gradients stay where they are. See the page on many processes.
    """

    choices: tuple[str, ...] = ()
    """The names of the attributes that were chosen at birth."""

    of_weights = False
    """Whether points can count more or less; where not, they can be left out."""

    def __init__(self, *, gather: Gather = False) -> None:
        super().__init__()
        check_gather(gather)
        self.gather = gather

    def forward(
        self,
        embeddings: Float[Tensor, "n d"],
        *,
        against: Float[Tensor, "m d"] | None = None,
        weight: Float[Tensor, " n"] | Int[Tensor, " n"] | Bool[Tensor, " n"] | None = None,
        reduction: str = "mean",
    ) -> Float[Tensor, ""] | Float[Tensor, " n"]:
        """The objective of the embeddings, alone or in the company of others.

        Args:
            embeddings: Of shape (n, d), of any norm.
            against: A queue of other embeddings, which do not move: no gradient flows to them. Objectives that are a
                mean over points remain one over the embeddings, and look for each one's others among both;
                those of the set as a whole are of both together.
            weight: A mask of shape (n,), False for padding; or numbers that are not negative, where zero is False.
                The result is that without the masked rows.
            reduction: "mean" is the objective. "none" are its terms, one a row: those whose weighted mean it is, or
                for `Sliced` the sum; zero for masked rows.
        """
        if self.gather is False and against is None and weight is None and reduction == "mean":
            return self.alone(embeddings)
        return self._among(embeddings, against, weight, reduction)

    def alone(self, embeddings: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """The objective of embeddings by themselves."""
        if possible(embeddings) and self._has_one_pass():
            ways = self.one_pass(embeddings)
            if ways is not None:
                return in_one_pass(embeddings, *ways)
        return self.value(self.points(embeddings, at_least=2))

    def one_pass(self, embeddings: Float[Tensor, "n d"]) -> tuple[Fused, Plain] | None:
        """How `in_one_pass` finds the objective of these embeddings, which it checks first; None where it cannot."""
        return None

    def _has_one_pass(self) -> bool:
        """Whether `one_pass` gives the same as `value`; not where a subclass has a value of its own, and no pass."""
        latest = next(kind for kind in type(self).__mro__ if "value" in vars(kind) or "one_pass" in vars(kind))
        return "one_pass" in vars(latest)

    def points(self, embeddings: Float[Tensor, "n d"], *, at_least: int) -> Float[Tensor, "n d"]:
        """The embeddings, checked and put on the sphere."""
        check_points(embeddings, at_least=at_least)
        return project(embeddings)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """The objective of points on the sphere."""
        raise NotImplementedError

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        """The objective of points on the sphere, and others: unless it knows better, of all of them in one place."""
        table = others.ranks.rows(x)
        return self.value(table if others.against is None else torch.cat([others.against, table]))

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        """What the objective is the mean of, for each of the points."""
        raise ValueError(
            f"expected reduction='mean', got 'none': {type(self).__name__} is no mean over points; "
            "MaxMin, KoLeo, Energy, MMD and Sliced have a term for each"
        )

    def _among(self, embeddings: Tensor, against: Tensor | None, weight: Tensor | None, reduction: str) -> Tensor:
        check_choice("reduction", reduction, ("mean", "none"))
        if reduction == "none" and self.gather is not False:
            raise ValueError("expected reduction='mean' with gather, got 'none': the terms of other ranks are not here")
        embeddings, group, gradients_averaged = rows_here(embeddings, self.gather)
        x, present = self.points(embeddings, at_least=0), None
        if weight is not None:
            present, weight = self._present(weight, x)
            x = x[present]
        if against is not None:
            check_same_dimension(x, against, "against")
            against = self.points(against.detach().to(x.device), at_least=0).to(x.dtype)
        fixed = 0 if against is None else len(against)
        ranks = Ranks(x, group, self, fixed, weight is None, torch.is_grad_enabled()) if group is not None else Alone(x)
        if ranks.total == 0 or ranks.total + fixed < 2:
            raise ValueError(
                f"expected two points or more, got {ranks.total} on {ranks.size} ranks, and {fixed} to keep them from: "
                "one point has no other to keep apart from; pass more rows"
            )
        if gradients_averaged:
            x = louder(x, ranks.size)
        others = Others(against if fixed > 0 else None, weight, ranks)
        if reduction == "mean":
            return self.value_among(x, others)
        terms = self.terms_among(x, others)
        return terms if present is None else terms.new_zeros(len(present)).masked_scatter(present, terms)

    def _present(self, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Which points take part, and where they do not count alike, how much each does."""
        if not isinstance(weight, Tensor) or weight.shape != x.shape[:1]:
            came = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
            raise ValueError(f"expected weight as a tensor of shape ({len(x)},), one number a row, got {came}")
        weight = weight.detach().to(x.device)
        if weight.dtype == torch.bool:
            return weight, None
        if not self.of_weights:
            raise TypeError(
                f"expected weight as a boolean mask, got {weight.dtype}: in {type(self).__name__} a point is there or "
                "not; pass weight > 0, or choose MaxMin, KoLeo, Energy, Uniformity, MMD, Polarization"
            )
        if not bool((weight >= 0).all()):
            raise ValueError("expected weights >= 0, got a negative one or NaN; zero leaves a row out")
        present = weight > 0
        return present, weight[present].to(x.dtype)

    def extra_repr(self) -> str:
        choices = [f"{name}={getattr(self, name)!r}" for name in self.choices]
        return ", ".join(choices if self.gather is False else [*choices, f"gather={shown(self.gather)}"])
