"""Self-distillation with a prototype head, as DINO's, on drawn characters: with KoLeo, as in DINOv2, and without.

    python examples/dino_head.py PATH    # Omniglot's folder images_evaluation
    python examples/dino_head.py --page  # writes docs/recipe_dino_head.md from what was found

Writes results/dino_head.json after every run; runs that it holds already are not run again. `--quick` takes seconds,
on drawings that it makes up.
"""

import copy
import math
import time

import torch
import torch.nn.functional as F
from _recipe import COLOURS, MARKERS, Measure, Recipe, axes, omniglot, scribbles
from torch import nn

import unclump as uc

FULL = {"features": 128, "prototypes": 128, "steps": 400, "batch": 96, "lr": 1e-3, "seeds": [0, 1, 2]}
QUICK = {"features": 16, "prototypes": 16, "steps": 6, "batch": 16, "lr": 1e-3, "seeds": [0]}
STUDENT, TEACHER, MOMENTUM = 0.1, 0.05, 0.99  # temperatures, and how slowly the teacher follows

VARIANTS = {
    "none": {},
    "KoLeo, weight 0.01": {"features": uc.KoLeo(), "weight": 0.01},
    "KoLeo, weight 0.1": {"features": uc.KoLeo(), "weight": 0.1},
}
MEASURES = [
    Measure("accuracy", "5-nearest-neighbour accuracy", ".1%", "higher"),
    Measure("prototypes_used", "prototypes used", ".0f", "higher"),
    Measure("effective_rank", "effective rank of features", ".1f"),
    Measure("nearest", "median nearest angle of features, degrees", ".1f"),
]


class Network(nn.Module):
    """A small convolutional network, whose features are judged, and the head, which is thrown away after training."""

    def __init__(self, setting):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 32, 4, stride=4), nn.BatchNorm2d(32), nn.GELU(),  # 28 -> 7
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.GELU(),  # 4
            nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.GELU(),  # 2
            nn.Flatten(), nn.Linear(512, setting["features"]),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(setting["features"], 128), nn.GELU(), nn.Linear(128, 64))
        self.prototypes = nn.Parameter(uc.uniform(setting["prototypes"], 64))

    def forward(self, images):
        features = self.backbone(images)
        return features, uc.project(self.head(features)) @ uc.project(self.prototypes).T


def train(data, seed, setting, *, features=None, weight=0.0):
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    student = Network(setting)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=setting["lr"], weight_decay=0.04)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting["steps"])
    begin = time.process_time()
    for _ in range(setting["steps"]):
        images = data["train"][torch.randint(len(data["train"]), (setting["batch"],), generator=draw)]
        views = torch.cat([distort(images, draw), distort(images, draw)])
        tokens, logits = student(views)
        with torch.no_grad():
            targets = sinkhorn(teacher(views)[1] / TEACHER).roll(len(images), dims=0)  # of the other view
        loss = F.cross_entropy(logits / STUDENT, targets)
        if features is not None:  # the one line: each view by itself, so that the two views may meet
            loss = loss + weight * features(tokens.unflatten(0, (2, -1))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 1 - MOMENTUM)
    seconds = round(time.process_time() - begin, 1)
    return evaluate(teacher, data) | {"pixels": data["pixels"], "seconds": seconds}


def sinkhorn(logits, rounds=3):
    """Assignments (n, k) with rows of sum one, that use all prototypes alike: by scaling columns and rows in turn."""
    for _ in range(rounds):
        logits = logits - logits.logsumexp(dim=0, keepdim=True)
        logits = logits - logits.logsumexp(dim=1, keepdim=True)
    return logits.exp()


def distort(images, generator):
    """Each turned, stretched, sheared and moved a little, differently."""
    n = len(images)

    def between(low, high):
        return low + (high - low) * torch.rand(n, generator=generator)

    turn, shear = between(-0.3, 0.3), between(-0.3, 0.3)
    wide, high = between(0.8, 1.25), between(0.8, 1.25)
    right, down = between(-0.2, 0.2), between(-0.2, 0.2)
    rows = torch.stack([wide * turn.cos(), shear - turn.sin(), right, turn.sin(), high * turn.cos(), down], dim=1)
    grid = F.affine_grid(rows.view(n, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


@torch.no_grad()
def evaluate(network, data):
    """Characters of other drawers, named by the most similar drawings that training has seen; features as they are."""
    network.eval()
    known, _ = apply(network, data["train"])
    features, assigned = apply(network, data["val"])
    return {
        "accuracy": vote(features, known, data),
        "prototypes_used": len(assigned.unique()),
        "effective_rank": uc.effective_rank(features),
        "nearest": math.degrees(uc.nearest_angles(features).median()),
    }


def vote(rows, known, data, k=5):
    """The part that the k nearest by cosine name rightly, each with DINO's weight, exp(cosine / 0.07)."""
    similarity, near = (rows @ known.T).topk(k, dim=1)
    votes = torch.zeros(len(rows), int(data["train_labels"].max()) + 1)
    votes.scatter_add_(1, data["train_labels"][near], (similarity / 0.07).exp())
    return (votes.argmax(dim=1) == data["val_labels"]).float().mean().item()


def apply(network, images):
    """Unit features of all images, and their nearest prototypes."""
    both = [network(some) for some in images.split(512)]
    return uc.project(torch.cat([f for f, _ in both])), torch.cat([logits.argmax(dim=1) for _, logits in both])


def split_drawers(images, labels, drawers, held_out):
    """Drawings for training, those of the last drawers for validation, and the accuracy of the pixels themselves."""
    seen = drawers <= drawers.max() - held_out
    data = {"train": images[seen], "train_labels": labels[seen], "val": images[~seen], "val_labels": labels[~seen]}
    pixels = (uc.project(data[name].flatten(1)) for name in ("val", "train"))
    return data | {"pixels": vote(*pixels, data)}


def load(path, setting):
    return split_drawers(*omniglot(path), held_out=5)


def made_up(setting):
    return split_drawers(*scribbles(12, 8, torch.Generator().manual_seed(0)), held_out=2)


QUESTIONS = {
    "Does KoLeo on the features help, with DINOv2's weight?": ("KoLeo, weight 0.1", "none"),
    "With a tenth of that weight?": ("KoLeo, weight 0.01", "none"),
}


def page(result):
    setting, runs = result["setting"], result["runs"]
    accuracy = {variant: RECIPE.mean(runs, variant, "accuracy") for variant in VARIANTS}
    best = max(accuracy, key=accuracy.get)
    weight = VARIANTS[max((variant for variant in VARIANTS if variant != "none"), key=accuracy.get)]["weight"]
    return f"""# A DINO-style head

A small convolutional network learns from Omniglot's drawings without labels, as in DINO. The student has to assign a
distorted drawing to {setting["prototypes"]} prototypes in the way the teacher, its moving average, assigns another
distortion of the same drawing. As in DINOv2, the teacher's assignments are balanced over the prototypes by Sinkhorn
and Knopp's method. DINOv2 adds KoLeo with weight 0.1 on the class tokens of a batch, separately for
each view; here it acts on the features. Training takes {setting["steps"]} steps of {setting["batch"]} drawings by
15 people. The score is the accuracy of a 5-nearest-neighbour classifier on the teacher's features: drawings by 5 other
people are classified into 659 characters.

{RECIPE.table(runs)}

![Accuracy of every run](../results/dino_head.png)

{RECIPE.how(result, "Omniglot's folder `images_evaluation`")}

{RECIPE.verdict(runs, QUESTIONS)}

**{best}** has the best accuracy, {accuracy[best]:.1%}. After such a short training no variant beats the raw
pixels, which reach {runs[0]["pixels"]:.1%}. The line to add, for features of shape (2, batch, d), with each view
dispersed separately:

```python
loss = task + {weight} * uc.KoLeo()(features).mean()
```

On several GPUs, `uc.KoLeo(gather=True)` disperses the batches of all of them together.
"""


def figure(runs):
    made, panels = axes(1, 3, width=11, height=3.8)
    for ax, measure in zip(panels, MEASURES[:3], strict=True):
        for number, variant in enumerate(VARIANTS):
            values = list(RECIPE.values(runs, variant, measure.key).values())
            look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": ""}
            ax.plot([number] * len(values), values, label=variant if ax is panels[0] else None, **look)
        ax.set(ylabel=measure.name, xticks=[], xlim=(-0.5, len(VARIANTS) - 0.5))
        ax.margins(y=0.1)
    made.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9, title="a mark for each seed")
    return made


RECIPE = Recipe(
    "dino_head", __doc__.splitlines()[0], FULL, QUICK, VARIANTS, MEASURES, train, load, made_up, page, figure
)
main = RECIPE.main

if __name__ == "__main__":
    main()
