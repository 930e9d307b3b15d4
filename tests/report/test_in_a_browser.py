"""The page in a real browser: it asks for nothing, runs nothing it should not, and reads well everywhere."""

import re
from itertools import pairwise

import pytest

from tests.report.conftest import HOSTILE, embedded, settle
from unclump.report.text import make_printable

each_page = pytest.mark.parametrize("name", ["map", "globe", "both", "labels"])

CONTRAST = """() => {
  const light = c => {
    const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const numbers = c => c.match(/[\\d.]+/g).map(Number);
  const paper = e => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const e of document.querySelectorAll(
      "h1, h2, h3, h4, p, td, th, li, dt, dd, label, button, option, figcaption, code, text, bdi, .state")) {
    if (!e.textContent.trim()) continue;
    const style = getComputedStyle(e), ink = numbers(e.tagName === "text" ? style.fill : style.color).slice(0, 3);
    const [a, b] = [light(ink), light(paper(e))].sort((x, y) => y - x);
    found[`${e.tagName}.${e.getAttribute("class")}`] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""


@each_page
def test_it_asks_for_nothing_but_itself_and_says_nothing(name, reports, visit):
    seen = visit(reports[name])
    seen.page.mouse.move(300, 300)
    seen.page.mouse.wheel(0, 20000)
    settle(seen.page)
    assert seen.requests == [reports[name].as_uri()]
    assert seen.said == []
    assert seen.page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_what_a_later_script_asks_for_is_refused(reports, visit):
    seen = visit(reports["map"])
    seen.page.evaluate("""() => {
        document.body.append(Object.assign(new Image(), { src: "https://example.org/x.png" }));
        const script = document.createElement("script");
        script.textContent = "window.ran = 1";
        document.body.append(script);
    }""")
    settle(seen.page)
    assert seen.failed == {"https://example.org/x.png": "csp"}
    assert seen.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in message for message in seen.said)


def test_hostile_names_are_text_and_run_nothing(reports, visit):
    seen = visit(reports["map"])
    shown = seen.page.locator(".name").all_inner_texts()
    for name in HOSTILE[:8]:
        assert make_printable(name) in shown
    assert seen.page.evaluate("window.ran") is None
    assert seen.page.locator("main script, main img, [onmouseover], [onerror]").count() == 0
    data = embedded(reports["map"].read_text(encoding="utf-8"))["names"]
    assert data[: len(HOSTILE)] == [make_printable(name) for name in HOSTILE]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", reports["map"].read_text(encoding="utf-8"))


@each_page
def test_nothing_sticks_out_of_a_narrow_screen(name, reports, visit):
    page = visit(reports[name], viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True).page
    for width in (390, 320, 768):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        page.evaluate("""() => Math.min(...[...document.querySelectorAll("p, td, th, figcaption")]
        .map(e => parseFloat(getComputedStyle(e).fontSize)))""")
        >= 12.5
    )


@each_page
def test_dark_mode_is_dark_and_both_can_be_read(name, reports, visit):
    papers, page = {}, visit(reports[name]).page
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        papers[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        weakest = page.evaluate(CONTRAST)
        assert len(weakest) > 10
        assert {where: ratio for where, ratio in weakest.items() if ratio < 4.5} == {}
    brightness = {scheme: sum(map(int, re.findall(r"\d+", paper))) for scheme, paper in papers.items()}
    assert brightness["light"] > 600
    assert brightness["dark"] < 150


@each_page
def test_it_prints_in_light_colours_even_from_dark_mode(name, reports, visit):
    page = visit(reports[name]).page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 25, 31)"
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 10


@each_page
def test_it_can_be_read_without_seeing_it(name, reports, visit):
    page = visit(reports[name]).page
    assert page.title()
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("svg:not([aria-hidden]):not([aria-label])").count() == 0
    assert page.locator("th:not([scope])").count() == 0
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == (
        page.locator("[id]").count()
    )


def test_a_wide_screen_has_all_controls_of_the_map_in_one_line(reports, visit):
    page = visit(reports["labels"], viewport={"width": 1200, "height": 900}).page
    page.locator("#colour").evaluate("select => select.append(new Option('a long label '.repeat(9)))")
    page.locator("#layout").evaluate(
        """select => {
            select.replaceChildren(new Option("UMAP (neighbours together)"));
            select.closest(".field").hidden = false;
            document.getElementById("axes").hidden = true;
        }"""
    )
    fields = page.locator(".controls .field:visible")
    boxes = [fields.nth(k).bounding_box() for k in range(fields.count())]
    assert len(boxes) == 3
    assert len({box["y"] for box in boxes}) == 1


def test_dragging_a_globe_is_said_to_turn_it_and_nothing_else(reports):
    page = reports["globe"].read_text(encoding="utf-8")
    assert "Drag the globe or use the arrow keys to turn it. Click a dot" in page
    assert "drag to move" not in page
    assert "drag to move" in reports["map"].read_text(encoding="utf-8")


def test_before_and_after_stand_side_by_side(reports, visit):
    page = visit(reports["both"], viewport={"width": 1200, "height": 900}).page
    maps = [page.locator("canvas").nth(k).bounding_box() for k in range(2)]
    assert maps[0]["y"] == maps[1]["y"]
    assert maps[0]["x"] + maps[0]["width"] < maps[1]["x"]
    text = page.locator("main").inner_text()
    assert "words.npz" in page.locator("header").inner_text()
    assert "later.npz" in page.locator("header").inner_text()
    assert "What moved" in text
    assert "of 10 nearest neighbours" in text


def test_without_scripts_all_but_the_map_is_there_and_the_map_says_why(reports, visit):
    page = visit(reports["map"], java_script_enabled=False).page
    assert page.locator("svg.chart").count() >= 3
    assert page.locator("[data-row]").count() > 10
    assert page.get_by_text("need scripts").is_visible()
    assert page.locator(".controls").is_hidden()
