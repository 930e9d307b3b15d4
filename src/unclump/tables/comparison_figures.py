"""The owner's own figure of merit of a table: judged pairs, queries with relevant rows, or labels; and its bootstrap.

A figure is a function (`value`) of one score per item (`score` of a pair, a query or a row), so that items can be
resampled; higher is better. Its range is `bounds`. It cannot be computed without the rows `rows`; `restrict` gives the
same figure for a table that has only some rows, in ascending order.
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
_CHUNK = 2**21  # items drawn at a time


@dataclass(frozen=True)
class Changed:
    """A table after a repair.

    Attributes:
        points: Its rows.
        near: The nearest other rows of each, nearest first.
        map_queries: How the repair maps queries; the identity if it moves rows one by one.
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
    """The share of rows whose label most of their k nearest others have; ties go to the nearest."""

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
    """The skewness of how often rows are among the nearest of others, which is the hubness of a table."""
    drawn = counts[items]
    return np.asarray(skewness_of(*((drawn**power).mean(axis=1) for power in (1, 2, 3))))


def bootstrap(value: Callable[[Values, Any], Values], scores: Values, *, seed: int) -> Values:
    """The figure of all items, then that of items drawn with replacement, many times.

    The draws are the same for the same number of items and seed, so that differences of methods are paired.
    """
    source, items = np.random.default_rng(seed), len(scores)
    some = max(1, _CHUNK // items)
    values = [value(scores, np.arange(items)[None])]
    for start in range(0, _RESAMPLES, some):
        values.append(value(scores, source.integers(items, size=(min(some, _RESAMPLES - start), items))))
    return np.concatenate(values)


def estimate(draws: Values, count: int = 1) -> tuple[float, float, float]:
    """The value of all items and its interval, one of `count` that hold together with a probability of 95 % or more.

    By Bonferroni's inequality, from the standard deviation of the draws.
    """
    value, margin = float(draws[0]), float(norm.ppf(1 - 0.025 / count)) * float(draws[1:].std())
    return value, value - margin, value + margin
