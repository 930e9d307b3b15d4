"""Draws the figures of the gallery, each by the lines that stand beside it: `python docs/make_gallery.py FOLDER`."""

import math
import sys
from pathlib import Path

import torch

import unclump as uc
from unclump.figures.plots import angle_histogram, direction_map, globe, nearest_angle_histogram, save_figure, spectrum

FIGURES = {
    "pairwise angles": """\
cone = uc.PowerSpherical(torch.eye(16)[0], torch.tensor(6.0)).sample((2000,))
axes = angle_histogram(cone)
""",
    "nearest angles": """\
clumped = uc.uniform(2000, 8, generator=torch.Generator().manual_seed(0))
clumped[:200] = uc.project(clumped[0] + 0.02 * torch.randn(200, 8))
axes = nearest_angle_histogram(clumped)
""",
    "spectrum": """\
flat = uc.project(torch.randn(2000, 64) * torch.linspace(1, 0.1, 64))
axes = spectrum(flat)
""",
    "a map": """\
table = uc.uniform(600, 16, generator=torch.Generator().manual_seed(0))
table[:3] = uc.project(table[0] + 0.01 * torch.randn(3, 16))
axes = direction_map(table, names=[f"row {k}" for k in range(600)], marked=[0])
""",
    "a globe": """\
code = uc.spherical_code(48, 3)
axes = globe(code.points)
axes.set_title(f"48 directions, at least {math.degrees(code.min_angle):.2f}° apart")
""",
}


def main(folder: Path) -> None:
    """Every figure as NAME.png, and a page that shows them with their code."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"uc": uc, "torch": torch, "math": math, "globe": globe, "spectrum": spectrum}
    names |= {"angle_histogram": angle_histogram, "direction_map": direction_map}
    names |= {"nearest_angle_histogram": nearest_angle_histogram}
    page = []
    for title, code in FIGURES.items():
        torch.manual_seed(0)
        drawn = dict(names)
        exec(code, drawn)
        file = f"{title.replace(' ', '-')}.png"
        save_figure(drawn["axes"], folder / file)
        heading = title[0].upper() + title[1:]
        page += [
            f"## {heading}\n",
            f"```python\n{code}```\n",
            f"```{{image}} _generated/{file}\n:alt: {heading}\n```\n",
        ]
    (folder / "figures.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
