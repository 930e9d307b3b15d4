r"""Codes whose coordinates are signs: words of a binary code, or blocks of a design with signs on their points.

References:
    Ericson and Zinoviev. Codes on Euclidean Spheres. 2001. MacWilliams and Sloane. The Theory of Error-Correcting
    Codes, chapters 9 and 15. 1977.
"""

import itertools

import numpy as np
from jaxtyping import Bool

from unclump.codes.constructions.fields import Field
from unclump.codes.constructions.polytopes import Points, unit_rows


def gold(m: int) -> Points:
    r"""The :math:`2^{2m+1} + 2^{m+1}` points in :math:`d = 2^m` dimensions, m odd, with cosine :math:`2^{-(m-1)/2}`.

    The vectors of the standard basis, with both signs, and the words of the dual of the extended BCH code that corrects
    two errors,

    .. math:: d^{-1/2} (-1)^{\operatorname{tr}(a x + b x^3) + c}, \quad a, b \in F, \; c \in \{0, 1\},

    one coordinate for each element x of the field F of d elements. The sum of two words is a word, and has d/2 ones or
    :math:`2^{(m-1)/2}` more or less. Coordinates are exact but for the root.
    """
    field = Field(2, m)
    x = np.arange(field.q)
    cube = field.product[x, field.product[x, x]]
    linear, cubic = field.trace[field.product], field.trace[field.product[:, cube]]  # (a, x) and (b, x)
    words = (linear[:, None] ^ cubic).reshape(-1, field.q)
    half = np.concatenate([np.eye(field.q), (1.0 - 2 * words) / field.q**0.5])
    return np.concatenate([half, -half])


def signed_blocks(blocks: Bool[np.ndarray, "b d"]) -> Points:
    """Every block's points, each as a coordinate of either sign, the number of minus signs being even.

    Two sign patterns on a block of w points differ in two places or more, so their cosine is at most (w - 4) / w; that
    of two blocks is at most one over w for each point they share.
    """
    size = int(blocks[0].sum())
    even = np.array([signs for signs in itertools.product((1, -1), repeat=size) if np.prod(signs) > 0])
    points = np.zeros((len(blocks), len(even), blocks.shape[1]))
    for block, rows in zip(blocks, points, strict=True):
        rows[:, block] = even
    return unit_rows(points.reshape(-1, blocks.shape[1]))


def plane(differences: tuple[int, ...]) -> Bool[np.ndarray, "v v"]:
    """The lines of a projective plane, any two of which share one point.

    The translates of a set in whose differences, modulo v, every number but zero comes once (Singer 1938).
    """
    k = len(differences)
    points = np.arange(k * (k - 1) + 1)
    lines: Bool[np.ndarray, "v v"] = np.isin((points - points[:, None]) % len(points), differences)
    return lines


def biplane() -> Bool[np.ndarray, "16 16"]:
    r"""Sixteen blocks of six of sixteen points, any two of which share two.

    The translates of the ones of the bent function :math:`x_1 x_2 + x_3 x_4` on :math:`\{0, 1\}^4`.
    """
    x = np.arange(16)
    bits = x[:, None] >> np.arange(4) & 1
    bent = bits[:, 0] * bits[:, 1] ^ bits[:, 2] * bits[:, 3]
    blocks: Bool[np.ndarray, "16 16"] = bent[x[:, None] ^ x] == 1
    return blocks


def blocks_of_seven() -> Bool[np.ndarray, "16 16"]:
    """Sixteen blocks of seven of sixteen points, no two of which share more than three.

    The biplane's, each with one more point: for the block that was moved by i, the point that is this linear image of
    i. Of two blocks never do both have the other's new point.
    """
    x = np.arange(16)
    bits = x[:, None] >> np.arange(4) & 1
    image = np.bitwise_xor.reduce(bits * np.array([1, 3, 4, 13]), axis=1)
    blocks = biplane()
    blocks[x, image] = True
    return blocks
