"""`unclump measure FILE`: the health of a table of embeddings, compared with uniform points, and a verdict."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unclump.cli._files import add_input

if TYPE_CHECKING:
    from jaxtyping import Float64
    from torch import Tensor

    from unclump.tables.files import Table
    from unclump.tables.findings import Health

_SILENT = 1e11  # multiplications of a few seconds, which are not announced

HELP = "the health of a table of embeddings"
DESCRIPTION = (
    "Duplicates, nearest angles, cone, rank, hubness, dead dimensions and norms of a table of embeddings, beside the "
    "same number of uniform points; and a verdict, which tells faults from structure that a good table has."
)
EXAMPLES = """examples:
  unclump measure words.npy                          the table's health and a verdict
  unclump measure glove.txt --json                   the same as JSON
  unclump measure model.safetensors --tensor wte     one tensor of a model
  unclump measure words.npy --names words.txt        with row names from a file, one per line
  unclump measure words.npy --fail-on duplicates,rank --quiet
                                                     exit code 1 if one of these faults is found
  unclump measure part-*.safetensors                 the shards of one table
  unclump measure large.safetensors --sample 20000   the neighbours of more rows than by default
  unclump measure words.npy --save words.health      all that was measured, for unclump report --from

Faults are directions (rows that are NaN, infinite or zero), duplicates, near-duplicates, rank, cone, hubs, dimensions
(constant ones) and norms (that carry the frequency). Angles are in degrees. Rows are counted from 0. Rows without a
direction are listed and left out.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command, shards=True)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--fail-on", metavar="FAULTS", help="exit with code 1 if one of these faults is found, separated by commas"
    )
    command.add_argument("--save", type=Path, metavar="FILE", help="write all that was measured, for report --from")
    command.add_argument(
        "--frequencies", type=Path, metavar="FILE", help="how often each row is used, one number per line (row order)"
    )
    size = command.add_mutually_exclusive_group()
    size.add_argument("--exact", action="store_true", help="search for the neighbours of all rows, however many")
    size.add_argument("--sample", type=int, metavar="N", help="search for the neighbours of N rows")
    command.add_argument("--seed", type=int, default=0, help="seed of the sample, and of p-values of under 20 rows (0)")
    command.add_argument("--quiet", action="store_true", help="no estimate of the time, no progress bar")


def run(args: argparse.Namespace) -> int:
    """Read, measure, print; return the exit code."""
    import json

    import torch

    from unclump.cli._tables import load_shards
    from unclump.tables.health import health
    from unclump.tables.health_json import check_health_target

    fail_on = _parse_faults(args.fail_on)
    if args.save is not None:
        check_health_target(args.save)
    table = load_shards(args.files, args)
    if not args.quiet:
        _announce(table.points, args)
    result = health(
        table.points,
        names=table.names,
        frequencies=None if args.frequencies is None else _read_frequencies(args.frequencies, len(table.points)),
        exact=args.exact,
        sample=args.sample,
        generator=torch.Generator().manual_seed(args.seed),
        progress=not args.quiet and sys.stderr.isatty(),
    )
    if args.save is not None:
        result.save(args.save)
    if args.json:
        files = {"file": str(args.files[0])} if len(args.files) == 1 else {"files": list(map(str, args.files))}
        print(json.dumps(files | result.to_dict(), indent=1, allow_nan=False))
    else:
        print("\n".join([str(result), *_advice(result, table, args)]))
    return int(not fail_on.isdisjoint(result.verdict.findings))


def _announce(points: "Tensor", args: argparse.Namespace) -> None:
    """Say on stderr what a measurement of more than a few seconds will take, before it begins."""
    from unclump.tables.plan import make_plan

    (n, d), chosen = points.shape, {"exact": args.exact, "sample": args.sample}
    plan = make_plan(n, d, **chosen)
    if plan.searched * n * d < _SILENT:
        return
    searched = "all rows" if plan.is_exact else f"{plan.searched:,} sampled rows, which --sample or --exact changes"
    costs = f"about {_duration(plan.seconds())} and {plan.memory() / 1e9:.1f} GB beside the file"
    print(f"{n:,} x {d}: {costs}; neighbours of {searched}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    for size, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _advice(result: "Health", table: "Table", args: argparse.Namespace) -> list[str]:
    """Lines with the commands that help; none for shards, which they do not take."""
    from unclump._text import escape_unprintable
    from unclump.cli._tables import paths_of

    if len(args.files) > 1:
        return []
    commands = result.verdict.commands_for(paths_of(args.files[0], table, args))
    return [f"try: {escape_unprintable(command)}" for command in commands]


def _parse_faults(text: str | None) -> set[str]:
    """The faults to fail on, by name."""
    from unclump._checks import check_choice
    from unclump.tables.verdict import FAULTS

    names = [] if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        check_choice("a fault for --fail-on", name, tuple(FAULTS))
    return set(names)


def _read_frequencies(path: Path, rows: int) -> "Float64[Tensor, ' n']":
    """One number for each row, from a file."""
    import torch

    from unclump._text import sanitise
    from unclump.cli._tables import read_lines
    from unclump.tables.files import FileError

    lines: Sequence[str] = read_lines(path)
    if len(lines) != rows:
        raise FileError(f"{sanitise(path)}: expected {rows} frequencies, one per line, got {len(lines)}")
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(float(line))
        except ValueError:
            raise FileError(f"{sanitise(path)}: line {number}: expected a number, got '{sanitise(line)}'") from None
    return torch.tensor(values, dtype=torch.float64)
