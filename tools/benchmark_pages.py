"""Write docs/speed.md and docs/codes_found.md from what the benchmarks wrote to results/.

python tools/benchmark_pages.py [--check]
"""

import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "results", ROOT / "docs"


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def seconds(value):
    return "not reached" if value is None else f"{value:.1f} s"


def steps():
    found = read("steps")
    ours, kept, default = (found["ms"][side] for side in ("ours", "peer, pages kept", "peer"))
    rows = []
    for row, parts in ours.items():
        name, kind = row.split("|")
        at_best, as_it_comes = kept[f"{name}|dense"], default[f"{name}|dense"]
        rows.append([
            name, kind, f"{parts[0]:.2f} + {parts[1]:.2f}", f"{at_best[0]:.2f} + {at_best[1]:.2f}",
            f"{sum(at_best) / sum(parts):.1f}", f"{sum(as_it_comes) / sum(parts):.1f}",
        ])  # fmt: skip
    limits = found["limits"]
    return f"""## A step of training

`make bench`: a table of {found["n"]:,} points in {found["d"]} dimensions, batches of {found["batch"]} where the row has
them, milliseconds of objective + optimiser. The peer is plain torch (POT for SSW) with geoopt's RiemannianAdam, in a
process that keeps its pages, where it is at its best; the last column is the ratio to it as it comes. Lazy rows have
sparse gradients; the peer beside them is the dense one. The quietest third of the steps counts.
The machine multiplies thin matrices at {limits["sgemm_gflops"]:.0f} GFLOP/s and copies a table, in its cache, at
{limits["copy_gbytes"]:.0f} GB/s.

{table(["row", "rows", "ours, ms", "peer, ms", "ratio", "to the default"], rows)}"""


def full_table():
    found = read("full_table")
    rows = []
    for name in dict.fromkeys(key.split("|")[0] for key in found["best"]):
        ours, textbook = found["best"][f"{name}|ours"], found["best"][f"{name}|textbook"]
        times = [f"{side['seconds']:.2f} s" for side in (ours, textbook)]
        memory = [f"{side['mebibytes']:.0f} MiB" for side in (ours, textbook)]
        rows.append([name, *times, f"{textbook['seconds'] / ours['seconds']:.1f}", *memory])
    return f"""## Exact objectives of a whole table

`python benchmarks/full_table.py`: value and gradient at n = {found["n"]:,}, d = {found["d"]}, beside textbook autograd.

{table(["objective", "ours", "textbook", "ratio", "ours, memory", "textbook, memory"], rows)}"""


def memory():
    found = read("memory")
    rows = [[name, f"{row['seconds']:.1f} s", f"{row['mebibytes']:.0f} MiB"] for name, row in found["found"].items()]
    return f"""## A hundred thousand rows

`python benchmarks/memory.py`: n = {found["n"]:,}, d = {found["d"]}; memory beyond the table itself.

{table(["measure or objective", "time", "memory"], rows)}"""


def scaling():
    found = read("scaling")
    rows = []
    for name, times in found["seconds"].items():
        largest = list(times)[-1]
        rows.append([name, f"n^{found['exponents'][name]:.2f}", f"{int(largest):,}", f"{times[largest]:.3g} s"])
    return f"""## Up to a million rows

`python benchmarks/scaling.py`: cost against the number of points in {found["d"]} dimensions, exponents fitted from
ten thousand on.

{table(["part", "cost", "largest n", "time there"], rows)}

![cost against n](images/scaling.png)"""


def race():
    found = read("race")
    rows = []
    for name, row in found["rows"].items():
        (peer, ours), (slow, fast) = row["times"]["spread"], row["times"]["angle"]
        step = " and ".join(f"{1e3 * each:.1f}" for each in reversed(row["times"]["step"]))
        goal = f"{math.degrees(row['goal']):.1f}°"
        between = found["steps"] // (len(row["peer"]) - 1)  # steps from look to look
        spread = reached(row["ours"], ours, between), reached(row["peer"], peer, between)
        angle = reached(row["ours"], fast, between), reached(row["peer"], slow, between)
        rows.append([name, *spread, goal, *angle, step])
    chosen = " ".join(f'"{name}"' for name in found["rows"])
    return f"""## From a clumped start

`python benchmarks/race.py --steps {found["steps"]} --rows {chosen}`: {found["n"]:,} points in {found["d"]} dimensions
from a power spherical distribution (kappa = {found["kappa"]:.0f}), the same objective and learning rate
({found["lr"]:g}) on both sides. Time and steps until the spherical variance is {found["spread"]}, and until the
smallest angle, which is looked at less often, is the one the peer ends with. The last column is the mean of all steps,
undisturbed or not.

{table(["row", "spread: ours", "spread: peer", "the peer's angle", "reached: ours", "reached: peer", "ms"], rows)}"""


def reached(looks, when, between):
    """When, and at which step."""
    if when is None:
        return seconds(when)
    return f"{seconds(when)}, {between * [look[0] for look in looks].index(when):,} steps"


def searches(found, value):
    """A line for each search: what was found, the difference to what is known, and the time."""
    return [
        [
            code["n"],
            f"{code[value]:.10f}",
            "" if code["off"] is None else f"{code['off']:+.0e}",
            f"{code['seconds']:.2f} s",
        ]
        for code in found["codes"]
    ]


def codes():
    found = read("codes")
    return f"""## Largest smallest angles in {found["dimension"]} dimensions

`python benchmarks/codes.py --table TABLE`, seed {found["seed"]}: what the solver finds from scratch, its difference in
degrees to the best angle of the table, and the time of the search.

{table(["n", "smallest angle, degrees", "difference", "time"], searches(found, "angle"))}"""


def thomson():
    found = read("thomson")
    return f"""## Least Coulomb energies in {found["dimension"]} dimensions

`python benchmarks/codes.py --thomson --first 2 --table TABLE`, seed {found["seed"]}: Thomson's problem from scratch,
and the relative difference to the energy of the table.

{table(["n", "energy", "difference", "time"], searches(found, "energy"))}"""


def tammes():
    found = read("tammes")
    sizes = found["summary"]["24 in 3"]
    rows = [
        [name, f"{row['mean']:.4f}°", f"{row['best']:.4f}°", f"{row['seconds']:.1f} s"]
        for name, row in sizes["rows"].items()
        if name != "spherical_code"
    ]
    if (RESULTS / "codes.json").exists():
        solved = [code for code in read("codes")["codes"] if code["n"] == 24]
        rows += [["the solver, one search", "", f"{code['angle']:.4f}°", f"{code['seconds']:.2f} s"] for code in solved]
    return f"""## The paper's objectives, 24 points in three dimensions

`python experiments/tammes.py --seeds {found["configuration"]["seeds"]}`: {found["configuration"]["steps"]:,} steps of
Riemannian Adam, mean and best smallest angle over the starts, and the time of one; the optimum is
{sizes["known"]:.4f}°.

{table(["objective", "mean", "best", "time"], rows)}"""


SPEED = """# How fast it is

Written by `python tools/benchmark_pages.py` from what the benchmarks wrote to `results/`, on two cores, without a GPU.
Where there is a peer, a speed is a ratio to it in the same run; steps and whole tables are the best of several turns,
in which the machine was least disturbed, all else is one run. MHE is `Energy`, MM is `MaxMin`."""

CODES = """# Codes that were found

Written by `python tools/benchmark_pages.py` from what the benchmarks wrote to `results/`: searches from scratch,
without closed forms, without the catalogue."""


def pages():
    """The text of every page, by its path."""
    parts = {
        DOCS / "speed.md": (SPEED, steps, full_table, memory, scaling, race),
        DOCS / "codes_found.md": (CODES, tammes, codes, thomson),
    }
    return {
        path: "\n\n".join([head, *(part() for part in made if (RESULTS / f"{part.__name__}.json").exists())]) + "\n"
        for path, (head, *made) in parts.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the pages are what would be written")
    check = parser.parse_args().check
    for path, text in pages().items():
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"docs/{path.name} is not what results/ say: run python tools/benchmark_pages.py")


if __name__ == "__main__":
    main()
