"""Tables of notable rows: clumps, closest pairs, hubs, rows without a direction."""

from collections.abc import Sequence

import torch

from unclump.report.components import render_section, render_table
from unclump.report.key_figures import row_count
from unclump.report.table_view import TableView
from unclump.report.text import escape, format_count, format_degrees

_MAX_NAMES, _MAX_LISTED = 12, 12


def group_section(view: TableView, table: int = 0, suffix: str = "") -> str:
    """The largest groups of near duplicates with the names of their rows, or the closest pairs if there are none."""
    clumps, threshold = view.health.clumps, format_degrees(view.health.near)
    if clumps:
        rows = [
            [
                f'<span data-group="{table} {number}">{number + 1}</span>',
                format_count(len(clump.rows)),
                _render_names(view, clump.rows),
                "same direction" if clump.angle == 0 else format_degrees(clump.angle),
            ]
            for number, clump in enumerate(clumps[: len(view.listed_groups)])
        ]
        unlisted = len(clumps) - len(rows)
        note = (
            f"{format_count(row_count(clumps))} rows in {_plural(len(clumps), 'group')}, linked by angles of at most "
            f"{threshold}."
            + (f" The largest {len(rows)} are listed, {format_count(unlisted)} are not." if unlisted else "")
        )
        listing = render_table(["Group", "Rows", "Names", "Smallest angle"], rows, numbers=[1, 3], stacked=True)
        return render_section(f"Near duplicates{suffix}", listing, note=note, splittable=True)
    rows = [
        [view.render_name(first), view.render_name(second), format_degrees(angle)]
        for first, second, angle in view.closest_pairs[:_MAX_LISTED]
    ]
    return render_section(
        f"Closest pairs{suffix}",
        render_table(["Row", "Nearest row", "Angle"], rows, numbers=[2]),
        note=f"No two rows are closer than {threshold}, so there are no near duplicates. These pairs are the closest.",
        splittable=True,
    )


def hub_section(view: TableView, suffix: str = "") -> str:
    """The rows that are neighbours of the most other rows."""
    health = view.health
    searched, n = len(health.nearest_angles), len(view.rows)
    even = health.k * searched / n
    counts = health.occurrences[torch.searchsorted(view.rows, torch.tensor(view.hubs))].tolist()
    rows = [
        [view.render_name(row), format_count(int(count)), f"{count / even:,.1f}×"]
        for row, count in zip(view.hubs, counts, strict=True)
    ]
    return render_section(
        f"Hubs{suffix}",
        render_table(["Row", "Neighbour of", "Times even share"], rows, numbers=[1, 2]),
        note=(
            f"Rows that are among the {health.k} nearest neighbours of many others; an even share is {even:.3g}. "
            + ("" if health.hubness is None else f"Skewness {health.hubness:.2f}.")
            + ("" if searched == n else f" Counted over a sample of {format_count(searched)} rows.")
            + ("" if health.orphans is None else f" {health.orphans:.1%} of the rows are a neighbour of no other row.")
        ),
        splittable=True,
    )


def bad_row_section(view: TableView, suffix: str = "") -> str:
    """Rows without a direction, or nothing if all rows have one."""
    bad = view.health.bad_rows
    if not bad:
        return ""
    rows = [[view.render_name(row.row), escape(row.fault)] for row in bad[:_MAX_LISTED]]
    cut = f" The first {_MAX_LISTED} are listed." if len(bad) > _MAX_LISTED else ""
    note = f"{_plural(len(bad), 'row')} of {format_count(view.health.n)}, excluded from the rest of this page.{cut}"
    return render_section(f"Rows without a direction{suffix}", render_table(["Row", "Problem"], rows), note=note)


def _render_names(view: TableView, rows: Sequence[int]) -> str:
    items = "".join(f"<li>{view.render_name(row)}</li>" for row in rows[:_MAX_NAMES])
    more = len(rows) - _MAX_NAMES
    return f'<ul class="chips">{items}{f"<li class=more>and {more:,} more</li>" if more > 0 else ""}</ul>'


def _plural(number: int, noun: str) -> str:
    return f"{format_count(number)} {noun}{'' if number == 1 else 's'}"
