"""The regularisation term that is added to a loss."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._checks import check_count, check_generator, check_number, has_direction, list_rows
from unclump.distributed.ranks import Gather, Shards, ranks_of
from unclump.integrations._tables import local_row_numbers, local_rows
from unclump.objectives import Objective
from unclump.objectives._base import check_objective

Weight = float | Callable[[int], float]
"""The weight of a term in a loss: a number, or a schedule: a function of the number of optimiser steps taken."""


@dataclass(frozen=True)
class Penalty:
    """A weighted objective of a model's table, without its padding row and other rows of zeros.

    The first call checks the rows: it raises on NaN and infinity, and warns about zeros. An objective of directions
    ignores a row as long as it is all zeros.

    With many processes it is always the objective of the whole table. If every rank has the whole table, as under DDP
    or within a step of FSDP2, each rank computes the term and gradients are averaged. The terms are equal unless they
    are random, through `rows` or the circles of `Sliced`. Then every rank draws its own, and the term is the mean over
    these draws; generators with the same seed on all ranks make them the same. The rows of a `DTensor` stay on their
    ranks, which draw a joint sample.

    Example:
        >>> from unclump.integrations._penalty import Penalty
        >>> penalty = Penalty(SphericalVariance(), weight=0.5)
        >>> penalty(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), 0)  # row 0 is padding
        tensor(-0.5000)
    """

    objective: Objective
    weight: Weight
    rows: int | None = None
    """The number of rows drawn for each step; None for all."""
    generator: torch.Generator | None = None
    _is_checked: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)
    """Not empty after the first call, the only one that reads the table."""

    def __post_init__(self) -> None:
        check_term(self.objective, self.weight)
        if self.objective.gather is not False:
            raise ValueError(
                f"expected an objective without gather, got {self.objective!r}: a model's table is the same on all "
                "ranks, and a table sharded by FSDP2 is gathered automatically"
            )
        if self.rows is not None:
            check_count("rows", self.rows, at_least=2)
        check_generator(self.generator)

    def __call__(self, table: Float[Tensor, "n d"], padding: int | None, *, step: int = 0) -> Float[Tensor, ""]:
        """Return the objective of the table, or of a random sample of its rows, times its weight at this step."""
        weight = self.weight
        if callable(weight):
            weight = weight(step)
            check_weight(weight)
        return weight * self._value(table, padding)

    def _value(self, table: Tensor, padding: int | None) -> Tensor:
        rows, group = local_rows(table)
        objective = self.objective if group is False else _with_shards(self.objective)
        is_frozen = isinstance(table, torch.nn.Parameter) and not table.requires_grad
        if is_frozen and not self._is_checked and torch.is_grad_enabled():
            warnings.warn(
                f"the table of shape {tuple(table.shape)} has requires_grad=False: {self.objective!r} adds to the "
                "loss, but moves nothing until the table is trainable",
                stacklevel=4,
            )
        self._check_once(rows.detach(), local_row_numbers(table, padding))
        value: Tensor
        if padding is None and self.rows is None:
            value = objective(table)
            return value
        numbers = self._draw(local_row_numbers(table, padding), group)
        if group is False:
            value = objective(table[numbers])
            return value
        value = objective(
            table, weight=torch.zeros(len(rows), dtype=torch.bool, device=numbers.device).index_fill(0, numbers, True)
        )
        return value

    def _check_once(self, rows: Float[Tensor, "n d"], numbers: Int[Tensor, " k"]) -> None:
        """Raise on NaN and infinity, and warn about rows of zeros other than padding."""
        if self._is_checked:
            return
        self._is_checked.append(True)
        zeros = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        zeros[numbers] = ~has_direction(rows[numbers], what="rows of the table")
        if zeros.any():
            part = "no part" if self.objective.needs_directions else "part"
            text = f"the table has nothing but zeros in {list_rows(zeros)}: they take {part} in {self.objective!r}"
            warnings.warn(text, stacklevel=4)

    def _draw(self, numbers: Int[Tensor, " k"], group: Gather) -> Int[Tensor, " j"]:
        """Draw this rank's share of the rows."""
        if self.rows is None:
            return numbers
        ranks = ranks_of(numbers.float().unsqueeze(1), group)  # counts the rows of every rank
        if self.rows >= ranks.total:
            return numbers
        device = "cpu" if self.generator is None else self.generator.device
        order = torch.randperm(len(numbers), generator=self.generator, device=device)
        count = self.rows
        if ranks.size > 1:
            start = torch.randint(ranks.total, (1,), generator=self.generator, device=device)
            start = ranks.agree(start.to(numbers.device))
            count = rows_on_rank(self.rows, ranks.before, len(numbers), ranks.total, int(start))
        return numbers[order[:count].to(numbers.device)]


def rows_on_rank(rows: int, before: int, local: int, total: int, start: int) -> int:
    """Return how many of `rows` to draw on a rank that has `local` of all rows, after `before` on lower ranks.

    Of all rows in order, every (total / rows)-th is assigned. For any start, the counts of all ranks add up to `rows`,
    and none exceeds `local`; with a start drawn from 0, …, total - 1, all rows are equally likely.
    """
    return (rows * (before + local) + start) // total - (rows * before + start) // total


def check_term(objective: Objective, weight: Weight) -> None:
    """Raise unless `objective` is an objective, rather than its name, and `weight` >= 0 or a schedule."""
    check_objective(objective)
    if not callable(weight):
        check_weight(weight)


def check_weight(weight: float) -> None:
    """Raise unless the weight is a number >= 0."""
    if callable(weight):
        raise TypeError(
            "expected weight as a number, got a schedule: only a trainer knows its step; use DispersionMixin, or "
            "multiply the objective by your own schedule"
        )
    check_number("weight", weight)
    if weight < 0:
        raise ValueError(f"expected weight >= 0, got {weight}: minimising any objective moves points apart")


def _with_shards(objective: Objective) -> Objective:
    """Copy the objective for a table that is sharded over ranks; the copy shares its generator."""
    copied = copy.copy(objective)
    copied.gather = Shards()
    return copied
