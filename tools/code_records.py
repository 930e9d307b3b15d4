"""Write docs/code_records.md: the catalogue beside published angles in three dimensions, and candidate records.

python tools/code_records.py [--check]

Angles are computed again from the coordinates with fifty digits.
"""

from pathlib import Path

from _pages import write_or_check
from mpmath import mp, mpf

from unclump.codes import spherical_code
from unclump.codes.catalogue.published import published

PAGE = Path(__file__).parent.parent / "docs/code_records.md"

INTRODUCTION = """# Our angles and the published ones

Written by `python tools/code_records.py`. `unclump code N D` returns the best code that *this package* knows. In
three dimensions, for 4 to 130 points, it also shows the best published angle that we found, and says which is better.
The published angles are by [Hardin, Sloane and Smith](http://neilsloane.com/packings/), by Lai, Yue, Hao, Glover and Lü
(Computers and Operations Research, 2023), and by Kuznetsov and Sahinidis (2026). Angles are in degrees, computed from
the coordinates with fifty digits; angles that differ by at most 1e-8 beyond the last published digit count as equal."""


def degrees(points):
    """The smallest angle, with fifty digits."""
    rows = [[mpf(value) for value in row] for row in points.tolist()]
    lengths = [mp.sqrt(mp.fdot(row, row)) for row in rows]
    near = points @ points.T
    near.fill_diagonal_(-1)
    i, j = (near > near.max() - 1e-12).nonzero(as_tuple=True)  # the closest by far more than rounding
    return mp.degrees(
        min(mp.acos(mp.fdot(rows[a], rows[b]) / lengths[a] / lengths[b]) for a, b in zip(i, j, strict=True))
    )


def table(rows):
    head = "| n | this catalogue | published | difference | published by |\n| ---: | ---: | ---: | ---: | --- |"
    return "\n".join([head, *rows]) if rows else "None."


def page():
    words, lines, points = {}, {}, {}
    for n in range(4, 131):
        points[n], known = spherical_code(n, 3).points, published(n, 3)
        angle = degrees(points[n])
        words[n] = known.compare(float(angle)).split()[0]
        difference = mp.nstr(angle - mpf(known.text), 2)
        lines[n] = f"| {n} | {mp.nstr(angle, 15)} | {known.text} | {difference} | {known.source} |"
    of = {word: [n for n in words if words[n] == word] for word in ("equal", "better", "worse")}
    coordinates = []
    for n in of["better"]:
        rows = "\n".join(" ".join(f"{value:.17g}" for value in row) for row in points[n].tolist())
        coordinates.append(f"### {n} points\n\n```\n{rows}\n```")
    return f"""{INTRODUCTION}

Of our angles for {len(words)} sizes, {len(of["equal"])} are equal to the published ones, {len(of["better"])} better
and {len(of["worse"])} worse.

## Candidate records

Better than any published angle that we found. Whether they are records has to be checked against the live tables; the
coordinates are below.

{table([lines[n] for n in of["better"]])}

## Not found

Published codes that the search has not found yet.

{table([lines[n] for n in of["worse"]])}

## Coordinates

{chr(10).join(f"{block}{chr(10)}" for block in coordinates).strip()}
"""


def precise_page():
    """The page, computed with fifty digits."""
    with mp.workdps(50):
        return page()


if __name__ == "__main__":
    write_or_check(__doc__.splitlines()[0], PAGE, precise_page)
