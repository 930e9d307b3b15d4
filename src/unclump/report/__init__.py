"""A self-contained HTML page about the health of a table, to open offline, print, or send to a colleague.

The page makes no network requests: style, script, figures and data are inline, under a Content-Security-Policy that
allows nothing else. Row names are untrusted input: they are shown as text and never executed.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import torch

from unclump._checks import check_generator
from unclump._text import sanitise
from unclump.report.comparison import compare, comparison_section
from unclump.report.components import table_titles
from unclump.report.key_figures import key_section, tile_section
from unclump.report.listings import bad_row_section, group_section, hub_section
from unclump.report.map_data import build_map
from unclump.report.map_section import map_section
from unclump.report.methods_section import methods_section
from unclump.report.page import Page, render_page
from unclump.report.sections import chart_sections, tests_section
from unclump.report.table_view import TableView, measure_table
from unclump.report.text import escape, format_count
from unclump.report.verdict_section import verdict_section
from unclump.tables.comparison import Comparison
from unclump.tables.files import Table
from unclump.tables.findings import Health, fingerprint
from unclump.tables.rows import Rows

__all__ = ["report"]


def report(
    table: Table,
    other: Table | None = None,
    *,
    measured: Health | None = None,
    methods: Comparison | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    layout: str = "auto",
    command: str = "unclump.report.report",
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> str:
    """The health of a table as an HTML page; of two tables, before and after side by side.

    Args:
        table: The table, or its state before a change.
        other: The same rows after a change, or None. Rows are matched by row number.
        measured: The health of `table`, from `health` or `Health.load`; None measures it.
        methods: A comparison of repairs of `table`, from `unclump repair --save`, to show with the rest.
        labels: Columns to colour the map by, by title: a text for every row. A column of numbers gets a scale, others
            are classes.
        layout: Where the map puts rows: "umap", "tsne" (each needs its library), "pca", or "auto" for the first of
            these that is installed.
        command: The command that the page names as its origin.
        generator: For sampling pairs and rows of large tables; None uses a new one with seed 0.
        device: Where neighbours are searched for; None for the CPU.
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
    _check_methods(methods, table)
    labels = _check_labels(labels or {}, max(len(t.points) for t in (table, other) if t is not None))
    if measured is not None and measured.fingerprint != fingerprint(Rows(table.points)):
        raise ValueError("expected the health of this table, got that of another; measure it again")
    device = None if device is None else torch.device(device)
    tables = [measure_table(table, generator, progress=progress, measured=measured, device=device)]
    tables += [measure_table(t, generator, progress=progress, device=device) for t in (other,) if t is not None]
    comparison = [] if other is None else [comparison_section(compare(tables[0], tables[1], generator, device))]
    shown = build_map(tables, labels, layout=layout, generator=generator, device=device, progress=progress)
    suffixes = [""] if other is None else [f", {title.lower()}" for title in table_titles(len(tables))]
    views = list(zip(tables, suffixes, strict=True))
    hubs = [hub_section(view, suffix) for view, suffix in views]
    groups = [group_section(view, number, suffix) for number, (view, suffix) in enumerate(views)]
    bad_rows = [bad_row_section(view, suffix) for view, suffix in views]
    charts, healths = chart_sections(tables), [view.health for view in tables]
    sections = [
        verdict_section(tables),
        tile_section(healths),
        *comparison,
        map_section(tables, shown),
        *([] if methods is None else [methods_section(methods)]),
        *([_grid(charts + hubs)] if other is None else [*charts, _grid(hubs)]),
        *groups,
        key_section(healths),
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
            data=shown.json,
        )
    )


def _check_methods(methods: Comparison | None, table: Table) -> None:
    expected = tuple(table.points.shape)
    if methods is not None and (methods.rows, methods.dimensions) != expected:
        got = f"{methods.rows} x {methods.dimensions}, '{sanitise(methods.file)}'"
        raise ValueError(f"expected the comparison of this table of {expected[0]} x {expected[1]}, got that of {got}")


def _check_labels(labels: Mapping[str, Sequence[str]], n: int) -> dict[str, Sequence[str]]:
    for title, values in labels.items():
        if len(values) != n:
            raise ValueError(f"expected a label for each of {n} rows, got {len(values)} in '{sanitise(title)}'")
    return dict(labels)


def _describe_file(view: TableView) -> str:
    size = f"{format_count(view.health.n)} × {format_count(view.health.d)}"
    return f"<strong>{escape(view.file_name)}</strong> · {size} · {escape(view.health.dtype)}"


def _grid(sections: list[str]) -> str:
    return f'<div class="grid">{"".join(sections)}</div>'
