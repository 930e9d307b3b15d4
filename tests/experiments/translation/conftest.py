"""The experiment's parts, a tiny corpus, and trainings of it."""

import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")


@pytest.fixture
def corpus():
    from translation.generated import generated

    return generated(train=120, validation=10, test=10)


@pytest.fixture
def vocabulary(corpus):
    from translation.vocabulary import train_vocabulary

    return train_vocabulary(corpus.train, 54)


@pytest.fixture
def text(corpus, vocabulary):
    from translation.text import encoded

    return encoded(corpus, vocabulary)


@pytest.fixture
def tiny():
    """tiny(**choices): a setting of seconds."""
    from translation.setting import Setting

    small = {"d": 16, "layers": 1, "heads": 2, "feed_forward": 32, "batch_tokens": 120, "beam": 2, "watch": [0.0, 1.0]}
    return lambda **choices: Setting(**(small | choices))


@pytest.fixture
def training(text, tiny):
    """training(row, updates=..., **choices): one of that row; choices of the setting, or of the training."""
    from translation.rows import ROWS
    from translation.training import Training

    own = ("seed", "updates", "table_lr", "weight", "table", "watched")

    def make(row="spherical", **choices):
        mine = {"updates": 6, "table_lr": 0.02} | {name: choices.pop(name) for name in own if name in choices}
        return Training(text, ROWS[row], tiny(**choices), **mine)

    return make
