r"""Gegenbauer polynomials of the sphere in d dimensions, normalised to P_k(1) = 1.

They are positive definite on the sphere (Schoenberg 1942): the sum of :math:`P_k(\langle x, y \rangle)` over all
ordered pairs of points of any set, equal points included, is nonnegative. The bounds of Levenshtein and of Delsarte
rest on this. Their absolute values on [-1, 1] are at most one in every dimension.
"""

import math

import numpy as np
from jaxtyping import Float


def harmonic_dimension(d: int, degree: int) -> int:
    """The dimension of the space of spherical harmonics of a degree.

    Example:
        >>> from unclump.codes.bounds.gegenbauer import harmonic_dimension
        >>> [harmonic_dimension(3, k) for k in range(5)]
        [1, 3, 5, 7, 9]
    """
    return math.comb(d + degree - 2, degree) + (math.comb(d + degree - 3, degree - 1) if degree > 0 else 0)


def gegenbauer(
    t: Float[np.ndarray, " m"], d: int, degree: int, *, derivative: int = 0
) -> Float[np.ndarray, "{degree+1} m"]:
    r"""The polynomials of degree 0, 1, ..., `degree` at t, or their derivatives of an order.

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
