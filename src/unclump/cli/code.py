"""`unclump code N D`: well-separated directions, how good they are, and where they come from."""

import argparse
import io
import json
import math
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from unclump._atomic_write import replace_file
from unclump._text import sanitise
from unclump.cli._stages import shows_progress

if TYPE_CHECKING:
    from unclump.codes import Code

HELP = "find n well-separated directions in d dimensions"
DESCRIPTION = (
    "Find n directions in d dimensions that are as far apart as possible: by an exact construction, from the "
    "catalogue, or else by a search, which may take minutes. Ctrl-C ends it with the best so far."
)
EXAMPLES = """examples:
  unclump code 24 3                          the snub cube
  unclump code 100 4 -o directions.npy       a hundred directions in four dimensions
  unclump code 131 3 --time-limit 60         search for a minute
  unclump code 131 3 --improve               search, and add the result to your catalogue if it is better
  unclump code 12 3 --thomson                electrons on a sphere
  unclump code 20 3 --lines                  lines through the origin: x and -x are the same line
"""
_FORMATS = (".npy", ".csv", ".json")
_PATIENCE = 2.0  # seconds of silence, where there is no terminal for a bar


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = command.add_argument
    add("n", type=int, metavar="N", help="number of directions")
    add("d", type=int, metavar="D", help="number of dimensions")
    add("-o", "--output", type=Path, metavar="FILE", help="write the directions: .npy, .csv or .json")
    add("--plot", type=Path, metavar="FILE", help="plot a globe (D = 3) or the angles to FILE")
    add("--fresh", action="store_true", help="search, even if a code is known")
    add("--improve", action="store_true", help="search, and keep the result if it beats the catalogue")
    add("--restarts", type=int, metavar="K", help="search from K starting points")
    add("--seed", type=int, default=0, help="seed of the search (0)")
    add("--time-limit", type=float, metavar="SECONDS", help="search for this long, and take the best")
    add(
        "--init",
        metavar="HOW",
        help="start of the search: random, symmetric, antipodal, blocks, permuted, or a .npy file",
    )
    add("--thomson", action="store_true", help="minimise the Coulomb energy instead")
    add("--lines", action="store_true", help="lines through the origin: x and -x are equivalent")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Find the code, write the requested files, print the summary."""
    _check_arguments(args)
    code = _find(args)
    if not args.quiet:
        _say_unused(args)
    folder = _add_to_catalogue(code, args) if args.improve else None
    if args.output is not None:
        _write_points(args.output, code)
    if args.plot is not None:
        _plot(code, args.plot)
    print(json.dumps(code.to_dict(), indent=1) if args.json else code)
    for path in (args.output, args.plot):
        if path is not None and not args.quiet:
            print(f"written to {sanitise(path)}", file=sys.stderr)
    if folder is not None:
        print(f"kept in {folder}" if folder else "not better than the catalogue's", file=sys.stderr)


def _find(args: argparse.Namespace) -> "Code":
    import numpy as np

    from unclump.codes import spherical_code
    from unclump.kernels import Riesz

    init = args.init
    if init is not None and init.endswith(".npy"):
        init = np.load(init, allow_pickle=False)
    has_bar = shows_progress(args)
    notice = threading.Timer(_PATIENCE, _announce_search, [args])
    if not args.quiet and not has_bar:
        notice.start()
    try:
        return spherical_code(
            args.n,
            args.d,
            restarts=args.restarts,
            seed=args.seed,
            time_limit=args.time_limit,
            init=init,
            kernel=Riesz(s=1.0) if args.thomson else None,
            fresh=args.fresh or args.improve,
            antipodal=args.lines,
            progress=has_bar,
        )
    finally:
        notice.cancel()


def _announce_search(args: argparse.Namespace) -> None:
    end = f"ends after {args.time_limit:g} s" if args.time_limit else "may take minutes; --time-limit SECONDS bounds it"
    what = f"{args.n} {'lines' if args.lines else 'points'} in {args.d} dimensions"
    print(f"searching for {what}: {end}", file=sys.stderr)


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise, naming the option, if a limit is invalid or a file cannot be written."""
    from unclump._checks import check_count, check_positive

    if args.time_limit is not None:
        check_positive("--time-limit", args.time_limit)
    if args.restarts is not None:
        check_count("--restarts", args.restarts)
    if args.output is not None:
        _check_output(args.output)
    if args.plot is not None:
        from unclump.figures.plots import check_figure_target

        check_figure_target(args.plot)


def _say_unused(args: argparse.Namespace) -> None:
    """Say which options had no effect, since the code has a closed form."""
    from unclump.codes.constructions.exact import exact_code
    from unclump.codes.constructions.lines import exact_lines

    unused = _options_of_search(args)
    if not unused or args.fresh or args.improve or args.thomson:
        return
    if (exact_lines if args.lines else exact_code)(args.n, args.d) is not None:
        names = ", ".join(option for option, _ in unused)
        print(f"not used: {names}, since this code has a closed form; --fresh searches", file=sys.stderr)


def _options_of_search(args: argparse.Namespace) -> list[tuple[str, object]]:
    """The given options that limit or start a search, with their values."""
    given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in ("restarts", "time_limit", "init")]
    return [(option, value) for option, value in given if value is not None]


def _check_output(path: Path) -> None:
    """Raise if the points cannot be written."""
    if path.suffix not in _FORMATS:
        raise ValueError(f"expected an output file ending in {', '.join(_FORMATS)}, got {path}; choose one of these")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: its folder does not exist; create it first")


def _write_points(path: Path, code: "Code") -> None:
    """Write the points with all their digits: as an array, as CSV, or as JSON together with the summary."""
    import numpy as np

    points, buffer = code.points.numpy(), io.BytesIO()
    if path.suffix == ".npy":
        np.save(buffer, points, allow_pickle=False)
    elif path.suffix == ".csv":
        np.savetxt(buffer, points, delimiter=",", fmt="%.17g")
    else:
        buffer.write((json.dumps({**code.to_dict(), "points": points.tolist()}, indent=1) + "\n").encode())
    with replace_file(path) as file:
        file.write(buffer.getvalue())


def _add_to_catalogue(code: "Code", args: argparse.Namespace) -> Path | str:
    """Add the code to the user's catalogue and return its folder, or "" if the catalogue has one as good."""
    from unclump.codes import catalogue

    n, d = code.points.shape
    known = catalogue.look_up(n, d, antipodal=args.lines)
    if known is not None and known.record.angle >= code.min_angle:
        return ""
    budget = "".join(f" {option} {value}" for option, value in _options_of_search(args))
    command = f"unclump code {n} {d}{' --lines' if args.lines else ''} --fresh --seed {args.seed}{budget}"
    record = catalogue.Record(code.min_angle, code.upper_bound, code.bound_name, args.seed, command, catalogue.today())
    folder = catalogue.user_folder()
    is_kept = catalogue.save_if_better(folder, code.points.numpy(), record, antipodal=args.lines)
    return folder if is_kept else ""


def _plot(code: "Code", path: Path) -> None:
    from unclump.figures.plots import angle_histogram, globe, save_figure

    title = f"{len(code.points)} points, smallest angle {math.degrees(code.min_angle):.4f}°"
    axes = globe(code.points) if code.points.shape[1] == 3 else angle_histogram(code.points)
    axes.set_title(title)
    save_figure(axes, path)
