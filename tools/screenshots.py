"""Screenshots of reports for the documentation: `python tools/screenshots.py GLOVE.npz docs/images`.

GLOVE.npz holds word vectors with their names; its first 5,000 rows are reported, reported again after a spread, and
with 400 of them pulled into 40 clumps. The globe is 240 uniform points with six groups of equal ones. Needs chromium,
pillow and umap-learn; every image is kept below 300 kB.
"""

import argparse
import io
import shutil
import tempfile
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import unclump as uc
from unclump.cli import main as unclump

MOST_BYTES = 300_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def tables(glove: Path, folder: Path) -> None:
    """The files that are reported."""
    words = uc.load(glove)
    assert words.names is not None
    few = uc.Table(words.points[:5000], names=list(words.names[:5000]))
    uc.save(folder / "glove-5000.npz", few)
    spread = uc.disperse(few.points, "sliced", steps=1000, lr=0.01, generator=torch.Generator().manual_seed(0)).points
    uc.save(folder / "glove-5000-spread.npz", few.with_points(spread))
    generator = torch.Generator().manual_seed(4)
    clumped = few.points.clone()
    members = torch.randperm(5000, generator=generator)[:400].view(40, 10)
    noise = torch.randn(40, 10, clumped.shape[1], generator=generator)
    clumped[members] = clumped[members[:, :1]] + 0.003 * noise
    uc.save(folder / "glove-clumped.npz", few.with_points(clumped))
    around = uc.uniform(240, 3, generator=generator)
    for first, last in ((0, 5), (5, 8), (8, 11), (11, 13), (13, 15), (15, 17)):
        around[first:last] = around[first]
    uc.save(folder / "sphere.npy", uc.Table(around))


def shoot(
    browser: Browser,
    page: Path,
    image: Path,
    *,
    width: int,
    height: int,
    scheme: str,
    at: str = "",
    find: str = "",
    colour: str = "",
) -> None:
    """A picture of what a visitor sees, from the top or from a section on, after a search and a choice of colour."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=2 if width < 500 else 1
    )
    opened = context.new_page()
    opened.goto(page.as_uri())
    if at:
        opened.locator("section", has=opened.locator("h2", has_text=at)).first.evaluate(
            "section => window.scrollTo(0, section.getBoundingClientRect().top + window.scrollY - 24)"
        )
    if colour:
        opened.locator("#colour").select_option(label=colour)
    if find:
        opened.locator("#search").fill(find)
        opened.locator("#search").press("Enter")
        opened.locator("#search").blur()
    opened.wait_for_timeout(300)
    shot = Image.open(io.BytesIO(opened.screenshot())).convert("RGB")
    context.close()
    for colours in (256, 128, 64):
        shot.quantize(colours, dither=Image.Dither.NONE).save(image, optimize=True)
        if image.stat().st_size < MOST_BYTES:
            return
    raise SystemExit(f"{image} is larger than {MOST_BYTES} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("glove", type=Path)
    parser.add_argument("images", type=Path)
    chosen = parser.parse_args()
    chosen.images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        folder = Path(place)
        tables(chosen.glove, folder)
        before, after = "glove-5000.npz", "glove-5000-spread.npz"
        reports = {
            "one": [before, "--layout", "umap"],
            "clumped": ["glove-clumped.npz", "--layout", "umap"],
            "two": [before, after],
            "globe": ["sphere.npy"],
        }
        for name, arguments in reports.items():
            made = folder / f"{name}.html"
            words = [str(folder / word) if "." in word else word for word in arguments]
            assert unclump(["report", *words, "-o", str(made), "--quiet"]) == 0
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        one, clumped, two, globe = (folder / f"{name}.html" for name in reports)
        images, at = chosen.images, "A map of the rows"
        shoot(browser, one, images / "report-light.png", width=1200, height=1500, scheme="light")
        shoot(
            browser,
            one,
            images / "report-map.png",
            width=1200,
            height=960,
            scheme="light",
            at=at,
            find="tuesday",
            colour="norm",
        )
        shoot(browser, clumped, images / "report-dark.png", width=1200, height=1500, scheme="dark")
        shoot(browser, globe, images / "report-globe.png", width=1200, height=900, scheme="dark", at="The rows on the")
        shoot(browser, one, images / "report-narrow.png", width=390, height=1300, scheme="light", at=at, find="tuesday")
        shoot(browser, two, images / "report-before-after.png", width=1200, height=1700, scheme="light", find="tuesday")
        browser.close()


if __name__ == "__main__":
    main()
