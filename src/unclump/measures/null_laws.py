r"""Null distributions of zonal statistics under uniformity: weighted sums of chi-squares, and their tails.

Let h(x, y) depend only on the angle between x and y and have mean zero over the sphere. By the Funk-Hecke theorem, the
spherical harmonics of degree k are its eigenfunctions, with one eigenvalue for each degree,

.. math:: \lambda_k = E[h(t) P_k(t)], \quad \nu_k = \frac{2k + d - 2}{k} \binom{k + d - 3}{k - 1},

where t is a coordinate of a uniform point, :math:`P_k` the Gegenbauer polynomial with :math:`P_k(1) = 1`, and
:math:`\nu_k` the number of harmonics of that degree. The mean U of h over the pairs of n uniform points then has the
limit (Gregory 1977)

.. math:: n U \to \sum_{k \ge 1} \lambda_k (\chi^2_{\nu_k} - \nu_k), \quad \sum_k \lambda_k^2 \nu_k = E[h^2].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Inexact
from numpy import ndarray
from scipy import optimize, special
from torch import Tensor

_NODES = 8192
_MAX_DEGREES = 512
_MAX_HARMONICS = 1e12  # a centred chi-square with more degrees of freedom is normal up to 1e-6
_NEGLIGIBLE_SKEWNESS = 1e-10
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ChiSquareSum:
    r"""The law of :math:`\sum_k w_k (\chi^2_{\nu_k} - \nu_k) + \sqrt{2 r} Z`, with Z standard normal, times a scale.

    Attributes:
        weights: The weights w, of either sign.
        dof: The degrees of freedom nu.
        remainder: r, half the variance of the normal part.
        scale: A factor that keeps squares of the weights from overflowing.
    """

    weights: Float[ndarray, " k"]
    dof: Float[ndarray, " k"]
    remainder: float
    scale: float = 1.0

    def survival(self, value: float) -> float:
        r"""Return the probability of exceeding `value`, to nearly full relative precision, however small it is.

        With the cumulant generating function K, any c > 0 where K is finite, and s from :math:`c - i \infty` to
        :math:`c + i \infty`,

        .. math::
            P(X > x) = \frac{1}{2 \pi i} \int \frac{e^{K(s) - s x}}{s} \, ds, \quad
            K(s) = r s^2 - \sum_k \nu_k \left( \tfrac12 \log(1 - 2 w_k s) + w_k s \right),

        and for c < 0 the integral is P(X > x) - 1. On the imaginary axis this is the inversion of Gil-Pelaez and Imhof,
        whose integrand oscillates and may decay slowly. On a path through the saddle point, where K' = x, nothing
        cancels; and if the path is slanted to the correct side, the integrand decays exponentially. Of three paths, we
        use the one with the smallest tail.

        References:
            Imhof. Computing the distribution of quadratic forms in normal variables. Biometrika 1961.
            Rice. Distribution of quadratic forms in normal random variables: evaluation by numerical integration.
            SIAM Journal on Scientific and Statistical Computing 1980.

        Example:
            >>> import numpy as np
            >>> from unclump.measures.null_laws import ChiSquareSum
            >>> law = ChiSquareSum(np.array([0.5]), np.array([2.0]), 0.0)  # an exponential variable minus its mean
            >>> [round(law.survival(x) / math.exp(-x - 1), 10) for x in (0.0, 5.0, 500.0)]
            [1.0, 1.0, 1.0]
        """
        x = value / self.scale
        c = _find_root(lambda s: self.slope(s) - x, *self._bracket(x))
        v, step = np.linspace(-4, 24, 300, retstep=True)
        distance = np.exp(v - np.exp(-v)) / math.sqrt(self.curvature(c))  # a double-exponential rule for (0, oo)
        log_weights = np.log(distance * (1 + np.exp(-v)) * step / math.pi)
        directions = np.exp(1j * np.radians([[60], [90], [120]]))
        tail = self._log_integrand(c, directions, distance[::6], x).real + log_weights[::6] + 2 * np.log(distance[::6])
        best = directions[np.argmin(special.logsumexp(tail, axis=1))]
        terms = self._log_integrand(c, best, distance, x) + log_weights
        return min(max(float(np.exp(terms).imag.sum()) + (c < 0), 0.0), 1.0)

    def cumulants(self, s: Inexact[ndarray, "*m"]) -> Inexact[ndarray, "*m"]:
        """The cumulant generating function K, without the scale."""
        u = 2 * np.multiply.outer(s, self.weights)
        values: ndarray = self.remainder * s**2 - (special.log1p(-u) + u) @ self.dof / 2
        return values

    def slope(self, s: float) -> float:
        """The derivative K'."""
        return float(2 * self.remainder * s + (2 * self.weights**2 * s / (1 - 2 * self.weights * s)) @ self.dof)

    def curvature(self, s: float) -> float:
        """The second derivative K'', which is the variance at s = 0."""
        return float(2 * self.remainder + (2 * self.weights**2 / (1 - 2 * self.weights * s) ** 2) @ self.dof)

    def _bracket(self, x: float) -> tuple[float, float]:
        """Bracket the saddle point: right of the pole at zero for the upper tail, left of it for the lower."""
        unit = math.sqrt(self.curvature(0))
        if x > 0:
            return 0.25 / unit, 0.5 / max(self.weights.max(initial=0) * (1 + 1e-9), 1e-4 * unit)
        return 0.5 / min(self.weights.min(initial=0) * (1 + 1e-9), -1e-4 * unit), -0.25 / unit

    def _log_integrand(self, c: float, direction: ndarray, distance: ndarray, x: float) -> ndarray:
        s = c + direction * distance
        values: ndarray = self.cumulants(s) - s * x + np.log(direction / s)
        return values


def _find_root(increasing: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function, or the nearer end of the interval if it is outside."""
    if increasing(low) >= 0:
        return low
    if increasing(high) <= 0:
        return high
    return float(optimize.brentq(increasing, low, high))


@lru_cache(maxsize=256)
def zonal_null(function: Callable[[Tensor], Tensor], d: int) -> ChiSquareSum:
    r"""Return the limit law of n U for uniform points, where h is a function of the squared chord minus its mean.

    The leading eigenvalues are computed. The others, whose skewness is negligible, are replaced by a normal variable
    with their share of :math:`E[h^2]`: a sum of many small terms is nearly normal.

    Example:
        >>> from unclump.measures.null_laws import zonal_null
        >>> law = zonal_null(Riesz(s=-2.0), 3)  # -|x - y|^2 = 2 t - 2 has a single eigenvalue: 2/3, for degree 1
        >>> (law.scale * law.weights).round(6), law.dof
        (array([0.666667]), array([3.]))
    """
    angles, root_weights = _quadrature(d)
    values = function(torch.from_numpy(4 * np.sin(angles / 2) ** 2)).numpy() * root_weights
    values = values - (values @ root_weights) * root_weights
    scale = float(np.abs(values).max())
    values = values / scale
    degrees = np.arange(1, _MAX_DEGREES + 1)
    choices = special.binom(degrees + d - 3, degrees - 1)
    is_countable = choices <= _MAX_HARMONICS
    harmonics = (2 * degrees[is_countable] + d - 2) / degrees[is_countable] * choices[is_countable]
    coefficients = _gegenbauer_coefficients(values, np.cos(angles), root_weights, d, len(harmonics))
    weights = coefficients / np.sqrt(harmonics)
    skewness = np.cumsum((np.abs(weights) ** 3 * harmonics)[::-1])[::-1] / np.linalg.norm(values) ** 3
    is_kept = (skewness > _NEGLIGIBLE_SKEWNESS) & (np.abs(coefficients) > _ROUNDING * np.linalg.norm(values))
    remainder = max(0.0, float(values @ values - coefficients[is_kept] @ coefficients[is_kept]))
    return ChiSquareSum(weights[is_kept], harmonics[is_kept], remainder, scale)


def _quadrature(d: int) -> tuple[Float[ndarray, " m"], Float[ndarray, " m"]]:
    r"""Return angles in (0, pi) and the square roots of their weights in a quadrature of means over the sphere.

    The trapezoidal rule after :math:`\theta = \pi / (1 + e^{-\pi \sinh v})` tolerates singularities at either end. We
    use roots because the square of a Riesz kernel may overflow where its product with the root does not.
    """
    # The first and last angles are 1e-136 from 0 and pi, or, in many dimensions, so improbable that they contribute
    # nothing to a square-integrable h.
    v = np.linspace(-1, 1, _NODES) * min(5.3, 60 / math.sqrt(d))
    z = math.pi * np.sinh(v)
    log_sine = np.log(np.sin(math.pi * special.expit(-np.abs(z))))
    log_weights = (d - 2) * log_sine + special.log_expit(z) + special.log_expit(-z) + np.log(np.cosh(v))
    log_roots = (log_weights - log_weights.max()) / 2
    is_positive = log_roots > -650
    roots = np.exp(log_roots[is_positive])
    return math.pi * special.expit(z[is_positive]), roots / np.linalg.norm(roots)


def _gegenbauer_coefficients(
    values: Float[ndarray, " m"], t: Float[ndarray, " m"], root_weights: Float[ndarray, " m"], d: int, count: int
) -> Float[ndarray, " k"]:
    r"""Return the means of `values` times the Gegenbauer polynomials of degrees 1, ..., count, of mean square one.

    .. math::
        t \, p_k = b_{k+1} p_{k+1} + b_k p_{k-1}, \quad b_1 = \frac{1}{\sqrt d}, \quad
        b_k^2 = \frac{k (k + d - 3)}{(2k + d - 2)(2k + d - 4)}
    """
    previous, b, polynomial = root_weights, 1 / math.sqrt(d), math.sqrt(d) * t * root_weights
    coefficients = []
    for k in range(1, count + 1):
        coefficients.append(values @ polynomial)
        b_next = math.sqrt((k + 1) * (k + d - 2) / ((2 * k + d) * (2 * k + d - 2)))
        previous, b, polynomial = polynomial, b_next, (t * polynomial - b * previous) / b_next
    return np.array(coefficients)
