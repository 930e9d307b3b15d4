"""`unclump apply MAP FILE -o OUT`: apply a map to a table, or to the queries that are compared with it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import FileError, sanitise
from unclump.cli._files import add_input, add_output
from unclump.cli._stages import shows_progress

if TYPE_CHECKING:
    from unclump.tables.transform import Isotropy

HELP = "apply a map to a table or to queries"
DESCRIPTION = (
    "Apply a map that unclump fit or unclump repair wrote to the rows of a table, or to queries; format, dtype, order "
    "and names stay the same."
)
EXAMPLES = """examples:
  unclump apply map.safetensors words.npz -o better.npz       the table that it was fitted on
  unclump apply map.safetensors queries.npy -o mapped.npy     the queries too, so that both still match

Rows of zeros, as padding is, stay as they are.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    command.add_argument("map", type=Path, metavar="MAP", help="map written by unclump fit or repair --map")
    add_input(command)
    add_output(command)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Read the map and the table, apply, write."""
    from unclump.cli._tables import mapped, read_table, resolve_output
    from unclump.tables.files import check_target, save

    output = resolve_output(args)
    isotropy = _load_map(args)
    table, _, notes = read_table(args, at_least=0)
    isotropy.check_dimensions(table.points)
    check_target(output, table, in_place=args.in_place)
    if output.exists() and output.samefile(args.map):
        raise ValueError(f"expected another file for the table than the map {sanitise(args.map)}; name another with -o")
    with mapped(table, isotropy, progress=shows_progress(args)) as images:
        save(output, images, in_place=args.in_place)
    n, d = table.points.shape
    if args.json:
        facts = {"map": str(args.map), "file": str(args.file), "output": str(output), "rows": n, "dimensions": d}
        print(json.dumps(facts | {"method": isotropy.method, "strength": isotropy.strength, "notes": notes}, indent=1))
        return
    rows = "1 row" if n == 1 else f"{n} rows"
    print(f"{rows} mapped by {isotropy.method.replace('_', '-')}, strength {isotropy.strength:g}")
    for note in notes:
        print(note)
    print(f"written to {sanitise(output)}")


def _load_map(args: argparse.Namespace) -> "Isotropy":
    """Load the map; raise if map and table are in the wrong order."""
    from unclump.tables.transform import Isotropy

    try:
        return Isotropy.load(args.map)
    except FileError as error:
        try:
            Isotropy.load(args.file)
        except FileError:
            raise error from None
        first, second = sanitise(args.file), sanitise(args.map)
        raise FileError(f"{first}: is a map, and maps come before tables; try unclump apply {first} {second}") from None
