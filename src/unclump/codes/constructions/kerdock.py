r"""Kerdock codes: the maximal number of mutually unbiased orthonormal bases in :math:`4^k` real dimensions."""

import numpy as np
from jaxtyping import Int64

from unclump.codes.constructions.fields import Field
from unclump.codes.constructions.polytopes import Points


def kerdock(k: int) -> Points:
    r"""The :math:`2^{4k} + 2^{2k+1}` points in :math:`d = 2^{2k}` dimensions with the largest cosine :math:`2^{-k}`.

    The standard basis and, for each element s of the field F of d/2 elements, the basis

    .. math:: d^{-1/2} (-1)^{Q_s(v) + \langle u, v \rangle}, \quad v \in F \times \{0, 1\},

    one vector per linear form u; all with both signs. The quadratic forms

    .. math:: Q_s(x, a) = Q(s x) + a \operatorname{tr}(s x), \quad
              Q(x) = \sum_{i=1}^{k-1} \operatorname{tr}(x^{1 + 2^i})

    are Kerdock's: the sum of any two is nonsingular, so vectors of two bases have cosine :math:`\pm 2^{-k}`. The
    coordinates are exact.

    References:
        Cameron and Seidel. Quadratic forms over GF(2). 1973. MacWilliams and Sloane. The Theory of Error-Correcting
        Codes, chapter 15. 1977.
    """
    d = 4**k
    bits = np.arange(d)[:, None] >> np.arange(2 * k) & 1
    characters = 1.0 - 2 * (bits @ bits.T % 2)
    signs = 1.0 - 2 * kerdock_set(k)
    half = np.concatenate([np.eye(d), (characters * signs[:, None, :]).reshape(-1, d) / 2**k])
    return np.concatenate([half, -half])


def kerdock_set(k: int) -> Int64[np.ndarray, "half_d d"]:
    """The values of each Q_s as a row; column x + a d/2 belongs to the vector (x, a)."""
    field = Field(2, 2 * k - 1)
    x = np.arange(field.q)
    form, power = np.zeros_like(x), x
    for _ in range(k - 1):
        power = field.product[power, power]
        form ^= field.trace[field.product[x, power]]
    at_zero, linear = form[field.product], field.trace[field.product]
    return np.concatenate([at_zero, at_zero ^ linear], axis=1)
