"""Beam search: over log-probabilities of a discrete model, over cosines of a continuous one.

Both add up along a sentence, and sentences of different lengths are compared by the mean: for cosines, which are
positive where the model knows what it says, the sum would favour the longer.
"""

import torch
from tqdm import tqdm

from translation.batches import by_length, padded
from translation.vocabulary import END, START


@torch.no_grad()
def beam_search(model, source, *, beam, longest):
    """The best translation found of each source: lists of tokens, without the end.

    Args:
        model: A `Translator` in evaluation mode.
        source: Padded tokens, of shape (b, s).
        beam: How many unfinished translations of each are kept. 1 takes the best next token.
        longest: Of each source the number of tokens, the end included, at which its translation is ended.
    """
    count, device = len(source), source.device
    memory = model.encode(source).take(torch.arange(count, device=device).repeat_interleave(beam))
    open_rows = list(range(count))  # the sources that are still translated
    tokens = torch.full((count * beam, 1), START, device=device)
    totals = torch.full((count, beam), -torch.inf, device=device)
    totals[:, 0] = 0  # at first all are the same
    finished, past, limits = [[] for _ in range(count)], None, torch.tensor(longest, device=device)
    for length in range(1, max(longest) + 1):
        thoughts, past = model.decode(tokens[:, -1:], memory, past)
        scores, last = model.scores(thoughts[:, -1]), limits == length
        others = torch.arange(scores.shape[1], device=device) != END
        scores.masked_fill_(last.repeat_interleave(beam)[:, None] & others, -torch.inf)
        totals, parent, token = _best(totals, scores, 2 * beam)
        ended = token == END
        for row, place in ended[:, :beam].nonzero().tolist():
            if totals[row, place] > -torch.inf:
                said = tokens[row * beam + parent[row, place], 1:].tolist()
                finished[open_rows[row]].append((totals[row, place].item() / length, said))
        # The first so many that have not ended go on: they stay in order.
        going = ended.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
        totals, parent, token = (x.gather(1, going) for x in (totals, parent, token))
        stay = ~last & torch.tensor([len(finished[row]) < beam for row in open_rows], device=device)
        if not stay.any():
            break
        open_rows = [row for row, stays in zip(open_rows, stay.tolist(), strict=True) if stays]
        rows = (parent + beam * torch.arange(len(parent), device=device)[:, None])[stay].flatten()
        tokens = torch.cat([tokens[rows], token[stay].flatten()[:, None]], dim=1)
        memory, past = memory.take(rows), [(keys[rows], values[rows]) for keys, values in past]
        totals, limits = totals[stay], limits[stay]
    return [max(found, key=lambda one: one[0])[1] for found in finished]


def _best(totals, scores, count):
    """Of all ways to go on, the best so many of each source: their totals, whom they follow and by which token."""
    beam, vocabulary = totals.shape[1], scores.shape[1]
    every = (totals[:, :, None] + scores.view(-1, beam, vocabulary)).flatten(1)
    best, place = every.topk(min(count, every.shape[1]), dim=1)
    return best, place // vocabulary, place % vocabulary


def translate(model, vocabulary, sources, *, beam, tokens=4000, progress=False):
    """Translations of encoded sources, as text."""
    device, was_training = model.table.device, model.training
    model.eval()
    found = [""] * len(sources)
    groups = by_length([len(source) for source in sources], max(1, tokens // beam))
    for group in tqdm(groups, desc="translating", unit="batch", disable=None if progress else True, leave=False):
        source = padded([sources[row] for row in group]).to(device)
        longest = [2 * len(sources[row]) + 10 for row in group]
        for row, said in zip(group, beam_search(model, source, beam=beam, longest=longest), strict=True):
            found[row] = vocabulary.decode(said)
    model.train(was_training)
    return found
