"""Minimal vectors of the E8, Barnes-Wall and Leech lattices, and codes that are sections of them.

Vectors are integers, constructed from binary codes, so that membership in a section is decided exactly.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer

from unclump.codes.constructions.polytopes import Points, sign_patterns, unit_rows

Vectors = Integer[np.ndarray, "_ width"]


def span(generators: Vectors) -> Vectors:
    """All sums of rows modulo 2: the codewords of a binary code."""
    subsets = np.arange(2 ** len(generators))[:, None] >> np.arange(len(generators)) & 1
    words: Vectors = subsets @ generators % 2
    return words


def reed_muller(m: int) -> Vectors:
    """The first-order Reed-Muller code of length 2^m: affine functions of m bits. m = 3: the extended Hamming code."""
    bits = np.arange(2**m) >> np.arange(m)[:, None] & 1
    return span(np.concatenate([np.ones((1, 2**m), dtype=np.int64), bits]))


def golay() -> Vectors:
    """The extended binary Golay code: multiples of a factor of x^23 - 1, with a parity bit."""
    factor = np.zeros(23, dtype=np.int64)
    factor[[0, 2, 4, 5, 6, 10, 11]] = 1
    words = span(np.stack([np.roll(factor, shift) for shift in range(12)]))
    return np.concatenate([words, words.sum(axis=1, keepdims=True) % 2], axis=1)


def words_of_weight(words: Vectors, weight: int) -> Vectors:
    """The words with `weight` ones."""
    selected: Vectors = words[words.sum(axis=1) == weight]
    return selected


def with_signs(words: Vectors, size: int, *, even: bool) -> Vectors:
    """Replace the ones of each word by ±`size`: all sign patterns, or those with an even number of minus signs."""
    ones = int(words[0].sum())
    signs = (size * sign_patterns(ones, even=even)).astype(np.int8)
    vectors = np.zeros((len(words), len(signs), words.shape[1]), dtype=np.int8)
    positions = words.nonzero()[1].reshape(-1, 1, ones)
    np.put_along_axis(vectors, np.broadcast_to(positions, (len(words), len(signs), ones)), signs[None], axis=2)
    return vectors.reshape(-1, words.shape[1])


def weight_two_words(d: int) -> Vectors:
    """All words of length d with two ones."""
    eye = np.eye(d, dtype=np.int64)
    return np.stack([eye[i] + eye[j] for i, j in itertools.combinations(range(d), 2)])


def root_system(d: int) -> Vectors:
    """The 2 d (d - 1) roots of D_d, of norm 2."""
    return with_signs(weight_two_words(d), 1, even=False)


def e8() -> Vectors:
    """The 240 roots of E8, of norm 4: signed codewords of the extended Hamming code, and the axes."""
    axes = with_signs(np.eye(8, dtype=np.int64), 2, even=False)
    return np.concatenate([axes, with_signs(words_of_weight(reed_muller(3), 4), 1, even=False)])


def barnes_wall() -> Vectors:
    """The 4320 minimal vectors of the Barnes-Wall lattice in 16 dimensions, of norm 8."""
    pairs, words = weight_two_words(16), words_of_weight(reed_muller(4), 8)
    return np.concatenate([with_signs(pairs, 2, even=False), with_signs(words, 1, even=True)])


def leech() -> Vectors:
    """The 196560 minimal vectors of the Leech lattice, of norm 32: (±4, ±4), (±2)^8 over octads, and (∓3, ±1^23)."""
    words = golay()
    odd = np.where(np.eye(24, dtype=bool), -3, 1).astype(np.int8) * (1 - 2 * words[:, None, :]).astype(np.int8)
    pairs, octads = weight_two_words(24), words_of_weight(words, 8)
    return np.concatenate([with_signs(pairs, 4, even=False), with_signs(octads, 2, even=True), odd.reshape(-1, 24)])


def section(vectors: Vectors, anchors: Sequence[Sequence[int]], products: Sequence[int]) -> Points:
    """The vectors with given inner products with the anchors, projected orthogonally to them and normalised.

    The anchors are linearly independent; coordinates are those of an orthonormal basis of their orthogonal complement,
    so that k anchors reduce the dimension by k.
    """
    width = vectors.shape[1]
    padded = np.array([[*anchor, *[0] * (width - len(anchor))] for anchor in anchors])
    inner = vectors.astype(np.float32) @ padded.T.astype(np.float32)  # exact for small integers, and fast
    selected = vectors[(inner == np.array(products)).all(axis=1)]
    basis = np.linalg.qr(padded.T.astype(np.float64), mode="complete")[0][:, len(padded) :]
    return unit_rows(selected @ basis)
