"""Estimates of time and memory, printed before a long computation begins."""

import sys

from unclump.tables.plan import make_plan

_SILENT = 1e11  # multiplications of a few seconds, which are not announced


def announce(
    n: int, d: int, *, advice: str = "", exact: bool = False, sample: int | None = None, processes: int = 1
) -> None:
    """Print to stderr how long measuring a table will take, if that is more than a few seconds.

    `advice`, on how to search more rows, is added if only a sample of the rows is searched.
    """
    plan = make_plan(n, d, exact=exact, sample=sample)
    if plan.searched * n * d < _SILENT:
        return
    searched = "all rows" if plan.is_exact else f"{plan.searched:,} sampled rows{advice}"
    costs = f"about {_duration(plan.seconds() / processes)} and {plan.memory() / 1e9:.1f} GB beside the file"
    print(f"{n:,} x {d}: {costs}; neighbours of {searched}", file=sys.stderr, flush=True)


def announce_comparison(repairs: int, compared: int, n: int, d: int) -> None:
    """Print to stderr that comparing repairs of a table takes long, if its neighbours alone take more than seconds."""
    if repairs * compared**2 * d < _SILENT:
        return
    rows = f"{n:,} rows" if compared == n else f"{compared:,} of {n:,} rows"
    what = f"comparing {repairs} repairs on {rows} x {d}"
    print(f"{what}: may take minutes, most of them for spreading; --sample compares fewer", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    for size, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
