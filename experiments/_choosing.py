"""The part of docs/choosing.md that the results write: what was best in which regime, its cost, and what failed."""

import json

from _common import FOLDER, markdown
from _peer import PEERS

BEGIN, END = "<!-- written by experiments/table.py -->", "<!-- to here -->"
BEST = 3  # objectives that are named


def section(found):
    """Everything between the two marks."""
    parts = [regimes(found), cost(), failures(found)]
    return "\n\n".join([BEGIN, *(part for part in parts if part), END])


def table(head, rows):
    return "\n".join(markdown(head, rows))


def best(rows, key, unit, digits=2):
    """The first of them by the mean of a measure, and the number of starts of those compared."""
    values = {name: row[key]["mean"] if isinstance(row[key], dict) else row[key] for name, row in rows.items()}
    names = sorted(values, key=lambda name: -values[name])[:BEST]
    counts = sorted({row[key]["n"] if isinstance(row[key], dict) else row["n"] for row in rows.values()})
    starts = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return [", ".join(f"{name} {values[name]:.{digits}f}{unit}" for name in names), starts]


def of_the_paper(rows):
    """Without runs beside its setting: another optimiser, or other libraries."""
    return {name: row for name, row in rows.items() if "(lazy)" not in name and name not in PEERS}


def regimes(found):
    rows = []
    if "tammes" in found:
        for size, sizes in found["tammes"]["summary"].items():
            objectives = {name: row for name, row in sizes["rows"].items() if name != "spherical_code"}
            text, starts = best(objectives, "mean", "°")
            text = f"`spherical_code` {sizes['known']:.2f}°; {text}"
            rows.append([f"few points, alone: {size} dimensions", "smallest angle", text, starts])
    if "synthetic" in found:
        starts = found["synthetic"]["summary"]["starts"]
        size = "{n:,} in {d} dimensions".format(**found["synthetic"]["configuration"])
        early = next(iter(starts["clumped"].values()))["early_step"]
        steps = found["synthetic"]["configuration"]["steps"]
        for regime, start, measure, shown in (
            ("clumped", "clumped", f"spherical variance after {early} steps", ("early_variance", "", 3)),
            ("clumped", "clumped", f"spherical variance after {steps} steps", ("variance", "", 4)),
            ("clumped", "clumped", f"smallest angle after {steps} steps", ("min_degrees", "°")),
            ("spread", "uniform", f"smallest angle after {steps} steps", ("min_degrees", "°")),
        ):
            rows.append([f"many points, {regime}: {size}", measure, *best(of_the_paper(starts[start]), *shown)])
    if "dimensionality" in found:
        for size, sizes in found["dimensionality"]["summary"]["sizes"].items():
            text, starts = best(sizes["rows"], "min_degrees", "°")
            text = f"{text} (no arrangement exceeds {sizes['bound']:.2f}°)"
            steps = found["dimensionality"]["summary"]["steps"]
            rows.append([f"dimensions: {size}", f"smallest angle after {steps} steps", text, starts])
    head = ["regime", "measure", f"best {BEST}, mean over the starts", "starts"]
    return "## What was best where\n\n" + table(head, rows)


def cost():
    """What a step and a whole table take, from the benchmarks' files."""
    parts = ["## What it costs"]
    steps = read("steps")
    if steps:
        rows = []
        for key, (objective, optimiser) in steps["ms"]["ours"].items():
            name, kind = key.split("|")
            rows.append([name, kind, f"{objective:.2f}", f"{optimiser:.2f}"])
        parts.append(
            f"A step on a table of {steps['n']:,} points in {steps['d']} dimensions, in milliseconds; "
            f"pairwise objectives and Lloyd on batches of {steps['batch']} (`python benchmarks/steps.py`):"
        )
        parts.append(table(["objective", "optimiser's rows", "objective", "optimiser"], rows))
    whole = read("full_table")
    if whole:
        rows = [
            [key.removesuffix("|ours"), f"{row['seconds']:.2f} s", f"{row['mebibytes']:.0f} MiB"]
            for key, row in whole["best"].items()
            if key.endswith("|ours")
        ]
        parts.append(
            f"Value and gradient over all pairs of {whole['n']:,} points in {whole['d']} dimensions, and the memory it "
            "takes beyond the table (`python benchmarks/full_table.py`):"
        )
        parts.append(table(["objective", "time", "memory"], rows))
    parts.append(
        "Sliced and SSW take O(n log n) a circle and O(n) memory, Lloyd O(n) a sample; MaxMin, KoLeo, Energy, "
        "Uniformity and MMD O(n²) over a whole table, in O(n) memory; LogDet keeps its n × n matrix. [Speed](speed.md) "
        "has the comparison with plain torch."
    )
    return "\n\n".join(parts)


def failures(found):
    """Where an objective went wrong in these runs; the numbers decide whether a line is there."""
    lines = []
    if "tammes" in found:
        for size, sizes in found["tammes"]["summary"].items():
            stuck = [
                f"{name} {row['worst']:.2f}°"
                for name, row in sizes["rows"].items()
                if row["worst"] < sizes["known"] / 2 and name != "spherical_code"
            ]
            if stuck:
                lines.append(f"- {size} dimensions, worst start: {', '.join(stuck)}, of {sizes['known']:.2f}°.")
    if "riemannian" in found:
        rows = found["riemannian"]["summary"]["rows"]
        lost = [
            f"{name} {row['projected']['mean']:.1f}° instead of {row['Riemannian']['mean']:.1f}°"
            for name, row in rows.items()
            if row["projected"]["mean"] < row["Riemannian"]["mean"] / 2
        ]
        if lost:
            lines.append(
                "- Adam on the Euclidean gradient, projected after each step, instead of a Riemannian optimiser "
                f"(`riemannian.py`): {', '.join(lost)}."
            )
    if "synthetic" in found:
        rows = found["synthetic"]["summary"]["starts"]["clumped"]
        short = [
            f"{name} {row['variance']['mean']:.3f}"
            for name, row in of_the_paper(rows).items()
            if row["variance"]["mean"] < 0.9
        ]
        if short:
            lines.append(f"- Clumped start, spherical variance still below 0.9 at the end: {', '.join(short)}.")
    return "## What went wrong\n\n" + "\n".join(lines) if lines else ""


def read(name):
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
