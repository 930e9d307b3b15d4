"""Files of an owner's own figure: judged pairs, queries with relevant rows, labels."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from unclump._text import sanitise
from unclump.cli._tables import parse_number
from unclump.tables.comparison_figures import Figure, JudgedPairs, Labels, Retrieval
from unclump.tables.files import FileError, Table, bad_rows, load, read_lines, read_row_lines

_FEWEST = 10  # pairs or queries: with fewer, an interval is meaningless
_MOST_PAIRS, _MOST_QUERIES = 20_000, 2000  # more are sampled


@dataclass(frozen=True)
class Evidence:
    """A figure, the name of its file, the number of its items that are not in the table, and a note on both."""

    figure: Figure
    source: str
    left_out: int
    note: str


def read_evidence(args: argparse.Namespace, table: Table, directed: Bool[Tensor, " n"]) -> Evidence | None:
    """Read what the options name; rows are numbered among those with a direction."""
    chosen = [flag for flag in ("pairs", "queries", "labels") if getattr(args, flag) is not None]
    if len(chosen) > 1:
        raise ValueError(f"expected one figure, got --{chosen[0]} and --{chosen[1]}; leave one out")
    if (args.queries is None) != (args.relevant is None):
        raise ValueError("expected --queries together with --relevant, got one alone; use both or neither")
    if not chosen:
        return None
    numbers = torch.where(directed, directed.cumsum(0) - 1, -1)
    if args.pairs is not None:
        return _read_pairs(args.pairs, _Rows(table, numbers), args.seed)
    if args.labels is not None:
        return _read_classes(args.labels, directed)
    return _read_retrieval(args, table, _Rows(table, numbers))


class _Rows:
    """The rows of a table by name, or by number if it has no names; -1 for rows that it does not have."""

    def __init__(self, table: Table, numbers: Any) -> None:
        self.count, self.numbers = len(table.points), numbers.tolist()
        self.by_name = None if table.names is None else {name: i for i, name in reversed([*enumerate(table.names)])}

    def find(self, text: str) -> int:
        row = parse_number(text) if self.by_name is None else self.by_name.get(text)
        return self.numbers[row] if row is not None and row < self.count else -1


def _read_pairs(path: Path, rows: _Rows, seed: int) -> Evidence:
    pairs, left_out, in_lower_case = [], 0, 0
    for where, (first, second, score) in _fields(path, 3):
        pair = rows.find(first), rows.find(second), _parse_score(score, where)
        if min(pair[:2]) < 0:
            left_out += 1
            in_lower_case += min(rows.find(first.lower()), rows.find(second.lower())) >= 0
        else:
            pairs.append(pair)
    note = f"{JudgedPairs.name}: by {len(pairs)} of the {len(pairs) + left_out} pairs of {sanitise(path.name)}"
    note += "; FILE has no row of that name for the others" if left_out else ""
    note += f", but {in_lower_case} would match in lower case" if in_lower_case else ""
    _check_enough(path, len(pairs), "pairs of rows")
    if len(pairs) > _MOST_PAIRS:
        kept = np.random.default_rng(seed).choice(len(pairs), _MOST_PAIRS, replace=False)
        pairs = [pairs[i] for i in sorted(kept.tolist())]
    first_rows, second_rows, judged = (np.array(column) for column in zip(*pairs, strict=True))
    return Evidence(JudgedPairs(first_rows, second_rows, judged.astype(np.float64)), path.name, left_out, note)


def _read_classes(path: Path, directed: Bool[Tensor, " n"]) -> Evidence:
    labels = np.unique(read_row_lines(path, len(directed), "labels"), return_inverse=True)[1][directed.numpy()]
    if labels.min() == labels.max():
        raise FileError(f"{sanitise(path)}: expected two labels or more, got one; one label cannot rank neighbours")
    note = f"{Labels.name}: by the labels of {len(labels)} rows"
    return Evidence(Labels(labels), path.name, int((~directed).sum()), note)


def _read_retrieval(args: argparse.Namespace, table: Table, rows: _Rows) -> Evidence:
    queries = load(args.queries)
    d, path = table.points.shape[1], args.relevant
    if queries.points.shape[1] != d:
        raise FileError(
            f"{sanitise(args.queries)}: expected queries in the {d} dimensions of FILE, got {queries.points.shape[1]}"
        )
    bad = bad_rows(queries)
    if bad:
        raise FileError(f"{sanitise(args.queries)}: query {bad[0].row} is {bad[0].fault}; drop such queries")
    pairs, left_out = set(), 0
    for where, (text, name) in _fields(path, 2):
        query, row = parse_number(text), rows.find(name)
        if query is None or query >= len(queries.points):
            raise FileError(f"{where}: expected a query from 0 to {len(queries.points) - 1}, got '{sanitise(text)}'")
        if row < 0:
            left_out += 1
        else:
            pairs.add((query, row))
    known = np.array(sorted({query for query, _ in pairs}), dtype=np.int64)
    _check_enough(path, len(known), "queries with relevant rows")
    if len(known) > _MOST_QUERIES:
        known = np.sort(np.random.default_rng(args.seed).choice(known, _MOST_QUERIES, replace=False))
    kept = set(known.tolist())
    query, row = np.array(sorted(pair for pair in pairs if pair[0] in kept), dtype=np.int64).T
    figure = Retrieval(queries.points[known].detach(), np.searchsorted(known, query), row, args.k)
    note = f"{figure.name}: by {len(known)} of the {len(queries.points)} queries of {sanitise(args.queries.name)}"
    note += f"; FILE lacks the row of {left_out} lines of {sanitise(path.name)}" if left_out else ""
    return Evidence(figure, path.name, left_out, note)


def _fields(path: Path, count: int) -> Iterator[tuple[str, list[str]]]:
    """The position and the fields of every line, separated by tabs; a hash and a space begin a comment."""
    for number, line in enumerate(read_lines(path), start=1):
        if line == "#" or line.startswith("# ") or not line.strip():
            continue
        fields, where = line.split("\t"), f"{sanitise(path)}: line {number}"
        if len(fields) != count:
            raise FileError(f"{where}: expected {count} fields separated by tabs, got {len(fields)}")
        yield where, fields


def _parse_score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not np.isfinite(score):
        raise FileError(f"{where}: expected a number as score, got '{sanitise(text)}'")
    return score


def _check_enough(path: Path, items: int, what: str) -> None:
    if items < _FEWEST:
        raise FileError(f"{sanitise(path)}: expected at least {_FEWEST} {what} that are in the table, got {items}")
