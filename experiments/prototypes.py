"""Image classification with prototypes that were dispersed first, and then fixed.

    python experiments/prototypes.py [--quick] [--data FOLDER] [--omniglot] [--seeds 5] [--backbones 3]

FOLDER is `tiny-imagenet-200`, as it comes from http://cs231n.stanford.edu/tiny-imagenet-200.zip; with --omniglot it is
`images_evaluation`, 659 characters. Without --data it is looked for in the folder that the environment variable
UNCLUMP_DATA names, or else in data/ under the current one. Five stages: the prototypes, one for each class of the
images; networks that are trained once by softmax and then frozen; heads that map their features to the prototypes; the
learning rate that leads each objective to the largest smallest angle; and networks that are trained end to end. Where
images are classified, all sets of prototypes of one dimension meet the same weights, batches and budget.

Decoded images, prototypes and networks after each epoch are kept in the folder `cache` beside the results.
"""

import argparse

from _common import Results, product, tell
from _prototype_report import report  # the table asks for it here
from _prototype_runs import Experiment
from _prototype_sets import BEYOND, MHE, PAPER_ROWS, PROJECTED, RANDOM, RATES, RIEMANNIAN, SOFTMAX, STEEP, TRAINED
from _prototype_summary import summarise
from _prototype_tables import draw

__all__ = ["FULL", "main", "report"]

FULL = {
    "dimensions": [50, 100, 200],
    "rows": [*PAPER_ROWS, *BEYOND],
    "steps": 1000,
    "restarts": 1,
    "momentum": 0.9,
    "random_seeds": 20,
    "set_seeds": 5,
    "px": 32,
    "channels": [32, 64, 128],
    "epochs": 20,
    "batch": 32,
    "lr": 0.05,
    "backbones": 3,
    "seeds": 5,
    "units": 512,
    "head_epochs": 6,
    "head_batch": 256,
    "head_lr": 0.005,
    "end_rows": ["MM squared", *MHE, RANDOM, SOFTMAX],
    "end_dimensions": [50, 100, 200],
    "end_channels": [16, 32, 64],
    "end_epochs": 100,
    "end_seeds": 3,
}
OMNIGLOT = {"px": 28}  # a pixel is the mean of some fourteen of a drawing
QUICK = {
    "dimensions": [8],
    "rows": ["MM squared, projected", "MM squared", "KoLeo", "MHE RBF", *BEYOND],
    "steps": 50,
    "random_seeds": 3,
    "set_seeds": 2,
    "px": 16,
    "channels": [8, 16],
    "epochs": 2,
    "batch": 16,
    "backbones": 1,
    "seeds": 2,
    "units": 32,
    "head_epochs": 4,
    "head_batch": 16,
    "end_rows": ["MM squared", RANDOM],
    "end_dimensions": [8],
    "end_channels": [8, 16],
    "end_epochs": 3,
    "end_seeds": 1,
}

# Settings that the first records do not name: the images of the subset, for training and validation, and one search.
IMPLIED = {"images": [20_000, 5_000], "restarts": 1}


def main(argv=None):
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--data", help="the folder of the images, as it was unpacked")
    options.add_argument("--omniglot", action="store_true", help="659 characters instead of photographs")
    own, _ = options.parse_known_args(argv)
    kind = "omniglot" if own.omniglot else "tiny"
    name = "prototypes_omniglot" if own.omniglot else "prototypes"
    full = FULL | (OMNIGLOT if own.omniglot else {})
    results = Results(name, __doc__.splitlines()[0], argv, full=full, quick=QUICK, options=options, implied=IMPLIED)
    experiment = Experiment(results, kind, own.data)
    records = {stage: results.complete(settings, run) for stage, settings, run in stages(experiment)}
    summary = summarise(experiment, records)
    draw(results, summary)
    tell(report(summary))
    return results.finish(summary)


def stages(experiment):
    """Name, settings and run of each; within a stage seed by seed, so that what is there can be compared."""
    results, classes = experiment.results, experiment.classes
    dimensions, rows = results["dimensions"], results["rows"]
    points = {key: [results[key]] for key in ("steps", "restarts")}
    made = [row for row in rows if row not in (SOFTMAX, TRAINED, RANDOM)]
    made += [STEEP] if "MHE Riesz geodesic" in rows else []
    sets = product(stage=["set"], seed=range(results["set_seeds"]), row=made, d=dimensions, classes=[classes], **points)
    sets += product(
        stage=["set"], seed=range(results["random_seeds"]), row=[RANDOM], d=dimensions, classes=[classes], **points
    )
    yield "set", sets, experiment.set
    network = {key: [results[key]] for key in ("channels", "epochs", "batch", "lr", "px")}
    network["images"] = [[len(experiment.images.train), len(experiment.images.val)]]
    backbones = range(results["backbones"])
    yield "backbone", product(stage=["backbone"], seed=backbones, **network), experiment.trained_backbone
    budget = {key: [results[key]] for key in ("units", "head_epochs", "head_batch", "head_lr")} | points
    cells = [(row, d) for d in dimensions for row in rows if row != SOFTMAX]
    cells += [(SOFTMAX, classes)] if SOFTMAX in rows else []
    heads = product(stage=["frozen"], seed=range(results["seeds"]), backbone=backbones, cell=cells, **network, **budget)
    yield "frozen", [split(setting) for setting in heads], experiment.head
    kinds = dict.fromkeys((PAPER_ROWS[row][0], way_of(row)) for row in rows if row in PAPER_ROWS)
    yield (
        "rate",
        [
            setting
            for objective, way in kinds
            for setting in product(
                stage=["rate"],
                objective=[objective],
                way=[way],
                d=dimensions,
                lr=RATES[objective.split()[0]],
                momentum=[results["momentum"]],
                seed=range(results["set_seeds"]),
                classes=[classes],
                steps=[results["steps"]],
            )
        ],
        experiment.rate,
    )
    cells = [(row, d) for d in results["end_dimensions"] for row in results["end_rows"] if row != SOFTMAX]
    cells += [(SOFTMAX, classes)] if SOFTMAX in results["end_rows"] else []
    network |= {"channels": [results["end_channels"]], "epochs": [results["end_epochs"]]}
    ends = product(stage=["end"], seed=range(results["end_seeds"]), cell=cells, **network, **points)
    yield "end", [split(setting) for setting in ends], experiment.end


def way_of(row):
    return PROJECTED if PAPER_ROWS[row][1] == PROJECTED else RIEMANNIAN


def split(setting):
    row, d = setting["cell"]
    return {key: value for key, value in setting.items() if key != "cell"} | {"row": row, "d": d}


if __name__ == "__main__":
    main()
