"""`unclump measure FILE`: the health of a table of embeddings, compared with uniform points, and a verdict."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import FileError, escape_unprintable, sanitise
from unclump.cli._files import add_habits, add_input

if TYPE_CHECKING:
    from jaxtyping import Float64
    from torch import Tensor

    from unclump.cli._processes import Processes
    from unclump.tables.files import Table
    from unclump.tables.findings import Health

HELP = "measure the health of a table of embeddings"
DESCRIPTION = (
    "Measure duplicates, nearest angles, cone, rank, hubness, constant dimensions and norms of a table of embeddings, "
    "compare them with those of as many uniform points, and give a verdict, which distinguishes faults from the "
    "structure of a good table."
)
EXAMPLES = """examples:
  unclump measure words.npy                          the table's health and a verdict
  unclump measure glove.txt --json                   the same as JSON
  unclump measure model.safetensors --tensor wte     one tensor of a model
  unclump measure words.npy --names words.txt        with row names from a file, one per line
  unclump measure words.npy --fail-on duplicates,rank --quiet
                                                     exit code 1 if one of these faults is found
  unclump measure part-*.safetensors                 one table that is split over several files
  torchrun --nproc-per-node 4 -m unclump measure part-*.safetensors
                                                     each process reads a quarter of the files; the first one prints
  unclump measure large.safetensors --sample 20000   the neighbours of more rows than by default
  unclump measure words.npy --save words.health      all that was measured, for unclump report --from

Faults are directions (rows that are NaN, infinite or zero), duplicates, near-duplicates, rank, cone, hubs, dimensions
(constant ones) and norms (that carry the frequency). Angles are in degrees. Rows are counted from 0. Rows without a
direction are listed and left out. Several files are measured together, as parts of one table: to compare two versions
of a table, use unclump report BEFORE AFTER.

Effective rank: how many dimensions the rows use, of d. Hubness: how unevenly rows are among the 10 nearest of others; a
hub is among those of very many. Cone: how much all rows share one direction, by the mean cosine of pairs.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command, shards=True)
    add = command.add_argument
    add("--fail-on", metavar="FAULTS", help="exit with code 1 if one of these faults is found, separated by commas")
    add("--save", type=Path, metavar="FILE", help="save the result for unclump report --from")
    add("--frequencies", type=Path, metavar="FILE", help="how often each row is used, one number per line")
    size = command.add_mutually_exclusive_group()
    size.add_argument(
        "--exact", action="store_true", help="search for the neighbours of all rows, however many there are"
    )
    size.add_argument("--sample", type=int, metavar="N", help="search for the neighbours of N rows")
    add("--seed", type=int, default=0, help="random seed, for sampling and simulated p-values (0)")
    add_habits(command, quiet="no estimate of the time, no progress bar")


def run(args: argparse.Namespace) -> int:
    """Read, measure, print; return the exit code."""
    from unclump.cli._processes import join_processes

    with join_processes() as processes:
        return _run(args, processes)


def _run(args: argparse.Namespace, processes: "Processes") -> int:
    import torch

    from unclump.cli._estimate import announce
    from unclump.cli._options import resolve_device
    from unclump.cli._shares import read_share
    from unclump.tables.health import health

    fail_on, device = _parse_faults(args.fail_on), resolve_device(args.device)
    processes.all_or_none(lambda: _check_target(args, processes))
    share = read_share(args, processes)
    frequencies = processes.all_or_none(lambda: _read_frequencies(args.frequencies, share.total))
    is_quiet = args.quiet or not processes.is_first
    if not is_quiet:
        announce(
            share.total,
            share.parts[0].shape[1],
            advice=", which --sample or --exact changes",
            exact=args.exact,
            sample=args.sample,
            processes=processes.size,
        )
    result = health(
        share.parts,
        names=share.names,
        frequencies=None if frequencies is None else frequencies[share.here],
        exact=args.exact,
        sample=args.sample,
        generator=torch.Generator().manual_seed(args.seed),
        gather=processes.size > 1,
        device=device,
        progress=not is_quiet and sys.stderr.isatty(),
    )
    if processes.is_first:
        if args.save is not None:
            result.save(args.save)
        commands = _commands(result, share.tables, args)
        if args.json:
            files = {"file": str(args.files[0])} if len(args.files) == 1 else {"files": list(map(str, args.files))}
            result_json = files | result.to_dict() | {"notes": share.notes}
            result_json["verdict"]["commands"] = commands
            print(json.dumps(result_json, indent=1, allow_nan=False))
        else:
            advice = [f"try: {escape_unprintable(command)}" for command in commands]
            size, _, figures = str(result).partition("\n")
            written = [] if args.save is None else [f"written to {sanitise(args.save)}"]
            print("\n".join([size, *_describe_parts(args.files), figures, *share.notes, *advice, *written]))
    # torchrun ends all processes at the first that fails: the others must not, while the first one writes.
    return int(processes.is_first and not fail_on.isdisjoint(result.verdict.findings))


def _check_target(args: argparse.Namespace, processes: "Processes") -> None:
    """Raise if the result cannot be saved by the process that writes it, before any work is done."""
    from unclump.tables.health_json import check_health_target

    if args.save is not None and processes.is_first:
        check_health_target(args.save)


def _describe_parts(files: list[Path]) -> list[str]:
    """The line that says that several files are measured as one table; no line for a single file."""
    if len(files) == 1:
        return []
    first, last = sanitise(files[0]), sanitise(files[-1])
    if len(files) == 2:
        return [f"one table in 2 files: {first} and {last}; to compare them: unclump report {first} {last}"]
    return [f"one table in {len(files)} files: {first} to {last}; to measure a file by itself, name it alone"]


def _commands(result: "Health", tables: "list[Table]", args: argparse.Namespace) -> list[str]:
    """The commands that help; none for shards, which they do not take."""
    from unclump.cli._tables import paths_of

    if len(args.files) > 1 or not tables:
        return []
    return result.verdict.commands_for(paths_of(args.files[0], tables[0], args))


def _parse_faults(text: str | None) -> set[str]:
    """The faults to fail on, by name."""
    from unclump._checks import check_choice
    from unclump.tables.verdict import FAULTS

    names = [] if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        check_choice("a fault for --fail-on", name, tuple(FAULTS))
    return set(names)


def _read_frequencies(path: Path | None, rows: int) -> "Float64[Tensor, ' n'] | None":
    """One number for each row, from a file, if there is one."""
    import torch

    from unclump.tables.files import read_row_lines

    if path is None:
        return None
    values = []
    for number, line in enumerate(read_row_lines(path, rows, "frequencies"), start=1):
        try:
            values.append(float(line))
        except ValueError:
            raise FileError(f"{sanitise(path)}: line {number}: expected a number, got '{sanitise(line)}'") from None
    return torch.tensor(values, dtype=torch.float64)
