"""`unclump demo`: a clumped table is dispersed."""

import argparse
from typing import Any


def add_command(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "demo",
        help="watch a clumped table being dispersed",
        description="Disperse a clumped table and show how it changes.",
        epilog="example: unclump demo",
    )
    command.set_defaults(run=run)


def run(_: argparse.Namespace) -> None:
    """Run the demo."""
    from unclump.dispersion.demo import main

    main()
