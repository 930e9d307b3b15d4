"""Padded batches of about as many tokens each."""

from dataclasses import dataclass

import torch
from torch import Tensor

from translation.vocabulary import PAD, START


@dataclass(frozen=True)
class Batch:
    """Padded rows: the source, what the decoder has said, and what it should say next."""

    source: Tensor
    given: Tensor
    wanted: Tensor

    def to(self, device):
        return Batch(self.source.to(device), self.given.to(device), self.wanted.to(device))

    @property
    def tokens(self):
        return int((self.wanted != PAD).sum())


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def make_batch(pairs):
    """Of encoded pairs, both of which end in the end."""
    sources, targets = zip(*pairs, strict=True)
    return Batch(padded(sources), padded([[START, *target[:-1]] for target in targets]), padded(targets))


def by_length(lengths, tokens):
    """Groups of rows of like length: none has more than so many tokens with its padding, unless one row does alone.

    Args:
        lengths: Of each row the number of its tokens; the rows are taken in this order of length.
        tokens: As many in a group, at most.
    """
    groups, group, longest = [], [], 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = max(longest, lengths[row])
        if group and longest * (len(group) + 1) > tokens:
            groups.append(group)
            group, longest = [], lengths[row]
        group.append(row)
    return [*groups, group] if group else groups


def make_batches(pairs, tokens, generator):
    """All encoded pairs in batches. Which pairs of like length meet is drawn, once; the order is drawn every epoch."""
    order = torch.randperm(len(pairs), generator=generator).tolist()
    pairs = [pairs[place] for place in order]
    groups = by_length([max(len(source), len(target)) for source, target in pairs], tokens)
    return [make_batch([pairs[row] for row in group]) for group in groups]
