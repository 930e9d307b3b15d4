"""`unclump fit FILE -o MAP`: find one map that makes a table isotropic, for the table and for its queries."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import sanitise
from unclump.cli._files import add_input
from unclump.cli._stages import shows_progress

if TYPE_CHECKING:
    from unclump.tables.transform import Isotropy

METHODS = ("centre", "all-but-the-top", "whiten", "learn")
HELP = "find a map that makes a table isotropic, for queries too"
DESCRIPTION = (
    "Find one map for all rows of a table, and for the queries that are compared with it; unclump apply applies it. "
    "To find out which map helps, if any, use unclump repair."
)
EXAMPLES = """examples:
  unclump fit words.npz -o map.safetensors                                  whiten, with shrinkage
  unclump fit words.npz -o map.safetensors --method whiten --strength 0.5   half strength: variances to the power 0.5
  unclump fit words.npz -o map.safetensors --method all-but-the-top --directions 3
  unclump fit words.npz -o map.safetensors --method learn --objective sliced --option circles=64
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    add = command.add_argument
    add("-o", "--output", type=Path, metavar="MAP", required=True, help="output file of the map, .safetensors")
    add("--method", choices=METHODS, default="whiten", help="kind of map (whiten)")
    add("--strength", type=float, default=1.0, metavar="S", help="from 0 (no change) to 1; for whiten, an exponent (1)")
    add("--directions", type=int, metavar="N", help="for all-but-the-top: directions to remove (d / 100)")
    add("--shrinkage", type=float, metavar="R", help="for whiten: shrinkage from 0 to 1 (by Ledoit and Wolf)")
    add("--objective", metavar="NAME", help="for learn: sliced (default), mmd, energy, ...")
    add("--option", action="append", metavar="KEY=VALUE", help="option of the objective: circles=13, kernel=riesz")
    add("--steps", type=int, metavar="N", help="for learn: training steps (300)")
    add("--seed", type=int, default=0, help="for learn: random seed (0)")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Read the table, validate everything, fit, write the map."""
    from unclump.cli._tables import read_table
    from unclump.tables.transform_files import check_map_target

    isotropy = _build(args)
    check_map_target(args.output)
    table, directed, notes = read_table(args)
    isotropy.fit(table.points, progress=shows_progress(args))
    isotropy.save(args.output)
    if args.json:
        facts = {"file": str(args.file), "map": str(args.output), "method": args.method, "strength": args.strength}
        print(
            json.dumps(
                facts | {"rows": int(directed.sum()), "dimensions": table.points.shape[1], "notes": notes}, indent=1
            )
        )
        return
    print(f"{args.method}, strength {args.strength:g}, fitted on {int(directed.sum())} x {table.points.shape[1]}")
    for note in notes:
        print(note)
    print(f"written to {sanitise(args.output)}")


def _build(args: argparse.Namespace) -> "Isotropy":
    """The map that the options describe, not fitted yet."""
    import torch

    from unclump.cli._options import build_objective
    from unclump.tables.transform import Isotropy

    if args.option and not args.objective:
        raise ValueError("expected --option together with --objective, got it alone; use both or neither")
    return Isotropy(
        args.method.replace("-", "_"),
        strength=args.strength,
        directions=args.directions,
        shrinkage=args.shrinkage,
        objective=build_objective(args.objective, args.option or (), args.seed) if args.objective else None,
        steps=args.steps,
        generator=torch.Generator().manual_seed(args.seed),
    )
