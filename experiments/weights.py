"""Which weight: trainings with and without a dispersion term, at five weights around the recommended one.

    python experiments/weights.py [--quick] [--seeds '[5, 12, 12, 12, 8, 5]'] [--jobs 2]

- language model: a causal transformer on English sentences; the term is of its tied table of words;
- triplets: two views of a drawing and a third one; the term is of the activations of a batch, which clump;
- hardest negatives: the same with the nearest view of another drawing as the third, which collapses;
- batch hard: the same with distances that are not squared, where a clump costs nothing;
- prototypes: characters by their cosine with learned prototypes; the term is of these;
- contrastive, a control: two views of a drawing among all others of the batch, which fill the sphere without a term.

All use Adam, clipping at norm one, warm-up and cosine decay. Runs with the same seed see the same batches, so that
differences to the run without a term are paired. How much chance alone changes a score is the deviation of the runs
without a term, which differ in their seed. `--seeds` has a number for each training, without a term and at the
recommended weight; at the four others there are fewer. `Sliced` with circles through coordinate axes is tried at the
recommended weight only. A second part trains the language model on tables of other sizes, at the recommended weight:
beyond 10,000 rows, most of which no batch has, times the root of 10,000 / rows where the term is of drawn rows, or a
share; and there without the root, too.

`Balanced` adds a share of the task's gradient norm instead of a weighted term: its weights are shares.
Writes results/weights.json, results/weights.png and docs/weights_results.md.
"""

import functools
import statistics

import _trainings as trainings
import numpy as np
import torch
from _common import Results, data_place, generator, where
from _weights_report import SCORES, draw, page
from scipy import stats

import unclump as uc

RECOMMENDED = {"Sliced": 0.3, "KoLeo": 0.1, "Uniformity": 0.1, "Balanced Sliced": 0.01}
AROUND = [0.1, 0.316, 1.0, 3.16, 10.0]
TRIED = {name: [round(weight * factor, 6) for factor in AROUND] for name, weight in RECOMMENDED.items()}
TRIED["Sliced, axes"] = [RECOMMENDED["Sliced"]]
CIRCLES = ["Sliced", "Sliced, axes"]  # any great circles, or those through two coordinate axes
FULL = {
    "seeds": [5, 12, 12, 12, 8, 5], "seeds_around": 3, "rows": 2000,
    "steps": [400, 400, 400, 400, 600, 400],
    "sizes": [1000, 10_000, 100_000], "size_seeds": 3, "size_steps": 100,
}  # fmt: skip
QUICK = {
    "seeds": [3] * 6, "seeds_around": 2, "rows": 60, "steps": [3] * 6,
    "sizes": [40], "size_seeds": 2, "size_steps": 2,
}  # fmt: skip
LOSSES = {
    "triplets": trainings.triplets, "hardest negatives": trainings.hardest_triplets,
    "batch hard": trainings.batch_hard, "contrastive": trainings.nt_xent,
}  # fmt: skip
SENTENCES, FEW = 32, 8  # in a batch of the language model; few where tables may be large
AT_MOST = 1024  # rows drawn for a step of a pairwise objective
LARGE = 10_000  # rows beyond which weights fall


def objective(name, draw):
    kinds = {
        "Sliced": lambda: uc.Sliced(13, generator=draw),
        "Sliced, axes": lambda: uc.Sliced(13, axis_aligned=True, generator=draw),
        "KoLeo": uc.KoLeo,
        "Uniformity": lambda: uc.Uniformity(t=2.0),
    }
    return kinds[name.removeprefix("Balanced ")]()


def weight_at(name, rows):
    """The recommended weight for a table of so many rows.

    A row that no batch has gets a gradient of the order 1 / rows from the softmax. Adam makes steps of the gradient's
    root mean square: that of a row drawn now and then falls with the root of rows, and so does that of a share.
    """
    falls = name != "Sliced"  # which sees all rows, and falls by itself
    return round(RECOMMENDED[name] * min(1.0, (LARGE / rows) ** 0.5 if falls else 1.0), 6)


def weights_at(name, rows):
    """The recommended weight for a table of so many rows, and where it has fallen that of small tables."""
    return list(dict.fromkeys([weight_at(name, rows), RECOMMENDED[name]]))


def term(name, weight, seed):
    """What a training takes: a term of embeddings, and a module that they pass."""
    if name == "none":
        return lambda x: 0.0, lambda x: x
    draw = generator(seed, 4)
    made = objective(name, draw)
    if name.startswith("Balanced"):
        return lambda x: 0.0, uc.Balanced(made, share=weight)

    def regularise(x):
        if len(x) > AT_MOST and not isinstance(made, uc.Sliced):
            x = x[torch.randperm(len(x), generator=draw)[:AT_MOST]]
        return weight * made(x)

    return regularise, lambda x: x


@functools.cache
def words(rows, quick):
    if quick:
        lines = {
            split: [f"w{(7 * i + j) % 50} w{j}".split() * 3 for i in range(60) for j in range(4)]
            for split in ("train", "val")
        }
    else:
        lines = {split: trainings.sentences(split) for split in ("train", "val")}
    return trainings.word_numbers(lines, rows)


@functools.cache
def drawings(quick):
    """Drawings, dark on zero: those of some people for training, those of others for validation."""
    if quick:
        images, labels = torch.rand(80, 1, 28, 28, generator=generator(0)), torch.arange(80) % 8
        drawers = torch.arange(80) // 8
    else:
        with np.load(data_place() / "omniglot_evaluation_659cls.npz") as file:
            images = 1 - torch.from_numpy(file["img28"]).unsqueeze(1).float() / 255
            labels, drawers = (torch.from_numpy(file[name]).long() for name in ("labels", "drawer"))
    return images, labels, drawers - drawers.min()


def run(*, training, regulariser, weight, seed, steps, rows, sentences, quick):
    torch.set_num_threads(1)
    extra = term(regulariser, weight, seed)
    if training == "language model":
        data = words(rows, quick)
        found, table = trainings.train_language_model(seed, *extra, data=data, rows=rows, steps=steps, batch=sentences)
    else:
        images, labels, drawers = drawings(quick)
        if training in LOSSES:  # other characters are for validation
            known = labels < labels.max() * 3 // 4
            some = ~known & (labels % 2 == 0)
            data = {"train": images[known], "val": images[some], "val_labels": labels[some]}
            found, table = trainings.train_contrastive(seed, *extra, data=data, steps=steps, loss_of=LOSSES[training])
        else:  # other people's drawings are
            known = drawers < 15 if not quick else drawers < 5
            data = {"train": images[known], "train_labels": labels[known]}
            data |= {"val": images[~known], "val_labels": labels[~known]}
            found, table = trainings.train_prototypes(seed, *extra, data=data, steps=steps)
    return found | trainings.measures(table)


def parts(results):
    """The trainings with their settings, and their number of seeds at the recommended weight."""
    for training, steps, seeds in zip(SCORES, results["steps"], results["seeds"], strict=True):
        yield {"training": training, "steps": steps, "rows": results["rows"], "sentences": SENTENCES}, seeds


def sizes(results):
    """The settings of the language model with tables of other sizes."""
    for size in results["sizes"]:
        yield {
            "training": "language model", "steps": results["size_steps"], "rows": size, "sentences": FEW,
        }  # fmt: skip


def settings(results):
    """All runs: without a term, at five weights, and at the recommended weight in other sizes."""
    listed = []

    def add(part, name, weight, seeds):
        chosen = {"regulariser": name, "weight": weight, "quick": results.quick}
        listed.extend(chosen | part | {"seed": seed} for seed in range(seeds))

    for part, seeds in parts(results):
        add(part, "none", 0.0, seeds)
        for name, weights in TRIED.items():
            for weight in weights:
                add(part, name, weight, seeds if weight == RECOMMENDED.get(name, weight) else results["seeds_around"])
    for part in sizes(results):
        add(part, "none", 0.0, results["size_seeds"])
        for name in RECOMMENDED:
            for weight in weights_at(name, part["rows"]):
                add(part, name, weight, results["size_seeds"])
    return listed


def compared(records, name, weight, measure):
    """Paired differences of a measure to the runs without a term: mean and half the width of the 95 % interval."""
    without = {record["seed"]: record[measure] for record in where(records, regulariser="none")}
    with_term = where(records, regulariser=name, weight=weight)
    differences = [record[measure] - without[record["seed"]] for record in with_term]
    width = stats.t.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return statistics.fmean(differences), float(width)


def entry(records, tried, recommended):
    """What the runs of a training amount to, at the weights that are tried of each term."""
    without = where(records, regulariser="none")
    return {
        "seeds": len(without),
        "score": statistics.fmean(record["score"] for record in without),
        "variance": statistics.fmean(record["variance"] for record in without),
        "noise": statistics.stdev(record["score"] for record in without),
        "terms": [
            {"term": name, "weight": weight, "recommended": weight == recommended.get(name),
             "seeds": len(where(records, regulariser=name, weight=weight)),
             "score": compared(records, name, weight, "score"),
             "variance": compared(records, name, weight, "variance")}
            for name, weights in tried.items() for weight in weights
        ],
    }  # fmt: skip


def summarise(results, records):
    """For every training and size: differences of score and variance at each weight."""
    summary = {"trainings": {}, "sizes": {}, "along_axis": {}}
    for part, _ in parts(results):
        chosen = where(records, **part)
        summary["trainings"][part["training"]] = entry(chosen, TRIED, RECOMMENDED)
        if part["training"] in LOSSES:
            summary["along_axis"][part["training"]] = {name: along_axis(chosen, name) for name in CIRCLES}
    for part in sizes(results):
        tried = {name: weights_at(name, part["rows"]) for name in RECOMMENDED}
        best = {name: weights[0] for name, weights in tried.items()}
        summary["sizes"][str(part["rows"])] = entry(where(records, **part), tried, best)
    return summary


def along_axis(records, name):
    """How many runs at the recommended weight have a mean direction along a coordinate axis, and their variances."""
    runs = where(records, regulariser=name, weight=RECOMMENDED["Sliced"])
    caught = [run["variance"] for run in runs if run["axis_share"] > 0.5]
    free = [run["variance"] for run in runs if run["axis_share"] <= 0.5]
    return {"caught": caught, "free": free}


def main(argv=None):
    results = Results("weights", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    records = results.complete(settings(results), run)
    summary = results.finish(summarise(results, records))
    results.figure(draw(summary, AROUND))
    results.page("weights_results", page(results, summary, few=FEW, large=LARGE))
    return summary


if __name__ == "__main__":
    main()
