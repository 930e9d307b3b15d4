"""Write docs/speed.md, precision.md, verdict.md and codes_found.md from what the benchmarks wrote to results/.

python tools/benchmark_pages.py [--check]
"""

import argparse
import collections
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

`make bench`: a table of {found["n"]:,} points in {found["d"]} dimensions, batches of {found["batch"]} for pairwise
objectives and Lloyd, milliseconds of objective + optimiser. The peer is plain torch (POT for SSW) with geoopt's
RiemannianAdam, at its best: in a process whose memory allocator keeps its pages. The last column is the ratio to the
same peer with default settings. Lazy updates use sparse gradients, and are compared with the dense peer. Times are
those of the fastest third of the steps. This machine multiplies thin matrices at {limits["sgemm_gflops"]:.0f} GFLOP/s
and copies a table, in its cache, at {limits["copy_gbytes"]:.0f} GB/s.

{table(["row", "rows", "ours, ms", "peer, ms", "ratio", "to the default"], rows)}{dispersing(found)}"""


def dispersing(found):
    """What a whole call of `disperse` takes, where it was measured."""
    if "disperse" not in found:
        return ""
    rows = []
    for name, row in found["disperse"].items():
        peer, mean = sum(found["ms"]["peer, pages kept"][f"{name}|dense"]), row["ms"]
        rows.append([name, f"{row['steps']:,}", f"{mean:.2f}", f"{peer:.2f}", f"{peer / mean:.1f}"])
    return f"""

A whole call of `disperse` on the same table, with the records that it keeps by itself, divided by its number of steps.
The peer is its step above, which records nothing:

{table(["row", "steps", "ours, ms a step", "peer, ms", "ratio"], rows)}"""


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


def reference():
    found = read("reference")
    cells = {(row["objective"], row["setting"], row["use"]): row for row in found["rows"]}
    objectives, settings, _ = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    uses = {"alone": "alone", "against": "queue", "weight": "mask"}
    timed = [(setting, use) for setting in settings for use in ("alone", "against")]
    times = [
        [name, *(ratio(cells[name, setting, use]["ratios"]["time"]) for setting, use in timed)] for name in objectives
    ]
    large = settings[1]
    counts = []
    for name in objectives:
        of_uses = [cells[name, large, use] for use in uses]
        operations = [f"{row['ours']['operations']} / {row['textbook']['operations']}" for row in of_uses]
        compared = [ratio(row["ratios"][key]) for key in ("flops", "bytes") for row in of_uses]
        counts.append([name, *operations, *compared])
    in_double, synchronising = (
        sum(bool(row["ours"][key]) for row in found["rows"] if row["ours"]) for key in ("float64", "synchronising")
    )
    measured = sum(row["ours"] is not None for row in found["rows"])
    head = ["objective", *(f"{setting}, {uses[use]}" for setting, use in timed)]
    counted = [f"{what}, {use}" for what in ("operations", "flops", "bytes") for use in uses.values()]
    return f"""## Without compiled loops

`python benchmarks/reference.py`: value and gradient from raw embeddings with the compiled loops off, which is what a
GPU without Triton and an install without a compiler run, beside ten lines of textbook torch. Ratios are ours over the
textbook's: below one is better. Alone, with a queue of a quarter as many rows (`against=`), and with a boolean mask
(`weight=`). Time (threads: {found["threads"]}):

{table(head, times)}

Operations (ours / textbook), flops of matrix products and bytes written at {large}. Of {measured} cells, {in_double}
compute something in float64, and {synchronising} wait for the device.

{table(["objective", *counted], counts)}"""


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def accuracy():
    found = read("accuracy")
    parts = []
    for kind, title in (("reference", "Without compiled loops"), ("native", "With compiled loops")):
        if kind in found:
            tables = [f"Gradient:\n\n{errors(found[kind], 'gradient')}", f"Value:\n\n{errors(found[kind], 'value')}"]
            parts += [f"## {title}", *tables]
    option = " and `--native`" if "native" in found else ""
    how = f"""`python benchmarks/accuracy.py`{option}: {found["n"]} points in 64 and in 3 dimensions, the worse of
the two; {found["pairs"]} near pairs."""
    return "\n\n".join([how, *parts])


COLUMNS = {
    "generic": ["generic"],
    **{f"{gap} rad": [f"near {gap}"] for gap in ("1e-02", "1e-03", "1e-04", "1e-05", "1e-06", "1e-07")},
    **{f"cone {degrees}°": [f"cone {degrees}°"] for degrees in ("10", "1", "0.1")},
    "antipodes": ["antipodes", "antipodes 1e-03 off"],
}


def errors(found, part):
    """The worst error of each objective (a row) on tables of one sort (a column)."""

    def worst(row, names):
        cells = [cell[part] for key, cell in row.items() if key.split("|")[1] in names]
        return "-" if None in cells else f"{max(cells):.0e}"

    measured = {key.split("|")[1] for row in found.values() for key in row}
    columns = {title: names for title, names in COLUMNS.items() if measured.issuperset(names)}
    rows = [[plain_name(name), *(worst(row, names) for names in columns.values())] for name, row in found.items()]
    return table(["objective", *columns], rows)


def plain_name(name):
    """Energy(Riesz(s=1.0, distance='chordal')) as Energy, Riesz 1, chordal."""
    for old, new in (
        ("distance=", ""),
        ("'", ""),
        ("gamma=", ""),
        ("s=", ""),
        ("))", ""),
        (".0", ""),
        ("(Riesz(", ", Riesz "),
    ):
        name = name.replace(old, new)
    return name.replace("(Gaussian(", ", Gaussian ").replace("(Laplace(", ", Laplace ")


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

`python benchmarks/scaling.py`: cost against the number of points in {found["d"]} dimensions, with exponents fitted from
ten thousand points on.

{table(["part", "cost", "largest n", "time there"], rows)}

![Seconds against the number of points, both on logarithmic axes](images/scaling.png)"""


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
smallest angle, which is measured less often, is the one the peer ends with. The last column is the mean over all
steps, including slow ones: ours and the peer's.

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

`python benchmarks/codes.py --table TABLE`, seed {found["seed"]}: what the solver finds from scratch, the
difference in degrees from the best known angle in TABLE, and the time of the search.

{table(["n", "smallest angle, degrees", "difference", "time"], searches(found, "angle"))}"""


def thomson():
    found = read("thomson")
    return f"""## Least Coulomb energies in {found["dimension"]} dimensions

`python benchmarks/codes.py --thomson --first 2 --table TABLE`, seed {found["seed"]}: Thomson's problem, solved from
scratch, and the relative difference from the best known energy in TABLE.

{table(["n", "energy", "difference", "time"], searches(found, "energy"))}"""


def code_moves():
    found = read("code_moves")
    sizes = list(found["rows"]["all moves"])
    rows = [
        [name.replace("_", " "), *("0" if abs(row[size]) < 1e-8 else f"{row[size]:+.1e}" for size in sizes)]
        for name, row in found["rows"].items()
    ]
    return f"""## What each part of the search finds

`python benchmarks/code_moves.py --seconds {found["seconds"]:g}`: each part alone, and all moves but one, for that
many seconds of processor time. A cell is the best angle minus the catalogue's, in degrees: 0 where they are equal, and
positive where the catalogue had no code as good.
Permuted starts have the symmetry of a random group; *best groups again* draws half of them from the groups that led to
the best codes so far, and *those without actions* have no orbits with stabilisers.
Moves start from the best of eight random starts, and restart after a hundred moves without a gain; *softer* anneals
start at a sharpness of 16 instead of 64. *Orbits* moves
orbits within the symmetry of a random group, *overlap* is a walk that reduces the overlap, and *variants* searches the
variants of the best start, or of the code that the moves or the walk end at. Each row is one run: a difference between
two rows may be chance.

{table(["part", *sizes], rows)}"""


def code_minute():
    found = read("code_minute")
    rows = []
    for d in sorted({size["d"] for size in found["sizes"].values()}):
        sizes = sorted((size for size in found["sizes"].values() if size["d"] == d), key=lambda size: size["n"])
        reached = [size for size in sizes if size["off"] > -1e-8]
        missed = [f"{size['n']} ({size['off']:.1e})" for size in sizes if size not in reached]
        longest = max((size["took"] for size in reached), default=0.0)
        numbers = ", ".join(str(size["n"]) for size in sizes)
        rows.append([d, numbers, f"{len(reached)} of {len(sizes)}", f"{longest:.1f} s", ", ".join(missed)])
    head = ["dimension", "sizes", "reached", "longest search among these", "not reached (difference in degrees)"]
    return f"""## The catalogue's angles from scratch in a minute

`python benchmarks/code_minute.py`: a search of at most {found["seconds"]:g} seconds on {found["threads"]} threads, seed
{found["seed"]}, without closed forms and without the catalogue, for sizes fixed in advance. An angle counts as
reached within 1e-8 degrees of the catalogue's. In high dimensions, where the catalogue's codes may not be the best
possible, this says as much about the catalogue as about the search.

{table(head, rows)}"""


def code_lines():
    found = read("code_lines")
    equal = sum(abs(row["searched"]) < 1e-8 for row in found["sizes"].values())
    worse = sum(max(row["searched"], row["simple"]) > 1e-8 for row in found["sizes"].values())

    def difference(off):
        return "0" if abs(off) < 1e-8 else f"{off:+.1e}"

    rows = [
        [n, f"{row['angle']:.9f}", f"{row['bound']:.6f}", difference(row["searched"]), difference(row["simple"])]
        for n, row in found["sizes"].items()
    ]
    return f"""## Lines in three dimensions

`python benchmarks/code_lines.py`: the smallest angle of the n lines that `spherical_code` returns, in degrees, and its
upper bound; then the differences from that angle of a search from scratch (seed {found["seed"]},
{found["restarts"]} restarts), and of the best of {found["simple"]} random starts, annealed and polished, without moves.
The search from scratch reaches the same angle in {equal} of {len(rows)} sizes; {worse} angles of the
catalogue are worse than one of the two.

{table(["n", "smallest angle", "upper bound", "search", "random starts"], rows)}"""


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
Riemannian Adam; the mean and the best smallest angle over the starts, and the time of one run. The optimum is
{sizes["known"]:.4f}°.

{table(["objective", "mean", "best", "time"], rows)}"""


def owner():
    found = read("owner")
    rows = []
    for size, row in found["files"].items():
        n, d, dtype = size.split("x")
        searched = "all" if row["sampled"] is None else f"{row['sampled']:,}"
        memory = [f"{row[key] / 1024:.2f} GiB" for key in ("own_mebibytes", "mebibytes", "file_mebibytes")]
        rows.append([f"{int(n):,} x {d} {dtype}", f"{row['seconds']:.0f} s", *memory, searched])
    figures = []
    for name, compared in found["compared"].items():
        label = f"{name}, {compared['sampled']:,} of {compared['n']:,} rows"
        for figure, values in compared["figures"].items():
            numbers = [values["exact"], values["sampled"], *(values["interval"] or [])]
            if "angle" in figure:
                numbers = [math.degrees(number) for number in numbers]
            shown = [f"{number:.4g}" for number in numbers]
            interval = f"{shown[2]} to {shown[3]}" if values["interval"] else ""
            figures.append([label, figure.replace("_", " "), shown[0], shown[1], interval])
            label = ""
    differences = max(compared["largest_difference_of_others"] for compared in found["compared"].values())
    return f"""## Measuring a large file

`python benchmarks/owner.py`: `unclump measure` on files of clustered rows with two pairs of equal rows and one of near
duplicates, all of which it found. Memory is the peak of the process: its own, and with the pages of the file that it
maps. In tables of more than 1.5e12 / d pairs, the neighbours of a sample of rows are searched for in the whole table.

{table(["file", "time", "own memory", "with the file's pages", "file", "rows searched for"], rows)}

Estimates from a sample compared with all rows, with 95 percent intervals and angles in degrees. One half of the sample
selects the largest hub, the other half measures its share. All other measures use the whole table in both cases: the
largest difference of a rank, a variance or a cosine is {differences:.1g}, and the same rows are equal or near
duplicates.

{table(["table", "figure", "all rows", "sample", "interval"], figures)}{_near_duplicates(found.get("near", {}))}"""


def _near_duplicates(tables):
    """How many planted near duplicates are found, by hashes and by FAISS; nothing before it was measured."""
    rows = []
    for name, searched in tables.items():
        for way, label in (("hashes", "hashes"), ("faiss", "FAISS, 4 sqrt(n) cells, 4 probed")):
            if way in searched:
                shares = [f"{share:.1%}" for share in searched[way]["found"]]
                rows.append([f"{name}, {searched['n']:,} x {searched['d']}", label, *shares, searched[way]["seconds"]])
    if not rows:
        return ""
    return f"""

Near duplicates in a sampled table are found by hashing and then measured exactly. The table shows how many of 500
planted pairs are found, at 0.1, 0.5 and 1 times the angle of near duplicates (a degree, or less in few dimensions),
compared with a FAISS search for nearest rows, and the processor time in seconds.

{table(["table", "search", "0.1", "0.5", "1", "seconds"], rows)}"""


def verdict():
    found = read("verdict")
    runs, summary = found["runs"], found["summary"]
    whole = [run for run in runs if run.get("change") == "whole"]
    figures = list(whole[0]["figures"])[2:]
    real = [
        [
            run["table"],
            f"{run['figures']['n']:,} x {run['figures']['d']}",
            *(f"{run['figures'][name]:.3g}" for name in figures),
        ]
        for run in whole
    ]
    said = "\n".join(f"- **{run['table']}**: {run['text']}" for run in whole)
    tables = len(whole)
    hits = [
        [f"`{fault}`", *(f"{strength}: {len(names)}/{tables}" for strength, names in strengths.items())]
        for fault, strengths in summary["hits"].items()
    ]
    planted = [run for run in runs if run.get("fault")]
    own = {run["table"]: set(run["findings"]) for run in whole}
    others = collections.Counter(
        (run["fault"], name)
        for run in planted
        for name in run["findings"]
        if name != run["fault"] and name in summary["hits"] and not (run["table"] == "counts" and name == "norms")
    )
    beside = ", ".join(
        f"`{name}` where `{fault}` was planted ({count})" for (fault, name), count in others.most_common()
    )
    alarms = [alarm for alarm in summary["alarms"] if not set(alarm[2]) <= own.get(alarm[0], set())]
    true = len(summary["alarms"]) - len(alarms)
    listed = "; ".join(f"{name}, {change}: {', '.join(faults)}" for name, change, faults in alarms) or "none"
    return f"""## Tables as they are

Words: GloVe 6B, the 50,000 most frequent. Tokens: the input embeddings of all-MiniLM-L6-v2. Sentences: 4,000 captions
of Multi30k by the same model. Counts: words of Tatoeba and Multi30k by positive pointwise mutual information and a
singular value decomposition.

{said}

{table(["table", "size", *figures], real)}

## False alarms

{summary["harmless"]} tables have no planted fault: the four as they are, as halves of 8,000 of their rows, rotated,
with other norms, in float16, and in another order; and uniform, Gaussian and clustered points. {true} times the verdict
named a fault that the table itself has, as above: norms that encode the frequency. False alarms: {len(alarms)}
({listed}).

## Hits

A fault is planted into 4,000 rows of each of the {tables} tables (counts with unit norms) at five strengths; each
cell counts the tables in which the verdict named it. The strengths, row by row: rows without a direction; copies; ten
copies rotated by an angle, or rounded to eight bits; the share of the principal axes that keep their variance, while
the others keep a fiftieth of their deviation; the mean cosine; the share of the rows that are rotated towards one
direction, with twelve rows around it; constant dimensions; the correlation of norm and row number. Strengths on the
harmless side of a threshold should not be reported: 3 degrees; 70 percent of the axes; a mean cosine of 0.2 and 0.4;
hubs of 2 and 5 percent, which end up among the nearest of fewer rows than that; one or two dimensions of 384; a
correlation of 0.3 and 0.6.

{table(["fault", "1", "2", "3", "4", "5"], hits)}

Besides the planted faults, it named: {beside or "nothing"}.

## Where the thresholds come from

{table(["fault", "threshold", "reason"], origins(whole))}"""


def origins(whole):
    """Why each threshold of the verdict is where it is, by the figures of whole tables."""
    least, most = (
        {name: extreme(run["figures"][name] for run in whole) for name in whole[0]["figures"]} for extreme in (min, max)
    )
    apart = f"different rows of the four tables are {least['smallest angle']:.1f} degrees apart or more"
    norms = ", ".join(f"{run['table']} {run['figures']['norm correlation']:.2f}" for run in whole)
    return [
        ["`directions`", "NaN, infinite, or more than one row of zeros", "a single row of zeros is padding"],
        ["`near-duplicates`", "1 degree", f"rounding to eight bits turns a row by less; {apart}"],
        ["`rank`", "half of uniform points' effective rank", f"the four have {least['rank']:.2f} or more of it"],
        [
            "`cone`",
            "mean cosine 0.5",
            "there the direction that all rows share has half of their squared length; the four have "
            f"{most['mean cosine']:.2f} at most",
        ],
        [
            "`hubs`",
            "5 percent of the rows, and ten times an even share",
            f"the largest hub of the four is a neighbour of {most['largest hub']:.1%}",
        ],
        ["`dimensions`", "1 percent constant", f"the four have {most['constant dimensions']:.1%} at most"],
        ["`norms`", "rank correlation 0.7, deviation a tenth of the mean", f"correlations of the four: {norms}"],
    ]


SPEED = """# How fast it is

Written by `python tools/benchmark_pages.py` from the results of the benchmarks in `results/`, on two cores, without a
GPU. Ratios compare with a peer in the same run. Steps and whole tables are the best of several rounds, when
the machine was quietest; everything else is one run. MHE is `Energy`, MM is `MaxMin`."""

PRECISION = """# How precise it is

Written by `python tools/benchmark_pages.py` from what `benchmarks/accuracy.py` wrote to `results/`. These are relative
errors of float32, compared with float64 on the same points: generic points; a few pairs at the distance in the column
head; all points within a cone; and antipodal pairs, exact or 0.001 rad off. The error of a gradient is the norm of the
difference divided by the norm of the gradient, over the whole table; a dash marks a gradient or value that is zero in
float64, or not finite.

**Near pairs.** Unit rows stored in float32 are rounded by about 6e-8. The direction between two of them that are θ
apart is therefore known only to about 6e-8 / θ, and so is a gradient in which such pairs dominate.

**Ties.** Without compiled loops an objective selects the nearest neighbour by one product in float32, and measures it
by differences. Of several neighbours whose squared chords differ by less than about 2e-7, it may select any. The
compiled loops and all measures compare more candidates.

**Errors of order one** have two causes. Pairs within the precision of float32 are treated as farther apart than they
are, so that they separate. And some gradients are undetermined even in float64: that of a vanishing determinant
(LogDet, Gaussian, 3 dimensions), of the angle between exact antipodes, and of the length of a mean that is zero."""

VERDICT = """# How the verdict is calibrated

Written by `python tools/benchmark_pages.py` from what `python experiments/verdict.py` wrote to `results/`. The rules
are in [Tables](tables.md)."""

CODES = """# Codes that were found

Written by `python tools/benchmark_pages.py` from what the benchmarks wrote to `results/`. All searches here start from
scratch, without closed forms and without the catalogue."""


def pages():
    """The text of every page, by its path."""
    parts = {
        DOCS / "speed.md": (SPEED, steps, full_table, reference, memory, owner, scaling, race),
        DOCS / "precision.md": (PRECISION, accuracy),
        DOCS / "verdict.md": (VERDICT, verdict),
        DOCS / "codes_found.md": (CODES, tammes, code_moves, code_minute, codes, code_lines, thomson),
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
