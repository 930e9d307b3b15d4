"""A corpus in the numbers of a vocabulary."""

from dataclasses import dataclass

import torch

from translation.vocabulary import Vocabulary


@dataclass(frozen=True)
class Text:
    """A corpus in numbers."""

    vocabulary: Vocabulary
    train: list
    validation: list
    references: list[str]
    """Of the validation set, as they were written."""

    @property
    def counts(self):
        """How often each token is wanted."""
        wanted = torch.tensor([token for _, target in self.train for token in target])
        return torch.bincount(wanted, minlength=len(self.vocabulary))


def encoded(corpus, vocabulary):
    """The corpus in the vocabulary's numbers. It must know every character of the text to learn from."""
    sides = [
        vocabulary.encode_known([pair[side] for pair in corpus.train], f"the training text, {language}")
        for side, language in ((0, corpus.source), (1, corpus.target))
    ]
    validation = [(vocabulary.encode(source), vocabulary.encode(target)) for source, target in corpus.validation]
    references = [target for _, target in corpus.validation]
    return Text(vocabulary, list(zip(*sides, strict=True)), validation, references)
