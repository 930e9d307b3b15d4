"""Small trainings on real data, each with a table or activations that a dispersion term may keep apart.

A training is a function of a seed, of `regularise` (embeddings -> a term of the loss) and of `wrap` (embeddings -> the
same embeddings, see `uc.Balanced`). It returns its score on data it has not seen, and the rows that were regularised.
"""

import gzip
import math
from collections import Counter

import torch
from _common import data_place, generator
from torch import nn
from torch.nn import functional as F

import unclump as uc

PAD, UNKNOWN, BEGIN = range(3)


def sentences(split, path=None):
    """The English side of Tatoeba, in words."""
    name = f"tatoeba_manythings2018.{split}.en-de.tsv.gz"
    with gzip.open((path or data_place() / "ende") / name, "rt", encoding="utf-8") as file:
        return [line.split("\t")[0].lower().replace(".", " .").replace("?", " ?").split()[:14] for line in file]


def word_numbers(lines, rows):
    """Sentences as numbers of words, padded; the most frequent words of the training set have a row."""
    counts = Counter(word for line in lines["train"] for word in line)
    number = {word: place + 3 for place, (word, _) in enumerate(counts.most_common(rows - 3))}
    return {
        split: nn.utils.rnn.pad_sequence(
            [torch.tensor([BEGIN, *(number.get(word, UNKNOWN) for word in line)]) for line in part],
            batch_first=True,
            padding_value=PAD,
        )
        for split, part in lines.items()
    }


class LanguageModel(nn.Module):
    """A causal transformer whose table of words is also its output layer."""

    def __init__(self, rows, d, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(rows, d, padding_idx=PAD)
        nn.init.normal_(self.tokens.weight, std=d**-0.5)
        self.places = nn.Parameter(0.02 * torch.randn(16, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(d), enable_nested_tensor=False)

    def forward(self, tokens, table):
        length = tokens.shape[1]
        x = F.embedding(tokens, table) * math.sqrt(table.shape[1]) + self.places[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.layers(x, mask=mask, is_causal=True) @ table.T


def train_language_model(seed, regularise, wrap, *, data, rows, steps, d=32, batch=32, lr=3e-3):
    """Next words of English sentences; the score is the validation loss, the rows are the tied table's."""
    torch.manual_seed(seed)
    model, draw = LanguageModel(rows, d), generator(seed, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = warm_up_and_down(optimizer, steps)

    def loss_of(tokens, table):
        tokens = tokens[:, : int((tokens != PAD).any(dim=0).sum())]
        logits = model(tokens[:, :-1], table)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)

    for _ in range(steps):
        chosen = data["train"][torch.randint(len(data["train"]), (batch,), generator=draw)]
        loss = loss_of(chosen, wrap(model.tokens.weight)) + regularise(model.tokens.weight[PAD + 1 :])
        step(optimizer, schedule, loss, model)
    with torch.no_grad():
        model.eval()
        score = torch.stack([loss_of(part, model.tokens.weight) for part in data["val"].split(256)]).mean()
    return {"score": score.item()}, model.tokens.weight.detach()[PAD + 1 :]


def encoder(d):
    """A small network for drawings of 28 x 28, seen at half that resolution."""
    return nn.Sequential(
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(196, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, d)
    )


def views(images, draw):
    """Random small rotations, scales and shifts of drawings."""
    n = len(images)
    turn, scale = 0.5 * (torch.rand(2, n, generator=draw) - 0.5)
    shift = 0.3 * (torch.rand(n, 2, generator=draw) - 0.5)
    cos, sin = (1 + scale) * turn.cos(), (1 + scale) * turn.sin()
    affine = torch.stack([torch.stack([cos, -sin, shift[:, 0]], 1), torch.stack([sin, cos, shift[:, 1]], 1)], 1)
    grid = F.affine_grid(affine, images.shape, align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def nt_xent(x, temperature=0.5):
    """Every view by its cosine with the other view of its drawing, among all other views of the batch."""
    similar = (x @ x.T / temperature).fill_diagonal_(-math.inf)
    return F.cross_entropy(similar, torch.arange(len(x)).roll(len(x) // 2))


def triplets(x, margin=0.2):
    """Two views of a drawing are nearer than a view of another one, by a margin of squared distance, as in FaceNet.

    There is one negative an anchor, drawn at random. What is within the margin has no gradient, so nothing calls
    for more room than that: the training for which the spread-out regulariser (GOR) was proposed.
    """
    anchor, positive = x.chunk(2)
    negative = positive.roll(1, dims=0)
    nearer = (anchor - positive).square().sum(dim=-1) - (anchor - negative).square().sum(dim=-1)
    return F.relu(margin + nearer).mean()


def hardest_triplets(x, margin=0.2):
    """`triplets` with the nearest view of another drawing in the batch as the negative."""
    anchor, positive = x.chunk(2)
    return hardest(2 - 2 * anchor @ positive.T, margin)


def batch_hard(x, margin=0.2):
    """`hardest_triplets` of distances that are not squared, as in Hermans et al.: their gradients do not vanish."""
    anchor, positive = x.chunk(2)
    return hardest(torch.cdist(anchor, positive, compute_mode="donot_use_mm_for_euclid_dist"), margin)


def hardest(distances, margin):
    """By how much positives, on the diagonal, are not nearer than the nearest of the others, by a margin."""
    nearest = distances.clone().fill_diagonal_(math.inf).amin(dim=1)
    return F.relu(margin + distances.diagonal() - nearest).mean()


def train_contrastive(seed, regularise, wrap, *, data, steps, loss_of, d=64, batch=128, lr=1e-3):
    """Two views of a drawing are each other's positives; the score is the 1-nearest-neighbour error.

    It is taken over characters that the training has not seen. The rows are the embeddings of views, as in training.
    """
    torch.manual_seed(seed)
    model, draw = encoder(d), generator(seed, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = warm_up_and_down(optimizer, steps)
    for _ in range(steps):
        images = data["train"][torch.randint(len(data["train"]), (batch // 2,), generator=draw)]
        z = wrap(model(torch.cat([views(images, draw), views(images, draw)])))
        step(optimizer, schedule, loss_of(F.normalize(z, dim=-1)) + regularise(z), model)
    with torch.no_grad():
        z = F.normalize(torch.cat([model(part) for part in data["val"].split(512)]), dim=-1)
        nearest = (z @ z.T).fill_diagonal_(-1).argmax(dim=1)
        rows = model(views(data["train"][torch.randperm(len(data["train"]), generator=draw)[:2048]], draw))
    wrong = (data["val_labels"][nearest] != data["val_labels"]).float().mean()
    return {"score": wrong.item()}, rows


def train_prototypes(seed, regularise, wrap, *, data, steps, d=32, batch=128, lr=3e-3, scale=16.0):
    """Characters by the cosine with learned prototypes; the score is the error on other people's drawings.

    The rows are the prototypes, one a character.
    """
    torch.manual_seed(seed)
    model, draw = encoder(d), generator(seed, 3)
    model.prototypes = nn.Parameter(torch.randn(int(data["train_labels"].max()) + 1, d) * d**-0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = warm_up_and_down(optimizer, steps)

    def cosines(images, table):
        return F.normalize(model(images), dim=-1) @ F.normalize(table, dim=-1).T

    for _ in range(steps):
        chosen = torch.randint(len(data["train"]), (batch,), generator=draw)
        logits = scale * cosines(views(data["train"][chosen], draw), wrap(model.prototypes))
        step(
            optimizer,
            schedule,
            F.cross_entropy(logits, data["train_labels"][chosen]) + regularise(model.prototypes),
            model,
        )
    with torch.no_grad():
        found = torch.cat([cosines(part, model.prototypes).argmax(dim=1) for part in data["val"].split(512)])
    return {"score": (found != data["val_labels"]).float().mean().item()}, model.prototypes.detach()


def warm_up_and_down(optimizer, steps):
    """The rate rises over a tenth of the steps, and falls to zero as a cosine."""
    rise = max(1, steps // 10)

    def factor(now):
        fall = max(0, now - rise) / max(1, steps - rise)
        return min((now + 1) / rise, 0.5 + 0.5 * math.cos(math.pi * fall))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def step(optimizer, schedule, loss, model):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()


def measures(rows):
    """Spherical variance, effective rank as a part of the dimension, and the median nearest angle in radians.

    Also the share of the largest coordinate in the square of the mean direction: one if it is a coordinate axis.
    """
    some = rows[torch.randperm(len(rows), generator=generator(0))[:4096]]
    mean = F.normalize(rows, dim=-1).mean(dim=0)
    return {
        "variance": uc.spherical_variance(rows),
        "rank_share": uc.effective_rank(rows) / min(rows.shape),
        "nearest": uc.nearest_angles(some).median().item(),
        "axis_share": (mean.square().amax() / mean.square().sum()).item(),
    }
