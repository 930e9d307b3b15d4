"""HTML components: cards, tiles, tables, legends. Arguments named *_html are HTML, all others are escaped here."""

from collections.abc import Sequence
from dataclasses import dataclass

from unclump.report.text import escape, escape_command, escape_prose

_ICONS = {  # distinguishable by shape, not only by colour
    "good": '<path d="M2 6.5l3 3 5-7" fill="none" stroke="currentColor" stroke-width="2"/>',
    "bad": '<rect x="1" y="1" width="10" height="10" rx="1.5" fill="currentColor"/>',
}
_FAULT = ' <span class="fault-mark">fault</span>'
_LEGEND_KEYS = {
    "one": '<rect class="key one" width="22" height="14" rx="3"/>',
    "two": '<rect class="key two" width="22" height="14" rx="3"/>',
    "uniform": '<path class="uniform" d="M0 7H22"/>',
}


def table_titles(tables: int) -> list[str]:
    """The heading of each of one or two tables."""
    return ["This table"] if tables == 1 else ["Before", "After"]


@dataclass(frozen=True)
class Row:
    """A line of the table of key figures.

    Attributes:
        label: The name of the measure.
        values: Formatted, one per table.
        uniform: The value for uniform points, or "".
        meaning: A short explanation.
        is_fault: Which values the verdict names as a fault.
    """

    label: str
    values: tuple[str, ...]
    uniform: str = ""
    meaning: str = ""
    is_fault: tuple[bool, ...] = ()


def render_section(title: str, *contents_html: str, note: str = "", splittable: bool = False) -> str:
    """A card with a heading; `splittable` allows a page break within it in print."""
    style = "card splittable" if splittable else "card"
    note_html = f'<p class="note">{escape_prose(note)}</p>' if note else ""
    return f'<section class="{style}"><h2>{escape(title)}</h2>{note_html}{"".join(contents_html)}</section>'


def render_verdict(state: str, badge: str, headline: str, details: str, commands: Sequence[str]) -> str:
    """The top of the page; `state` is "good" or "bad"."""
    icon = f'<svg viewBox="0 0 12 12" aria-hidden="true">{_ICONS[state]}</svg>'
    return (
        f'<section class="verdict" id="verdict"><p class="state {state}">{icon}{escape(badge)}</p>'
        f'<h1>{escape_prose(headline)}</h1><p class="lead">{escape_prose(details)}</p>'
        f"{render_commands(commands)}</section>"
    )


def render_commands(commands: Sequence[str]) -> str:
    """Commands to copy, one per line; nothing if there are none."""
    lines = "".join(f"<code>{escape_command(command)}</code>" for command in commands)
    return f'<p class="commands">{lines}</p>' if commands else ""


def render_tiles(cells: Sequence[tuple[str, str, str, bool]]) -> str:
    """Large numbers: (label, value, reference to compare it with, whether it is a fault)."""
    items = "".join(
        f'<li class="card tile{" fault" if fault else ""}">'
        f'<p class="label">{escape(label)}{_FAULT if fault else ""}</p>'
        f'<p class="value{" change" if "→" in value else ""}">{escape(value)}</p>'
        f'<p class="reference">{escape_prose(reference)}</p></li>'
        for label, value, reference, fault in cells
    )
    return f'<ul class="tiles">{items}</ul>'


def render_key_figures(rows: Sequence[Row], columns: Sequence[str], uniform_column: str) -> str:
    """The table of key figures."""
    heads = "".join(f'<th scope="col" class="number">{escape(text)}</th>' for text in (*columns, uniform_column))
    lines = []
    for row in rows:
        is_fault = row.is_fault or (False,) * len(row.values)
        cells = "".join(
            f'<td class="number{" fault" if fault else ""}">{escape(value)}{_FAULT if fault else ""}</td>'
            for value, fault in zip(row.values, is_fault, strict=True)
        )
        lines.append(
            f'<tr><th scope="row">{escape(row.label)}</th>{cells}<td class="number">{escape(row.uniform)}</td>'
            f'<td class="meaning">{escape_prose(row.meaning)}</td></tr>'
        )
    return (
        f'<table class="figures"><thead><tr><th scope="col">Measure</th>{heads}'
        f'<th scope="col" class="meaning">Meaning</th></tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )


def render_table(
    heads: Sequence[str], rows_html: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), stacked: bool = False
) -> str:
    """A table whose first column holds row headers; with `stacked`, a narrow screen shows one cell per line."""
    top = "".join(f'<th scope="col"{_class(k, numbers)}>{escape(head)}</th>' for k, head in enumerate(heads))
    lines = []
    for row in rows_html:
        cells = "".join(
            f'<td{_class(k, numbers)} data-label="{escape(heads[k])}">{cell}</td>' for k, cell in enumerate(row) if k
        )
        lines.append(f'<tr><th scope="row">{row[0]}</th>{cells}</tr>')
    style = ' class="stacked"' if stacked else ""
    return f"<table{style}><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def render_legend(*entries: tuple[str, str]) -> str:
    """A legend of (key in `_LEGEND_KEYS`, text)."""
    items = "".join(
        f'<li><svg viewBox="0 0 22 14" aria-hidden="true">{_LEGEND_KEYS[key]}</svg>{escape(text)}</li>'
        for key, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def render_figures(drawings_html: Sequence[str], titles: Sequence[str], captions: Sequence[str]) -> str:
    """One figure, or two side by side."""
    items = [
        f"<figure>{f'<h3>{escape(title)}</h3>' if len(drawings_html) > 1 else ''}{drawing}"
        f"<figcaption>{escape_prose(caption)}</figcaption></figure>"
        for drawing, title, caption in zip(drawings_html, titles, captions, strict=True)
    ]
    return items[0] if len(items) == 1 else f'<div class="pair">{"".join(items)}</div>'


def _class(column: int, numbers: Sequence[int]) -> str:
    return ' class="number"' if column in numbers else ""
