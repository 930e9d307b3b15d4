"""`unclump code N D`: directions as far apart as is known, how good they are, and where they come from."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unclump.codes import Code

EXAMPLES = """examples:
  unclump code 24 3                          the snub cube
  unclump code 100 4 -o directions.npy       a hundred directions in four dimensions
  unclump code 131 3 --time-limit 60         search for a minute
  unclump code 131 3 --improve               search, and keep it for the next time if it is better
  unclump code 12 3 --thomson                electrons on a sphere
"""


def add_to(commands: Any) -> None:
    """The command and its options."""
    command = commands.add_parser(
        "code",
        help="n well separated directions in d dimensions",
        description="n directions in d dimensions with the largest smallest angle that is known.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("n", type=int, metavar="N", help="how many directions")
    command.add_argument("d", type=int, metavar="D", help="in how many dimensions")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="write them to FILE: .npy, .csv or .json")
    command.add_argument("--plot", type=Path, metavar="FILE", help="draw a globe (D = 3) or the angles to FILE")
    command.add_argument("--fresh", action="store_true", help="search, whatever is known")
    command.add_argument("--improve", action="store_true", help="search; keep the result if it beats the catalogue")
    command.add_argument("--restarts", type=int, metavar="K", help="search K times over")
    command.add_argument("--seed", type=int, default=0, help="of the search (0)")
    command.add_argument("--time-limit", type=float, metavar="SECONDS", help="search for that long")
    command.add_argument("--init", metavar="HOW", help="start from: random, cyclic, antipodal, blocks, or a .npy file")
    command.add_argument("--thomson", action="store_true", help="least Coulomb energy instead of largest angle")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    command.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Find the code, print it, write what was asked for."""
    from unclump._text import sanitise
    from unclump.cli._output import check_output, write_points

    check_output(chosen.output)
    code = _find(chosen)
    kept = _keep(code, chosen) if chosen.improve else None
    if chosen.output is not None:
        write_points(chosen.output, code)
    if chosen.plot is not None:
        _plot(code, chosen.plot)
    print(_json(code) if chosen.json else _table(code))
    for written in (chosen.output, chosen.plot):
        if written is not None and not chosen.quiet:
            print(f"written to {sanitise(written)}", file=sys.stderr)
    if kept is not None:
        print(f"kept in {kept}" if kept else "not better than the catalogue's", file=sys.stderr)


def _find(chosen: argparse.Namespace) -> "Code":
    import numpy as np

    from unclump.codes import spherical_code
    from unclump.kernels import Riesz

    init = chosen.init
    if init is not None and init.endswith(".npy"):
        init = np.load(init, allow_pickle=False)
    return spherical_code(
        chosen.n,
        chosen.d,
        restarts=chosen.restarts,
        seed=chosen.seed,
        time_limit=chosen.time_limit,
        init=init,
        kernel=Riesz(s=1.0) if chosen.thomson else None,
        fresh=chosen.fresh or chosen.improve,
        progress=not chosen.quiet and sys.stderr.isatty(),
    )


def _keep(code: "Code", chosen: argparse.Namespace) -> Path | str:
    """The folder where it is kept now, or "" where the catalogue has one as good."""
    from unclump.codes import catalogue

    n, d = code.points.shape
    known = catalogue.look_up(n, d)
    if known is not None and known.record.angle >= code.min_angle:
        return ""
    budget = "".join(
        f" --{name.replace('_', '-')} {value}"
        for name in ("restarts", "time_limit", "init")
        if (value := getattr(chosen, name)) is not None
    )
    command = f"unclump code {n} {d} --fresh --seed {chosen.seed}{budget}"
    record = catalogue.Record(code.min_angle, code.upper_bound, code.bound_name, chosen.seed, command)
    return catalogue.own_folder() if catalogue.keep(catalogue.own_folder(), code.points.numpy(), record) else ""


def facts(code: "Code") -> dict[str, Any]:
    """What there is to say of a code; angles in degrees."""
    n, d = code.points.shape
    result: dict[str, Any] = {
        "n": n,
        "d": d,
        "source": code.source,
        "angle_degrees": math.degrees(code.min_angle),
        "bound_degrees": math.degrees(code.upper_bound),
        "bound": code.bound_name,
        "gap_degrees": math.degrees(code.gap),
        "optimal": code.optimal,
        "proof": code.proof,
    }
    if n <= 5000 and code.energy is None:  # of more points it takes a while; of least energy, they have no contacts
        result |= {"contacts": len(code.contacts.pairs), "rattlers": len(code.contacts.rattlers)}
    if code.energy is not None:
        result["energy"] = code.energy
    return result


def _table(code: "Code") -> str:
    said = facts(code)
    rows = [
        ("code", f"{said['n']} points in {said['d']} dimensions"),
        ("source", said["source"]),
        ("smallest angle", f"{said['angle_degrees']:.12f} degrees"),
        ("upper bound", f"{said['bound_degrees']:.12f} degrees ({said['bound']})"),
        ("gap", f"{said['gap_degrees']:.6g} degrees"),
        ("optimal", f"proved: {said['proof']}" if said["optimal"] else "not known"),
    ]
    if "contacts" in said:
        rows.append(("contacts", f"{said['contacts']} pairs, {said['rattlers']} rattlers"))
    if "energy" in said:
        rows.append(("energy", f"{said['energy']:.12g}"))
    return "\n".join(f"{name:<16}{value}" for name, value in rows)


def _json(code: "Code") -> str:
    import json

    return json.dumps(facts(code), indent=1)


def _plot(code: "Code", path: Path) -> None:
    from unclump.figures.plots import angle_histogram, globe, save_figure

    title = f"{len(code.points)} points, smallest angle {math.degrees(code.min_angle):.4f}°"
    axes = globe(code.points) if code.points.shape[1] == 3 else angle_histogram(code.points)
    axes.set_title(title)
    save_figure(axes, path)
