"""A codebook for patches of drawings, which collapses: what keeps its codes in use, and what dispersion adds.

    python examples/vq_codebook.py PATH    # Omniglot's folder images_evaluation
    python examples/vq_codebook.py --page  # writes docs/recipe_vq_codebook.md from what was found

Writes results/vq_codebook.json after every run; runs that it holds already are not run again. `--quick` takes
seconds, on drawings that it makes up.
"""

import time

import torch
import torch.nn.functional as F
from _recipe import COLOURS, MARKERS, Measure, Recipe, axes, omniglot, scribbles
from torch import nn

import unclump as uc

FULL = {"codes": 256, "dimensions": 16, "patch": 7, "steps": 1000, "batch": 1024, "lr": 2e-3, "seeds": [0, 1, 2]}
QUICK = {"codes": 128, "dimensions": 4, "patch": 7, "steps": 70, "batch": 128, "lr": 2e-3, "seeds": [0]}
COMMITMENT, RECONSTRUCTION = 0.25, 10.0  # weights of the losses beside that of the codes
EVERY, DEAD = 50, 0.05  # steps between revivals; the part of an even share below which a code is dead
SAMPLE = 512  # latents of a batch that are dispersed

UNIFORMITY = uc.Uniformity(kernel=uc.Gaussian(4.0), diagonal=True)  # with exp(-2 |x - y|²), but for a constant

VARIANTS = {
    "none": {},
    "codebook dispersed": {"codebook": uc.KoLeo(), "weight": 0.1},
    "cosine": {"cosine": True},
    "cosine, codebook dispersed": {"cosine": True, "codebook": uc.KoLeo(), "weight": 0.1},
    "cosine, latents dispersed (KoLeo)": {"cosine": True, "latents": uc.KoLeo(), "weight": 1.0},
    "cosine, latents dispersed (Uniformity)": {"cosine": True, "latents": UNIFORMITY, "weight": 0.3},
    "averages, started at data": {"average": True, "start": "data"},
    "averages, dead codes to latents": {"average": True, "revive": "latents"},
    "cosine, dead codes to gaps": {"cosine": True, "revive": "gaps"},
    "cosine, dead codes to latents": {"cosine": True, "revive": "latents"},
    "cosine, dead codes to latents, latents dispersed (Uniformity)": {
        "cosine": True, "revive": "latents", "latents": UNIFORMITY, "weight": 0.3,
    },
}  # fmt: skip
MEASURES = [
    Measure("used", "codes used", ".0f", "higher"),
    Measure("perplexity", "perplexity", ".0f", "higher"),
    Measure("error", "squared error", ".4f", "lower"),
]


class Autoencoder(nn.Module):
    """A patch to a latent, the latent to the nearest code, the code to a patch."""

    def __init__(self, setting, *, cosine):
        super().__init__()
        pixels, d = setting["patch"] ** 2, setting["dimensions"]
        self.encoder = nn.Sequential(nn.Linear(pixels, 128), nn.ReLU(), nn.Linear(128, d))
        self.decoder = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, pixels))
        self.table = nn.Parameter(torch.randn(setting["codes"], d))
        self.cosine = cosine

    def encode(self, patches):
        latents = self.encoder(patches)
        return uc.project(latents) if self.cosine else latents

    @property
    def codes(self):
        return uc.project(self.table) if self.cosine else self.table

    @torch.no_grad()
    def nearest(self, latents):
        return torch.cdist(latents, self.codes).argmin(dim=1)


def train(data, seed, setting, *, cosine=False, start="random", average=False, revive=None,
          codebook=None, latents=None, weight=0.0):  # fmt: skip
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    model = Autoencoder(setting, cosine=cosine)
    if start == "data":
        start_at_data(model, data["train"], draw)
    averages = MovingAverages(model) if average else None
    optimizer = torch.optim.Adam(model.parameters(), lr=setting["lr"])
    counts = torch.full((setting["codes"],), setting["batch"] / setting["codes"])  # of late, for each code
    begin = time.process_time()
    for step in range(setting["steps"]):
        patches = data["train"][torch.randint(len(data["train"]), (setting["batch"],), generator=draw)]
        z = model.encode(patches)
        chosen = model.nearest(z)
        codes = model.codes[chosen]
        decoded = model.decoder(z + (codes - z).detach())  # straight through: latents take its gradient
        loss = RECONSTRUCTION * F.binary_cross_entropy_with_logits(decoded, patches)
        loss = loss + COMMITMENT * squared(z - codes.detach())
        if averages is None:
            loss = loss + squared(codes - z.detach())
        if codebook is not None:
            loss = loss + weight * codebook(model.table)
        if latents is not None:  # the one line that helps: what the codebook is to cover, instead of the codebook
            loss = loss + weight * latents(z[:SAMPLE])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if averages is not None:
            averages.update(z.detach(), chosen)
        counts = 0.9 * counts + 0.1 * chosen.bincount(minlength=len(counts))
        if revive is not None and step % EVERY == EVERY - 1 and step < 0.8 * setting["steps"]:
            dead = counts < DEAD * setting["batch"] / setting["codes"]
            move_dead(model.table, dead, z.detach(), revive, draw)
            if averages is not None:
                averages.restart(dead)
            else:
                forget(optimizer, model.table, dead)
            counts[dead] = setting["batch"] / setting["codes"]
    return evaluate(model, data["val"]) | {"seconds": round(time.process_time() - begin, 1)}


def squared(x):
    return x.square().sum(dim=1).mean()


@torch.no_grad()
def start_at_data(model, patches, generator):
    some = torch.randperm(len(patches), generator=generator)[: len(model.table)]
    model.table.copy_(model.encode(patches[some]))


class MovingAverages:
    """Each code is the mean of the latents that chose it, with older ones forgotten: instead of the codes' loss."""

    def __init__(self, model, decay=0.95):
        self.table, self.decay = model.table.requires_grad_(False), decay
        self.count, self.total = torch.ones(len(self.table)), self.table.clone()

    def update(self, latents, chosen):
        total = torch.zeros_like(self.total).index_add_(0, chosen, latents)
        self.count.lerp_(chosen.bincount(minlength=len(self.count)).float(), 1 - self.decay)
        self.total.lerp_(total, 1 - self.decay)
        alive = self.count > 1e-6  # what was not chosen for hundreds of steps stays where it is
        self.table[alive] = self.total[alive] / self.count[alive].unsqueeze(1)

    def restart(self, rows):
        self.count[rows], self.total[rows] = 1.0, self.table[rows]


@torch.no_grad()
def move_dead(table, dead, latents, where, generator):
    """Dead codes go to random latents of the batch, or into the largest gaps between the others."""
    count = int(dead.sum())
    if count > 0:
        table[dead] = {
            "latents": lambda: latents[torch.randperm(len(latents), generator=generator)[:count]],
            "gaps": lambda: uc.place(count, table[~dead], generator=generator),
        }[where]()


def forget(optimizer, parameter, rows):
    """Adam's moments belong to where the rows were."""
    for moment in ("exp_avg", "exp_avg_sq"):
        optimizer.state[parameter][moment][rows] = 0.0


@torch.no_grad()
def evaluate(model, patches):
    chosen = torch.cat([model.nearest(model.encode(some)) for some in patches.split(4096)])
    share = chosen.bincount(minlength=len(model.table)) / len(chosen)
    return {
        "used": int((share > 0).sum()),
        "perplexity": uc.codebook_perplexity(chosen, codes=len(model.table)),
        "error": F.mse_loss(model.decoder(model.codes[chosen]).sigmoid(), patches).item(),
        "share": [round(value, 5) for value in share.sort(descending=True).values.tolist()],
    }


def inked_patches(images, drawers, held_out, size):
    """Squares of the drawings that are not blank, of drawers for training and of others."""

    def cut(some):
        patches = F.unfold(some, size, stride=size).mT.flatten(0, 1)
        return patches[patches.sum(dim=1) > 1]

    seen = drawers <= drawers.max() - held_out
    return {"train": cut(images[seen]), "val": cut(images[~seen])}


def load(path, setting):
    images, _, drawers = omniglot(path)
    return inked_patches(images, drawers, 5, setting["patch"])


def made_up(setting):
    images, _, drawers = scribbles(40, 8, torch.Generator().manual_seed(0))
    return inked_patches(images, drawers, 2, setting["patch"])


QUESTIONS = {
    "Does it help to disperse the codebook?": ("codebook dispersed", "none"),
    "Does it help to measure by cosine?": ("cosine", "none"),
    "And to disperse that codebook?": ("cosine, codebook dispersed", "cosine"),
    "And to disperse the latents instead, by KoLeo?": ("cosine, latents dispersed (KoLeo)", "cosine"),
    "By Uniformity?": ("cosine, latents dispersed (Uniformity)", "cosine"),
    "Does it help to move dead codes into the largest gaps?": ("cosine, dead codes to gaps", "cosine"),
    "And to move them to latents?": ("cosine, dead codes to latents", "cosine"),
    "What does dispersing the latents add to that?": (
        "cosine, dead codes to latents, latents dispersed (Uniformity)", "cosine, dead codes to latents",
    ),
    "Is dispersing the latents as good as moving dead codes to latents?": (
        "cosine, latents dispersed (Uniformity)", "cosine, dead codes to latents",
    ),
}  # fmt: skip


def page(result):
    setting, runs = result["setting"], result["runs"]
    error = {variant: RECIPE.mean(runs, variant, "error") for variant in VARIANTS}
    best = ", then ".join(f"**{variant}** ({error[variant]:.4f})" for variant in sorted(error, key=error.get)[:3])
    return f"""# A VQ codebook

Patches of Omniglot's drawings, {setting["patch"]} × {setting["patch"]} pixels with ink on them, are encoded as one of
{setting["codes"]} codes in {setting["dimensions"]} dimensions, and decoded again. Such a codebook collapses: only the
codes that are nearest to some latent get a gradient, and soon a few codes encode all patches. What keeps the others in
use?

- *cosine*: codes and latents are projected onto the sphere.
- *averages*: no loss trains the codes; each is the moving average of the latents that choose it. *Started at data*: the
  codes begin as the latents of random patches.
- *dead codes*, those with less than {DEAD:.0%} of an even share, are moved every {EVERY} steps: to random *latents* of
  the batch, or into the largest *gaps* between other codes.

Training takes {setting["steps"]:,} steps of {setting["batch"]:,} patches; the score is on drawings by other
people. The weights of the terms come from a few trials with one seed.

{RECIPE.table(runs)}

![Squared error against perplexity, and the shares of the codes](../results/vq_codebook.png)

{RECIPE.how(result, "Omniglot's folder `images_evaluation`")}

{RECIPE.verdict(runs, QUESTIONS)}

The lowest errors: {best}.

It matters where the term acts: a code is used if latents are near it. Dispersing the *codebook* moves codes
away from each other, wherever the latents are. Dispersing the *latents* spreads what is to be covered over the
directions in which the codes already are. In the same way, a gap between codes (`uc.place`) is a place for a code only
if there are latents in it. The line to add:

```python
latents = uc.project(encoder(patches))  # codes are projected, too
loss = task + 0.3 * uc.Uniformity(kernel=uc.Gaussian(4.0), diagonal=True)(latents[:512])
```
"""


def figure(runs):
    made, (left, right) = axes(1, 2, width=11, height=4.6)
    for number, variant in enumerate(VARIANTS):
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        some = [run for run in runs if run["variant"] == variant]
        left.plot([run["perplexity"] for run in some], [run["error"] for run in some], linestyle="none", **look)
        share = some[0]["share"]
        right.plot(range(1, len(share) + 1), share, markevery=(16 + number, 40), markersize=5, label=variant, **look)
    left.set(xlabel="perplexity of the codes", ylabel="squared error of the patches", xscale="log")
    right.set(xlabel="codes, most used first", ylabel="share of the patches, seed 0", yscale="log", ylim=(1e-5, 1))
    left.set_title("a mark for each seed", fontsize=9)
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return made


RECIPE = Recipe(
    "vq_codebook", __doc__.splitlines()[0], FULL, QUICK, VARIANTS, MEASURES, train, load, made_up, page, figure
)
main = RECIPE.main

if __name__ == "__main__":
    main()
