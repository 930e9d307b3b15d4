"""`unclump demo`: disperse a clumped table, and measure it before and after, with a figure and a report."""

import argparse
import io
import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._text import FileError, sanitise

if TYPE_CHECKING:
    from torch import Tensor

    from unclump.measures.summary_table import Summary

HELP = "disperse a clumped table, with a figure and a report"
DESCRIPTION = "Disperse a clumped table, and show how it changes: in numbers, as a figure and as a report."
EXAMPLES = "example: unclump demo -o my-demo"
ROWS, DIMENSIONS, SCALE = 2_000, 64, 250.0


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the folder."""
    command.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", default=Path("unclump-demo"), help="output folder (unclump-demo)"
    )
    command.add_argument("--json", action="store_true", help="print JSON: measures and files")
    command.add_argument("--quiet", action="store_true", help="no progress bars, and print nothing, unless --json")


def run(args: argparse.Namespace) -> None:
    """Print the table's measures before and after, and write the files."""
    from unclump.tables.files import Table, save

    is_silent = args.quiet or args.json
    out = io.StringIO() if is_silent else sys.stdout

    folder: Path = args.output
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{sanitise(folder)}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    clumped, dispersed, page = folder / "clumped.npy", folder / "dispersed.npy", folder / "report.html"
    print(f"A clumped table of {ROWS} points in {DIMENSIONS} dimensions, as from a collapsed model.\n", file=out)
    start = time.perf_counter()
    before = _clumped_table()
    print("First Sliced pulls the clump open, then KoLeo pushes nearest neighbours apart:", file=out)
    after = _disperse(before, progress=not is_silent and sys.stderr.isatty())
    print(f"\nDispersed in {time.perf_counter() - start:.1f} s.\n", file=out)
    old, new = _measure(before), _measure(after)
    width = max(len(name) for name, _ in old.rows())
    for (name, was), (_, now) in zip([("", "before"), *old.rows()], [("", "after"), *new.rows()], strict=True):
        print(f"{name:<{width}}  {was:>12}  {now:>12}", file=out)
    print("\nDrawing the figure and writing the report ...", file=out, flush=True)
    save(clumped, Table(before))
    save(dispersed, Table(after))
    figure = folder / "before_after.png"
    has_figure = _draw(before, after, figure)
    shown = figure.resolve().as_uri() if has_figure else "needs matplotlib: pip install 'unclump[report]'"
    _write_report(clumped, dispersed, page)
    print(f"\nFigure  {shown}\nReport  {page.resolve().as_uri()}\n", file=out)
    print("Next. The same commands take a table of your own:", file=out)
    if shutil.which("unclump") is None:
        print("  source .venv/bin/activate", file=out)
    for words in (["measure"], ["report"], ["spread", "-o", "apart.npy"]):
        print(f"  unclump {shlex.join([words[0], str(clumped), *words[1:]])}", file=out)
    if args.json:
        files = {"before": str(clumped), "after": str(dispersed), "report": str(page)}
        files |= {"figure": str(figure)} if has_figure else {}
        measures = {"before": old.to_dict(), "after": new.to_dict()}
        print(json.dumps({"files": files, "measures": measures}, indent=1))


def _clumped_table() -> "Tensor":
    import torch

    from unclump.geometry.distributions import PowerSpherical

    one_direction = torch.eye(DIMENSIONS)[0]
    return PowerSpherical(one_direction, SCALE).sample((ROWS,), generator=torch.Generator().manual_seed(0))


def _disperse(table: "Tensor", *, progress: bool) -> "Tensor":
    import torch

    from unclump.dispersion.loop import disperse
    from unclump.objectives import KoLeo, Sliced

    sliced = Sliced(circles=8, generator=torch.Generator().manual_seed(1))
    opened = disperse(table, sliced, steps=300, lr=0.02, progress=progress).points
    return disperse(opened, KoLeo(), steps=150, lr=0.005, progress=progress).points


def _measure(table: "Tensor") -> "Summary":
    import torch

    from unclump.measures.angles import summary

    return summary(table, samples=5_000, generator=torch.Generator().manual_seed(2))


def _draw(before: "Tensor", after: "Tensor", path: Path) -> bool:
    """Draw both tables along the clump's axis, and their nearest angles; returns whether matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle
    except ModuleNotFoundError:
        return False
    from torch.nn.functional import normalize

    from unclump.figures.plots import nearest_angle_histogram

    figure = Figure(figsize=(10, 8), layout="constrained")
    grid = figure.subplots(2, 2)
    clump = normalize(before.mean(dim=0), dim=0)
    for column, (title, table) in enumerate((("before", before), ("after", after))):
        section, nearest = grid[:, column]
        along = table @ clump
        section.scatter(along, table[:, -1], s=4, alpha=0.5, linewidths=0)
        section.add_patch(Circle((0, 0), 1, fill=False, color="grey"))
        section.set(title=title, xlabel="along the clump", ylabel="across", aspect=1)
        section.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
        nearest_angle_histogram(table, axes=nearest).set_xlim(0, 90)
        nearest.set_ylim(top=1.2 * nearest.get_ylim()[1])  # room for the legend
        nearest.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=120)
    return True


def _write_report(clumped: Path, dispersed: Path, page: Path) -> None:
    from unclump.cli.report import write_page
    from unclump.report import report
    from unclump.tables.files import load

    command = shlex.join(["unclump", "report", clumped.name, dispersed.name, "-o", page.name])
    write_page(page, report(load(clumped), load(dispersed), command=command))
