"""`unclump spread FILE -o OUT`: move the rows of a table apart, within limits."""

import argparse
import json
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unclump._text import sanitise
from unclump.cli._files import add_habits, add_input, add_output
from unclump.cli._spread_checks import check_checkpoint, validate
from unclump.cli._stages import Stages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unclump.cli._comparison import Change, State
    from unclump.tables.files import Table

HELP = "move the rows of a table apart"
DESCRIPTION = (
    "Move the rows of a table apart, each by itself; format, dtype, order and names stay the same. For tables that are "
    "only looked up by index (token tables, codebooks, prototypes): queries cannot follow. unclump repair compares it "
    "with maps, which queries can follow."
)
EXAMPLES = """examples:
  unclump spread words.npz -o spread.npz                        spread the whole table
  unclump spread words.npz --try-moves 5,10,20                  compare limits on moves; writes nothing
  unclump spread words.npz -o spread.npz --max-move 10          no row turns by more than 10 degrees
  unclump spread words.npz -o spread.npz --duplicates-only      separate only rows that are (nearly) the same
  unclump spread words.npz -o spread.npz --freeze rows.txt      the rows listed in rows.txt do not change
  unclump spread words.npz -o spread.npz --objective energy --option kernel=riesz --option kernel.s=2
  unclump spread words.npz -o spread.npz --checkpoint run.pt    a killed run resumes when it is started again

The rows of OUT have norm 1, unless --keep-norms is used; --freeze and --duplicates-only keep all norms.
"""
_PASSES = 200, 1000  # bounds on the default number of passes over the table, which aims at 10 million rows in all
_LR = math.degrees(0.01)
_BATCH = 1024  # for objectives whose cost is quadratic in the rows
_WHOLE_TABLE = ("sliced", "ssw", "lloyd", "spherical_variance")


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_input(command)
    add_output(command)
    add = command.add_argument
    add("--objective", metavar="NAME", help="what to minimise: sliced (default), koleo, max_min, energy, mmd, ...")
    add("--option", action="append", metavar="KEY=VALUE", help="option of the objective: circles=13, kernel=riesz")
    add("--steps", type=int, metavar="N", help="number of updates (200 passes over a large table)")
    add(
        "--lr",
        type=float,
        metavar="DEGREES",
        help=f"about how far a row turns in the first step; decays to 0 ({_LR:.2g})",
    )
    add(
        "--batch-size",
        type=int,
        metavar="ROWS",
        help=f"rows per step (all for {', '.join(_WHOLE_TABLE)}; {_BATCH} for the others)",
    )
    add("--max-move", type=float, metavar="DEGREES", help="rotate no row by more than this, even after rounding")
    add("--try-moves", metavar="DEGREES,...", help="compare these values of --max-move; write nothing")
    add("--freeze", type=Path, metavar="FILE", help="rows that do not change: names or numbers from 0, one per line")
    add("--duplicates-only", action="store_true", help="move only rows that have another row within --within")
    add(
        "--within",
        type=float,
        metavar="DEGREES",
        help="largest angle between duplicates (1, or less in few dimensions)",
    )
    add("--keep-norms", action="store_true", help="keep the norm of each row, change only its direction")
    add("--checkpoint", type=Path, metavar="FILE", help="save the run's state and resume from it; deleted at the end")
    add("--seed", type=int, default=0, help="random seed (0)")
    add_habits(command, quiet="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Read the table, validate everything, spread, write, and print the comparison."""
    with Stages(args) as stages:
        text = _run(args, stages)
    if text is not None:
        print(text)


def _run(args: argparse.Namespace, stages: Stages) -> str | None:
    """Run the command, and return what to print at the end."""
    stages.show(f"reading {sanitise(args.file.name)}")
    from unclump.cli._comparison import comparison_to_dict, format_comparison
    from unclump.cli._tables import read_table, resolve_output
    from unclump.tables.files import check_target, save

    max_moves = validate(args)
    output = resolve_output(args) if max_moves is None else None
    table, directed, notes = read_table(args)
    if output is not None:
        check_target(output, table, in_place=args.in_place)
        check_checkpoint(args.checkpoint, args.file, output)
    job = _Job(table, directed, args, stages)
    before = job.measure(job.start)
    if max_moves is not None:
        _try_moves(job, before, max_moves)
        return None
    assert output is not None
    points = job.separate_duplicates() if args.duplicates_only else job.spread(args.max_move)
    stages.show(f"writing {sanitise(output.name)}")
    save(output, table.with_points(points), in_place=args.in_place)
    if args.checkpoint is not None:
        args.checkpoint.unlink(missing_ok=True)
    rows = job.with_direction(points)
    after = job.measure(rows)
    measured = before, after, job.measure_change(rows, before, after, args.max_move)
    notes = [*job.notes, *_copies(after.smallest, rows, args), *notes]
    if args.json:
        files = {"file": str(args.file), "output": str(output), "rows": len(table.points)}
        return json.dumps({**files, **comparison_to_dict(*measured), "notes": notes}, indent=1)
    return "\n".join([format_comparison(*measured, len(rows)), *notes, f"written to {sanitise(output)}"])


class _Job:
    """A table and what to do with it; the options are validated on construction."""

    def __init__(self, table: "Table", directed: Any, args: argparse.Namespace, stages: Stages) -> None:
        from unclump.cli._options import build_objective, read_row_list, resolve_device

        self.table, self.args, self.stages, self.notes = table, args, stages, list[str]()
        self.points = table.points.to(resolve_device(args.device))
        self.directed = None if directed.all() else directed.to(self.points.device)
        self.start = self.with_direction(self.points)
        self.frozen = None if args.freeze is None else read_row_list(args.freeze, table)
        self.keep_norms = args.keep_norms or self.frozen is not None or args.duplicates_only
        name = args.objective or "sliced"
        self.objective = partial(build_objective, name, args.option or (), args.seed)
        self.objective()  # raises now rather than later
        rows = len(table.points)
        self.batch_size = args.batch_size or (None if name in _WHOLE_TABLE or rows <= _BATCH else _BATCH)
        passes = min(max(_PASSES[0], 10_000_000 // rows), _PASSES[1])
        self.steps = args.steps if args.steps is not None else passes * max(1, rows // (self.batch_size or rows))

    def with_direction(self, points: Any) -> Any:
        """The rows that were not zero in FILE."""
        return points if self.directed is None else points[self.directed]

    def measure(self, points: Any) -> "State":
        """The measures of these points."""
        from unclump.cli._comparison import measure_state

        self.stages.show("measuring")
        return measure_state(points, progress=self.stages.progress)

    def measure_change(self, points: Any, before: "State", after: "State", max_move: float | None) -> "Change":
        """The moves from the table to these points, which have these measures."""
        from unclump.cli._comparison import measure_change

        self.stages.show("comparing")
        return measure_change(self.start, points, before, after, max_move)

    def spread(self, max_move: float | None) -> Any:
        """Disperse the points of the table, in the dtype they are written in."""
        import torch

        from unclump.dispersion.loop import disperse

        args = self.args
        self.stages.show("preparing")
        result = disperse(
            self.points,
            self.objective(),  # with a new generator: the result does not depend on earlier runs
            steps=self.steps,
            lr=math.radians(_LR if args.lr is None else args.lr),
            batch_size=self.batch_size,
            generator=torch.Generator().manual_seed(args.seed),
            progress=self.stages.progress,
            frozen=self.frozen,
            max_move=None if max_move is None else math.radians(max_move),
            keep_norms=self.keep_norms,
            checkpoint=args.checkpoint,
            schedule=lambda step: 1 - step / self.steps,
        )
        if result.history.interrupted:
            raise KeyboardInterrupt(_resume_hint(args.checkpoint))
        if not self.keep_norms:
            self.notes = ["norms: every row has norm 1 (--keep-norms keeps the norms of FILE)"]
        return result.points

    def separate_duplicates(self) -> Any:
        """Separate only the rows of the table that are (nearly) the same."""
        import torch

        from unclump.dispersion.repair import separate_duplicates

        args = self.args
        self.stages.show("separating duplicates")
        result = separate_duplicates(
            self.points,
            within=None if args.within is None else math.radians(args.within),
            frozen=self.frozen,
            max_move=None if args.max_move is None else math.radians(args.max_move),
            generator=torch.Generator().manual_seed(args.seed),
        )
        within = f"{math.degrees(result.within):.4g}°"
        self.notes = [f"{len(result.rows)} rows had another row within {within}; no other row changed"]
        return result.points


def _try_moves(job: _Job, before: "State", max_moves: list[float]) -> None:
    """Print a line for each limit on moves, as soon as it is computed; or JSON, at the end."""
    from unclump.cli._comparison import NEIGHBOURS, Change, comparison_to_dict

    def results() -> "Iterator[tuple[float, State, Change]]":
        yield 0.0, before, Change(0.0, 0.0, 1.0, 0)
        for degrees in max_moves:
            spread = job.with_direction(job.spread(degrees))
            after = job.measure(spread)
            yield degrees, after, job.measure_change(spread, before, after, degrees)

    if job.args.json:
        lines = [
            {"max_move_degrees": degrees, **comparison_to_dict(before, state, change)}
            for degrees, state, change in results()
        ]
        job.stages.clear()
        print(json.dumps({"file": str(job.args.file), "max_moves": lines}, indent=1))
        return
    angles = "smallest angle", "median nearest angle"
    headings = ("max move", "rows at the bound", f"overlap@{NEIGHBOURS}", "spherical variance", *angles)
    job.stages.clear()
    print("  ".join(headings))
    for degrees, state, change in results():
        angles = f"{state.smallest:.4f}°", f"{state.median_nearest:.4f}°"
        job.stages.clear()
        cells = (f"{degrees:g}°", str(change.at_bound), f"{change.overlap:.4f}", f"{state.variance:.4f}", *angles)
        print("  ".join(f"{cell:>{len(heading)}}" for heading, cell in zip(headings, cells, strict=True)), flush=True)
    print("nothing was written; choose one with --max-move")


def _copies(smallest: float, points: Any, args: argparse.Namespace) -> list[str]:
    """Say that rows are still near duplicates, which a bound on moves keeps together."""
    from unclump.geometry.uniform_law import duplicate_angle

    near = math.degrees(duplicate_angle(*points.shape))
    if args.max_move is None or smallest > near:
        return []
    advice = "" if args.duplicates_only else "; --duplicates-only separates copies"
    return [f"some rows are still within {near:.3g}° of another: --max-move lets none turn farther{advice}"]


def _resume_hint(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "; nothing was written (with --checkpoint FILE the run could be resumed)"
    return f"; no table was written; the same command resumes from {sanitise(checkpoint)}"
