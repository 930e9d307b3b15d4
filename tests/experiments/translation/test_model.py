"""The transformer, its losses and its search, beside their definitions."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc

pytestmark = pytest.mark.deep


@pytest.fixture
def model(generator, tiny, vocabulary):
    """model(continuous=False): one with random weights, in evaluation mode."""
    from translation.model import Translator

    def make(*, continuous=False, **choices):
        torch.manual_seed(0)
        sizes = tiny(**choices).sizes()
        return Translator(len(vocabulary), **sizes, continuous=continuous, generator=generator).eval()

    return make


@pytest.fixture
def batch(text):
    from translation.batches import make_batch

    return make_batch(text.train[:6])


@pytest.mark.parametrize(
    "choices", [{}, {"layers": 2}, {"embedding": 6}, {"continuous": True, "embedding": 6}], ids=str
)
def test_going_on_from_a_state_is_as_from_the_start(model, batch, choices):
    one = model(**choices)
    memory = one.encode(batch.source)
    whole, _ = one.decode(batch.given, memory)
    state = None
    for place in range(batch.given.shape[1]):
        step, state = one.decode(batch.given[:, place : place + 1], memory, state)
        assert_close(step[:, 0], whole[:, place], atol=1e-5, rtol=1e-4)


def test_padding_makes_no_difference(model, text, batch):
    from translation.batches import make_batch

    one, lengths = model(), (batch.wanted != 0).sum(1)
    together, _ = one.decode(batch.given, one.encode(batch.source))
    for row, pair in enumerate(text.train[:6]):
        alone = make_batch([pair])
        assert_close(
            one.decode(alone.given, one.encode(alone.source))[0][0], together[row, : lengths[row]], atol=1e-5, rtol=1e-4
        )


def test_what_comes_later_is_not_seen(model, batch):
    one = model()
    memory, other = one.encode(batch.source), batch.given.clone()
    other[:, 3:] = 7
    assert_close(one.decode(other, memory)[0][:, :3], one.decode(batch.given, memory)[0][:, :3])
    assert not torch.allclose(one.decode(other, memory)[0][:, 3:], one.decode(batch.given, memory)[0][:, 3:])


def test_scores_are_log_probabilities_or_cosines(model, batch):
    from translation.vocabulary import END, PAD, START, UNKNOWN

    for continuous in (False, True):
        one = model(continuous=continuous)
        scores = one.scores(one.decode(batch.given, one.encode(batch.source))[0][:, 0])
        assert (scores[:, [PAD, UNKNOWN, START]] == -torch.inf).all()
        said = scores[:, END:]
        assert_close(said.exp().sum(1), torch.ones(6)) if not continuous else None
        assert (said.abs() <= 1).all() == continuous


def test_discrete_loss_is_the_smoothed_cross_entropy(points):
    from translation.losses import discrete

    said, table, wanted = 3 * points(5, 4), points(7, 4), torch.tensor([0, 3, 3, 6, 2])
    logs = torch.log_softmax(said @ table.mT, dim=1)
    expected = -sum(0.8 * logs[i, token] + 0.2 * logs[i].mean() for i, token in enumerate(wanted))
    assert_close(discrete(said, table, wanted, smoothing=0.2).double(), expected, rtol=1e-5, atol=0)


def test_cosine_loss_is_zero_where_the_direction_is_right(points):
    from translation.losses import cosine

    table = points(7, 4).float()
    wanted = torch.tensor([1, 5])
    assert_close(cosine(9 * table[wanted], table, wanted), torch.tensor(0.0), atol=1e-5, rtol=0)
    assert_close(cosine(-table[wanted], table, wanted), torch.tensor(4.0))


def test_von_mises_fisher_loss_has_its_closed_form_in_three_dimensions(points):
    from translation.losses import von_mises_fisher

    said, table, wanted = 5 * points(4, 3), points(6, 3), torch.tensor([0, 2, 5, 5])
    kappa = said.norm(dim=1)
    density = kappa / (4 * math.pi * torch.sinh(kappa)) * torch.exp((said * table[wanted]).sum(1))
    found = von_mises_fisher(said.float(), table.float(), wanted)
    assert_close(found.double(), -density.log().sum(), rtol=1e-5, atol=0)


def test_von_mises_fisher_loss_has_a_gradient_for_the_concentration(points):
    from translation.losses import von_mises_fisher

    table = points(6, 8).float()
    said = (0.5 * table[:2]).requires_grad_()
    von_mises_fisher(said, table, torch.tensor([0, 1])).backward()
    assert (-(said.grad * table[:2]).sum(1) > 0.1).all()  # right direction: a larger concentration is better


class Chain:
    """A language whose next token depends on the last alone: what `beam_search` needs of a model."""

    def __init__(self, scores):
        self.table = scores

    def encode(self, source):
        from translation.model import Memory

        return Memory([], source)

    def decode(self, tokens, memory, past):
        return tokens, [(tokens[:, None, :, None], tokens[:, None, :, None])]

    def scores(self, thoughts):
        return self.table[thoughts].clone()


@pytest.fixture
def chain(generator):
    """chain(cosines): one with two words, 4 and 5, beside the special tokens."""

    def make(cosines):
        scores = torch.rand(6, 6, generator=generator)
        scores = 2 * scores - 1 if cosines else torch.log_softmax(2 * scores, dim=1)
        scores[:, :3] = -torch.inf
        return Chain(scores)

    return make


@pytest.mark.parametrize("cosines", [False, True])
def test_a_wide_beam_finds_the_best_sentence_of_all(chain, cosines):
    from translation.search import beam_search
    from translation.vocabulary import END, START

    for _ in range(20):
        one = chain(cosines)

        def mean(words, one=one):
            said = [START, *words, END]
            return sum(one.table[a, b].item() for a, b in itertools.pairwise(said)) / (len(said) - 1)

        every = [words for length in range(4) for words in itertools.product((4, 5), repeat=length)]
        best = max(every, key=mean)
        (found,) = beam_search(one, torch.zeros(1, 3, dtype=torch.long), beam=16, longest=[4])
        assert tuple(found) == best


def test_a_beam_of_one_takes_the_best_next_token(chain):
    from translation.search import beam_search
    from translation.vocabulary import END, START

    for _ in range(10):
        one, last, said = chain(False), START, []
        while len(said) < 6:
            last = one.table[last].argmax().item() if len(said) < 5 else END
            if last == END:
                break
            said.append(last)
        (found,) = beam_search(one, torch.zeros(1, 3, dtype=torch.long), beam=1, longest=[6])
        assert found == said


@pytest.mark.parametrize("continuous", [False, True])
def test_a_wide_beam_finds_the_best_sentence_of_a_real_model(model, text, continuous):
    from translation.search import beam_search
    from translation.vocabulary import END, START

    one, words = model(continuous=continuous), (4, 5, 6)
    one.never[len(words) + END + 1 :] = -torch.inf
    for weight in one.decoder.parameters():
        weight.data *= 4  # so that what was said before matters
    every = [said for length in range(4) for said in itertools.product(words, repeat=length)]

    @torch.no_grad()
    def mean(said, memory):
        scores = one.scores(one.decode(torch.tensor([[START, *said]]), memory)[0][0])
        return sum(scores[place, token].item() for place, token in enumerate([*said, END])) / (len(said) + 1)

    for numbers, _ in text.train[:3]:
        source = torch.tensor([numbers])
        memory = one.encode(source)
        (found,) = beam_search(one, source, beam=len(every), longest=[4])
        assert mean(found, memory) == pytest.approx(max(mean(said, memory) for said in every), abs=1e-5)


@pytest.mark.parametrize("continuous", [False, True])
def test_sentences_are_translated_alike_alone_and_together(model, text, vocabulary, continuous):
    from translation.search import translate

    one, sources = model(continuous=continuous), [source for source, _ in text.train[:4]]
    together = translate(one, vocabulary, sources, beam=3)
    assert together == [translate(one, vocabulary, [source], beam=3)[0] for source in sources]
    assert together == translate(one, vocabulary, sources, beam=3, tokens=30)


def test_cosines_do_not_depend_on_the_lengths_of_embeddings(model, batch):
    one = model(continuous=True)
    thoughts = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    before = one.scores(thoughts)
    one.table.data = uc.project(one.table.data)
    assert_close(one.scores(thoughts), before)
