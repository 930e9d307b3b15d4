"""A small mixture of experts that writes captions: its router kept apart, beside the usual loss that balances the load.

    python examples/moe_router.py PATH    # a folder with train.en.gz and val.en.gz of Multi30k
    python examples/moe_router.py --page  # writes docs/recipe_moe_router.md from what was found

Writes results/moe_router.json after every run; runs that it holds already are not run again. `--quick` takes seconds,
on sentences that it makes up.
"""

import collections
import random
import time

import torch
import torch.nn.functional as F
from _recipe import COLOURS, MARKERS, Measure, Recipe, axes, sentences
from torch import nn

import unclump as uc

SEEDS = {"seeds": [0, 1, 2]}
FULL = {"vocabulary": 2000, "width": 64, "experts": 32, "length": 16, "steps": 400, "batch": 32, "lr": 3e-3} | SEEDS
QUICK = {"vocabulary": 45, "width": 16, "experts": 8, "length": 8, "steps": 12, "batch": 8, "lr": 3e-3, "seeds": [0]}
PAD, UNKNOWN, BEGIN = range(3)

VARIANTS = {
    "none": {},
    "load balancing": {"balance": 0.01},
    "router dispersed": {"objective": uc.KoLeo(), "weight": 0.1},
    "tokens dispersed": {"tokens": uc.KoLeo(), "weight": 0.1},
    "load balancing, router dispersed": {"balance": 0.01, "objective": uc.KoLeo(), "weight": 0.1},
}
MEASURES = [
    Measure("validation_loss", "validation loss", ".3f", "lower"),
    Measure("used", "experts used", ".1f", "higher"),
    Measure("perplexity", "perplexity of the load", ".1f", "higher"),
    Measure("largest", "largest share", ".3f", "lower"),
    Measure("router_angle", "smallest angle of the router, radians", ".2f"),
]


class Mixture(nn.Module):
    """Each token goes to one expert, whose output is scaled by its probability, as in the Switch Transformer."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / (2 * width) ** 0.5)

    def forward(self, tokens):  # (t, width)
        probabilities = self.router(tokens).softmax(dim=-1)
        gate, choice = probabilities.max(dim=-1)
        output = torch.zeros_like(tokens)
        for expert in choice.unique():
            rows = (choice == expert).nonzero()[:, 0]
            hidden = F.relu(tokens[rows] @ self.up[expert]) @ self.down[expert]
            output = output.index_add(0, rows, gate[rows, None] * hidden)
        return output, probabilities, choice


class Model(nn.Module):
    """Words that look back, then experts; a transformer of one layer."""

    def __init__(self, setting):
        super().__init__()
        width = setting["width"]
        self.words = nn.Embedding(setting["vocabulary"], width)
        self.places = nn.Parameter(0.02 * torch.randn(setting["length"], width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.before, self.between, self.after = (nn.LayerNorm(width) for _ in range(3))
        self.mixture = Mixture(width, setting["experts"])
        self.output = nn.Linear(width, setting["vocabulary"])

    def forward(self, words):  # (b, length)
        length = words.shape[1]
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.words(words) + self.places[:length]
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=ahead, need_weights=False)[0]
        tokens = self.between(x)[words != PAD]
        mixed, probabilities, choice = self.mixture(tokens)
        return self.output(self.after(x[words != PAD] + mixed)), tokens, probabilities, choice


def balance_loss(probabilities, choice):
    """The Switch Transformer's: experts times the sum of share times mean probability; 1 where the load is even."""
    experts = probabilities.shape[1]
    share = F.one_hot(choice, experts).float().mean(dim=0)
    return experts * (share * probabilities.mean(dim=0)).sum()


def train(data, seed, setting, *, balance=0.0, objective=None, tokens=None, weight=0.0):
    torch.manual_seed(seed)
    model, draw = Model(setting), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=setting["lr"])
    begin = time.process_time()
    for _ in range(setting["steps"]):
        words = data["train"][torch.randint(len(data["train"]), (setting["batch"],), generator=draw)]
        seen, following = words[:, :-1], words[:, 1:]
        logits, inputs, probabilities, choice = model(seen)
        loss = F.cross_entropy(logits, following[seen != PAD], ignore_index=PAD)
        if balance:
            loss = loss + balance * balance_loss(probabilities, choice)
        if objective is not None:
            loss = loss + weight * objective(model.mixture.router.weight)  # the one line: an expert's direction a row
        if tokens is not None:
            loss = loss + weight * tokens(inputs)  # what the router sees, instead of the router
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return evaluate(model, data["val"]) | {"seconds": round(time.process_time() - begin, 1)}


@torch.no_grad()
def evaluate(model, words):
    model.eval()
    loss, count, load = 0.0, 0, torch.zeros(model.mixture.router.out_features)
    for some in words.split(256):
        seen, following = some[:, :-1], some[:, 1:]
        logits, _, _, choice = model(seen)
        wanted = following[seen != PAD]
        loss += F.cross_entropy(logits, wanted, ignore_index=PAD, reduction="sum").item()
        count += int((wanted != PAD).sum())
        load += choice.bincount(minlength=len(load))
    share = load / load.sum()
    return {
        "validation_loss": loss / count,
        "used": int((load > 0).sum()),
        "perplexity": uc.codebook_perplexity(counts=load),
        "largest": share.max().item(),
        "router_angle": uc.min_angle(model.mixture.router.weight),
        "share": [round(value, 4) for value in share.sort(descending=True).values.tolist()],
    }


def numbers(lines, vocabulary, length):
    """Sentences (n, length) as numbers of words, padded; and a function that does the same with others."""
    counts = collections.Counter(word for line in lines for word in split(line))
    number = {word: PAD + 3 + rank for rank, (word, _) in enumerate(counts.most_common(vocabulary - 3))}

    def encode(lines):
        rows = [[BEGIN, *(number.get(word, UNKNOWN) for word in split(line))][:length] for line in lines]
        return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])

    return encode


def split(line):
    return line.lower().replace(".", " .").replace(",", " ,").split()


def load(path, setting):
    lines = {name: sentences(path / f"{name}.en.gz") for name in ("train", "val")}
    return prepare(lines, setting)


def made_up(setting):
    draw = random.Random(0)
    words = [a + b for a in ("ba", "ke", "li", "mo", "tu") for b in "dfgnrstz"]
    lines = [" ".join(draw.choices(words, weights=range(1, 41), k=draw.randint(3, 7))) for _ in range(100)]
    return prepare({"train": lines[:80], "val": lines[80:]}, setting)


def prepare(lines, setting):
    encode = numbers(lines["train"], setting["vocabulary"], setting["length"])
    return {name: encode(some) for name, some in lines.items()}


QUESTIONS = {
    "Does the usual loss balance the load?": ("load balancing", "none"),
    "Does it help to keep the router's rows apart instead?": ("router dispersed", "none"),
    "And to keep apart the tokens that the router sees?": ("tokens dispersed", "none"),
    "What does a dispersed router add to load balancing?": ("load balancing, router dispersed", "load balancing"),
}


def page(result):
    setting, runs = result["setting"], result["runs"]
    loss, load = (
        {variant: RECIPE.mean(runs, variant, key) for variant in VARIANTS} for key in ("validation_loss", "perplexity")
    )
    least, evenest = min(loss, key=loss.get), max(load, key=load.get)
    return f"""# A router for a mixture of experts

A one-layer transformer learns to predict the next word of English captions from Multi30k. Its feed-forward layer has
{setting["experts"]} experts. For every word a router, with a row of {setting["width"]} weights for each expert, chooses
one of them, as in the Switch Transformer. Without another loss, a few experts receive most of the words.
We compare this with the usual load-balancing loss (weight 0.01), and with `KoLeo` (weight 0.1) on the
router's rows or on its input tokens.
Training takes {setting["steps"]} steps of {setting["batch"]} captions; the score is on the validation
set, where the perplexity of the load is {setting["experts"]} if every expert has an equal share.

{RECIPE.table(runs)}

![The share of every expert, and validation loss against perplexity of the load](../results/moe_router.png)

{RECIPE.how(result, "Multi30k's folder")}

{RECIPE.verdict(runs, QUESTIONS)}

The load is most even with **{evenest}** (perplexity {load[evenest]:.1f}), and the validation loss lowest with
**{least}** ({loss[least]:.3f}).

A router's row is a direction, and an expert gets the words whose representations lie that way. Rows that are far
apart divide the *sphere* evenly, but divide the words evenly only if these are spread over it; the balancing loss
counts words. The line to add:

```python
loss = task + 0.01 * balance_loss(probabilities, choice) + 0.1 * uc.KoLeo()(router.weight)
```
"""


def figure(runs):
    made, (left, right) = axes(1, 2, width=11, height=4.4)
    for number, variant in enumerate(VARIANTS):
        look = {"color": COLOURS[number], "marker": MARKERS[number]}
        some = [run for run in runs if run["variant"] == variant]
        share = some[0]["share"]
        left.plot(range(1, len(share) + 1), share, markersize=4, label=variant, **look)
        right.plot([run["perplexity"] for run in some], [run["validation_loss"] for run in some], linestyle="", **look)
    left.set(xlabel="experts, most used first", ylabel="share of the words, seed 0")
    right.set(xlabel="perplexity of the load", ylabel="validation loss")
    right.set_title("a mark for each seed", fontsize=9)
    made.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return made


RECIPE = Recipe(
    "moe_router", __doc__.splitlines()[0], FULL, QUICK, VARIANTS, MEASURES, train, load, made_up, page, figure
)
main = RECIPE.main

if __name__ == "__main__":
    main()
