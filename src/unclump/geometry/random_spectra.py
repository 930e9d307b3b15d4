r"""Limit laws of the eigenvalues of random matrices with independent isotropic rows.

Each law is a quadrature over the nonzero eigenvalues: ascending nodes, and weights that sum to one. The substitution
:math:`s = a + (b - a) \sin^2 u` smooths the square roots at both ends of the densities.
"""

import math

import numpy as np
from jaxtyping import Float

Spectrum = tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_ANGLES = math.pi / 4 * (1 + _NODES)


def marchenko_pastur(rows: int, d: int) -> Spectrum:
    r"""The law of the squared singular values of independent isotropic rows, divided by max(rows, d).

    .. math:: f(s) \propto \frac{\sqrt{(b - s)(s - a)}}{s}, \quad a, b = (1 \mp \sqrt y)^2, \quad
        y = \frac{\min(n, d)}{\max(n, d)}
    """
    ratio = min(rows, d) / max(rows, d)
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    return _law_on_interval(low, high, 1.0, 0.0)


def wachter(between: int, within: int, d: int) -> Spectrum:
    r"""The law of the eigenvalues of :math:`W^{-1/2} B W^{-1/2}`, with B and W independent covariance matrices.

    .. math:: f(s) \propto \frac{\sqrt{(b - s)(s - a)}}{s \, (y + z s)}, \quad
        a, b = \left(\frac{1 \mp \sqrt{y + z - y z}}{1 - z}\right)^2

    Args:
        between: Degrees of freedom of B; y = d / between.
        within: Degrees of freedom of W, more than d; z = d / within.
        d: The dimension.

    References:
        Wachter. The limiting empirical measure of multiple discriminant ratios. Annals of Statistics 1980.
    """
    y, z = d / between, d / within
    root = math.sqrt(y + z - y * z)
    return _law_on_interval(((1 - root) / (1 - z)) ** 2, ((1 + root) / (1 - z)) ** 2, y, z)


def _law_on_interval(low: float, high: float, constant: float, slope: float) -> Spectrum:
    """The law on [low, high] whose density has the denominator s (constant + slope s)."""
    values = low + (high - low) * np.sin(_ANGLES) ** 2
    weights = _WEIGHTS * np.sin(2 * _ANGLES) ** 2 / (values * (constant + slope * values))
    return values, weights / weights.sum()


def entropy_rank(count: int, values: Float[np.ndarray, " k"], weights: Float[np.ndarray, " k"]) -> float:
    """The exponential of the entropy of `count` values with this law, normalised to sum to one."""
    mean = float(weights @ values)
    return count * mean * math.exp(-float(weights @ (values * np.log(values))) / mean)


def quantiles(probabilities: Float[np.ndarray, " m"], spectrum: Spectrum) -> Float[np.ndarray, " m"]:
    """The quantiles of the law at these probabilities."""
    values, weights = spectrum
    return np.asarray(np.interp(probabilities, np.cumsum(weights) - weights / 2, values))
