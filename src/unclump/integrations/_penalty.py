"""The term that a regulariser adds to a loss."""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._checks import check_count, check_generator, check_number
from unclump.distributed.ranks import Gather, Shards, ranks_of
from unclump.integrations._tables import local_rows, numbers_here
from unclump.objectives import Objective


@dataclass(frozen=True)
class Penalty:
    """An objective of a model's table, without its padding row, and how much it counts.

    On many processes it is always that of the whole table. Where every rank has all of it, as under DDP, or within a
    step of FSDP2, each computes its own term, and gradients are averaged: the same everywhere, unless something is
    drawn, be it `rows` or the circles of `Sliced`. Then every rank draws for itself, and the term is the mean over
    these draws; generators with one seed on all ranks make it one draw. Rows of a `DTensor` stay where they are, and
    all ranks together draw one selection.

    Example:
        >>> from unclump.integrations._penalty import Penalty
        >>> penalty = Penalty(SphericalVariance(), weight=0.5)
        >>> penalty(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), 0)  # the first is padding
        tensor(-0.5000)
    """

    objective: Objective
    weight: float
    rows: int | None = None
    """At most so many rows, drawn anew for each step; None for all."""
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        check_term(self.objective, self.weight)
        if self.objective.gather is not False:
            raise ValueError(
                f"expected an objective without gather, got {self.objective!r}: a model's table is the same on all "
                "ranks, and where FSDP2 has spread it, that is seen by itself"
            )
        if self.rows is not None:
            check_count("rows", self.rows, at_least=2)
        check_generator(self.generator)

    def __call__(self, table: Float[Tensor, "n d"], padding: int | None) -> Float[Tensor, ""]:
        """The weighted objective of the table, or of the rows that were drawn."""
        return self.weight * self._value(table, padding)

    def _value(self, table: Tensor, padding: int | None) -> Tensor:
        here, group = local_rows(table)
        objective = self.objective if group is False else _spread(self.objective)
        if padding is None and self.rows is None:
            value: Tensor = objective(table)
            return value
        numbers = self._drawn(numbers_here(table, padding), group)
        if group is False:
            value = objective(table[numbers])
            return value
        mask = torch.zeros(len(here), dtype=torch.bool, device=numbers.device)
        value = objective(table, weight=mask.index_fill(0, numbers, True))
        return value

    def _drawn(self, numbers: Int[Tensor, " k"], group: Gather) -> Int[Tensor, " j"]:
        """Of the rows that are here their share of those wanted."""
        if self.rows is None:
            return numbers
        ranks = ranks_of(numbers.float().unsqueeze(1), group)  # how many there are
        if self.rows >= ranks.total:
            return numbers
        device = "cpu" if self.generator is None else self.generator.device
        order = torch.randperm(len(numbers), generator=self.generator, device=device)
        wanted = self.rows
        if ranks.size > 1:
            start = torch.randint(ranks.total, (1,), generator=self.generator, device=device)
            start = ranks.agree(start.to(numbers.device))
            wanted = dealt(self.rows, ranks.before, len(numbers), ranks.total, int(start))
        return numbers[order[:wanted].to(numbers.device)]


def dealt(rows: int, before: int, here: int, total: int, start: int) -> int:
    """How many of the rows wanted are to be those of a rank, which has `here` of all, after `before` of others.

    Of all rows in line, every (total / rows)-th is dealt. Wherever that starts, all ranks together have exactly so
    many, none more than it has rows; with a start drawn from 0, …, total - 1, every row is as likely as any other.
    """
    return (rows * (before + here) + start) // total - (rows * before + start) // total


def check_term(objective: Objective, weight: float) -> None:
    """Refuse what is no objective, such as its name, or would pull points together."""
    if not isinstance(objective, Objective):
        raise TypeError(
            f"expected an objective such as unclump.Sliced(13) or unclump.KoLeo(), got {objective!r}; "
            "unclump.objective(name) makes one from its name"
        )
    check_number("weight", weight)
    if weight < 0:
        raise ValueError(f"expected weight >= 0, got {weight}: all objectives are lower where points are apart")


def _spread(objective: Objective) -> Objective:
    """The same for the rows of a table that is spread over ranks; its generator is the same one."""
    spread = copy.copy(objective)
    spread.gather = Shards()
    return spread
