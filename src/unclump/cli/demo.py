"""`unclump demo`."""

import argparse
from typing import Any


def add_to(commands: Any) -> None:
    """The command and its options."""
    command = commands.add_parser(
        "demo",
        help="a clumped table comes apart",
        description="Disperse a clumped table before your eyes.",
        epilog="example: unclump demo",
    )
    command.set_defaults(run=run)


def run(_: argparse.Namespace) -> None:
    """Show it."""
    from unclump.dispersion.demo import main

    main()
