"""The owner's own figure of a table: judged pairs, queries with relevant rows, or labels; and its paired bootstrap.

A figure is a function (`value`) of one score per item (`score` of a pair, a query or a row), so that items can be drawn
again; higher is better. It is within `bounds`. `rows` are those of the table without which it cannot be computed, and
`restrict` is the same figure of a table of some rows alone, in ascending order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int
from scipy.stats import norm, rankdata
from torch import Tensor

from unclump.ops.nearest import nearest
from unclump.ops.project import project
from unclump.tables.skewness import skewness_of

Values = npt.NDArray[np.float64]
_RESAMPLES = 500
_CHUNK = 2**21  # entries that are drawn at a time


@dataclass(frozen=True)
class Changed:
    """A table after a repair.

    Attributes:
        points: Its rows.
        near: The nearest other rows of each, nearest first.
        map_queries: What the repair makes of queries: nothing, where rows are moved one by one.
    """

    points: Float[Tensor, "n d"]
    near: Int[Tensor, "n k"]
    map_queries: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class JudgedPairs:
    """Spearman's correlation of the cosines of pairs with how similar people found them."""

    first: Int[np.ndarray, " m"]
    second: Int[np.ndarray, " m"]
    judged: Float[np.ndarray, " m"]
    name = "Spearman"
    bounds = -1.0, 1.0

    @property
    def rows(self) -> Any:
        return np.unique(np.concatenate([self.first, self.second]))

    def restrict(self, rows: Any) -> "JudgedPairs":
        return replace(self, first=np.searchsorted(rows, self.first), second=np.searchsorted(rows, self.second))

    def score(self, table: Changed) -> Values:
        one, other = (project(table.points[rows].double()) for rows in (self.first, self.second))
        return np.asarray((one * other).sum(dim=1).numpy())

    def value(self, scores: Values, items: Any) -> Values:
        ranks = [rankdata(values[items], axis=1) for values in (scores, self.judged)]
        x, y = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
        spread = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
        return np.asarray((x * y).sum(axis=1) / np.where(spread > 0, spread, np.inf))


@dataclass(frozen=True)
class Retrieval:
    """The share of a query's relevant rows that are among its k nearest, on average over queries.

    Attributes:
        queries: One row each.
        query: The number of the query of each relevant pair, in ascending order; every query has one or more.
        row: Its row in the table.
        k: How many are retrieved.
    """

    queries: Float[Tensor, "q d"]
    query: Int[np.ndarray, " m"]
    row: Int[np.ndarray, " m"]
    k: int

    bounds = 0.0, 1.0

    @property
    def name(self) -> str:
        return f"recall@{self.k}"

    @property
    def rows(self) -> Any:
        return np.unique(self.row)

    def restrict(self, rows: Any) -> "Retrieval":
        return replace(self, row=np.searchsorted(rows, self.row))

    def score(self, table: Changed) -> Values:
        queries = project(table.map_queries(self.queries.to(table.points.dtype)))
        found = nearest(queries, project(table.points), k=min(self.k, len(table.points)))[0].numpy()
        hits = (found[self.query] == self.row[:, None]).any(axis=1)
        return np.asarray(np.bincount(self.query, hits) / np.bincount(self.query))

    def value(self, scores: Values, items: Any) -> Values:
        return np.asarray(scores[items].mean(axis=1))


@dataclass(frozen=True)
class Labels:
    """The share of rows that most of their k nearest others have the label of; the nearer decide between equals."""

    label: Int[np.ndarray, " n"]

    name = "k-NN accuracy"
    bounds = 0.0, 1.0

    @property
    def rows(self) -> Any:
        return np.empty(0, dtype=np.int64)

    def restrict(self, rows: Any) -> "Labels":
        return replace(self, label=self.label[rows])

    def score(self, table: Changed) -> Values:
        near = self.label[table.near.numpy()]  # (n, k)
        votes = (near[:, :, None] == near[:, None, :]).sum(axis=2)
        winner = near[np.arange(len(near)), votes.argmax(axis=1)]  # the first, and so the nearest, of the largest
        return np.asarray((winner == self.label).astype(np.float64))

    def value(self, scores: Values, items: Any) -> Values:
        return np.asarray(scores[items].mean(axis=1))


Figure = JudgedPairs | Retrieval | Labels


def skewness(counts: Values, items: Int[np.ndarray, "b m"]) -> Values:
    """Of how often rows are among the nearest of others: the hubness of a table."""
    drawn = counts[items]
    return np.asarray(skewness_of(*((drawn**power).mean(axis=1) for power in (1, 2, 3))))


class Bootstrap:
    """Draws of items with replacement: the same ones for the same seed, so that differences of methods are paired."""

    def __init__(self, items: int, *, seed: int) -> None:
        self.items, self.seed = items, seed

    def draws(self, value: Callable[[Values, Any], Values], scores: Values) -> Values:
        """The figure of all items, then that of each draw."""
        source = np.random.default_rng(self.seed)
        some = max(1, _CHUNK // self.items)
        values = [value(scores, np.arange(self.items)[None])]
        for start in range(0, _RESAMPLES, some):
            size = (min(some, _RESAMPLES - start), self.items)
            values.append(value(scores, source.integers(self.items, size=size)))
        return np.concatenate(values)


def estimate(draws: Values, count: int = 1) -> tuple[float, float, float]:
    """The value of all items, and an interval: as many deviations over draws as `count` intervals need together.

    They hold all at once with a probability of about 95 % or more, by Bonferroni's inequality.
    """
    value, margin = float(draws[0]), float(norm.ppf(1 - 0.025 / count)) * float(draws[1:].std())
    return value, value - margin, value + margin
