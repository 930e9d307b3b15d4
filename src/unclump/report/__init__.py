"""A self-contained HTML page about the health of a table, to open offline, print, or send to a colleague.

The page makes no network requests: style, script, figures and data are inline, under a Content-Security-Policy that
allows nothing else. Row names are untrusted input: they are shown as text and never executed.
"""

from importlib.metadata import version

import torch

from unclump._checks import check_generator
from unclump.report.comparison import compare, comparison_section
from unclump.report.listings import bad_row_section, clump_section, hub_section
from unclump.report.page import Page, render_page
from unclump.report.pictures import draw_pictures
from unclump.report.sections import (
    chart_sections,
    key_section,
    picture_section,
    table_titles,
    tests_section,
    tile_section,
    verdict_section,
)
from unclump.report.table_view import TableView, measure_table
from unclump.report.text import escape, format_count
from unclump.tables.files import Table
from unclump.tables.findings import Health, fingerprint

__all__ = ["report"]


def report(
    table: Table,
    other: Table | None = None,
    *,
    measured: Health | None = None,
    command: str = "unclump.report.report",
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> str:
    """The health of a table as an HTML page; of two tables, before and after side by side.

    Args:
        table: The table, or its state before a change.
        other: The same rows after a change, or None. Rows are matched by row number.
        measured: The health of `table`, from `health` or `Health.load`; None measures it.
        command: The command that the page names as its origin.
        generator: For sampling pairs and rows of large tables; None uses a new one with seed 0.
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
            f"expected two tables of the same dimension, got {table.points.shape[1]} and {other.points.shape[1]}; "
            "make a separate report of each"
        )
    if measured is not None and measured.fingerprint != fingerprint(table.points):
        raise ValueError("expected the health of this table, got that of another; measure it again")
    tables = [measure_table(table, generator, progress=progress, measured=measured)]
    tables += [measure_table(t, generator, progress=progress) for t in (other,) if t is not None]
    comparison = [] if other is None else [comparison_section(compare(tables[0], tables[1], generator))]
    pictures = draw_pictures(tables, generator)
    suffixes = [""] if len(tables) == 1 else [f", {title.lower()}" for title in table_titles(tables)]
    hubs, clumps, bad_rows = (
        [make_section(view, suffix) for view, suffix in zip(tables, suffixes, strict=True)]
        for make_section in (hub_section, clump_section, bad_row_section)
    )
    charts = chart_sections(tables)
    sections = [
        verdict_section(tables),
        tile_section(tables),
        *comparison,
        key_section(tables),
        *([_grid(charts + hubs)] if len(tables) == 1 else [*charts, _grid(hubs)]),
        picture_section(tables, pictures),
        *(clumps if len(tables) == 1 else [_grid(clumps)]),
        tests_section(tables),
        *bad_rows,
    ]
    return render_page(
        Page(
            title=" and ".join(view.file_name for view in tables) + " · embedding health",
            files_html=[_describe_file(view) for view in tables],
            sections_html=sections,
            command=command,
            version=version("unclump"),
            data=[picture.data for picture in pictures],
        )
    )


def _describe_file(view: TableView) -> str:
    size = f"{format_count(view.health.n)} × {format_count(view.health.d)}"
    return f"<strong>{escape(view.file_name)}</strong> · {size} · {escape(view.health.dtype)}"


def _grid(sections: list[str]) -> str:
    return f'<div class="grid">{"".join(sections)}</div>'
