"""What is minimised, summed over tokens: cross-entropy, or for continuous output a loss of directions."""

from torch.nn.functional import cross_entropy

import unclump as uc


def discrete(said, table, wanted, *, smoothing):
    r"""Cross-entropy with the wanted tokens, of which each is smoothed over the vocabulary."""
    return cross_entropy((said @ table.mT).float(), wanted, label_smoothing=smoothing, reduction="sum")


def cosine(said, table, wanted):
    r"""One minus the cosine of the direction said and that of the wanted token's embedding."""
    return (1 - (uc.project(said.float()) * table[wanted]).sum(-1)).sum()


def von_mises_fisher(said, table, wanted):
    r"""Minus the log-density of the wanted embedding: the vector said is mean direction times concentration.

    References:
        Kumar and Tsvetkov. Von Mises-Fisher loss for training sequence to sequence models with continuous outputs.
        ICLR 2019.
    """
    said = said.float()
    around = uc.VonMisesFisher(uc.project(said), said.norm(dim=-1), validate_args=False)
    return -around.log_prob(table[wanted]).sum()


DIRECTIONS = {"cosine": cosine, "vmf": von_mises_fisher}
