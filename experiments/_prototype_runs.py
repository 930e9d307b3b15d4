"""One run of each stage of the experiment with prototypes."""

from functools import partial

from _images import generated, images
from _network import accuracy, augmentation, backbone, outputs, resnet, seeded, train
from _prototype_sets import CODE, ORDERED, SOFTMAX, TRAINED, cached, dispersed, measured, prototypes, shuffled
from torch import nn
from torch.nn import functional as F

import unclump as uc


class Experiment:
    """The runs of each stage. Images come first: they say how many classes need a prototype."""

    def __init__(self, results, kind, path):
        self.results, self.kind = results, kind
        self.cache = results.folder / "cache"
        if results.quick and path is None:
            self.images = generated(8, px=results["px"], train=40, val=20)
        else:
            self.images = images(kind, path, px=results["px"], cache=self.cache)
        self.classes = self.images.classes
        self._features = {}

    def points(self, row, d, seed):
        choices = {key: self.results[key] for key in ("steps", "restarts")}
        if row == CODE:
            return shuffled(self.points(ORDERED, d, seed), seed)
        first = 0 if row == ORDERED else seed  # one code for all seeds: it is the best there is
        mark = "-".join(str(part) for part in (row, self.classes, d, first, *choices.values()))
        make = partial(prototypes, row, classes=self.classes, d=d, seed=first, **choices)
        return cached(self.cache / f"{mark}.npy", make)

    def rate(self, *, stage, objective, way, classes, d, steps, lr, momentum, seed):
        points = dispersed(objective, way, classes=classes, d=d, seed=seed, steps=steps, lr=lr, momentum=momentum)
        return measured(points)

    def set(self, *, stage, row, d, seed, **settings):
        return measured(self.points(row, d, seed))

    def backbone(self, seed):
        if seed not in self._features:
            chosen = {key: self.results[key] for key in ("channels", "epochs", "batch", "lr")}
            self._features[seed] = backbone(self.images, **chosen, seed=seed, cache=self.cache)
            self._check_backbone(seed, chosen)
        return self._features[seed]

    def _check_backbone(self, seed, chosen):
        """Heads on two backbones are not comparable, and one that is trained again elsewhere may be another."""
        about = chosen | {"stage": "backbone", "seed": seed, "px": self.results["px"]}
        about["images"] = [len(self.images.train), len(self.images.val)]
        runs = [self.results.implied | run for run in self.results.runs]
        now = round(self._features[seed][-1], 3)
        for then in (run["accuracy"] for run in runs if about.items() <= run.items()):
            if then != now:
                raise SystemExit(
                    f"{self.results.name}: expected backbone {seed} of the heads in {self.results.path}, of {then}%, "
                    f"got one of {now}%; put the folder {self.cache} back as it was, or take the runs of the stages "
                    "backbone and frozen out of the file, so that all are run again"
                )

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

    def end(self, *, stage, row, d, seed, channels, epochs, batch, lr, px, images, **points):
        """The whole network, from scratch."""
        outside = self.classes if row == SOFTMAX else d
        network = seeded(seed, lambda: resnet(self.images.train, channels, outside))
        head = None if row == SOFTMAX else uc.PrototypeHead(self.points(row, d, seed))
        told = {"seed": seed, "channels": channels, "epochs": epochs, "batch": batch, "lr": lr, **points}
        mark = "-".join(f"{key}={value}" for key, value in told.items()).replace(" ", "")
        losses = train(
            network,
            loss_of(head, row),
            self.images.train,
            self.images.train_labels,
            epochs=epochs,
            batch=batch,
            lr=lr,
            seed=seed,
            checkpoint=self.cache / f"{self.images.name}-end-{row}-{d}-{mark}.pt",
            augmented=augmentation(self.images),
            desc=f"{row} {d}",
        )
        predicted = predict(head, outputs(network, self.images.val))
        found = {"accuracy": round(accuracy(predicted, self.images.val_labels), 3)}
        return found | {"losses": [round(loss, 4) for loss in losses]}


def loss_of(head, row):
    if row == SOFTMAX:
        return F.cross_entropy
    if row == TRAINED:  # without the second term all prototypes would meet
        apart = uc.KoLeo()
        return lambda outputs, labels: head.loss(outputs, labels) + apart(head.prototypes)
    return head.loss


def predict(head, outputs):
    return outputs.argmax(dim=1) if head is None else head.predict(outputs)
