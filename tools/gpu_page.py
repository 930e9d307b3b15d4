"""Write the tables of docs/gpu.md: what tools/triton_table.py compiled, and the times that follow from limits of cards.

    python tools/gpu_page.py [--check]

The times are calculated, not measured: floating-point operations and bytes, by the formulas below, over what the cards'
data sheets promise. If results/gpu.json is there, as benchmarks/gpu.py writes it on a GPU, its table comes after them.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gpu.md"
START, END = "<!-- written by tools/gpu_page.py -->", "<!-- to here -->"
SIZES = ((4_096, 768), (65_536, 1_024), (1_000_000, 384))
CIRCLES = 13


class Card(NamedTuple):
    """Of the data sheet: processors, bytes of memory, bytes per second, operations per second."""

    name: str
    architecture: int
    processors: int
    memory: float
    bandwidth: float
    float32: float
    tf32: float | None
    """Of tensor cores, where three products of TF32 are faster than one of float32."""

    @property
    def rate(self):
        return self.float32 if self.tf32 is None else self.tf32 / 3


CARDS = (
    Card("A100 SXM 80 GB", 80, 108, 80e9, 2.039e12, 19.5e12, 156e12),
    Card("H100 SXM", 90, 132, 80e9, 3.35e12, 66.9e12, 494.7e12),
    Card("RTX 4090", 89, 128, 24e9, 1.008e12, 82.6e12, None),
)


class Work(NamedTuple):
    operations: float
    bytes: float
    memory: float
    """At once, beside the embeddings and their gradient."""
    cache: float = 0.0
    """Bytes between the cache that all processors share and the processors."""


def waves(n, rows, card, programs):
    """How often programs of a tile of rows fill the card: all of a wave go through the table together."""
    return math.ceil(math.ceil(n / rows) / (card.processors * programs))


def ours(objective, n, d, card, programs):
    """Bytes are those of every pass over a table of n d numbers of 4 bytes, and over pairs where there are any."""
    prepare = 2 + 1 + 2 + 1  # project, the mean, moved to it, norms
    finish = 3 + 3  # tangent gradient, by the embeddings
    if objective == "KoLeo":  # select, measure 4 candidates; the nearest, differences, norms, forces, added back
        passes = prepare + waves(n, 128, card, programs["nearest"]) + (1 + 4) + (2 + 3 + 1 + 2 + 3) + finish
        return Work(2 * n * n * d, 4 * n * d * passes, 20 * n * d, 4 * n * n * d * (1 / 128 + 1 / 64))
    if objective == "Energy":  # zeros, both products of a tile, with the gradient each time through the cache, the end
        passes = prepare + 1 + waves(n, 128, card, programs["kernel_sum"]) + 3 + finish
        return Work(4 * n * n * d, 4 * n * d * passes, 16 * n * d, 4 * n * n * d * (3 / 32 + 2 / 128))
    each = 152  # bytes an angle: coordinates, four passes of a radix sort, coefficients, and those again
    return Work(8 * CIRCLES * n * d, 8 * n * d + each * CIRCLES * n, 44 * CIRCLES * n)


def textbook(objective, n, d):
    """As benchmarks/textbook.py has it: the matrix of pairs is written, and read by every function of it."""
    if objective == "KoLeo":  # a product and its largest entries; then as ours
        return Work(2 * n * n * d, 8 * n * n + 80 * n * d, 4 * n * n + 16 * n * d)
    if objective == "Energy":  # product, exponential, sum; the derivative of the exponential; two products with it
        return Work(6 * n * n * d, 32 * n * n + 60 * n * d, 8 * n * n + 8 * n * d)
    return Work(8 * CIRCLES * n * d, 8 * n * d + 260 * CIRCLES * n, 80 * CIRCLES * n)


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def of(value, units, base):
    for unit in units[:-1]:
        if value < base:
            return f"{value:.3g} {unit}"
        value /= base
    return f"{value:,.3g} {units[-1]}"


def size(value):
    return of(value, ("B", "kB", "MB", "GB", "TB", "PB"), 1000)


def duration(value):
    return of(value * 1e6, ("µs", "ms", "s"), 1000)


def count(value):
    return of(value / 1e6, ("M", "G", "T", "P", "E"), 1000)


def compiled(found):
    rows = []
    names = dict.fromkeys(one["kernel"] for one in found["kernels"])
    for name in names:
        parts = {one["architecture"]: one for one in found["kernels"] if one["kernel"] == name}
        cells = []
        for one in parts.values():
            loop, products = one["loop"], "–"
            if loop["tensor"] or loop["FMA"]:
                products = f"{loop['tensor']} T" if loop["tensor"] else f"{loop['FMA']} F"
                products += f" of {loop['all']}"
            needs = one["registers"], one["spilled"], f"{one['shared'] / 1024:.3g}", f"{one['occupancy']:.0%}", products
            cells.append(" / ".join(map(str, needs)))
        rows.append([name, next(iter(parts.values()))["warps"], *cells])
    return table(["kernel", "warps", *(f"sm_{one}" for one in parts)], rows)


def calculated(found):
    rows = []
    for n, d in SIZES:
        for objective in ("KoLeo", "Energy", "Sliced"):
            theirs = textbook(objective, n, d)
            for card in CARDS:
                programs = {
                    one["kernel"].partition(",")[0]: one["programs"]
                    for one in found["kernels"]
                    if one["architecture"] == card.architecture
                    and one["kernel"] in ("nearest, k = 1, tile 128 x 64", "kernel_sum, Gaussian, 2 stages")
                }
                work = ours(objective, n, d, card, programs)
                time = max(work.operations / card.rate, work.bytes / card.bandwidth)
                beside = max(theirs.operations / card.float32, theirs.bytes / card.bandwidth)
                fits = theirs.memory < card.memory
                rows.append([
                    f"{objective}, {n:,} x {d:,}", card.name, count(work.operations), size(work.bytes),
                    size(work.cache / time) + "/s" if work.cache else "–", size(work.memory), duration(time),
                    size(theirs.bytes), size(theirs.memory), duration(beside) if fits else "does not fit",
                ])  # fmt: skip
    head = ["value and gradient", "card", "operations", "bytes", "by the cache", "memory", "at the limit"]
    return table([*head, "textbook: bytes", "memory", "at the limit"], rows)


def measured(path):
    """The table of what benchmarks/gpu.py wrote."""
    if not path.exists():
        return "No measurement on a GPU is in this repository yet."
    found = json.loads(path.read_text())
    names = list(dict.fromkeys(side for row in found["rows"] for side in row["sides"]))
    head = ["milliseconds / MB", *names, "of the product", "of the copy"]
    rows = []
    for row in found["rows"]:
        ours = row["sides"]["ours"]
        parts = ["–", "–"] if ours is None else [f"{ours[part]:.0%}" for part in ("product", "copy")]
        name = f"{row['name']}, {row['n']:,} x {row['d']:,}"
        rows.append([name, *(time_and_memory(row, side) for side in names), *parts])
    return f"Measured on {found['device']}, torch {found['torch']}:\n\n{table(head, rows)}"


def time_and_memory(row, side):
    if side not in row["sides"]:
        return "–"
    one = row["sides"][side]
    if one is None:
        return "no memory"
    memory = "–" if one["MB"] is None else f"{one['MB']:.3g}"
    return f"{one['ms']:.3g} / {memory}" + (", differs" if side in row["differs"] else "")


def page():
    found = json.loads((ROOT / "results" / "triton.json").read_text())
    before, _, rest = PAGE.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"""{before}{START}

### Compiled (triton {found["triton"]})

Registers of a thread / bytes spilled / KiB of shared memory / part of the warps that a processor can hold / products of
all instructions in the innermost loop (T: tensor cores, F: fused multiply-add). Atomic instructions, of all kernels
together: {sum(one["atomics"] for one in found["kernels"])}.

{compiled(found)}

### Calculated, not measured

{calculated(found)}

### Measured

{measured(ROOT / "results" / "gpu.json")}

{END}{after}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    written = page()
    if parser.parse_args().check:
        sys.exit(0 if PAGE.read_text() == written else f"{PAGE} is not what results/ gives: run this without --check")
    PAGE.write_text(written)


if __name__ == "__main__":
    main()
