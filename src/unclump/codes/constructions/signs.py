r"""Codes with coordinates ±1 or 0, ±1, up to scale: binary codewords, or blocks of a design with signs.

References:
    Ericson and Zinoviev. Codes on Euclidean Spheres. 2001. MacWilliams and Sloane. The Theory of Error-Correcting
    Codes, chapters 9 and 15. 1977.
"""

import numpy as np
from jaxtyping import Bool

from unclump.codes.constructions.fields import Field
from unclump.codes.constructions.polytopes import Points, sign_patterns, unit_rows


def gold(m: int) -> Points:
    r"""The :math:`2^{2m+1} + 2^{m+1}` points in :math:`d = 2^m` dimensions, m odd, with cosine :math:`2^{-(m-1)/2}`.

    The vectors of the standard basis, with both signs, and the codewords of the dual of the double-error-correcting
    extended BCH code,

    .. math:: d^{-1/2} (-1)^{\operatorname{tr}(a x + b x^3) + c}, \quad a, b \in F, \; c \in \{0, 1\},

    one coordinate per element x of the field F of d elements. The sum of two codewords is a codeword with d/2 or
    :math:`d/2 \pm 2^{(m-1)/2}` ones. Coordinates are exact except for the root.
    """
    field = Field(2, m)
    x = np.arange(field.q)
    cube = field.product[x, field.product[x, x]]
    linear, cubic = field.trace[field.product], field.trace[field.product[:, cube]]  # (a, x) and (b, x)
    words = (linear[:, None] ^ cubic).reshape(-1, field.q)
    half = np.concatenate([np.eye(field.q), (1.0 - 2 * words) / field.q**0.5])
    return np.concatenate([half, -half])


def signed_blocks(blocks: Bool[np.ndarray, "b d"]) -> Points:
    """The indicator vectors of the blocks, with all sign patterns that have an even number of minus signs.

    Two sign patterns on a block of w points differ in at least two places, so their cosine is at most (w - 4) / w; for
    two blocks that share s points it is at most s / w.
    """
    even = sign_patterns(int(blocks[0].sum()), even=True)
    points = np.zeros((len(blocks), len(even), blocks.shape[1]))
    for block, rows in zip(blocks, points, strict=True):
        rows[:, block] = even
    return unit_rows(points.reshape(-1, blocks.shape[1]))


def projective_plane(differences: tuple[int, ...]) -> Bool[np.ndarray, "v v"]:
    """The lines of a projective plane, any two of which share one point.

    They are the translates of a perfect difference set modulo v (Singer 1938).
    """
    k = len(differences)
    points = np.arange(k * (k - 1) + 1)
    lines: Bool[np.ndarray, "v v"] = np.isin((points - points[:, None]) % len(points), differences)
    return lines


def biplane() -> Bool[np.ndarray, "16 16"]:
    r"""Sixteen blocks of six points among sixteen, any two of which share two points.

    They are the translates of the support of the bent function :math:`x_1 x_2 + x_3 x_4` on :math:`\{0, 1\}^4`.
    """
    x = np.arange(16)
    bits = x[:, None] >> np.arange(4) & 1
    bent = bits[:, 0] * bits[:, 1] ^ bits[:, 2] * bits[:, 3]
    blocks: Bool[np.ndarray, "16 16"] = bent[x[:, None] ^ x] == 1
    return blocks


def blocks_of_seven() -> Bool[np.ndarray, "16 16"]:
    """Sixteen blocks of seven points among sixteen, no two of which share more than three points.

    They are the blocks of the biplane with one more point each: translate i gains the image of i under a linear map,
    chosen such that no two blocks both contain the other's additional point.
    """
    x = np.arange(16)
    bits = x[:, None] >> np.arange(4) & 1
    image = np.bitwise_xor.reduce(bits * np.array([1, 3, 4, 13]), axis=1)
    blocks = biplane()
    blocks[x, image] = True
    return blocks
