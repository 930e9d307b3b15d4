"""Measure kinds of collapse, write results/monitoring.json, and the tables of docs/monitoring.md from it.

python tools/monitoring_page.py [--check]: with --check, only say whether the page has what the file says.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

import unclump as uc
from unclump.measures.codebook import UniformAssignments
from unclump.measures.pairs import alignment, uniformity

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "monitoring.json", ROOT / "docs" / "monitoring.md"
START, END = "<!-- written by tools/monitoring_page.py -->", "<!-- to here -->"
SAMPLES, VIEWS, D = 500, 4, 64
SIZES = [(256, 64), (1024, 64), (4096, 128), (4096, 768), (100_000, 768)]
BOOKS = [(256, 1024), (4096, 1024), (65_536, 1024), (4096, 16_384)]


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def batches():
    """Groups of views of shape (samples, views, d): what a healthy encoder would give, and what broken ones do."""
    samples, noise = normal(SAMPLES, 1, D, seed=0), normal(SAMPLES, VIEWS, D, seed=1)
    healthy = samples + 0.3 * noise
    few = normal(SAMPLES, 1, 8, seed=2) @ normal(8, D, seed=3)
    centres = normal(10, D, seed=4)[torch.arange(SAMPLES) % 10].unsqueeze(1)
    return {
        "healthy: samples differ, views agree": healthy,
        "noise: views have nothing in common": noise,
        "a cone: all rows share a direction": healthy + 5 * torch.eye(D, dtype=torch.float64)[0] * D**0.5 / 8,
        "8 of 64 dimensions": few / 8**0.5 + 0.01 * noise,
        "power law, variances 1 / i": healthy / torch.arange(1, D + 1).sqrt(),
        "10 clumps": centres + 0.05 * noise,
        "norms of 0.001": 0.001 * healthy,
        "one point": 0 * healthy + 1 + 1e-6 * noise,
    }


MEASURES = {
    "rankme": lambda x: uc.rankme(x.flatten(0, 1)),
    "isoscore": lambda x: uc.isoscore(x.flatten(0, 1)),
    "alpha_req": lambda x: uc.alpha_req(x.flatten(0, 1)),
    "lidar": uc.lidar,
    "mean_cosine": lambda x: uc.mean_cosine(x.flatten(0, 1)),
    "alignment": alignment,
    "uniformity": lambda x: uniformity(x.flatten(0, 1)),
    "SIGReg": lambda x: uc.SIGReg(generator=torch.Generator().manual_seed(0))(x.flatten(0, 1)).item(),
    "VISReg": lambda x: uc.VISReg(generator=torch.Generator().manual_seed(0))(x.flatten(0, 1)).item(),
}


def measured():
    law = uc.IsotropicLaw(SAMPLES * VIEWS, D)
    return {
        "samples": SAMPLES,
        "views": VIEWS,
        "d": D,
        "kinds": {kind: {name: f(x) for name, f in MEASURES.items()} for kind, x in batches().items()},
        "law": {
            "rankme": law.rankme, "isoscore": law.isoscore, "alpha_req": law.alpha_req(), "lidar": law.lidar(SAMPLES),
            "mean_cosine": law.mean_cosine, "alignment": law.alignment, "uniformity": law.uniformity(),
            "SIGReg": uc.SIGReg().null_mean,
        },
        "sizes": [
            [n, d, law.rankme, law.isoscore, law.alpha_req(), law.uniformity()]
            for n, d in SIZES for law in (uc.IsotropicLaw(n, d),)
        ],
        "books": [
            [n, codes, law.usage, law.perplexity] for n, codes in BOOKS for law in (UniformAssignments(n, codes),)
        ],
    }  # fmt: skip


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def tables(found):
    kinds = [[kind, *(f"{value:.3g}" for value in row.values())] for kind, row in found["kinds"].items()]
    law = ["*`IsotropicLaw`*", *(f"{found['law'][name]:.3g}" if name in found["law"] else "" for name in MEASURES)]
    sizes = [[f"{n:,}", d, *(f"{value:.4g}" for value in values)] for n, d, *values in found["sizes"]]
    books = [
        [f"{n:,}", f"{codes:,}", f"{usage:.3f}", f"{perplexity:,.0f}"] for n, codes, usage, perplexity in found["books"]
    ]
    return f"""{START}

{found["samples"]} samples, {found["views"]} views each, {found["d"]} dimensions (`python tools/monitoring_page.py`):

{table(["rows", *(f"`{name}`" for name in MEASURES)], [*kinds, law])}

Of independent isotropic rows, by `uc.IsotropicLaw(n, d)`:

{table(["n", "d", "`rankme`", "`isoscore`", "`alpha_req`", "`uniformity`"], sizes)}

Of random assignments to a codebook, every code being as likely, by `uc.UniformAssignments(n, codes)`:

{table(["n", "codes", "`codebook_usage`", "`codebook_perplexity`"], books)}

{END}"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    if not check:
        RESULTS.write_text(json.dumps(measured(), indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text[: text.index(START)], text[text.index(END) + len(END) :]
    new = before + tables(json.loads(RESULTS.read_text())) + after
    if check:
        return 0 if new == text else 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
