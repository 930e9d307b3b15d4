"""The building blocks of the page: cards, tiles, tables, legends. Arguments named *_html are HTML, all others text."""

from collections.abc import Sequence
from dataclasses import dataclass

from unclump.report.text import escaped, words

_SIGNS = {  # told by shape as well as by colour
    "good": '<path d="M2 6.5l3 3 5-7" fill="none" stroke="currentColor" stroke-width="2"/>',
    "warn": '<path d="M6 1l5.5 10h-11z" fill="currentColor"/>',
    "bad": '<rect x="1" y="1" width="10" height="10" rx="1.5" fill="currentColor"/>',
}
_KEYS = {
    "one": '<rect class="key one" width="22" height="14" rx="3"/>',
    "two": '<rect class="key two" width="22" height="14" rx="3"/>',
    "clump": '<circle class="key clump" cx="11" cy="7" r="6"/>',
    "uniform": '<path class="uniform" d="M0 7H22"/>',
}


@dataclass(frozen=True)
class Row:
    """A line of the table of key figures.

    Attributes:
        label: What was measured.
        values: Of each table, as a person reads it.
        uniform: What uniform points give, or nothing.
        meaning: In a few words.
        far_off: Which of the values are far from uniform.
    """

    label: str
    values: tuple[str, ...]
    uniform: str = ""
    meaning: str = ""
    far_off: tuple[bool, ...] = ()


def section(title: str, *contents_html: str, note: str = "", long: bool = False) -> str:
    """A card with a heading."""
    style = "card long" if long else "card"
    said = f'<p class="note">{words(note)}</p>' if note else ""
    return f'<section class="{style}"><h2>{escaped(title)}</h2>{said}{"".join(contents_html)}</section>'


def verdict(state: str, called: str, sentence: str, lead: str) -> str:
    """The first thing to read."""
    sign = f'<svg viewBox="0 0 12 12" aria-hidden="true">{_SIGNS[state]}</svg>'
    return (
        f'<section class="verdict" id="verdict"><p class="state {state}">{sign}{escaped(called)}</p>'
        f'<h1>{words(sentence)}</h1><p class="lead">{words(lead)}</p></section>'
    )


def tiles(cells: Sequence[tuple[str, str, str]]) -> str:
    """Large numbers: (label, value, what it is to be held against)."""
    items = "".join(
        f'<li class="card tile"><p class="label">{escaped(label)}</p>'
        f'<p class="value{" change" if "→" in value else ""}">{escaped(value)}</p>'
        f'<p class="against">{words(against)}</p></li>'
        for label, value, against in cells
    )
    return f'<ul class="tiles">{items}</ul>'


def key_figures(rows: Sequence[Row], columns: Sequence[str], uniform: str) -> str:
    """The table of key figures."""
    heads = "".join(f'<th scope="col" class="number">{escaped(text)}</th>' for text in (*columns, uniform))
    lines = []
    for row in rows:
        far_off = row.far_off or (False,) * len(row.values)
        cells = "".join(
            f'<td class="number{" far-off" if off else ""}">{escaped(value)}</td>'
            for value, off in zip(row.values, far_off, strict=True)
        )
        lines.append(
            f'<tr><th scope="row">{escaped(row.label)}</th>{cells}<td class="number">{escaped(row.uniform)}</td>'
            f'<td class="meaning">{words(row.meaning)}</td></tr>'
        )
    return (
        f'<table class="figures"><thead><tr><th scope="col">Measure</th>{heads}'
        f'<th scope="col" class="meaning">What it says</th></tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )


def table(
    heads: Sequence[str], rows_html: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), stacked: bool = False
) -> str:
    """A table whose first column heads its rows; `stacked`, its cells stand below each other on a narrow screen."""
    top = "".join(f'<th scope="col"{_class(k, numbers)}>{escaped(head)}</th>' for k, head in enumerate(heads))
    lines = []
    for row in rows_html:
        cells = "".join(
            f'<td{_class(k, numbers)} data-label="{escaped(heads[k])}">{cell}</td>' for k, cell in enumerate(row) if k
        )
        lines.append(f'<tr><th scope="row">{row[0]}</th>{cells}</tr>')
    style = ' class="stacked"' if stacked else ""
    return f"<table{style}><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def legend(*entries: tuple[str, str]) -> str:
    """What the colours mean: (key, text)."""
    items = "".join(
        f'<li><svg viewBox="0 0 22 14" aria-hidden="true">{_KEYS[key]}</svg>{escaped(text)}</li>'
        for key, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def figures(drawings_html: Sequence[str], titles: Sequence[str], captions: Sequence[str]) -> str:
    """One figure, or two side by side."""
    made = [
        f"<figure>{f'<h3>{escaped(title)}</h3>' if len(drawings_html) > 1 else ''}{drawing}"
        f"<figcaption>{words(caption)}</figcaption></figure>"
        for drawing, title, caption in zip(drawings_html, titles, captions, strict=True)
    ]
    return made[0] if len(made) == 1 else f'<div class="pair">{"".join(made)}</div>'


def _class(column: int, numbers: Sequence[int]) -> str:
    return ' class="number"' if column in numbers else ""
