"""Repairs of a table side by side: their effect on neighbours, hubs and the owner's figure, and a recommendation."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from unclump._precision import full_precision
from unclump.measures.angles import effective_rank
from unclump.ops.nearest import nearest
from unclump.ops.project import project
from unclump.tables.commands import Paths
from unclump.tables.comparison import AS_IT_IS, Column, Compared, Comparison, OwnFigure
from unclump.tables.comparison_advice import explain_faults, recommend, verdict
from unclump.tables.comparison_figures import Changed, Figure, Values, bootstrap, estimate, skewness
from unclump.tables.comparison_methods import Fits, Map, candidates
from unclump.tables.verdict import is_hub

NEIGHBOURS = 10
SAMPLE = 20_000  # rows that are compared of a larger table
_LONG = 10  # minutes
_NO_NEED = "the table has no cone, collapsed rank or large hub, so it may need no repair"
_BY_INDEX = "spread moves rows one by one, which suits only tables looked up by index: tokens, codebooks, prototypes"
Measured = tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, tuple[float, float, float]]]


def compare(
    fits: Fits,
    *,
    paths: Paths,
    rows: int | None = None,
    figure: Figure | None = None,
    source: str = "",
    left_out: int = 0,
    by_index: bool = False,
    sample: int = SAMPLE,
    progress: bool = False,
) -> Comparison:
    """Try the methods of `candidates` on a table.

    Maps are fitted on the whole table. Methods are compared, and rows moved, on a sample of a large table, which is the
    same for all methods and contains every row that the owner's figure needs.

    Args:
        fits: The table, whose rows are finite and not zero, and the seed of all draws.
        paths: The files of the commands.
        rows: The number of rows in the file, including rows of zeros; None for that of `fits`.
        figure: What the owner measures the table by.
        source: The name of the file of that figure.
        left_out: The number of its items that are not in the table.
        by_index: Whether rows are only looked up by index, and may move one by one; otherwise no move is recommended.
        sample: The number of rows to compare.
        progress: Show a bar on stderr.
    """
    x, seed = fits.x, fits.seed
    if (x == x[:1]).all():
        raise ValueError("expected rows that differ, got equal rows; there is nothing to repair by")
    rows = len(x) if rows is None else rows
    chosen = _choose_rows(len(x), sample, figure, seed)
    start = full_precision(x if len(chosen) == len(x) else x[chosen])
    figure = None if figure is None else figure.restrict(chosen.numpy())
    methods = list(candidates(x.shape[1], len(x)))
    judge = _Judge(start, figure, len(methods), seed)
    compared = [Compared(AS_IT_IS, "none", "", *judge.measure(start, _unchanged, 0.0), "")]
    bar = tqdm(methods, disable=not progress, unit="repair")
    for method in bar:
        bar.set_description(method.name)
        seconds, map_queries = 0.0, _unchanged
        if isinstance(method, Map):
            isotropy, seconds = fits.fit(method)
            map_queries = isotropy.transform
        began = time.perf_counter()
        points = map_queries(start) if isinstance(method, Map) else method.apply(start, seed)
        measured = judge.measure(points, map_queries, seconds + time.perf_counter() - began)
        command = method.command(paths, rows, seed)
        compared.append(Compared(method.name, method.kind, command, *measured, verdict(measured[-1], figure)))
    advice = recommend(compared, figure, by_index=by_index)
    why = list(explain_faults(start, figure, compared[1].command))
    if advice.method != AS_IT_IS:
        why = [_NO_NEED] if figure is None and not why and not judge.starts_with_hub else []
    slow = _slow_moves(compared, len(x) / len(chosen)) if by_index else []
    return Comparison(
        file=paths.file.name,
        rows=rows,
        dimensions=x.shape[1],
        compared_rows=len(chosen),
        figure=None if figure is None else OwnFigure(figure.name, source, judge.items, left_out),
        columns=_columns(figure),
        methods=tuple(compared),
        recommendation=advice,
        notes=(*why, *_notes(len(chosen), len(x), by_index=by_index, has_figure=figure is not None), *slow),
    )


def _unchanged(x: Tensor) -> Tensor:
    return x


class _Judge:
    """Measures a table after each method; the table as it is comes first, as the reference."""

    def __init__(self, start: Float[Tensor, "n d"], figure: Figure | None, count: int, seed: int) -> None:
        self.figure, self.k = figure, min(NEIGHBOURS, len(start) - 1)
        self.rows, self.count, self.seed = len(start), count, seed
        self.items, self.starts_with_hub = 0, False
        self._start: dict[str, Values] = {}
        self._near: Int[Tensor, "n k"] | None = None

    def measure(self, points: Tensor, map_queries: Callable[[Tensor], Tensor], seconds: float) -> Measured:
        """The values of all columns, their intervals, and those of their changes."""
        near = nearest(project(points), k=self.k)[0]
        self._near = near if self._near is None else self._near
        overlap = (near.unsqueeze(2) == self._near.unsqueeze(1)).any(dim=2).double().mean().item()
        directed = points[points.any(dim=1)]  # a row that is the mean, as that of unknown words may be, becomes zero
        values = {"overlap": overlap, "rank": effective_rank(directed), "seconds": seconds}
        counts = np.bincount(near.flatten().numpy(), minlength=self.rows).astype(np.float64)
        draws = {"hubness": bootstrap(skewness, counts, seed=self.seed)}
        if self.figure is not None:
            scores = self.figure.score(Changed(points, near, map_queries))
            self.items = len(scores)
            draws["figure"] = bootstrap(self.figure.value, scores, seed=self.seed)
        is_start = not self._start
        if is_start:
            self.starts_with_hub = is_hub(float(counts.max()) / self.rows, self.k, self.rows)
        self._start = draws if is_start else self._start
        intervals, changes = {}, {}
        for key, drawn in draws.items():
            values[key], *interval = estimate(drawn, self.count)
            low, high = self.figure.bounds if self.figure is not None and key == "figure" else (-np.inf, np.inf)
            intervals[key] = (max(interval[0], low), min(interval[1], high))
            if not is_start:
                changes[key] = estimate(drawn - self._start[key], self.count)
        return values, intervals, changes


def _notes(compared: int, rows: int, *, by_index: bool, has_figure: bool) -> Iterator[str]:
    if not has_figure:
        yield "judged by neighbours and hubs alone; --pairs, --queries or --labels judge by what the table is for"
    yield _BY_INDEX if by_index else f"{_BY_INDEX}; add --by-index if FILE is such a table"
    if compared < rows:
        yield f"compared on {compared} of {rows} rows, chosen at random; maps were fitted on all"
    where = ", in parentheses after the change" if has_figure else ""
    yield f"intervals{where}: paired bootstrap, 95 % for all methods together"


def _slow_moves(compared: Sequence[Compared], larger: float) -> Iterator[str]:
    """The time that moves take on a table that is so many times larger than the sample, if that is long."""
    for method in compared:
        minutes = method.values["seconds"] * larger / 60
        if method.kind == "move" and minutes > _LONG:
            yield f"{method.name}: about {minutes:.0f} minutes on all rows"


def _choose_rows(n: int, sample: int, figure: Figure | None, seed: int) -> Int[Tensor, " m"]:
    """The rows to compare, in ascending order: those that the figure needs, and others at random."""
    if n <= sample:
        return torch.arange(n)
    chosen = torch.zeros(n, dtype=torch.bool)
    if figure is not None:
        chosen[torch.from_numpy(figure.rows)] = True
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    others = order[~chosen[order]]
    chosen[others[: max(0, sample - int(chosen.sum()))]] = True
    return chosen.nonzero().flatten()


def _columns(figure: Figure | None) -> tuple[Column, ...]:
    own = () if figure is None else (Column("figure", figure.name, "more"),)
    return (
        *own,
        Column("overlap", f"overlap@{NEIGHBOURS}", "more"),
        Column("hubness", "hubness", "less"),
        Column("rank", "rank", "more"),
        Column("seconds", "seconds", "less"),
    )
