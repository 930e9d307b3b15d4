"""Which weight: trainings with and without a dispersion term, at five weights around the recommended one.

    python experiments/weights.py [--quick] [--seeds 3] [--jobs 2]

- language model: a causal transformer on English sentences; the term is of its tied table of words;
- triplets: two views of a drawing and a third one; the term is of the activations of a batch, which clump;
- prototypes: characters by their cosine with learned prototypes; the term is of these;
- contrastive, a control: two views of a drawing among all others of the batch, which fill the sphere without a term.

All use Adam, clipping at norm one, warm-up and cosine decay. Runs with the same seed see the same batches, so that
differences to the run without a term are paired. How much chance alone changes a score is the deviation of more runs
without a term, which differ in their seed. A second part trains the language model on tables of other sizes, at
the recommended weight: beyond 10,000 rows, most of which no batch has, times the root of 10,000 / rows where the term
is of drawn rows, or a share; and there without the root, too.

`Balanced` adds a share of the task's gradient norm instead of a weighted term: its weights are shares.
Writes results/weights.json, results/weights.png and docs/weights_results.md.
"""

import functools
import statistics

import _trainings as trainings
import numpy as np
import torch
from _common import COLOURS, MARKERS, Results, axes, data_place, generator, markdown, where
from scipy import stats

import unclump as uc

RECOMMENDED = {"Sliced": 0.3, "KoLeo": 0.1, "Uniformity": 0.1, "Balanced Sliced": 0.01}
AROUND = [0.1, 0.316, 1.0, 3.16, 10.0]
TRAININGS = {
    "language model": "validation loss", "triplets": "1-NN error", "prototypes": "error", "contrastive": "1-NN error",
}  # fmt: skip
TITLES = {"triplets": "contrastive, triplets", "contrastive": "contrastive, all pairs (control)"}
FULL = {
    "seeds": 3, "seeds_without": 5, "rows": 2000, "steps": [400, 400, 600, 400],
    "sizes": [1000, 10_000, 100_000], "size_steps": 100,
}  # fmt: skip
QUICK = {"seeds": 2, "seeds_without": 3, "rows": 60, "steps": [3, 3, 3, 3], "sizes": [40], "size_steps": 2}
LOSSES = {"triplets": trainings.triplets, "contrastive": trainings.nt_xent}
SENTENCES, FEW = 32, 8  # in a batch of the language model; few where tables may be large
AT_MOST = 1024  # rows drawn for a step of a pairwise objective
LARGE = 10_000  # rows beyond which weights fall


def objective(name, draw):
    kinds = {
        "Sliced": lambda: uc.Sliced(13, axis_aligned=True, generator=draw),
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


def settings(results):
    """All runs: without a term, at five weights, and at the recommended weight in other sizes."""
    shared = {"quick": results.quick, "sentences": SENTENCES}
    seeds = list(range(results["seeds"]))
    listed = []
    for training, steps in zip(TRAININGS, results["steps"], strict=True):
        fixed = {"training": training, "steps": steps, "rows": results["rows"], **shared}
        without = range(max(results["seeds"], results["seeds_without"]))
        listed += [{"regulariser": "none", "weight": 0.0, "seed": seed, **fixed} for seed in without]
        for name, weight in RECOMMENDED.items():
            listed += [{"regulariser": name, "weight": round(weight * factor, 6), "seed": seed, **fixed}
                       for factor in AROUND for seed in seeds]  # fmt: skip
    for size in results["sizes"]:
        fixed = {"training": "language model", "steps": results["size_steps"], "rows": size, **shared, "sentences": FEW}
        chosen = {"none": [0.0]} | {name: weights_at(name, size) for name in RECOMMENDED}
        listed += [{"regulariser": name, "weight": weight, "seed": seed, **fixed}
                   for name, weights in chosen.items() for weight in weights for seed in seeds]  # fmt: skip
    return listed


def compared(records, name, weight, measure):
    """Paired differences of a measure to the runs without a term: mean and half the width of the 95 % interval."""
    without = {record["seed"]: record[measure] for record in where(records, regulariser="none")}
    with_term = where(records, regulariser=name, weight=weight)
    differences = [record[measure] - without[record["seed"]] for record in with_term]
    mean = statistics.fmean(differences)
    if len(differences) < 2:
        return mean, float("inf")
    width = stats.t.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return mean, float(width)


def title(training):
    return TITLES.get(training, training)


def spread_of(records, measure):
    """The standard deviation over seeds of the runs without a term."""
    return statistics.stdev([record[measure] for record in where(records, regulariser="none")])


def summarise(results, records):
    """For every training and regulariser: differences of score and variance at each weight."""
    summary = {"recommended": RECOMMENDED, "trainings": {}, "sizes": {}}
    parts = [(training, where(records, training=training, steps=steps, rows=results["rows"]), AROUND)
             for training, steps in zip(TRAININGS, results["steps"], strict=True)]  # fmt: skip
    parts += [(size, where(records, rows=size, steps=results["size_steps"]), []) for size in results["sizes"]]
    for key, part, factors in parts:
        target = summary["trainings" if key in TRAININGS else "sizes"]
        without = where(part, regulariser="none")
        entry = target[str(key)] = {
            "none": {
                measure: statistics.fmean(record[measure] for record in without) for measure in ("score", "variance")
            },
            "noise": spread_of(part, "score"),
            "seeds_without": len(without),
        }
        for name, weight in RECOMMENDED.items():
            at = [round(weight * factor, 6) for factor in factors] if key in TRAININGS else weights_at(name, key)
            entry[name] = [
                {"weight": one} | {measure: compared(part, name, one, measure) for measure in ("score", "variance")}
                for one in at
            ]
    return summary


def draw(summary):
    """A column for each training: what the term does to the score, and to the variance."""
    figure, panels = axes(2, len(TRAININGS), width=14, height=6, sharex=True)
    for column, (training, score) in enumerate(TRAININGS.items()):
        entry = summary["trainings"][training]
        for row, (measure, label) in enumerate((("score", f"change of {score}"), ("variance", "change of variance"))):
            ax = panels[row][column]
            ax.axhline(0, color="black", linewidth=0.8)
            for place, name in enumerate(RECOMMENDED):
                means, widths = zip(*(at[measure] for at in entry[name]), strict=True)
                shifted = [factor * 1.06 ** (place - 1.5) for factor in AROUND]  # so that bars do not cover each other
                look = {"color": COLOURS[place], "marker": MARKERS[place], "capsize": 2, "linewidth": 1.2}
                ax.errorbar(shifted, means, yerr=widths, label=name, markersize=5, **look)
            ax.set(xscale="log", ylabel=label)
            if measure == "score":
                ax.axhspan(-entry["noise"], entry["noise"], color="black", alpha=0.08, linewidth=0)
                ax.set_title(title(training))
            else:
                ax.set_xlabel("weight / recommended weight")
    panels[1][0].legend(fontsize=8)
    return figure


def with_interval(pair, digits):
    mean, width = pair
    return f"{mean:+.{digits}f} ± {width:.{digits}f}"


def in_bold(weight, recommended):
    return f"**{weight:g}**" if weight == recommended else f"{weight:g}"


def page(results, summary):
    """The text of docs/weights_results.md."""
    parts = [
        f"""# Weights tried in three trainings and a control

[Which weight](weights.md) says what follows from these numbers. They are differences to the same training without a
term, paired over {results["seeds"]} seeds, with 95 % intervals: a score below zero is better, a variance above zero is
more dispersed. `python experiments/weights.py` runs it and writes this page, `results/weights.json` and the figure,
whose grey bands are the deviation of the score over seeds without a term.

![Change of the score and of the spherical variance by weight, in each training](../results/weights.png)
"""
    ]
    for training, score in TRAININGS.items():
        entry = summary["trainings"][training]
        rows = [
            [name, in_bold(at["weight"], best), with_interval(at["score"], 4), with_interval(at["variance"], 3)]
            for name, best in RECOMMENDED.items() for at in entry[name]
        ]  # fmt: skip
        table = "\n".join(markdown(["term", "weight", f"change of {score}", "change of variance"], rows))
        parts.append(
            f"""## {title(training).capitalize()}

Without a term: {score} {entry["none"]["score"]:.4f}, with a deviation of {entry["noise"]:.4f} over
{entry["seeds_without"]} seeds; spherical variance {entry["none"]["variance"]:.3f}. Recommended weights are in bold.

{table}
"""
        )
    rows = [
        [f"{int(size):,}", name, in_bold(at["weight"], weight_at(name, int(size))),
         with_interval(at["score"], 4), with_interval(at["variance"], 3)]
        for size, entry in summary["sizes"].items() for name in RECOMMENDED for at in entry[name]
    ]  # fmt: skip
    table = "\n".join(markdown(["rows", "term", "weight", "change of validation loss", "change of variance"], rows))
    parts.append(
        f"""## Tables of other sizes

The language model, {results["size_steps"]} steps of {FEW} sentences, at the recommended weights, in bold. Beyond
{LARGE:,} rows these are multiplied by √({LARGE:,} / rows), except for `Sliced`; the rows beside them have the weights
without the root.
{deviations(summary)}

{table}

{conclusion(summary)}
"""
    )
    return "\n".join(parts)


def deviations(summary):
    """A sentence on how much the seeds differ in every size."""
    each = [f"{entry['noise']:.4f} with {int(size):,} rows" for size, entry in summary["sizes"].items()]
    return f"Over seeds the validation loss without a term has a deviation of {', '.join(each)}."


def conclusion(summary):
    """Whether the recommended weight is ever worse than none by more than the noise, and always raises the variance."""
    worse, flat, unsure = [], [], []
    for group in ("trainings", "sizes"):
        for key, entry in summary[group].items():
            for name, best in RECOMMENDED.items():
                at = entry[name][0] if group == "sizes" else next(one for one in entry[name] if one["weight"] == best)
                where = f"{name} in {title(key)}" if group == "trainings" else f"{name} with {int(key):,} rows"
                worse += [where] if at["score"][0] > entry["noise"] else []
                flat += [where] if at["variance"][0] <= 0 else []
                unsure += [where] if 0 < at["variance"][0] <= at["variance"][1] else []
    return (
        "At the recommended weight the score is worse than without a term by more than the deviation over seeds "
        f"{'for ' + ', '.join(worse) if worse else 'nowhere'}. The spherical variance "
        f"{'does not rise for ' + ', '.join(flat) if flat else 'rises everywhere'}"
        f"{', within the interval for ' + ', '.join(unsure) if unsure else ''}."
    )


def main(argv=None):
    results = Results("weights", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    records = results.complete(settings(results), run)
    summary = results.finish(summarise(results, records))
    results.figure(draw(summary))
    results.page("weights_results", page(results, summary))
    return summary


if __name__ == "__main__":
    main()
