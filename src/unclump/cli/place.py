"""`unclump place FILE --new tokens.txt -o OUT`: new rows in the emptiest directions of a table."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import FileError, counted, sanitise
from unclump.cli._files import add_habits, add_input, add_output
from unclump.cli._stages import Stages

if TYPE_CHECKING:
    from torch import Tensor

    from unclump.tables.files import Table

HELP = "add rows in the emptiest directions of a table"
DESCRIPTION = "Add rows to a table, far from all of its rows and from each other."
EXAMPLES = """examples:
  unclump place words.npz --new tokens.txt -o longer.npz       a row for each name in tokens.txt
  unclump place vectors.npy --count 5 -o longer.npy            five rows for a table without names

New rows are appended; the old ones are unchanged, bit for bit. The norm of a new row is the median norm of the table.
"""
_SAMPLES = 10_000  # candidate directions; at least four times the number of new rows
_NAMELESS = ("npy", "safetensors")  # formats that cannot store names


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    new_rows = command.add_mutually_exclusive_group(required=True)
    new_rows.add_argument("--new", type=Path, metavar="FILE", help="names of the new rows, one per line")
    new_rows.add_argument("--count", type=int, metavar="N", help="number of new rows, for a table without names")
    add_output(command)
    command.add_argument("--seed", type=int, default=0, help="seed of the candidate directions (0)")
    add_habits(command, quiet="print nothing, unless --json")


def run(args: argparse.Namespace) -> None:
    """Read the table, validate everything, place the rows, write, and print the result."""
    with Stages(args) as stages:
        text = _run(args, stages)
    if args.json or not args.quiet:
        print(text)


def _run(args: argparse.Namespace, stages: Stages) -> str:
    """Run the command, and return what to print at the end."""
    stages.show(f"reading {sanitise(args.file.name)}")
    import torch

    from unclump._checks import check_count
    from unclump.cli._options import resolve_device
    from unclump.cli._tables import read_table, resolve_output
    from unclump.dispersion.moves import norms_of
    from unclump.dispersion.placing import place_among
    from unclump.ops.project import project
    from unclump.tables.files import check_target, save
    from unclump.tables.rows import BLOCK

    if args.count is not None:
        check_count("--count", args.count)
    output, device = resolve_output(args), resolve_device(args.device)
    table, directed, notes = read_table(args)
    new_names = _new_names(args, table)
    count = args.count if new_names is None else len(new_names)
    names = None if table.names is None or new_names is None else [*table.names, *new_names]
    rows, d = table.points.shape
    # Validate the output with a placeholder of its final size, which takes no memory.
    placeholder = table.points.new_zeros(1, d).expand(rows + count, d)
    format_name = check_target(output, table.with_points(placeholder, names=names), in_place=args.in_place)

    stages.show("preparing")
    old = table.points if directed.all() else table.points[directed]
    norms = torch.cat([norms_of(some) for some in torch.split(old, max(1, BLOCK // d))])
    directions = place_among(
        count,
        project(old.to(device)),
        samples=max(_SAMPLES, 4 * count),
        generator=torch.Generator().manual_seed(args.seed),
        progress=stages.progress,
    )
    added = (directions * norms.median()).to(table.points)
    if not (added.isfinite().all() and added.any(dim=-1).all()):
        raise ValueError(
            f"{sanitise(args.file)}: expected {str(added.dtype).removeprefix('torch.')} to hold new rows of the median "
            "norm, got infinite or zero ones; scale the table, or use a wider dtype"
        )
    longer = table.with_points(torch.cat([table.points, added]), names=names)
    stages.show(f"writing {sanitise(output.name)}")
    save(output, longer, in_place=args.in_place)
    if args.new is not None and args.names is not None and format_name in _NAMELESS:
        files = f"{sanitise(args.names)}, then of {sanitise(args.new)}"
        notes.append(f"it cannot store names: they are the lines of {files}")
    stages.show("measuring")
    smallest, largest = _nearest_distances(old, added, progress=stages.progress)
    if args.json:
        files_and_rows = {"file": str(args.file), "output": str(output), "rows": rows, "added": count}
        nearest = {"smallest_degrees": smallest, "largest_degrees": largest}
        return json.dumps({**files_and_rows, "nearest_of_added": nearest, "notes": notes}, indent=1)
    ends = dict.fromkeys(f"{angle:.4f}°" for angle in (smallest, largest))  # one if they are the same
    added_to = f"{counted(count, 'row')} added to {rows}; the nearest other row is {' to '.join(ends)} away"
    return "\n".join([added_to, f"written to {sanitise(output)}", *notes])


def _new_names(args: argparse.Namespace, table: "Table") -> Sequence[str] | None:
    """Read the names of the new rows, which must be new; None for a table without names."""
    from unclump.tables.files import read_lines

    file = sanitise(args.file)
    if args.new is None:
        if table.names is not None:
            raise ValueError(f"expected names for the new rows, since those of {file} have names; use --new FILE")
        return None
    if table.names is None:
        raise ValueError(f"expected a table with names for --new, got {file} without; use --count N, or --names FILE")
    lines, known, line_of = read_lines(args.new), set(table.names), dict[str, int]()
    for line, name in enumerate(lines, start=1):
        where = f"{sanitise(args.new)}: line {line}"
        if not name:
            raise FileError(f"{where} is empty; list one name per line")
        if name in known:
            raise FileError(f"{where}: '{sanitise(name)}' is already in {file}; leave it out")
        if name in line_of:
            raise FileError(f"{where}: '{sanitise(name)}' is already on line {line_of[name]}; leave it out")
        line_of[name] = line
    return lines


def _nearest_distances(old: "Tensor", added: "Tensor", *, progress: bool) -> tuple[float, float]:
    """The smallest and the largest angle, in degrees, of the added rows to their nearest of all others."""
    import torch

    from unclump._precision import full_dtype
    from unclump.geometry.sphere import angle
    from unclump.tables.rows import Rows
    from unclump.tables.sampled_search import nearest_in_table

    rows = Rows([old, added])
    all_rows, new = torch.arange(len(rows)), torch.arange(len(old), len(rows))
    found = nearest_in_table(rows, all_rows, new, k=1, dtype=full_dtype(old.dtype), progress=progress)[:, 0]
    nearest = angle(rows.directions(new), rows.directions(found))
    return math.degrees(nearest.min()), math.degrees(nearest.max())
