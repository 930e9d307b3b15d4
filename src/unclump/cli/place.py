"""`unclump place FILE --new tokens.txt -o OUT`: new rows in the emptiest directions of a table."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unclump._text import sanitise
from unclump.tables.files import FileError, Table, save

EXAMPLES = """examples:
  unclump place words.npz --new tokens.txt -o longer.npz       a row for each name in tokens.txt
  unclump place vectors.npy --count 5 -o longer.npy            five rows for a table without names

New rows come after the old ones, which stay to the bit. Their norm is the median norm of the table.
"""
_SAMPLES = 10_000  # places to choose from, or four times the new rows
_NAMELESS = ("npy", "safetensors")  # formats without a place for names


def add_to(commands: Any) -> None:
    """The command and its options."""
    from unclump.cli._tables import add_input, add_output

    command = commands.add_parser(
        "place",
        help="add rows in the emptiest directions of a table",
        description="Add rows to a table, far from all of its rows and from each other.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(command)
    how_many = command.add_mutually_exclusive_group(required=True)
    how_many.add_argument("--new", type=Path, metavar="FILE", help="the new rows' names, one a line")
    how_many.add_argument("--count", type=int, metavar="N", help="how many rows, for a table without names")
    add_output(command)
    command.add_argument("--seed", type=int, default=0, help="of the places to choose from (0)")
    command.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Read, check everything, place, write, tell."""
    import torch

    from unclump._checks import check_count
    from unclump.cli._tables import check_output, output_of, read_table
    from unclump.dispersion.moves import norms_of
    from unclump.dispersion.placing import place
    from unclump.geometry.sphere import full_precision

    if chosen.count is not None:
        check_count("--count", chosen.count)
    output = output_of(chosen)
    table = read_table(chosen)
    new_names = _new_names(chosen, table)
    count = chosen.count if new_names is None else len(new_names)
    names = None if table.names is None or new_names is None else [*table.names, *new_names]
    rows, d = table.points.shape
    # The door looks at the size of what will be written, which this has at no cost.
    as_large = table.points.new_zeros(1, d).expand(rows + count, d)
    form = check_output(output, table.with_points(as_large, names=names), in_place=chosen.in_place)

    points = full_precision(table.points)
    generator = torch.Generator().manual_seed(chosen.seed)
    directions = place(count, points, samples=max(_SAMPLES, 4 * count), generator=generator)
    added = (directions * norms_of(points).median()).to(table.points.dtype)
    if not (added.isfinite().all() and added.any(dim=-1).all()):
        raise ValueError(
            f"{sanitise(chosen.file)}: expected room for new rows of the median norm in "
            f"{str(added.dtype).removeprefix('torch.')}, got infinite or zero ones; scale the table, or widen its dtype"
        )
    longer = table.with_points(torch.cat([table.points, added]), names=names)
    save(output, longer, in_place=chosen.in_place)
    print(_told(longer, rows))
    print(f"written to {sanitise(output)}")
    if chosen.new is not None and chosen.names is not None and form in _NAMELESS:
        files = f"{sanitise(chosen.names)}, then of {sanitise(chosen.new)}"
        print(f"it cannot store names: they are the lines of {files}")


def _new_names(chosen: argparse.Namespace, table: Table) -> Sequence[str] | None:
    """The names of the new rows, each new; None for a table without names."""
    from unclump.cli._tables import read_lines

    file = sanitise(chosen.file)
    if chosen.new is None:
        if table.names is not None:
            raise ValueError(f"expected names for the new rows, since those of {file} have names; give --new FILE")
        return None
    if table.names is None:
        raise ValueError(f"{file} has no names, so new ones have no place; use --count N, or give --names FILE")
    lines, known, seen = read_lines(chosen.new), set(table.names), dict[str, int]()
    for line, name in enumerate(lines, start=1):
        where = f"{sanitise(chosen.new)}: line {line}"
        if not name:
            raise FileError(f"{where} is empty; give one name a line")
        if name in known:
            raise FileError(f"{where}: '{sanitise(name)}' is in {file} already; leave it out")
        if name in seen:
            raise FileError(f"{where}: '{sanitise(name)}' is on line {seen[name]} already; leave it out")
        seen[name] = line
    return lines


def _told(table: Table, old: int) -> str:
    """How far the new rows are from all others."""
    import torch

    from unclump.geometry.sphere import angle, project
    from unclump.measures.overlap import nearest_rows

    points = table.points
    new = torch.arange(old, len(points))
    near = angle(*(project(points[some].double()) for some in (new, nearest_rows(points, new, 1)[:, 0])))
    smallest, largest = (f"{math.degrees(found):.4f}°" for found in (near.min(), near.max()))
    plural = "s" if len(new) > 1 else ""
    return f"{len(new)} row{plural} added to {old}; the nearest other row is {smallest} to {largest} away"
