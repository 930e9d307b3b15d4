"""Tables and judgements for `repair.py`: public ones where they are, and generated ones for its quick setting."""

import collections
import gzip

import numpy as np
import torch
from _common import data_place, generator
from scipy import sparse
from scipy.sparse.linalg import svds

import unclump as uc


def table(name, minilm):
    """A table with its words, the most frequent first."""
    if name == "generated":
        return uc.Table(planted()[0], [f"w{i}" for i in range(len(planted()[0]))])
    if name == "GloVe":
        return uc.load(data_place() / "glove6B_100d_top50k.npz")
    if name == "MiniLM tokens":
        return uc.load(minilm, tensor="embeddings.word_embeddings.weight")
    return ppmi_svd(english_sentences())


def planted(n=150, d=8):
    """Rows whose meaning is in small directions, beside a wide one."""
    meaning = torch.randn(n, d - 1, generator=generator(1))
    return torch.cat([6 * torch.randn(n, 1, generator=generator(2)), meaning], dim=1) + 2, meaning


def judged_pairs(name, benchmarks):
    """Lines of word, word, score, in small letters."""
    if name == "generated":
        unit = uc.project(planted()[1])
        pairs = torch.randint(len(unit), (200, 2), generator=generator(3)).tolist()
        return [f"w{a}\tw{b}\t{float(unit[a] @ unit[b]):.4f}" for a, b in pairs]
    file = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}[name]
    lines = (benchmarks / file).read_text().splitlines()
    return [line.lower() for line in lines if not line.startswith("#")]


def analogies(words, benchmarks, count):
    """Some questions (a is to b as c is to which?) all of whose words the table has, as row numbers (m, 4)."""
    number = {word: row for row, word in reversed([*enumerate(words)])}
    lines = (benchmarks / "questions-words.txt").read_text().lower().splitlines()
    known = [line.split() for line in lines if not line.startswith(":") and all(w in number for w in line.split())]
    chosen = torch.randperm(len(known), generator=generator(4))[:count].tolist()
    return torch.tensor([[number[word] for word in known[i]] for i in chosen])


def english_sentences():
    """The English halves of Tatoeba's and Multi30k's sentences, in small letters, as words."""
    texts = []
    with gzip.open(data_place() / "ende/tatoeba_manythings2018.train.en-de.tsv.gz", "rt") as file:
        texts += [line.split("\t")[0] for line in file]
    with gzip.open(data_place() / "multi30k/train.en.gz", "rt") as file:
        texts += list(file)
    return [tokens(text) for text in texts]


def tokens(text):
    return "".join(c if c.isalnum() else " " for c in text.lower().replace("'", "")).split()


def ppmi_svd(sentences, *, window=4, least=5, d=100):
    """Word vectors of the old kind: positive pointwise mutual information, and the roots of its singular values."""
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in counts.most_common() if count >= least]
    number = {word: row for row, word in enumerate(words)}
    pairs = collections.Counter()
    for sentence in sentences:
        known = [number[word] for word in sentence if word in number]
        for i, row in enumerate(known):
            for other in known[i + 1 : i + 1 + window]:
                pairs[row, other] += 1
                pairs[other, row] += 1
    rows, columns = np.array(list(pairs)).T
    seen = sparse.csr_array((np.array(list(pairs.values()), dtype=float), (rows, columns)), shape=(len(words),) * 2)
    totals = seen.sum(axis=0)
    seen.data = np.maximum(0, np.log(seen.data * totals.sum() / (totals[seen.nonzero()[0]] * totals[seen.indices])))
    seen.eliminate_zeros()
    left, values, _ = svds(seen, k=d, rng=np.random.default_rng(0))
    vectors = left * np.sqrt(values)
    kept = np.linalg.norm(vectors, axis=1) > 1e-8  # words that were never seen beside another more than by chance
    return uc.Table(
        torch.from_numpy(vectors[kept].astype(np.float32)), [w for w, k in zip(words, kept, strict=True) if k]
    )


def sentences_to_retrieve(name, queries, documents):
    """Documents, queries and which document is relevant: English sentences with the same German translation.

    A sentence is the mean of its words' unit vectors of GloVe.
    """
    if name == "generated":
        x = planted()[0]
        return x, x[:40] + 0.3 * torch.randn(40, x.shape[1], generator=generator(5)), list(range(40))
    glove = table("GloVe", None)
    unit, number = uc.project(glove.points), {word: row for row, word in enumerate(glove.names)}
    groups = collections.defaultdict(dict)
    with gzip.open(data_place() / "ende/tatoeba_manythings2018.train.en-de.tsv.gz", "rt") as file:
        for line in file:
            english, german = line.rstrip("\n").split("\t")
            words = [number[word] for word in tokens(english) if word in number]
            if len(words) >= 4:
                groups[german][english] = words
    groups = list(groups.values())
    order = torch.randperm(len(groups), generator=generator(6)).tolist()
    asked, kept, relevant = [], [], []
    for place in order:
        first, *others = groups[place].values()
        if others and len(asked) < queries and sorted(others[0]) != sorted(first):
            asked.append(others[0])
            relevant.append(len(kept))
        if len(kept) < documents:
            kept.append(first)
    x, q = (torch.stack([unit[words].mean(dim=0) for words in group]) for group in (kept, asked))
    known = [i for i, row in enumerate(relevant) if row < documents]
    return x, q[known], [relevant[i] for i in known]
