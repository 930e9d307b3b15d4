"""What becomes of the decoder's table: over all tokens, over those that occur, and along their frequency."""

import math
from itertools import pairwise

import torch

import unclump as uc
from translation.losses import DIRECTIONS, discrete
from translation.vocabulary import PAD


def dispersion(table, counts):
    """Smallest angle in radians and spherical variance, of the whole table and of the tokens that occur."""
    found = {}
    for name, rows in (("whole", table), ("occurring", table[counts > 0])):
        found[name] = {
            "tokens": len(rows),
            "min_angle": round(uc.min_angle(rows.detach()), 6),
            "variance": round(float(uc.spherical_variance(rows.detach())), 6),
        }
    return found


def gradient_norms(model, batches, *, sphere, smoothing):
    """Of every row of the table, the norm of the loss's gradient over these batches: on the sphere that along it.

    The regulariser has no part in it, and nothing is dropped out.
    """
    was_training = model.training
    model.eval()
    total = sum(batch.tokens for batch in batches)
    gradient = torch.zeros_like(model.table)
    for batch in batches:
        loss = loss_of(model, batch, smoothing=smoothing) / total
        gradient += torch.autograd.grad(loss, model.table)[0]
    model.train(was_training)
    if sphere:
        points = model.table.detach()
        gradient -= (gradient * points).sum(-1, keepdim=True) * points
    return gradient.norm(dim=-1)


def loss_of(model, batch, *, smoothing=0.0, continuous_loss="cosine"):
    """The loss of a batch, summed over its tokens."""
    wanted = batch.wanted[batch.wanted != PAD]
    if model.continuous:
        return DIRECTIONS[continuous_loss](model(batch), model.table, wanted)
    return discrete(model(batch), model.table, wanted, smoothing=smoothing)


def along_frequency(values, counts, bins=40):
    """Tenth, middle and ninetieth percentile of the values in bins of frequency rank: from the most frequent token on.

    The bins are even in the logarithm of the rank, and the tokens that never occur come last of all, in rank order.
    """
    ranked = values[counts.argsort(descending=True, stable=True)].double()
    edges = torch.logspace(0, math.log10(len(ranked) + 1), bins + 1).round().long().unique().tolist()
    parts = [ranked[low - 1 : high - 1] for low, high in pairwise(edges)]
    quantiles = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    found = torch.stack([part.quantile(quantiles) for part in parts], dim=1)
    return {
        "rank": [round(math.sqrt(low * (high - 1)), 1) for low, high in pairwise(edges)],
        **{
            name: [float(f"{value:.4g}") for value in row.tolist()]
            for name, row in zip(("low", "middle", "high"), found, strict=True)
        },
    }
