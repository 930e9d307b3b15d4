"""`unclump spread FILE -o OUT`: the rows of a table move apart, as far as is allowed."""

import argparse
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

from unclump._checks import check_count, check_positive
from unclump._text import sanitise
from unclump.tables.files import Table, save

EXAMPLES = """examples:
  unclump spread words.npz -o spread.npz                        open the whole table
  unclump spread words.npz --try-moves 5,10,20                  what would different strengths do? writes nothing
  unclump spread words.npz -o spread.npz --max-move 10          no row turns by more than 10 degrees
  unclump spread words.npz -o spread.npz --duplicates-only      part rows that are (nearly) the same, and only these
  unclump spread words.npz -o spread.npz --freeze rows.txt      the rows listed there stay as they are
  unclump spread words.npz -o spread.npz --objective energy --option kernel=riesz --option kernel.s=2
  unclump spread words.npz -o spread.npz --checkpoint run.pt    a killed run goes on when it is started again

Rows are unit afterwards, unless --keep-norms is given; --freeze and --duplicates-only keep all norms.
"""
_PASSES = 200, 1000  # over the table, if nobody says how many steps: as many as make 10 million rows, within these
_LR = 0.01
_BATCH = 1024  # for objectives whose cost is the square of the rows
_WHOLE_TABLE = ("sliced", "ssw", "lloyd", "spherical_variance")


def add_to(commands: Any) -> None:
    """The command and its options."""
    from unclump.cli._tables import add_input, add_output

    command = commands.add_parser(
        "spread",
        help="move the rows of a table apart",
        description="Move the rows of a table apart, and write it in its format, dtype and order, names kept.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(command)
    add_output(command)
    add = command.add_argument
    add("--objective", metavar="NAME", help="what to lower: sliced (default), koleo, max_min, energy, mmd, ...")
    add("--option", action="append", metavar="KEY=VALUE", help="of the objective: circles=13, kernel=riesz, kernel.s=2")
    add(
        "--steps",
        type=int,
        metavar="N",
        help="updates (as many as pass 200 times over a large table)",
    )
    add("--lr", type=float, metavar="RADIANS", help=f"about the turn of a row in the first step, falling to 0 ({_LR})")
    add(
        "--batch-size",
        type=int,
        metavar="ROWS",
        help=f"rows in a step (all for {', '.join(_WHOLE_TABLE)}; {_BATCH} for the others)",
    )
    add("--max-move", type=float, metavar="DEGREES", help="turn no row by more than this, in OUT as it is written")
    add("--try-moves", metavar="DEGREES,...", help="print what these values of --max-move would do; write nothing")
    add("--freeze", type=Path, metavar="FILE", help="rows that stay to the bit: names or numbers from 0, one a line")
    add("--duplicates-only", action="store_true", help="move only rows with another --within so many degrees")
    add("--within", type=float, metavar="DEGREES", help="of a duplicate (a tenth of uniform points' smallest)")
    add("--keep-norms", action="store_true", help="each row keeps its norm, only directions change")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keep the run's state there, and go on from it; deleted in the end",
    )
    add("--seed", type=int, default=0, help="of all that is random (0)")
    add("--quiet", action="store_true", help="no progress bar")
    command.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Read, check everything, work, write, tell."""
    from unclump.cli._before_after import before_after, change_of, state_of
    from unclump.cli._tables import check_output, output_of, read_table

    strengths = _check(chosen)
    output = output_of(chosen) if strengths is None else None
    table = read_table(chosen)
    if output is not None:
        check_output(output, table, in_place=chosen.in_place)
        _check_checkpoint(chosen.checkpoint, chosen.file, output)
    work = _Work(table, chosen)
    if strengths is not None:
        _try(work, strengths)
        return
    assert output is not None
    before = state_of(table.points)
    points = work.repaired() if chosen.duplicates_only else work.spread(chosen.max_move)
    save(output, table.with_points(points), in_place=chosen.in_place)
    if chosen.checkpoint is not None:
        chosen.checkpoint.unlink(missing_ok=True)
    print(before_after(before, state_of(points), change_of(table.points, points), len(points)))
    for note in work.notes:
        print(note)
    print(f"written to {sanitise(output)}")


class _Work:
    """A table, and what is to be done with it: all choices are checked at birth."""

    def __init__(self, table: Table, chosen: argparse.Namespace) -> None:
        from unclump.cli._choices import objective_of, rows_listed

        self.table, self.chosen, self.notes = table, chosen, list[str]()
        self.frozen = None if chosen.freeze is None else rows_listed(chosen.freeze, table)
        self.keep_norms = chosen.keep_norms or self.frozen is not None or chosen.duplicates_only
        name = chosen.objective or "sliced"
        self.objective = partial(objective_of, name, chosen.option or (), chosen.seed)
        self.objective()  # refused now, or not at all
        rows = len(table.points)
        self.batch_size = chosen.batch_size or (None if name in _WHOLE_TABLE or rows <= _BATCH else _BATCH)
        passes = min(max(_PASSES[0], 10_000_000 // rows), _PASSES[1])
        self.steps = chosen.steps if chosen.steps is not None else passes * max(1, rows // (self.batch_size or rows))
        self.progress = not chosen.quiet and sys.stderr.isatty()

    def spread(self, max_move: float | None) -> Any:
        """The table's points, dispersed, in the dtype they are written in."""
        import torch

        from unclump.dispersion.loop import disperse
        from unclump.dispersion.moves import settle
        from unclump.geometry.sphere import full_precision

        chosen, points = self.chosen, self.table.points
        bound = None if max_move is None else math.radians(max_move)
        found = disperse(
            full_precision(points),
            self.objective(),  # with a generator of its own: each run is the same as if it were the only one
            steps=self.steps,
            lr=_LR if chosen.lr is None else chosen.lr,
            batch_size=self.batch_size,
            generator=torch.Generator().manual_seed(chosen.seed),
            progress=self.progress,
            frozen=self.frozen,
            max_move=bound,
            checkpoint=chosen.checkpoint,
            schedule=lambda step: 1 - step / self.steps,
        )
        if found.history.interrupted:
            raise KeyboardInterrupt(_how_to_go_on(chosen.checkpoint))
        settled = settle(found.points, points, keep_norms=self.keep_norms, max_move=bound)
        if self.frozen is not None:
            settled[self.frozen] = points[self.frozen]
        elif not self.keep_norms:
            self.notes = ["norms: every row is unit (--keep-norms keeps those of FILE)"]
        return settled

    def repaired(self) -> Any:
        """The table's points with its clumps parted."""
        import torch

        from unclump.dispersion.repair import separate_duplicates

        chosen = self.chosen
        found = separate_duplicates(
            self.table.points,
            within=None if chosen.within is None else math.radians(chosen.within),
            frozen=self.frozen,
            max_move=None if chosen.max_move is None else math.radians(chosen.max_move),
            generator=torch.Generator().manual_seed(chosen.seed),
        )
        self.notes = [f"{len(found.rows)} rows had another within {math.degrees(found.within):.4g}°; no other changed"]
        return found.points


def _try(work: _Work, strengths: list[float]) -> None:
    """A line for each strength, as soon as it is known."""
    from unclump.cli._before_after import NEIGHBOURS, change_of, state_of

    points = work.table.points
    now = state_of(points)
    heads = ("max move", f"overlap@{NEIGHBOURS}", "spherical variance", "smallest angle", "median nearest angle")
    print("  ".join(heads))

    def line(*cells: str) -> None:
        print("  ".join(f"{cell:>{len(head)}}" for head, cell in zip(heads, cells, strict=True)), flush=True)

    line("0°", "1.0000", f"{now.variance:.4f}", f"{now.smallest:.4f}°", f"{now.median_nearest:.4f}°")
    for degrees in strengths:
        spread = work.spread(degrees)
        then, overlap = state_of(spread), change_of(points, spread).overlap
        line(
            f"{degrees:g}°",
            f"{overlap:.4f}",
            f"{then.variance:.4f}",
            f"{then.smallest:.4f}°",
            f"{then.median_nearest:.4f}°",
        )
    print("nothing was written; choose one with --max-move")


def _check(chosen: argparse.Namespace) -> list[float] | None:
    """Refuse choices that contradict each other; the strengths to try."""
    strengths = None if chosen.try_moves is None else _degrees_listed(chosen.try_moves)
    for option in ("max_move", "lr"):
        if getattr(chosen, option) is not None:
            check_positive(_flag(option), getattr(chosen, option))
    if chosen.batch_size is not None:
        check_count("--batch-size", chosen.batch_size, at_least=2)
    if strengths is not None:
        _refuse_with(chosen, "try_moves", ("output", "in_place", "max_move", "duplicates_only", "checkpoint"))
    if chosen.duplicates_only:
        unused = ("objective", "option", "steps", "lr", "batch_size", "checkpoint")
        _refuse_with(chosen, "duplicates_only", unused)
    elif chosen.within is not None:
        raise ValueError("expected --within together with --duplicates-only, got it alone; add that, or leave it out")
    return strengths


def _refuse_with(chosen: argparse.Namespace, option: str, others: tuple[str, ...]) -> None:
    for other in others:
        if getattr(chosen, other) not in (None, False):
            raise ValueError(f"expected {_flag(option)} without {_flag(other)}, got both; leave one out")


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _degrees_listed(text: str) -> list[float]:
    try:
        degrees = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected --try-moves as degrees such as 5,10,20, got '{sanitise(text)}'") from None
    for value in degrees:
        check_positive("--try-moves", value)
    return degrees


def _check_checkpoint(checkpoint: Path | None, file: Path, output: Path) -> None:
    """Refuse a place for the state that cannot be written, or is that of a table."""
    if checkpoint is None:
        return
    if checkpoint.resolve() in (file.resolve(), output.resolve()):
        raise ValueError(f"expected a file of its own for --checkpoint, got {sanitise(checkpoint)}; name another")
    if not checkpoint.resolve().parent.is_dir():
        raise ValueError(f"expected a folder for --checkpoint {sanitise(checkpoint)}, got none of that name; make it")


def _how_to_go_on(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "; nothing was written (with --checkpoint FILE the run could go on later)"
    return f"; no table was written; the same command goes on from {sanitise(checkpoint)}"
