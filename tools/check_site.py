"""Crawls a built site for what a reader would stumble over: `python tools/check_site.py docs/_build`.

From index.html on, over links within the site: a link or picture whose file or anchor is missing, a page that no link
leads to, a picture without an alternative text. Links to other sites are not followed.
"""

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

GENERATED = {"genindex.html", "py-modindex.html", "search.html"}  # Sphinx links them where the theme does


class Page(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.without_text: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values[name] for name in ("href", "src") if values.get(name)]
        if tag == "img" and not values.get("alt", "").strip():
            self.without_text.append(values.get("src", ""))


def check(site: Path) -> list[str]:
    """One line for each fault, in the order of the pages."""
    pages = {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
    faults, leads_to = [], {name: set() for name in pages}
    for name, page in pages.items():
        faults += [f"{name}: picture without a text: {source}" for source in page.without_text]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = (site / name).parent / unquote(parts.path) if parts.path else site / name
            target = path.resolve().relative_to(site.resolve()).as_posix() if _is_within(path, site) else None
            if target is None or not (site / target).is_file():
                faults.append(f"{name}: dead link: {link}")
            elif target in pages:
                leads_to[name].add(target)
                if parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                    faults.append(f"{name}: no such anchor: {link}")
    reached, waiting = {"index.html"}, ["index.html"]
    while waiting:
        new = leads_to[waiting.pop()] - reached
        reached |= new
        waiting += new
    return faults + [f"{name}: no link leads here" for name in pages if name not in reached | GENERATED]


def _is_within(path: Path, site: Path) -> bool:
    return path.resolve().is_relative_to(site.resolve())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    if not (site / "index.html").is_file():
        raise SystemExit(f"expected index.html in {site}, got none; build the site first")
    faults = check(site)
    print("\n".join([*faults, f"{len(list(site.rglob('*.html')))} pages, {len(faults)} faults"]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
