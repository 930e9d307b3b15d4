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

Written by `python tools/code_catalogue.py` from the coordinates that the package ships. The columns are the
smallest angle and its upper bound, in degrees; the number of pairs in contact; the number of rattlers, which no contact
holds in place; the symmetry group of the other points, with its name in three dimensions; the day of the last
improvement, if it was recorded; and the command that found the code. The command is either the options of
`unclump code N D`, or `tools/catalogue.py`, which starts from the catalogue's codes of this size and of neighbouring
sizes; on other machines and in other versions it may find another code. Sizes with a [closed form](codes.md) are not
listed. `unclump code N D --improve` searches for better codes."""

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
