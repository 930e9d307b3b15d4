"""The section of the map: controls, canvases and the panel of the selected row, which the script fills."""

from collections.abc import Sequence

from unclump.report.components import table_titles
from unclump.report.map_data import MapData
from unclump.report.table_view import TableView
from unclump.report.text import escape, escape_prose, format_count

_KEYS = (
    "Arrow keys {move}, plus and minus zoom, 0 shows all, Enter selects the row nearest to the centre, Escape clears. "
    "Rows can also be found by name in the field above."
)
_SELECT = '<div class="field"><label for="{id}">{label}</label><select id="{id}"></select></div>'
_ZOOM = (
    '<div class="zoom">'
    '<button type="button" data-zoom="1.5" aria-label="Zoom in">+</button>'
    '<button type="button" data-zoom="0.6667" aria-label="Zoom out">−</button>'
    '<button type="button" data-zoom="0" aria-label="Show all">⤢</button></div>'
)


def map_section(tables: Sequence[TableView], shown: MapData) -> str:
    """The map, or the globe in three dimensions, with search, colours and neighbours."""
    is_globe = shown.layouts[0].kind == "globe"
    groups = "near duplicates" if tables[0].health.clumps else "closest pairs"
    first_column = 2 if shown.has_labels else 0  # 0 and 1 are the groups and the row number
    titles = table_titles(len(tables))
    figures = "".join(
        _figure(view, title, shown, is_globe=is_globe, is_alone=len(tables) == 1)
        for view, title in zip(tables, titles, strict=True)
    )
    return (
        f'<section class="card splittable" id="map" data-groups="{groups}" data-tables="{"|".join(titles)}" '
        f'data-colour="{first_column}"><h2>{"The rows on the globe" if is_globe else "A map of the rows"}</h2>'
        f'<p class="note">{_explain(shown, len(tables))}</p>{_controls()}'
        '<ul class="legend" id="legend"></ul><p class="marks" id="marks" role="status"></p>'
        f'<div class="explorer{"" if len(tables) == 1 else " two"}" data-needs-script hidden>'
        f'<div class="maps">{figures}</div><div class="details" id="details" aria-live="polite">'
        "<h3>No row selected</h3><p>Find a row by name, or click a dot, for its nearest neighbours.</p></div></div>"
        '<p id="without-script">The map, the search and the neighbours need scripts; all else here does not.</p>'
        "</section>"
    )


def _controls() -> str:
    search = (
        '<div class="field search"><label for="search">Find a row</label>'
        '<input id="search" type="search" role="combobox" aria-expanded="false" aria-controls="hits" '
        'aria-autocomplete="list" aria-describedby="hit-count" autocomplete="off" spellcheck="false" '
        'placeholder="name or number"><ul id="hits" role="listbox" aria-label="Rows" hidden></ul>'
        '<p id="hit-count" role="status"></p></div>'
    )
    axes = "".join(
        f'<label for="axis-{axis}">{text}</label><select id="axis-{axis}"></select>'
        for axis, text in (("x", "Axes"), ("y", "and"))
    )
    selects = _SELECT.format(id="colour", label="Colour by") + _SELECT.format(id="layout", label="Map")
    return (
        f'<div class="controls" data-needs-script hidden>{search}{selects}'
        f'<div class="field axes" id="axes" hidden>{axes}</div></div>'
    )


def _figure(view: TableView, title: str, shown: MapData, *, is_globe: bool, is_alone: bool) -> str:
    present = len(view.locate(shown.rows)[0])
    n = len(view.rows)
    caption = f"{format_count(n)} rows." if present == n else f"{format_count(present)} of {format_count(n)} rows."
    label = f"{'Globe' if is_globe else 'Map'} with {format_count(present)} rows. "
    heading = "" if is_alone else f"<h3>{escape(f'{title}: {view.file_name}')}</h3>"
    return (
        f'<figure>{heading}<div class="canvas{" round" if is_globe else ""}">'
        f'<canvas role="application" tabindex="0" aria-label="'
        f'{escape_prose(label + _KEYS.format(move="turn it" if is_globe else "move it"))}"></canvas>{_ZOOM}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _explain(shown: MapData, tables: int) -> str:
    """What the map shows, and how it is used."""
    what = {
        "globe": "Drag the globe or use the arrow keys to turn it.",
        "plane": "Neighbours are put together; only the principal axes show true distances between groups.",
        "axes": "The axes of largest variance" + (" of the first table." if tables > 1 else "."),
    }[shown.layouts[0].kind]
    sample = ""
    if shown.is_sample:
        sample = f" A random sample of {format_count(len(shown.rows))} rows, with all groups and hubs; their "
        sample += "neighbours are those in the whole table."
    gestures = "pinch" if shown.layouts[0].kind == "globe" else "drag to move, pinch"
    return f"{what}{sample} Click a dot for its nearest rows; {gestures} or scroll to zoom."
