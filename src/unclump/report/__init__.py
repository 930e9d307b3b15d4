"""One self-contained page about the health of a table, to be opened offline, printed, or sent to a colleague.

Nothing in the page asks the network for anything: style, script, figures and data stand in it, under a
Content-Security-Policy that allows no more. Names come from outside; they are shown as text and run nowhere.
"""

from importlib.metadata import version

import torch

from unclump._checks import check_generator
from unclump.report.comparison import compare, comparison_section
from unclump.report.listings import bad_row_section, clump_section, hub_section
from unclump.report.looked import Looked, look
from unclump.report.page import Page, page_html
from unclump.report.pictures import pictures
from unclump.report.sections import (
    chart_sections,
    key_section,
    picture_section,
    tests_section,
    tile_section,
    titles,
    verdict_section,
)
from unclump.report.text import count, escaped
from unclump.tables.files import Table

__all__ = ["report"]


def report(
    table: Table,
    other: Table | None = None,
    *,
    command: str = "unclump.report.report",
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> str:
    """The health of a table as an HTML page; of two tables, before and after side by side.

    Args:
        table: The table, or that before a change.
        other: The same rows after a change, or None. Rows are matched by their number.
        command: What the page says it was made by.
        generator: For samples of pairs and rows where there are many; None for one of its own with seed 0.
        progress: Show progress bars on stderr.

    Example:
        >>> from unclump.report import report
        >>> page = report(Table(torch.eye(4), names=["a", "<b>", "c", "d"]))
        >>> "&lt;b&gt;" in page, "<b>" in page
        (True, False)
    """
    check_generator(generator)
    generator = generator or torch.Generator().manual_seed(0)
    if other is not None and other.points.shape[1] != table.points.shape[1]:
        raise ValueError(
            f"expected two tables of as many dimensions, got {table.points.shape[1]} and {other.points.shape[1]}; "
            "make a report of each"
        )
    tables = [look(one, generator, progress=progress) for one in (table, other) if one is not None]
    moved = [] if other is None else [comparison_section(compare(tables[0], tables[1], generator))]
    drawn = pictures(tables, generator)
    called = [""] if len(tables) == 1 else [title.lower() for title in titles(tables)]
    hubs, clumps, bad = (
        [part(looked, name) for looked, name in zip(tables, called, strict=True)]
        for part in (hub_section, clump_section, bad_row_section)
    )
    charts = chart_sections(tables)
    sections = [
        verdict_section(tables),
        tile_section(tables),
        *moved,
        key_section(tables),
        *([_grid(charts + hubs)] if len(tables) == 1 else [*charts, _grid(hubs)]),
        picture_section(tables, drawn),
        *(clumps if len(tables) == 1 else [_grid(clumps)]),
        tests_section(tables),
        *bad,
    ]
    return page_html(
        Page(
            title=" and ".join(looked.file for looked in tables) + " · embedding health",
            described=[_described(looked) for looked in tables],
            sections=sections,
            command=command,
            version=version("unclump"),
            data=[picture.data for picture in drawn],
        )
    )


def _described(looked: Looked) -> str:
    found = looked.health
    return f"<strong>{escaped(looked.file)}</strong> · {count(found.n)} × {count(found.d)} · {escaped(found.dtype)}"


def _grid(sections: list[str]) -> str:
    return f'<div class="grid">{"".join(sections)}</div>'
