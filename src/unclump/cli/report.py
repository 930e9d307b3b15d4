"""`unclump report FILE [OTHER]`: the health of a table as one HTML page."""

import argparse
import itertools
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unclump._atomic_write import replace_file
from unclump._text import FileError, sanitise
from unclump.cli._files import add_habits, add_input
from unclump.cli._stages import shows_progress

if TYPE_CHECKING:
    from unclump.tables.files import Table

HELP = "write the health of a table as one HTML page"
DESCRIPTION = (
    "Write the health of a table of embeddings as one HTML page that works offline; with two tables, before and after "
    "side by side."
)
EXAMPLES = """examples:
  unclump report words.safetensors                        writes words.report.html
  unclump report glove.npz --tensor vectors -o glove.html
  unclump report words.npy --from words.health            from what unclump measure --save wrote
  unclump report words.npy better.npy -o change.html      before and after, side by side
  unclump report words.npz --labels topics.txt            the map coloured by a label of each row
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    add = command.add_argument
    add("other", type=Path, nargs="?", metavar="OTHER", help="the same rows after a change")
    add("--from", type=Path, dest="saved", metavar="SAVED", help="result of measure --save for FILE")
    add("-o", "--output", type=Path, metavar="PAGE", help="output file (FILE without its suffix + .report.html)")
    add("--comparison", type=Path, metavar="FILE", help="result of repair --save for FILE, to show on the page")
    add(
        "--labels",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="labels or numbers to colour the map by, one per line; may be repeated",
    )
    add(
        "--layout",
        choices=("auto", "umap", "tsne", "pca"),
        default="auto",
        help="the map: UMAP, t-SNE or principal axes; auto is the first of these that is installed (auto)",
    )
    add("--seed", type=int, default=0, help="random seed, for samples of pairs and rows (0)")
    add_habits(command, quiet="no estimate of the time, no progress bar, and do not print the output path")


def run(args: argparse.Namespace) -> None:
    """Read, measure, write the page, print its path."""
    import torch

    from unclump.cli._estimate import announce
    from unclump.cli._options import resolve_device
    from unclump.cli._tables import load_table, paths_of
    from unclump.report import report
    from unclump.tables.comparison_files import load_comparison
    from unclump.tables.findings import Health
    from unclump.tables.health import health

    device = resolve_device(args.device)
    output = args.output or Path(f"{args.file.resolve().stem}.report.html")
    inputs = [path for path in (args.file, args.other) if path is not None]
    _check_page(output)
    methods = None if args.comparison is None else load_comparison(args.comparison)
    tables = [load_table(path, args) for path in inputs]
    _check_not_source(output, tables)
    labels = _read_columns(args.labels, max(len(table.points) for table in tables))
    habits: dict[str, Any] = {
        "generator": torch.Generator().manual_seed(args.seed),
        "device": device,
        "progress": shows_progress(args),
    }
    for number, table in enumerate(tables):
        if not args.quiet and (number > 0 or args.saved is None):
            advice = "; for all rows: unclump measure FILE --exact --save SAVED, then --from SAVED"
            announce(*table.points.shape, advice=advice if number == 0 else "")
    if args.saved is not None:
        measured = Health.load(args.saved, names=tables[0].names)
    else:
        measured = health(tables[0].points, names=tables[0].names, **habits)
    page = report(
        *tables,
        measured=measured,
        methods=methods,
        labels=labels,
        layout=args.layout,
        command=_command(args, inputs),
        **habits,
    )
    write_page(output, page)
    notes = [note for path, table in zip(inputs, tables, strict=True) for note in _notes(path, table, len(tables))]
    if args.json:
        files = {"files": list(map(str, inputs)), "output": str(output)}
        result_json = measured.to_dict()
        result_json["verdict"]["commands"] = measured.verdict.commands_for(paths_of(args.file, tables[0], args))
        print(json.dumps(files | {"health": result_json, "notes": notes}, indent=1, allow_nan=False))
    elif not args.quiet:
        for note in notes:
            print(note)
        print(sanitise(output))


def _notes(path: Path, table: "Table", count: int) -> list[str]:
    """What a user should know of how a file was read; of two files each note names its own."""
    from unclump.cli._tables import notes_on

    return [note if count == 1 else f"{sanitise(path)}: {note}" for note in notes_on(table)]


def _check_page(output: Path) -> None:
    """Raise if the page cannot be written, or would replace anything but a page, before any work is done."""
    from unclump.tables.files._validation import check_file_target, prefix_errors

    with prefix_errors(output):
        if output.suffix.lower() not in (".html", ".htm"):
            raise FileError("a report is an HTML page; name a file that ends in .html")
        check_file_target(output)


def _check_not_source(output: Path, tables: "Sequence[Table]") -> None:
    """Raise if the page would replace a table that was read, whatever it is called."""
    from unclump.tables.files import is_source_file
    from unclump.tables.files._validation import prefix_errors

    with prefix_errors(output):
        is_source = (table.source is not None and is_source_file(output, table.source) for table in tables)
        if output.exists() and any(is_source):
            raise FileError("is what the table was read from; write elsewhere")


def _read_columns(paths: "Sequence[Path]", n: int) -> dict[str, list[str]]:
    """Read a column of labels from each file, by its stem, or a longer title where that is taken."""
    from unclump.tables.files import read_row_lines

    columns: dict[str, list[str]] = {}
    for path in paths:
        numbered = (f"{path.name} ({number})" for number in itertools.count(2))
        title = next(title for title in itertools.chain((path.stem, path.name), numbered) if title not in columns)
        columns[title] = read_row_lines(path, n, "labels")
    return columns


def write_page(output: Path, page: str) -> None:
    """Replace a page once the new one is complete."""
    from unclump.tables.files._validation import prefix_errors

    with prefix_errors(output), replace_file(output) as file:
        file.write(page.encode("utf-8"))


def _command(args: argparse.Namespace, inputs: list[Path]) -> str:
    """Return the command line to print on the page, with file names but no folders of this machine."""
    words = ["unclump", "report", *(path.resolve().name for path in inputs)]
    options = [
        ("-o", args.output),
        ("--tensor", args.tensor),
        ("--names", args.names),
        ("--from", args.saved),
        ("--comparison", args.comparison),
        *(("--labels", path) for path in args.labels),
        ("--layout", args.layout if args.layout != "auto" else None),
        ("--seed", args.seed or None),
    ]
    for flag, value in options:
        if value is not None:
            words += [flag, value.name if isinstance(value, Path) else str(value)]
    return shlex.join(words)
