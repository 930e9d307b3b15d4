"""The HTML page: one file with inline style, script and data, under a policy that forbids network requests."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from unclump.report.text import embed_json, escape, escape_command

_STYLES = ("base.css", "charts.css", "map.css", "narrow.css", "print.css")
_SCRIPTS = (
    "data.js", "elements.js", "raster.js", "cameras.js", "colours.js", "map.js", "gestures.js", "search.js",
    "details.js", "legend.js", "lists.js", "main.js",
)  # fmt: skip
_LOGO = (  # three dots in a circle
    '<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="10.5" fill="none" stroke="currentColor" '
    'stroke-width="2"/><path d="M8 9h0M16 8.5h0M12 16h0" stroke="currentColor" stroke-width="4.5" '
    'stroke-linecap="round"/></svg>'
)


@dataclass(frozen=True)
class Page:
    """The contents of a page.

    Attributes:
        title: The window title, as text.
        files_html: One line per file.
        sections_html: From functions that escape their arguments.
        command: The command that made the page, as text.
        version: The version of unclump.
        data: JSON data for the script.
    """

    title: str
    files_html: Sequence[str]
    sections_html: Sequence[str]
    command: str
    version: str
    data: Any


def render_page(page: Page) -> str:
    """The complete HTML file."""
    style = "".join(map(_read_asset, _STYLES))
    script = f'(() => {{\n"use strict";\n{"".join(map(_read_asset, _SCRIPTS))}}})();'
    return Template(_read_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=escape(page.title),
        style=style,
        script=script,
        logo=_LOGO,
        files=f'<p class="files">{"<br>".join(page.files_html)}</p>',
        body="\n".join(page.sections_html),
        command=escape_command(page.command),
        version=escape(page.version),
        data=embed_json(page.data),
    )


def _policy(style: str, script: str) -> str:
    """Allow only the inline style and script, by their hashes, and load nothing from anywhere."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read_asset(name: str) -> str:
    return files("unclump.report").joinpath("assets", name).read_text(encoding="utf-8")
