"""A tiny language pair that a tiny model learns in seconds.

In both, a sentence is subject, verb and object, each noun with its adjective or without. The second language has the
verb at the end and the adjective after its noun, as Latin likes it, and its own words.
"""

import random

from translation.data import Corpus

NOUNS = {"dog": "canis", "cat": "felis", "bird": "avis", "fish": "piscis", "horse": "equus", "wolf": "lupus"}
ADJECTIVES = {"big": "magnus", "old": "vetus", "good": "bonus", "red": "ruber"}
VERBS = {"sees": "videt", "loves": "amat", "hears": "audit", "bites": "mordet"}


def sentence(draw):
    """An English sentence and its translation."""

    def phrase():
        noun, adjective = draw.choice(list(NOUNS)), draw.choice(list(ADJECTIVES))
        if draw.random() < 0.3:
            return [noun], [NOUNS[noun]]
        return [adjective, noun], [NOUNS[noun], ADJECTIVES[adjective]]

    (subject, its_subject), (thing, its_thing), verb = phrase(), phrase(), draw.choice(list(VERBS))
    return " ".join([*subject, verb, *thing]), " ".join([*its_subject, *its_thing, VERBS[verb]])


def generated(*, train=800, validation=40, test=60, seed=0):
    """The pair as a corpus. No sentence of the tests is among those to learn from."""
    draw, made = random.Random(seed), {}
    while len(made) < train + validation + test:
        source, target = sentence(draw)
        made[source] = target
    pairs = list(made.items())
    last = train + validation
    return Corpus("generated", "en", "la", pairs[:train], pairs[train:last], {"test": pairs[last:]})
