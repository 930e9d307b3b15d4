"""The map and the globe move, turn and zoom, by mouse, wheel, keys, buttons and touch, and follow the theme."""

import pytest

from tests.report.conftest import coordinates, settle
from tests.report.on_the_map import colour_at, data_of, lonely, pixels, place_of


def test_the_axes_can_be_chosen(reports, visit):
    page = visit(reports["map"]).page
    seen = [pixels(page)]
    page.locator("#axis-x").select_option("2")
    seen.append(pixels(page))
    page.locator("#axis-y").select_option("4")
    seen.append(pixels(page))
    assert len(set(seen)) == 3
    assert page.locator("#axis-x option").count() == 6


@pytest.mark.parametrize("name", ["map", "globe"])
def test_it_moves_and_zooms_by_mouse_wheel_keys_and_buttons(name, reports, visit):
    page = visit(reports[name]).page
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    first = pixels(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, 3)  # without the focus, the page scrolls
    page.mouse.wheel(0, -3)
    assert pixels(page) == first
    page.mouse.down()
    page.mouse.move(x + 80, y + 20, steps=3)
    page.mouse.up()
    seen = [first, pixels(page)]
    assert page.locator("#details").inner_text().startswith("No row selected")  # a drag is not a click
    page.mouse.wheel(0, -200)
    seen.append(pixels(page))
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "+", "-"):
        page.keyboard.press(key)
        seen.append(pixels(page))
    page.get_by_role("button", name="Zoom in").click()
    seen.append(pixels(page))
    assert len(set(seen)) >= len(seen) - 2  # a key back may end where another began
    page.get_by_role("button", name="Show all").click()
    assert pixels(page) == first


def test_enter_selects_the_row_in_the_middle_and_escape_clears(reports, visit):
    page = visit(reports["map"]).page
    page.locator("#search").fill("word 60")
    page.locator("#search").press("Enter")
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    assert page.locator("#details").inner_text().startswith("No row selected")


def test_the_row_that_was_searched_faces_the_viewer_and_a_drag_carries_it_along(reports, visit):
    page = visit(reports["globe"]).page
    points = coordinates(data_of(reports["globe"])["tables"][0]["layouts"][0])
    hidden = int((points @ points[0]).argmin())  # opposite to the row that the globe first faces
    page.locator("#search").fill(f"#{hidden}")
    page.locator("#search").press("Enter")
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    settle(page)
    page.mouse.move(x, y)
    assert page.locator("#tip").inner_text().split(" · ")[0] == f"row {hidden}"
    page.mouse.down()
    page.mouse.move(x + 30, y - 20, steps=10)
    page.mouse.up()
    settle(page)
    page.mouse.move(x + 29, y - 20)
    assert page.locator("#tip").inner_text().split(" · ")[0] == f"row {hidden}"
    page.mouse.move(x - 5, y + 5)
    assert page.locator("#tip").inner_text().split(" · ")[0] != f"row {hidden}"


@pytest.mark.parametrize("name", ["map", "globe"])
def test_one_finger_moves_two_zoom_and_a_tap_selects(name, reports, visit):
    page = visit(reports[name], viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True).page
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    seen, box = [pixels(page)], canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)

    def send(kind, *points):
        places = [{"x": px, "y": py, "id": k} for k, (px, py) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    send("touchStart", (x, y))
    for step in (10, 30, 60):
        send("touchMove", (x, y + step))
    send("touchEnd")
    seen.append(pixels(page))
    send("touchStart", (x - 30, y), (x + 30, y))
    for step in (40, 60, 90):
        send("touchMove", (x - step, y), (x + step, y))
    send("touchEnd")
    seen.append(pixels(page))
    assert len(set(seen)) == 3
    assert canvas.evaluate("canvas => getComputedStyle(canvas).touchAction") == "none"  # or the page would scroll
    page.get_by_role("button", name="Show all").click()
    data = data_of(reports["map"])
    if name == "map":
        row = lonely(data)
        page.touchscreen.tap(*place_of(page, data, row))
        assert page.locator("#details h3 .name").inner_text() == data["names"][row]


def test_a_dark_screen_has_a_dark_map_and_paper_a_light_one(reports, visit):
    page = visit(reports["map"]).page
    brightness = {}
    for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "dark")):
        page.emulate_media(media=media, color_scheme=scheme)
        settle(page)
        box = page.locator("canvas").bounding_box()
        brightness[media, scheme] = sum(colour_at(page, box["x"] + 3, box["y"] + 3))
    assert brightness["screen", "light"] > 600
    assert brightness["print", "dark"] > 600
    assert brightness["screen", "dark"] < 150
