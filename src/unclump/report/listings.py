"""Tables of rows that stand out: clumps, closest pairs, hubs, rows without a direction."""

from collections.abc import Sequence

from unclump.report.looked import Looked
from unclump.report.parts import section, table
from unclump.report.text import count, degrees, escaped
from unclump.tables.health import Group

_MOST_CLUMPS, _MOST_NAMES, _MOST_LISTED, _MOST_HUBS = 25, 12, 12, 7


def clump_section(looked: Looked, called: str = "") -> str:
    """The worst clumps with the names of their rows, or the closest pairs where there are none."""
    found, suffix = looked.health, f", {called}" if called else ""
    near = degrees(found.near)
    if found.clumps:
        rows = [
            [
                str(place),
                count(len(group.rows)),
                _chips(looked, group.rows),
                "same direction" if group.angle == 0 else degrees(group.angle),
            ]
            for place, group in enumerate(found.clumps[:_MOST_CLUMPS], start=1)
        ]
        more = len(found.clumps) - len(rows)
        note = (
            f"{count(row_count(found.clumps))} rows in {_plural(len(found.clumps), 'clump')}, "
            f"joined by steps of at most {near}: a tenth of the smallest angle of as many uniform points."
            + (f" The largest {len(rows)} are listed, {count(more)} are not." if more else "")
        )
        made = table(["Clump", "Rows", "Names", "Smallest angle"], rows, numbers=[1, 3], stacked=True)
        return section(f"Worst clumps{suffix}", made, note=note, long=True)
    rows = [
        [looked.name_html(first), looked.name_html(second), degrees(apart)]
        for first, second, apart in looked.closest[:_MOST_LISTED]
    ]
    return section(
        f"Closest pairs{suffix}",
        table(["Row", "Its nearest", "Angle"], rows, numbers=[2]),
        note=f"No two rows are nearer than {near}, so there are no clumps. These are the nearest there are.",
        long=True,
    )


def hub_section(looked: Looked, called: str = "") -> str:
    """The rows that are neighbours of everybody."""
    found = looked.health
    most = found.occurrences.topk(min(_MOST_HUBS, len(found.occurrences)))
    rows = [
        [looked.name_html(int(looked.numbers[place])), count(int(often)), f"{often / found.k:,.1f}×"]
        for often, place in zip(most.values.tolist(), most.indices.tolist(), strict=True)
    ]
    return section(
        f"Hubs{f', {called}' if called else ''}",
        table(["Row", "Near to", "Times even"], rows, numbers=[1, 2]),
        note=(
            f"Rows that are among the {found.k} nearest of many others; an even share is {found.k}. "
            f"Skewness {found.hubness:.2f}; {found.orphans:.1%} of the rows are near to none."
        ),
        long=True,
    )


def bad_row_section(looked: Looked, called: str = "") -> str:
    """Rows without a direction, where there are any."""
    bad = looked.health.bad_rows
    if not bad:
        return ""
    rows = [[looked.name_html(row.row), escaped(row.fault)] for row in bad[:_MOST_LISTED]]
    more = f" The first {_MOST_LISTED} are listed." if len(bad) > _MOST_LISTED else ""
    note = f"{_plural(len(bad), 'row')} of {count(looked.health.n)}, left out of all that is shown here.{more}"
    return section(
        f"Rows without a direction{f', {called}' if called else ''}", table(["Row", "Holds"], rows), note=note
    )


def _chips(looked: Looked, rows: Sequence[int]) -> str:
    items = "".join(f"<li>{looked.name_html(row)}</li>" for row in rows[:_MOST_NAMES])
    more = len(rows) - _MOST_NAMES
    return f'<ul class="chips">{items}{f"<li class=more>and {more:,} more</li>" if more > 0 else ""}</ul>'


def row_count(groups: Sequence[Group]) -> int:
    """How many rows are in all groups together."""
    return sum(len(group.rows) for group in groups)


def _plural(number: int, what: str) -> str:
    return f"{count(number)} {what}{'' if number == 1 else 's'}"
