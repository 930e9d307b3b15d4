"""Write docs/code_bounds.md: where three-point bounds are better than the others, and by how much.

python tools/code_bounds.py [--check]
"""

import math
from pathlib import Path

from _pages import write_or_check

from unclump.codes.bounds import three_point
from unclump.codes.bounds.upper_bound import BOUNDS

PAGE = Path(__file__).parent.parent / "docs/code_bounds.md"

INTRODUCTION = r"""# Three-point bounds

Written by `python tools/code_bounds.py` from `three_point.json`, a table of the package. How far apart n points can be
is bounded by conditions on the cosines of all pairs (Delsarte's linear program), and more tightly by conditions on
those of all triples: the semidefinite program of
[Bachoc and Vallentin](https://doi.org/10.1090/S0894-0347-07-00589-9). Solving it at every call would take too long.
`python tools/three_point D N` solves it for one size and adds a line to the table.

**Each line is proved.** The solver works in floating point and is not trusted. Its solution is rounded to fractions,
which are positive semidefinite by construction, and the inequalities between polynomials are proved from them in exact
arithmetic. The slack, the error that rounding leaves, is computed exactly and weakens the bound
accordingly. `tools/three_point/proof.py` has the argument. The certificates are not stored: run the command to find one
again. The bounds are not the best that the method can give: higher degrees give better bounds, more slowly.

A bound for n points also holds for more. Angles are in degrees; *other bounds* is the best of
the other bounds, followed by its name."""

HEAD = """| d | n | other bounds | | three-point | lower by | degree | slack |
| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |"""


def row(entry):
    angle, name = min(
        (bound(entry.n, entry.d), name) for name, bound in BOUNDS.items() if bound is not three_point.three_point
    )
    return (
        f"| {entry.d} | {entry.n} | {math.degrees(angle):.6f} | {name} | {math.degrees(entry.angle):.6f} "
        f"| {math.degrees(angle - entry.angle):.4f} | {entry.degree} | {entry.slack:.0e} |"
    )


def page():
    rows = [row(entry) for entry in three_point.read()]
    return "\n\n".join([INTRODUCTION, "\n".join([HEAD, *rows])]) + "\n"


if __name__ == "__main__":
    write_or_check(__doc__.splitlines()[0], PAGE, page)
