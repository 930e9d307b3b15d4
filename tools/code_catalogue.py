"""Write docs/code_catalogue.md: every entry of the catalogue, with what its coordinates say.

python tools/code_catalogue.py [--check]
"""

import math
import os
import tempfile
from pathlib import Path

from _pages import write_or_check

from unclump.codes import catalogue, spherical_code

PAGE = Path(__file__).parent.parent / "docs/code_catalogue.md"

INTRODUCTION = """# The catalogue

Written by `python tools/code_catalogue.py` from the coordinates that the package ships. The columns: the smallest
angle, and the most that it could be, both in degrees; the pairs in contact; the rattlers, which nothing holds in place;
the symmetry group of the other points, in three dimensions by its name; the day the entry was last improved, if it was
noted; and the command that found it, which may end at another code on other machines and versions: options of
`unclump code N D`, or `tools/catalogue.py`, which starts from the codes that are there, of the size and its neighbours.
Sizes with a [closed form](codes.md) need no entry, and are not listed. `unclump code N D --improve` searches for better
codes."""

HEAD = """| n | angle | upper bound | contacts | rattlers | symmetry | improved | command |
| ---: | ---: | ---: | ---: | ---: | --- | --- | --- |"""


def row(n, d, record):
    code = spherical_code(n, d)
    group = "not determined" if code.symmetry is None else code.symmetry
    return (
        f"| {n} | {math.degrees(code.min_angle):.9f} | {math.degrees(code.upper_bound):.6f} "
        f"| {len(code.contacts.pairs)} | {len(code.contacts.rattlers)} | {group} | {record.improved} "
        f"| {shorten(record.command, n, d)} |"
    )


def shorten(command, n, d):
    """Without what the row says; a description is no code."""
    if command.startswith("no single command"):
        return command
    return f"`{command.removeprefix(f'unclump code {n} {d} ').removeprefix('python ')}`"


def page():
    sections = [INTRODUCTION]
    for d, path in sorted((int(path.stem), path) for path in catalogue.SHIPPED.glob("*.zip")):
        rows = [row(n, d, record) for n, record in sorted(catalogue.read_index(path).items())]
        sections.append(f"## {d} dimensions\n\n{HEAD}\n" + "\n".join(rows))
    return "\n\n".join(sections) + "\n"


def shipped_page():
    """The page, without what a user has improved."""
    with tempfile.TemporaryDirectory() as nothing:
        os.environ["UNCLUMP_CATALOGUE"] = nothing
        return page()


if __name__ == "__main__":
    write_or_check(__doc__.splitlines()[0], PAGE, shipped_page)
