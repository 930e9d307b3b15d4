"""What the trainings of weights.py show, as a figure, tables and verdicts, from their summary alone."""

from _common import COLOURS, MARKERS, axes, markdown

SCORES = {
    "language model": "validation loss", "triplets": "1-NN error", "hardest negatives": "1-NN error",
    "batch hard": "1-NN error", "prototypes": "error", "contrastive": "1-NN error",
}  # fmt: skip
BAND = "standard deviation over seeds without a term"
TITLES = {
    "triplets": "contrastive, triplets",
    "hardest negatives": "contrastive, hardest negatives",
    "batch hard": "contrastive, batch hard",
    "contrastive": "contrastive, all pairs (control)",
}


def title(training):
    return TITLES.get(training, training)


def recommended(entry):
    """The terms of a training at their recommended weights."""
    return [at for at in entry["terms"] if at["recommended"]]


def judge_score(at, noise):
    """Whether the score with a term differs beyond chance from that without, and by more than single seeds do."""
    mean, width = at["score"]
    if mean > noise:
        return "worse, by more than the noise" if mean > width else "unclear"
    if abs(mean) <= width:
        return "no difference shown"
    return "worse, within the noise" if mean > 0 else "better"


def judge_variance(at):
    mean, width = at["variance"]
    if abs(mean) <= width:
        return "no difference shown"
    return "rises" if mean > 0 else "falls"


def cases(summary):
    """Every recommended weight of every training and size: where, its entry, the term."""
    for training, entry in summary["trainings"].items():
        yield from ((title(training), entry, at) for at in recommended(entry))
    for size, entry in summary["sizes"].items():
        yield from ((f"{int(size):,} rows", entry, at) for at in recommended(entry))


def conclusion(summary):
    """Whether the recommended weight is ever worse than none by more than the noise, and always raises the variance."""
    harmed, flat = (
        [f"{at['term']} in {where}" for where, entry, at in cases(summary) if failed(entry, at)]
        for failed in (
            lambda entry, at: at["score"][0] > entry["noise"],
            lambda entry, at: judge_variance(at) != "rises",
        )
    )
    return (
        "At the recommended weight the score is worse than without a term by more than the deviation over seeds "
        f"{'for ' + ', '.join(harmed) if harmed else 'nowhere'}. The spherical variance rises beyond chance "
        f"{'except for ' + ', '.join(flat) if flat else 'everywhere'}."
    )


def draw(summary, factors):
    """A column for each training: what the term does to the score, and to the variance."""
    figure, panels = axes(2, len(SCORES), width=20, height=6, sharex=True)
    for column, (training, score) in enumerate(SCORES.items()):
        entry = summary["trainings"][training]
        terms = list(dict.fromkeys(at["term"] for at in recommended(entry)))
        for row, (measure, label) in enumerate((("score", f"change of {score}"), ("variance", "change of variance"))):
            ax = panels[row][column]
            ax.axhline(0, color="black", linewidth=0.8)
            for place, name in enumerate(terms):
                means, widths = zip(*(at[measure] for at in entry["terms"] if at["term"] == name), strict=True)
                shifted = [factor * 1.06 ** (place - 1.5) for factor in factors]  # so that bars do not cover each other
                look = {"color": COLOURS[place], "marker": MARKERS[place], "capsize": 2, "linewidth": 1.2}
                ax.errorbar(shifted, means, yerr=widths, label=name, markersize=5, **look)
            ax.set(xscale="log", ylabel=label)
            if measure == "score":
                ax.axhspan(-entry["noise"], entry["noise"], color="black", alpha=0.08, linewidth=0, label=BAND)
                ax.set_title(title(training), fontsize=11)
            else:
                ax.set_xlabel("weight / recommended weight")
    shown, told = panels[0][0].get_legend_handles_labels(), "bars: 95 % intervals, paired with runs without a term"
    figure.legend(*shown, loc="outside lower center", ncols=len(shown[0]), fontsize=10, title=told)
    return figure


def with_interval(pair, digits):
    mean, width = pair
    return f"{mean:+.{digits}f} ± {width:.{digits}f}"


def cells(at):
    """The cells of a table's row that say what a term does at a weight."""
    weight = f"**{at['weight']:g}**" if at["recommended"] else f"{at['weight']:g}"
    return [at["term"], weight, str(at["seeds"]), with_interval(at["score"], 4), with_interval(at["variance"], 4)]


def table(head, rows):
    return "\n".join(markdown(head, rows))


def verdicts(summary):
    """The recommended weights, term by term."""
    rows = []
    for where, entry, at in cases(summary):
        term, weight, seeds, score, variance = cells(at)
        judged = judge_score(at, entry["noise"]), judge_variance(at)
        rows.append([where, f"{term} {weight}", seeds, score, f"{entry['noise']:.4f}", judged[0], variance, judged[1]])
    return table(
        ["training", "term", "seeds", "change of score", "noise", "score", "change of variance", "variance"], rows
    )


def training_section(training, entry):
    score = SCORES[training]
    rows = table(["term", "weight", "seeds", f"change of {score}", "change of variance"], map(cells, entry["terms"]))
    return f"""## {title(training).capitalize()}

Without a term: {score} {entry["score"]:.4f}, with a deviation of {entry["noise"]:.4f} over
{entry["seeds"]} seeds; spherical variance {entry["variance"]:.3f}. Recommended weights are in bold.

{rows}
"""


def size_section(results, summary, few, large):
    noises = ", ".join(f"{entry['noise']:.4f} with {int(size):,} rows" for size, entry in summary["sizes"].items())
    rows = table(
        ["rows", "term", "weight", "seeds", "change of validation loss", "change of variance"],
        [[f"{int(size):,}", *cells(at)] for size, entry in summary["sizes"].items() for at in entry["terms"]],
    )
    return f"""## Tables of other sizes

The language model, {results["size_steps"]} steps of {few} sentences, at the recommended weights, in bold. Beyond
{large:,} rows these are multiplied by √({large:,} / rows), except for `Sliced`; the rows beside them have the weights
without the root.
Over seeds the validation loss without a term has a deviation of {noises}.

{rows}
"""


def axis_section(summary):
    """What becomes of a clump when only circles through coordinate axes are drawn."""
    rows = [
        [title(training), name, f"{len(found['caught'])} of {len(found['caught'] + found['free'])}",
         span(found["caught"]), span(found["free"])]
        for training, each in summary["along_axis"].items() for name, found in each.items()
    ]  # fmt: skip
    head = ["training", "term", "runs with the mean along an axis", "their variance", "variance of the others"]
    return f"""## Circles through axes

"Sliced, axes" is `Sliced(13, axis_aligned=True)`. The mean of the activations counts as along an axis if one coordinate
has more than half of its squared length. Then only circles through that axis see the clump, two in d of all.

{table(head, rows)}
"""


def span(values):
    return f"{min(values):.3f} to {max(values):.3f}" if values else "-"


def page(results, summary, *, few, large):
    """The text of docs/weights_results.md."""
    return "\n".join(
        [
            f"""# Weights tried in five trainings and a control

[Which weight](weights.md) says what follows from these numbers. They are differences to the same training without a
term, paired over the seeds in each row, with 95 % intervals: a score below zero is better, a variance above zero is
more dispersed. `python experiments/weights.py` runs it and writes this page, `results/weights.json` and the figure,
whose grey bands are the deviation of the score over seeds without a term.

![Change of the score and of the spherical variance by weight, in each training](../results/weights.png)

"Hardest negatives" are triplets with the nearest view of another drawing in the batch, by squared distances; "batch
hard" is the same by distances that are not squared.

## Verdicts at the recommended weights

A difference is shown if its interval excludes zero. The noise is the deviation of the score over seeds without a term.

{verdicts(summary)}

{conclusion(summary)}
""",
            *(training_section(training, entry) for training, entry in summary["trainings"].items()),
            axis_section(summary),
            size_section(results, summary, few, large),
        ]
    )
