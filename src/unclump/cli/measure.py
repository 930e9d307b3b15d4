"""`unclump measure FILE`: the health of a table of embeddings, compared with uniform points, and a verdict."""

import argparse
import sys

from unclump.cli._files import add_input

HELP = "the health of a table of embeddings"
DESCRIPTION = (
    "Duplicates, nearest angles, cone, rank, hubness and uniformity of a table of embeddings, compared with the same "
    "number of uniform points, and a verdict."
)
EXAMPLES = """examples:
  unclump measure words.npy                          the table's health and a verdict
  unclump measure glove.txt --json                   the same as JSON
  unclump measure model.safetensors --tensor wte     one tensor of a model
  unclump measure words.npy --names words.txt        with row names from a file, one per line

Angles are in degrees. Rows are counted from 0. Rows that are NaN, infinite or zero are listed and left out.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--seed", type=int, default=0, help="seed of p-values, simulated for under 20 rows (0)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Read, measure, print."""
    import json

    import torch

    from unclump.cli._tables import load_table
    from unclump.tables.health import health

    table = load_table(args.file, args)
    result = health(
        table.points,
        names=table.names,
        generator=torch.Generator().manual_seed(args.seed),
        progress=not args.quiet and sys.stderr.isatty(),
    )
    print(json.dumps({"file": str(args.file), **result.to_dict()}, indent=1, allow_nan=False) if args.json else result)
