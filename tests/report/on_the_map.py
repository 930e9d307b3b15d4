"""Where rows are on the map of a page in the browser, and what is drawn there."""

import numpy as np

from tests.report.conftest import coordinates, embedded, settle


def data_of(path):
    return embedded(path.read_text(encoding="utf-8"))


def place_of(page, data, row, table=0):
    """Where a row of the first layout is, in the window: the whole map fits into the canvas, with a margin."""
    canvas = page.locator("canvas").nth(table)
    canvas.scroll_into_view_if_needed()
    settle(page)  # the map knows where its rows are once it has drawn them
    box = canvas.bounding_box()
    points = [coordinates(t["layouts"][0])[:, :2] for t in data["tables"]]
    low, high = np.nanmin(np.concatenate(points), axis=0), np.nanmax(np.concatenate(points), axis=0)
    scale = min((box["width"] - 52) / (high[0] - low[0]), (box["height"] - 52) / (high[1] - low[1]))
    x, y = (points[table][row] - (low + high) / 2) * scale
    return box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y


def lonely(data):
    """A row that no other is near to on the map."""
    points = coordinates(data["tables"][0]["layouts"][0])[:, :2]
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    return int(gaps.min(axis=1).argmax())


def pixels(page, table=0):
    settle(page)
    return page.locator("canvas").nth(table).evaluate("canvas => canvas.toDataURL()")


def colour_at(page, x, y):
    settle(page)
    return page.locator("canvas").first.evaluate(
        """(canvas, [x, y]) => {
            const box = canvas.getBoundingClientRect(), unit = canvas.width / box.width;
            const at = [(x - box.left) * unit, (y - box.top) * unit].map(Math.round);
            return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3);
        }""",
        [x, y],
    )
