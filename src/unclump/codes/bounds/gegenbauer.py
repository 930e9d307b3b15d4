r"""Gegenbauer polynomials of the sphere in d dimensions, scaled to be one at one.

They are the positive definite functions of the sphere (Schoenberg 1942): the sum of :math:`P_k(\langle x, y \rangle)`
over all pairs of any points, each with itself included, is nonnegative. This is what the bounds of Levenshtein and of
Delsarte live on. No value exceeds one in [-1, 1], whatever the dimension.
"""

import math

import numpy as np
from jaxtyping import Float


def harmonics(d: int, degree: int) -> int:
    """The dimension of the spherical harmonics of that degree.

    Example:
        >>> from unclump.codes.bounds.gegenbauer import harmonics
        >>> [harmonics(3, k) for k in range(5)]
        [1, 3, 5, 7, 9]
    """
    return math.comb(d + degree - 2, degree) + (math.comb(d + degree - 3, degree - 1) if degree > 0 else 0)


def gegenbauer(
    t: Float[np.ndarray, " m"], d: int, degree: int, *, derivative: int = 0
) -> Float[np.ndarray, "{degree+1} m"]:
    r"""The polynomials of degree 0, 1, ..., `degree` at t, or a derivative of theirs.

    .. math::
        (k + d - 2) P_{k+1}(t) = (2k + d - 2) \, t P_k(t) - k P_{k-1}(t), \qquad
        \frac{d}{dt} P_k^{(d)} = \frac{k (k + d - 2)}{d - 1} P_{k-1}^{(d+2)}

    Example:
        >>> from unclump.codes.bounds.gegenbauer import gegenbauer
        >>> gegenbauer(np.array([0.5]), 3, 2)[2].item()  # Legendre's (3 t^2 - 1) / 2
        -0.125
    """
    values = np.zeros((degree + 1, len(t)))
    raised = d + 2 * derivative
    previous, current = np.zeros_like(t), np.ones_like(t)
    for k in range(degree + 1 - derivative):
        values[k + derivative] = current
        a, b, c = (2 * k + raised - 2, k, k + raised - 2) if k > 0 else (1, 0, 1)  # P_1 = t, also where d = 2
        previous, current = current, (a * t * current - b * previous) / c
    degrees = np.arange(degree + 1.0)
    for i in range(derivative):
        values *= ((degrees - i) * (degrees + i + d - 2) / (d - 1 + 2 * i))[:, None]
    return values
