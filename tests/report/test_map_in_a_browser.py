"""The map in a real browser: a row is found, its neighbours are listed, colours follow a column, groups are marked."""

import re

import numpy as np
import pytest

import unclump as uc
from tests.report.conftest import coordinates, decoded
from tests.report.on_the_map import colour_at, data_of, lonely, pixels, place_of
from unclump.report.text import make_printable


def expected_neighbours(folder, row):
    """Names and angles of the ten nearest, by the definition."""
    table = uc.load(folder / "words.npz")
    x = uc.project(table.points.double())
    angles = uc.angle(x[row].expand_as(x), x).rad2deg().tolist()
    order = sorted((k for k in range(len(x)) if k != row), key=lambda k: angles[k])[:10]
    return [(make_printable(table.names[k]) or "(empty)", angles[k]) for k in order]


def listed_neighbours(page):
    names = page.locator(".neighbours .name").all_inner_texts()
    angles = page.locator(".neighbours .angle").all_inner_texts()
    return list(zip(names, (float(angle.removesuffix("°")) for angle in angles), strict=True))


def test_pointing_at_a_row_names_it_and_its_group(reports, visit):
    seen = visit(reports["map"])
    data = data_of(reports["map"])
    row = lonely(data)
    seen.page.mouse.move(*place_of(seen.page, data, row))
    assert seen.page.locator("#tip").inner_text() == data["names"][row]
    in_group = int(np.flatnonzero(decoded(data["highlighted"]) == 1)[0])
    seen.page.mouse.move(*place_of(seen.page, data, in_group))
    assert seen.page.locator("#tip").inner_text().endswith("group 1")


def test_a_click_lists_the_nearest_rows_with_their_angles(reports, visit):
    page = visit(reports["map"]).page
    data = data_of(reports["map"])
    row = lonely(data)
    page.mouse.click(*place_of(page, data, row))
    assert page.locator("#details h3 .name").inner_text() == data["names"][row]
    listed, expected = listed_neighbours(page), expected_neighbours(reports["map"].parent, row)
    assert [name for name, _ in listed] == [name for name, _ in expected]
    assert [angle for _, angle in listed] == pytest.approx([angle for _, angle in expected], abs=0.01)
    page.locator(".neighbours button").nth(2).click()  # a neighbour is a row like any other
    assert page.locator("#details h3 .name").inner_text() == expected[2][0]
    page.locator("canvas").click(position={"x": 5, "y": 5})
    assert page.locator("#details").inner_text().startswith("No row selected")


def test_typing_finds_a_name_and_enter_selects_it(reports, visit):
    seen = visit(reports["map"])
    page, search = seen.page, seen.page.get_by_role("combobox", name="Find a row")
    search.press_sequentially("WORD 2")
    assert page.locator("#hits li .name").all_inner_texts() == [f"word {k}" for k in range(20, 30)]
    assert page.locator("#hit-count").inner_text() == "10 matches"
    assert search.get_attribute("aria-expanded") == "true"
    for _ in range(4):
        search.press("ArrowDown")
    search.press("ArrowUp")
    active = search.get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    assert page.locator("[aria-selected=true]").count() == 1
    search.press("Enter")
    assert page.locator("#hits").is_hidden()
    assert page.locator("#details h3 .name").inner_text() == "word 23"
    search.fill("#77")  # by number
    search.press("Enter")
    assert page.locator("#details h3").inner_text() == "word 77 row 77"
    search.fill("nothing like it")
    assert page.locator("#hit-count").inner_text() == "0 matches"
    search.fill("word 3")
    search.press("Escape")
    assert search.get_attribute("aria-expanded") == "false"
    assert seen.said == []


def test_a_hostile_name_is_found_shown_and_selected_as_text(reports, visit):
    seen = visit(reports["map"])
    for start in ("<script>", '"><img'):
        seen.page.locator("#search").fill(start)
        seen.page.locator("#hits li").first.click()
        assert seen.page.locator("#details h3 .name").inner_text().startswith(start)
    assert seen.page.evaluate("window.ran") is None
    assert seen.page.locator("main script, main img").count() == 0
    assert seen.said == []


def test_colours_follow_the_column_and_the_legend_says_so(reports, visit):
    page = visit(reports["labels"]).page
    data = data_of(reports["labels"])
    row = lonely(data)
    at = place_of(page, data, row)
    assert page.locator("#colour option:checked").inner_text() == "kind"
    assert page.locator("#legend .name").all_inner_texts() == ["even", "odd"]
    seen = {"kind": colour_at(page, *at)}
    for column in ("score", "norm", "angle to the nearest", "times a neighbour", "near duplicates"):
        page.locator("#colour").select_option(label=column)
        seen[column] = colour_at(page, *at)
    page.locator("#colour").select_option(label="score")
    low, high = re.findall(r"[\d.]+", page.locator("#legend").inner_text())
    assert float(low) == pytest.approx(2 / 7, abs=0.15)  # all but the two percent at either end
    assert float(high) == pytest.approx(87 / 7, abs=0.15)
    assert len({tuple(colour) for colour in seen.values()}) >= 4
    assert page.locator("#legend .ramp").is_visible()


def test_rows_of_a_class_have_its_colour_and_a_click_on_it_marks_them(reports, visit):
    page = visit(reports["labels"]).page
    data = data_of(reports["labels"])
    rows = np.argsort(-np.abs(coordinates(data["tables"][0]["layouts"][0])[:, 0]))[:12]  # at the rim, where few overlap
    found = {}
    for row in rows.tolist():
        found.setdefault(row % 2, []).append(tuple(colour_at(page, *place_of(page, data, row))))
    commonest = [max(set(found[parity]), key=found[parity].count) for parity in (0, 1)]
    assert commonest[0] != commonest[1]
    page.locator("#legend button", has_text="odd").click()
    assert page.locator("#marks").inner_text().startswith("Marked: kind: odd (45)")
    before = pixels(page)
    page.locator("#marks button").click()
    assert page.locator("#marks").inner_text() == ""
    assert pixels(page) != before


def test_groups_and_hubs_of_the_lists_are_shown_on_the_map(reports, visit):
    page = visit(reports["map"]).page
    plain = pixels(page)
    page.get_by_role("button", name="Mark").first.click()
    assert page.locator("#marks").inner_text().startswith("Marked: group 1 (15)")
    assert pixels(page) != plain
    hub = page.locator("section", has=page.locator("h2", has_text="Hubs")).locator("[data-row]").first
    name = hub.locator(".name").inner_text()
    hub.click()
    assert page.locator("#details h3 .name").inner_text() == name
    count = int(re.search(r"\d+", page.locator("#details .button").inner_text()).group(0))
    page.locator("#details .button").click()
    assert f"({count})" in page.locator("#marks").inner_text()


def test_before_and_after_list_both_neighbourhoods_and_what_was_kept(reports, visit):
    page = visit(reports["both"]).page
    page.locator("#search").fill("word 60")
    page.locator("#search").press("Enter")
    lists = page.locator(".neighbours")
    before, after = ([*lists.nth(k).locator(".name").all_inner_texts()] for k in range(2))
    assert len(before) == len(after) == 10
    kept = set(before) & set(after)
    assert f"{len(kept)} of 10 neighbours are the same" in page.locator("#details").inner_text()
    assert set(lists.nth(1).locator(".kept .name").all_inner_texts()) == kept
    assert pixels(page, 0) != pixels(page, 1)
