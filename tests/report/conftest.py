"""Reports of small tables, and a real browser to open them in."""

import base64
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unclump as uc
from tests.small_tables import clump, seeded
from unclump.cli import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.ran = 1</script>",
    '"><img src=x onerror="window.ran = 1">',
    "' onmouseover='window.ran = 1",
    "<!--<script>",
    "a\u2028b\u2029c",
    "pay\u202elap\u2066",
    "\x1b[31mred\x00\x07",
    "&lt;b&gt; &amp;",
    "${7*7} {{7*7}} $title",
    "",
    "   ",
    "\udcff",
    "שלום",
    "long" * 100,
]


@dataclass
class Visit:
    """A page in the browser, with everything it asked for and said."""

    page: Any
    requests: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def embedded(page: str) -> dict[str, Any]:
    """The data of a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


def decoded(array: dict[str, str]) -> np.ndarray:
    """An array of it, as the script decodes it."""
    kinds = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}
    return np.frombuffer(base64.b64decode(array["bytes"]), dtype=kinds[array["type"]])


def coordinates(layout: dict[str, Any]) -> np.ndarray:
    """The coordinates of a layout, one row each."""
    steps = np.stack([decoded(axis) for axis in layout["axes"]], axis=1).astype(float)
    steps[steps == 65535] = np.nan
    return np.array(layout["low"]) + steps * layout["step"]


def settle(page):
    """Two frames, so that what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'unclump[dev]'")
    if CHROMIUM is None:
        pytest.skip("needs chromium, such as Debian's: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """visit(path, **choices): open a file in a fresh profile; choices are those of a browser context."""
    contexts = []

    def open_page(path: Path, **choices: Any) -> Visit:
        context = browser.new_context(**choices)
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.on("requestfailed", lambda request: found.failed.update({request.url: request.failure}))
        found.page.on("websocket", lambda socket: found.requests.append(socket.url))
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("dialog", lambda dialog: (found.said.append(dialog.message), dialog.dismiss()))
        found.page.goto(path.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Reports by name: "map" has hostile names and a clump of them, "globe" three dimensions, "both" two files,
    "labels" two columns of labels."""
    folder = tmp_path_factory.mktemp("reports")
    hostile = clump(90, 8)
    hostile[: len(HOSTILE)] = hostile[0]  # all in one clump, so that the page must show them
    names = HOSTILE + [f"word {k}" for k in range(len(HOSTILE), 90)]
    uc.save(folder / "words.npz", uc.Table(hostile, names=names))
    around = uc.uniform(60, 3, generator=seeded(2))
    around[1] = around[0]
    uc.save(folder / "globe.npy", uc.Table(around))
    (folder / "kind.txt").write_text("".join(f"{'even' if k % 2 == 0 else 'odd'}\n" for k in range(90)))
    (folder / "score.txt").write_text("".join(f"{k / 7}\n" for k in range(90)))
    uc.save(folder / "later.npz", uc.Table(hostile + torch.randn(90, 8, generator=seeded(3)), names=names))
    labels = ["--labels", "kind.txt", "--labels", "score.txt"]
    made = {
        "map": ["words.npz"],
        "globe": ["globe.npy"],
        "both": ["words.npz", "later.npz"],
        "labels": ["words.npz", *labels],
    }
    for name, arguments in made.items():
        words = [str(folder / word) if "." in word else word for word in arguments]
        assert main(["report", *words, "-o", str(folder / f"{name}.html"), "--quiet"]) == 0
    return {name: folder / f"{name}.html" for name in made}
