"""`unclump measure FILE`: what a table of embeddings is like, beside uniform points, and what would help."""

import argparse
import sys
from typing import Any

EXAMPLES = """examples:
  unclump measure words.npy                          the table's health and a verdict
  unclump measure glove.txt --json                   the same for a program
  unclump measure model.safetensors --tensor wte     one tensor of a model
  unclump measure words.npy --names words.txt        rows by the names in a file, one a line

Angles are in degrees. Rows are counted from 0. Rows that are NaN, infinite or zero are listed and left out.
"""


def add_to(commands: Any) -> None:
    """The command and its options."""
    from unclump.cli._tables import add_input

    command = commands.add_parser(
        "measure",
        help="the health of a table of embeddings",
        description="Duplicates, nearest angles, cone, rank, hubness and uniformity of a table of embeddings, beside "
        "what as many uniform points would give, and a verdict.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(command)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--seed", type=int, default=0, help="of the p-values that are simulated, below 20 rows (0)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    command.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Read, measure, print."""
    import json

    import torch

    from unclump.cli._tables import load_table
    from unclump.tables.health import health

    table = load_table(chosen.file, chosen)
    found = health(
        table.points,
        names=table.names,
        generator=torch.Generator().manual_seed(chosen.seed),
        progress=not chosen.quiet and sys.stderr.isatty(),
    )
    print(
        json.dumps({"file": str(chosen.file), **found.to_dict()}, indent=1, allow_nan=False) if chosen.json else found
    )
