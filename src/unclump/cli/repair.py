"""`unclump repair FILE`: which repair of a table helps, if any, with the evidence."""

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import FileError, sanitise
from unclump.cli._files import add_input
from unclump.cli._stages import shows_progress

if TYPE_CHECKING:
    from unclump.tables.comparison_methods import Fits, Method
    from unclump.tables.files import Table

HELP = "compare repairs of a table, on your own data"
DESCRIPTION = (
    "Compare repairs of a table: neighbours kept, hubs, rank, time, and your own score before and after, with "
    "intervals. Recommends a repair that improves that score, or none. May take minutes."
)
EXAMPLES = """examples:
  unclump repair words.npz                                        by neighbours kept and hubs removed
  unclump repair words.npz --pairs judged.tsv                     by lines of name, name, score
  unclump repair docs.npy --queries q.npy --relevant r.tsv        by lines of query number, row
  unclump repair images.npy --labels classes.txt                  by a label for each row
  unclump repair words.npz --pairs judged.tsv -o better.npz --map map.safetensors
                                                                  write what is recommended

Fields are separated by tabs; a line that begins with a hash and a space is a comment. Rows are given by name, or by
number from 0 if FILE has no names. A map suits any table, and queries can follow it. Spreading moves rows one by one,
and queries cannot follow: it is recommended only with --by-index, for tables that are only looked up by index (token
tables, codebooks, prototypes).
"""
_SAMPLE = 20_000


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    add = command.add_argument
    add("--pairs", type=Path, metavar="FILE", help="judge by pairs, lines of name, name, score: Spearman's correlation")
    add("--queries", type=Path, metavar="FILE", help="judge by queries, a table, with --relevant: recall@k")
    add("--relevant", type=Path, metavar="FILE", help="relevant rows of the queries, lines of query number from 0, row")
    add("-k", type=int, default=10, metavar="K", help="rows retrieved per query (10)")
    add("--labels", type=Path, metavar="FILE", help="judge by labels, one per line: accuracy of 10 nearest neighbours")
    add("--by-index", action="store_true", help="rows are only looked up by index, so they may move one by one")
    add("-o", "--output", type=Path, metavar="OUT", help="write the recommended table")
    add("--map", type=Path, metavar="MAP", help="write the recommended map, for unclump apply")
    add("--save", type=Path, metavar="FILE", help="write the comparison as JSON, for unclump report --comparison")
    add("--sample", type=int, default=_SAMPLE, metavar="ROWS", help=f"rows compared in a larger table ({_SAMPLE})")
    add("--seed", type=int, default=0, help="random seed (0)")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="no notice of a long comparison, no progress bar")


def run(args: argparse.Namespace) -> None:
    """Read, validate everything, compare, write what is recommended, print."""
    from unclump._checks import check_count
    from unclump.cli._estimate import announce_comparison
    from unclump.cli._evidence import read_evidence
    from unclump.cli._tables import paths_of, read_table
    from unclump.tables.comparison_files import check_comparison_target, save_comparison
    from unclump.tables.comparison_methods import Fits, candidates, method_named
    from unclump.tables.comparison_run import compare
    from unclump.tables.files import check_target
    from unclump.tables.transform_files import check_map_target

    check_count("--sample", args.sample, at_least=100)
    check_count("-k", args.k)
    table, directed, notes = read_table(args)
    if args.output is not None:
        check_target(args.output, table)
    if args.map is not None:
        check_map_target(args.map)
    if args.save is not None:
        check_comparison_target(args.save)
    _check_distinct([path for path in (args.output, args.map, args.save) if path is not None])
    evidence = read_evidence(args, table, directed)
    notes += [] if evidence is None else [evidence.note]
    rows = table.points if directed.all() else table.points[directed]
    paths = paths_of(args.file, table, args, args.output)
    fits, progress = Fits(rows.detach(), seed=args.seed), shows_progress(args)
    if not args.quiet:
        repairs = sum(1 for _ in candidates(rows.shape[1], len(rows)))
        announce_comparison(repairs, min(args.sample, len(rows)), *rows.shape)
    comparison = compare(
        fits,
        paths=paths.without_folders(),
        rows=len(table.points),
        figure=None if evidence is None else evidence.figure,
        source="" if evidence is None else evidence.source,
        left_out=0 if evidence is None else evidence.left_out,
        by_index=args.by_index,
        sample=args.sample,
        progress=progress,
    )
    if args.save is not None:
        save_comparison(args.save, comparison)
    method = method_named(comparison.recommendation.method, rows.shape[1], len(rows))
    if method is not None:  # the saved comparison has no folders of this machine, the printed command needs them
        command = method.command(paths, len(table.points), args.seed)
        comparison = replace(comparison, recommendation=replace(comparison.recommendation, command=command))
    written, left = _write(args, table, fits, method)
    if args.json:
        result = comparison.to_dict()
        result |= {"notes": [*result["notes"], *notes, *left], "written": list(map(str, written))}
        print(json.dumps(result, indent=1, allow_nan=False))
        return
    print(comparison)
    for note in (*notes, *left, *(f"written to {sanitise(path)}" for path in written)):
        print(note)


def _check_distinct(outputs: list[Path]) -> None:
    """Raise if two outputs are one file."""
    for first, second in itertools.combinations(outputs, 2):
        if first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second)):
            raise FileError(f"{sanitise(second)}: is named for two outputs; write each to a file of its own")


def _write(
    args: argparse.Namespace, table: "Table", fits: "Fits", method: "Method | None"
) -> tuple[list[Path], list[str]]:
    """Write the recommended table and map; return which of them, and notes on what was not written."""
    from unclump.cli._tables import mapped
    from unclump.tables.comparison_methods import Map
    from unclump.tables.files import save

    written, left = [], []
    if args.map is not None:
        if isinstance(method, Map):
            fits.fit(method)[0].save(args.map)
            written.append(args.map)
        else:
            left.append(f"{sanitise(args.map)} was not written: no map is recommended")
    if args.output is not None:
        if method is None:
            left.append(f"{sanitise(args.output)} was not written: the table should stay as it is")
        else:
            if isinstance(method, Map):
                with mapped(table, fits.fit(method)[0], progress=shows_progress(args)) as images:
                    save(args.output, images)
            else:
                save(args.output, table.with_points(method.apply(table.points, fits.seed)))
            written.append(args.output)
    return written, left
