"""The page itself: one file with its style, script and data, under a policy that lets it ask for nothing."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any

from unclump.report.text import data_html, escaped

# Three dots of different distance: the clump and the one that got away.
_MARK = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="10.5" fill="none" stroke="currentColor" '
    'stroke-width="2"/><path d="M8 9h0M16 8.5h0M12 16h0" stroke="currentColor" stroke-width="4.5" '
    'stroke-linecap="round"/></svg>'
)


@dataclass(frozen=True)
class Page:
    """What a page says.

    Attributes:
        title: Of the window; text.
        described: One line of HTML for each file.
        sections: HTML, made by functions that escape what they are given.
        command: What the page was made by; text.
        version: Of unclump.
        data: For the script.
    """

    title: str
    described: Sequence[str]
    sections: Sequence[str]
    command: str
    version: str
    data: Sequence[Any] = field(default_factory=list)


def page_html(page: Page) -> str:
    """The whole file."""
    style, script = _part("style.css"), _part("page.js")
    return Template(_part("page.html")).substitute(
        policy=_policy(style, script),
        title=escaped(page.title),
        style=style,
        script=script,
        mark=_MARK,
        files=f'<p class="files">{"<br>".join(page.described)}</p>',
        body="\n".join(page.sections),
        command=" ".join(escaped(word) for word in page.command.split(" ")),
        version=escaped(page.version),
        data=data_html(page.data),
    )


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere; only this style and this script, known by their hashes, may act."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _part(name: str) -> str:
    return files("unclump.report").joinpath(name).read_text(encoding="utf-8")
