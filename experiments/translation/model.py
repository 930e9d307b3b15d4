"""An encoder-decoder transformer that normalises first, with one table for what its decoder reads and says."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import unclump as uc
from translation.vocabulary import PAD, START, UNKNOWN


class Attention(nn.Module):
    """Attention to keys and values that were made before, so that search makes them once."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key_value, self.output = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def keys_values(self, x):
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(self, x, keys, values, *, mask=None, causal=False):
        found = attention(self._split(self.query(x)), keys, values, attn_mask=mask, is_causal=causal)
        return self.output(found.transpose(1, 2).flatten(2))

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (b, heads, t, d / heads)


def attention(query, keys, values, **choices):
    """In float32 on a CPU: in bfloat16 torch's loop for short sentences takes longer than all else in a layer."""
    if query.device.type != "cpu":
        return scaled_dot_product_attention(query, keys, values, **choices)
    with torch.autocast("cpu", enabled=False):
        return scaled_dot_product_attention(query.float(), keys.float(), values.float(), **choices)


class Layer(nn.Module):
    """Attention to itself, in the decoder also to the source, and two linear maps; each added to what came in."""

    def __init__(self, d, heads, feed_forward, dropout, *, decoder):
        super().__init__()
        self.itself, self.norm_itself = Attention(d, heads), nn.LayerNorm(d)
        if decoder:
            self.source, self.norm_source = Attention(d, heads), nn.LayerNorm(d)
        self.norm_feed = nn.LayerNorm(d)
        self.feed = nn.Sequential(nn.Linear(d, feed_forward), nn.ReLU(), nn.Linear(feed_forward, d))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, *, mask=None, causal=False, memory=None, past=None):
        """The output, and the keys and values of everything up to now."""
        normed = self.norm_itself(x)
        keys, values = self.itself.keys_values(normed)
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        x = x + self.dropout(self.itself(normed, keys, values, mask=mask, causal=causal))
        if memory is not None:
            x = x + self.dropout(self.source(self.norm_source(x), *memory[:2], mask=memory[2]))
        return x + self.dropout(self.feed(self.norm_feed(x))), (keys, values)


@dataclass(frozen=True)
class Memory:
    """What the decoder sees of the source: keys and values of each of its layers, and where there is no padding."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor

    def take(self, rows):
        return Memory([(keys[rows], values[rows]) for keys, values in self.layers], self.mask[rows])


class Translator(nn.Module):
    """The model.

    Args:
        vocabulary: How many tokens there are, for both languages together.
        d: The dimension of everything between the layers.
        embedding: That of the embeddings, where it is another: then linear maps lead in and out.
        layers: How many, in the encoder and in the decoder.
        heads: Of every attention.
        feed_forward: The width between the two linear maps of a layer.
        dropout: Of embeddings, and of what each part of a layer adds.
        continuous: Whether it says a direction, the embedding of the next token, instead of a score for each token.
        generator: For the embeddings' start. The other weights are drawn by torch's global generator.

    Every row of the decoder's `table` has about unit length at the start, so that one on the sphere starts in the same
    directions. What the decoder reads is scaled by the root of d, as is usual.
    """

    def __init__(
        self, vocabulary, *, d, layers, heads, feed_forward, dropout, embedding=None, continuous=False, generator=None
    ):
        super().__init__()
        self.continuous = continuous

        wide = d if embedding is None else embedding

        def rows():
            return nn.Parameter(torch.randn(vocabulary, wide, generator=generator) / math.sqrt(wide))

        def between(first, second):
            return nn.Identity() if first == second else nn.Linear(first, second, bias=False)

        def stack(decoder):
            return nn.ModuleList(Layer(d, heads, feed_forward, dropout, decoder=decoder) for _ in range(layers))

        self.table, self.source = rows(), rows()
        self.table_in, self.source_in = between(wide, d), between(wide, d)
        self.encoder, self.decoder = stack(False), stack(True)
        self.norm_encoder, self.norm_decoder = nn.LayerNorm(d), nn.LayerNorm(d)
        self.say = nn.Linear(d, wide) if continuous else between(d, wide)
        self.dropout = nn.Dropout(dropout)
        never = torch.zeros(vocabulary)
        never[[PAD, UNKNOWN, START]] = -math.inf
        self.register_buffer("never", never, persistent=False)

    def encode(self, source):
        mask = (source != PAD)[:, None, None, :]
        x = self._embed(self.source, self.source_in, source, 0)
        for layer in self.encoder:
            x, _ = layer(x, mask=mask)
        x = self.norm_encoder(x)
        return Memory([layer.source.keys_values(x) for layer in self.decoder], mask)

    def decode(self, given, memory, past=None):
        """What the decoder thinks after each of the given tokens, and the state from which it can go on.

        Args:
            given: Tokens, of shape (b, t): from the start, or a single one that follows a `past`.
            memory: Of the source.
            past: The state after all tokens before.
        """
        before = 0 if past is None else past[0][0].shape[2]
        x, state = self._embed(self.table, self.table_in, given, before), []
        for number, layer in enumerate(self.decoder):
            x, now = layer(
                x,
                causal=past is None,
                memory=(*memory.layers[number], memory.mask),
                past=None if past is None else past[number],
            )
            state.append(now)
        return self.norm_decoder(x), state

    def forward(self, batch):
        """What it says where a token is wanted, to be compared with the table: nothing is spent on padding."""
        thoughts, _ = self.decode(batch.given, self.encode(batch.source))
        return self.say(thoughts[batch.wanted != PAD])

    def scores(self, thoughts):
        """Of every token to come next: its log-probability, or its cosine to the direction said."""
        said = self.say(thoughts)
        if self.continuous:
            return uc.project(said.float()) @ uc.project(self.table.float()).mT + self.never
        return torch.log_softmax((said @ self.table.mT).float() + self.never, dim=-1)

    def _embed(self, table, lead_in, tokens, before):
        x = lead_in(nn.functional.embedding(tokens, table) * math.sqrt(table.shape[1]))
        places = positions(before + tokens.shape[1], x.shape[-1], device=table.device)[before:]
        return self.dropout(x + places)


def positions(length, d, *, device=None):
    """Sines and cosines of the place, at wave lengths from 2 pi to 20,000 pi."""
    place = torch.arange(length, dtype=torch.float32, device=device)[:, None]
    rates = torch.exp(torch.arange(0, d, 2, device=device) * (-math.log(10_000) / d))
    return torch.cat([torch.sin(place * rates), torch.cos(place * rates)], dim=1)
