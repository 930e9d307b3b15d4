"""Image classification with prototypes that were dispersed first, and then fixed.

    python experiments/prototypes.py [--quick] [--data FOLDER] [--omniglot] [--seeds 5] [--backbones 3]

FOLDER is `tiny-imagenet-200`, as it comes from http://cs231n.stanford.edu/tiny-imagenet-200.zip; with --omniglot it is
`images_evaluation`, 659 characters. Four stages: the prototypes, which need no images; heads that map the features of
a network to them, which was trained once by softmax and is then frozen; the learning rate that leads each objective to
the largest smallest angle; and networks that are trained end to end. Where images are classified, all sets of
prototypes of one dimension meet the same weights, batches and budget.

Decoded images, prototypes and networks after each epoch are kept in the folder `cache` beside the results.
"""

import argparse
import statistics
from functools import partial

import torch
from _common import Results, mean_and_error, product, where
from _images import generated, images
from _network import accuracy, backbone, outputs, resnet, seeded, train
from _prototype_report import draw, report  # the table asks for the latter
from _prototype_sets import (
    BEYOND,
    CODE,
    EQUAL,
    PAPER_ROWS,
    PROJECTED,
    RANDOM,
    RATES,
    RIEMANNIAN,
    SOFTMAX,
    TRAINED,
    cached,
    dispersed,
    measured,
    paper,
    prototypes,
)
from scipy.stats import spearmanr
from torch import nn
from torch.nn import functional as F

import unclump as uc

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
    "head_epochs": 20,
    "head_batch": 128,
    "head_lr": 0.003,
    "end_rows": ["MM squared", "MHE RBF", "Sliced 1", RANDOM, SOFTMAX],
    "end_dimensions": [50, 200],
    "end_channels": [32, 64, 128],
    "end_epochs": 100,
    "end_seeds": 3,
}
QUICK = {
    "dimensions": [4, 8],
    "rows": ["MM squared, projected", "MM squared", "MHE RBF", "Sliced 1", *BEYOND],
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
QUICK_CLASSES = 8
CLASSES = {"tiny": 200, "omniglot": 659}


class Experiment:
    """The runs of each stage; images are looked for when the first run needs them."""

    def __init__(self, results, kind, path):
        self.results, self.kind, self.path = results, kind, path
        self.cache = results.folder / "cache"
        self.classes = QUICK_CLASSES if results.quick else CLASSES[kind]
        self._images, self._features = None, {}

    @property
    def images(self):
        if self._images is None:
            px = self.results["px"]
            if self.results.quick:
                self._images = generated(QUICK_CLASSES, px=px, train=40, val=20)
            else:
                self._images = images(self.kind, self.path, px=px, cache=self.cache)
            self.classes = self._images.classes
        return self._images

    def points(self, row, d, seed):
        choices = {key: self.results[key] for key in ("steps", "restarts")}
        first = 0 if row == CODE else seed  # one code for all seeds: it is the best there is
        mark = "-".join(str(part) for part in (row, self.classes, d, first, *choices.values()))
        make = partial(prototypes, row, classes=self.classes, d=d, seed=first, **choices)
        return cached(self.cache / f"{mark}.npy", make)

    def rate(self, *, stage, objective, way, classes, d, steps, lr, momentum, seed):
        points = dispersed(objective, way, classes=classes, d=d, seed=seed, steps=steps, lr=lr, momentum=momentum)
        return measured(points)

    def set(self, *, stage, row, classes, d, steps, seed):
        return measured(self.points(row, d, seed))

    def backbone(self, seed):
        """The network, and its features of all images: of mean zero and variance one over those for training."""
        if seed not in self._features:
            chosen = {key: self.results[key] for key in ("channels", "epochs", "batch", "lr")}
            network = backbone(self.images, **chosen, seed=seed, cache=self.cache)
            features = [outputs(network[0], some) for some in (self.images.train, self.images.val)]
            mean, deviation = features[0].mean(dim=0), features[0].std(dim=0)
            features = [(some - mean) / torch.where(deviation > 0, deviation, 1.0) for some in features]
            found = accuracy(outputs(network, self.images.val).argmax(dim=1), self.images.val_labels)
            self._features[seed] = *features, found
        return self._features[seed]

    def trained_backbone(self, *, stage, seed, **settings):
        return {"accuracy": round(self.backbone(seed)[-1], 3), "skipped": len(self.images.skipped)}

    def head(self, *, stage, row, d, seed, backbone, **settings):
        """Two layers on frozen features."""
        train_features, val_features, _ = self.backbone(backbone)
        outside = self.classes if row == SOFTMAX else d
        units, inside = self.results["units"], train_features.shape[1]
        network = seeded(seed, lambda: nn.Sequential(nn.Linear(inside, units), nn.ReLU(), nn.Linear(units, outside)))
        head = None if row == SOFTMAX else uc.PrototypeHead(self.points(row, d, seed), trainable=row == TRAINED)
        lr, batch, epochs = (self.results[f"head_{key}"] for key in ("lr", "batch", "epochs"))
        groups = [{"params": list(network.parameters()), "sphere": False}]
        groups += [{"params": [head.prototypes]}] if row == TRAINED else []
        train(
            network,
            loss_of(head, row),
            train_features,
            self.images.train_labels,
            epochs=epochs,
            batch=batch,
            seed=seed,
            optimizer=uc.SphereAdam(groups, lr=lr, weight_decay=0.0),
        )
        predicted = predict(head, outputs(network, val_features))
        found = {"accuracy": round(accuracy(predicted, self.images.val_labels), 3)}
        return found | (measured(head.prototypes.detach()) if row == TRAINED else {})

    def end(self, *, stage, row, d, seed, epochs, channels, **settings):
        """The whole network, from scratch."""
        outside = self.classes if row == SOFTMAX else d
        network = seeded(seed, lambda: resnet(self.images.train, channels, outside))
        head = None if row == SOFTMAX else uc.PrototypeHead(self.points(row, d, seed))
        mark = "-".join(str(part) for part in (row, d, seed, *channels, epochs)).replace(" ", "_")
        train(
            network,
            loss_of(head, row),
            self.images.train,
            self.images.train_labels,
            epochs=epochs,
            batch=self.results["batch"],
            lr=self.results["lr"],
            seed=seed,
            checkpoint=self.cache / f"{self.images.name}-end-{mark}.pt",
            mirror=self.images.mirror,
            desc=f"{row} {d}",
        )
        return {
            "accuracy": round(accuracy(predict(head, outputs(network, self.images.val)), self.images.val_labels), 3)
        }


def loss_of(head, row):
    if row == SOFTMAX:
        return F.cross_entropy
    if row == TRAINED:  # without the second term all prototypes would meet
        apart = uc.KoLeo()
        return lambda outputs, labels: head.loss(outputs, labels) + apart(head.prototypes)
    return head.loss


def predict(head, outputs):
    return outputs.argmax(dim=1) if head is None else head.predict(outputs)


def main(argv=None):
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--data", help="the folder of the images, as it was unpacked")
    options.add_argument("--omniglot", action="store_true", help="659 characters instead of photographs")
    own, _ = options.parse_known_args(argv)
    kind = "omniglot" if own.omniglot else "tiny"
    name = "prototypes_omniglot" if own.omniglot else "prototypes"
    results = Results(name, __doc__.splitlines()[0], argv, full=FULL, quick=QUICK, options=options)
    experiment = Experiment(results, kind, own.data)
    records = {stage: results.complete(settings, run) for stage, settings, run in stages(experiment)}
    summary = summarise(experiment, records)
    draw(results, summary)
    return results.finish(summary)


def stages(experiment):
    """Name, settings and run of each; within a stage seed by seed, so that what is there can be compared."""
    results, classes = experiment.results, experiment.classes
    dimensions, rows = results["dimensions"], results["rows"]
    known = {"classes": [classes], "steps": [results["steps"]]}
    made = [row for row in rows if row not in (SOFTMAX, TRAINED, RANDOM)]
    sets = product(stage=["set"], seed=range(results["set_seeds"]), row=made, d=dimensions, **known)
    sets += product(stage=["set"], seed=range(results["random_seeds"]), row=[RANDOM], d=dimensions, **known)
    yield "set", sets, experiment.set
    network = {key: [results[key]] for key in ("channels", "epochs", "batch", "lr", "px")}
    backbones = range(results["backbones"])
    yield "backbone", product(stage=["backbone"], seed=backbones, **network), experiment.trained_backbone
    budget = {key: [results[key]] for key in ("units", "head_epochs", "head_batch", "head_lr", "steps")}
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
                seed=[0],
                **known,
            )
        ],
        experiment.rate,
    )
    cells = [(row, d) for d in results["end_dimensions"] for row in results["end_rows"] if row != SOFTMAX]
    cells += [(SOFTMAX, classes)] if SOFTMAX in results["end_rows"] else []
    network |= {"channels": [results["end_channels"]], "epochs": [results["end_epochs"]], "steps": [results["steps"]]}
    ends = product(stage=["end"], seed=range(results["end_seeds"]), cell=cells, **network)
    yield "end", [split(setting) for setting in ends], experiment.end


def way_of(row):
    return PROJECTED if PAPER_ROWS[row][1] == PROJECTED else RIEMANNIAN


def split(setting):
    row, d = setting["cell"]
    return {key: value for key, value in setting.items() if key != "cell"} | {"row": row, "d": d}


def summarise(experiment, records):
    results, classes = experiment.results, experiment.classes
    summary = {
        "classes": classes,
        "images": [len(experiment.images.train), len(experiment.images.val)],
        "skipped": len(experiment.images.skipped),
        "backbones": [record["accuracy"] for record in records["backbone"]],
        "dimensions": results["dimensions"],
        "settings": {key: results[key] for key in ("px", "seeds", "end_epochs", "end_seeds", "epochs", "set_seeds")},
        "tuned": tuned(records["rate"]),
        "rows": {},
        "end": {},
    }
    summary["settings"]["end_channels"] = results["end_channels"]
    for row in results["rows"]:
        dimensions = [classes] if row == SOFTMAX else results["dimensions"]
        summary["rows"][row] = {str(d): cell(records, row, d) for d in dimensions}
    for row in results["end_rows"]:
        dimensions = [classes] if row == SOFTMAX else results["end_dimensions"]
        summary["end"][row] = {str(d): accuracies(records["end"], row, d) for d in dimensions}
    summary["rank_correlation"] = {str(d): rank_correlation(summary["rows"], str(d)) for d in results["dimensions"]}
    summary["gain_of_riemannian"] = {
        other: {str(d): gain(records, "MM squared", other, d) for d in results["dimensions"]}
        for other in ("MM squared, projected", EQUAL)
    }
    summary["rbf_over_mm"] = {str(d): gain(records, "MHE RBF", "MM squared", d) for d in results["dimensions"]}
    return summary


def tuned(records):
    """For each objective, optimiser and dimension the rate with the largest smallest angle, and all that were tried."""
    found = {}
    for record in records:
        tried = found.setdefault(f"{record['objective']}, {record['way']}", {}).setdefault(str(record["d"]), {})
        tried[str(record["lr"])] = record["min_angle"]
    return {
        name: {
            d: {"lr": float(max(tried, key=tried.get)), "min_angle": max(tried.values()), "tried": tried}
            for d, tried in dimensions.items()
        }
        for name, dimensions in found.items()
    }


def cell(records, row, d):
    """One entry of the table: what the prototypes are, what they are worth, and what the paper has."""
    sets = where(records["set"], row=row, d=d) or [r for r in where(records["frozen"], row=row, d=d) if "variance" in r]
    found = {"paper": paper(row, d), **accuracies(records["frozen"], row, d)}
    if sets:
        found |= {key: mean_and_error([r[key] for r in sets]) for key in ("min_angle", "variance")}
        angles = [r["min_angle"] for r in sets]
        found["min_angle"] |= {"median": statistics.median(angles), "low": min(angles), "high": max(angles)}
        found["runs_of_sets"] = len(sets)
    return found


def accuracies(records, row, d):
    """Over all runs; and the gain over random prototypes of the same run."""
    own = where(records, row=row, d=d)
    found = {"accuracy": mean_and_error([r["accuracy"] for r in own]), "runs": len(own)}
    gained = differences(records, row, RANDOM, d)
    return found | ({"over_random": mean_and_error(gained)} if gained and row != RANDOM else {})


def differences(records, row, other, d):
    """Of accuracies, between runs that differ by the prototypes alone."""
    pairs = [(r, s) for r in where(records, row=row, d=d) for s in where(records, row=other, d=d)]
    return [
        r["accuracy"] - s["accuracy"]
        for r, s in pairs
        if (r["seed"], r.get("backbone")) == (s["seed"], s.get("backbone"))
    ]


def gain(records, row, other, d):
    sets = [{r["seed"]: r["min_angle"] for r in where(records["set"], row=name, d=d)} for name in (row, other)]
    angles = [sets[0][seed] - sets[1][seed] for seed in sets[0]]
    return {
        "accuracy": mean_and_error(differences(records["frozen"], row, other, d)),
        "min_angle": mean_and_error(angles),
        "largest": max(map(abs, angles)),
    }


def rank_correlation(rows, d):
    """Of smallest angle and accuracy, over the rows whose prototypes are fixed."""
    cells = [row[d] for name, row in rows.items() if name not in (SOFTMAX, TRAINED) and d in row]
    angles, found = ([c[key]["mean"] for c in cells] for key in ("min_angle", "accuracy"))
    return {"rho": round(float(spearmanr(angles, found).statistic), 3), "rows": len(cells)}


if __name__ == "__main__":
    main()
