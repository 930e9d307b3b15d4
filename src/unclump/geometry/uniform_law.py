r"""Laws of n independent uniform points in d dimensions, in closed form: the reference for the health of a table.

The distribution function of the angle between two uniform directions is the fraction of the sphere in a cap,

.. math:: F(t) = I_{\sin^2(t/2)}\left(\tfrac{d-1}2, \tfrac{d-1}2\right)

with the regularised incomplete beta function: (1 - cosine) / 2 has a symmetric beta distribution.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import special

from unclump._checks import check_count
from unclump.geometry.random_spectra import entropy_rank, marchenko_pastur

Angles = Float[np.ndarray, "*k"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_NEGLIGIBLE = 1e-17  # probability that integrals omit at either end
_ROUNDING_ANGLE = math.radians(1)  # between a row and its copy rounded to eight bits


def cap_fraction(angle: Angles | float, d: int) -> Angles:
    """Return the fraction of the sphere within an angle of a point: F above."""
    return np.asarray(special.betainc((d - 1) / 2, (d - 1) / 2, np.sin(np.asarray(angle) / 2) ** 2))


def cap_angle(fraction: Angles | float, d: int) -> Angles:
    """Return the angle within which a fraction of the sphere lies: the inverse of `cap_fraction`."""
    fraction = np.asarray(fraction)
    lower = np.minimum(fraction, 1 - fraction)  # by symmetry, on the half where the inverse is accurate
    half = 2 * np.arcsin(np.sqrt(special.betaincinv((d - 1) / 2, (d - 1) / 2, lower)))
    return np.asarray(np.where(fraction > 0.5, math.pi - half, half))


def uniform_density(angle: Angles | float, d: int) -> Angles:
    r"""The density of the angle between two uniformly random directions in d dimensions, at angles in radians.

    .. math:: f(\theta) = \frac{\Gamma(d/2)}{\sqrt\pi \, \Gamma((d-1)/2)} \sin^{d-2} \theta

    Example:
        >>> from unclump.geometry.uniform_law import uniform_density
        >>> round(float(uniform_density(math.pi / 2, 3)), 9)  # half the sine
        0.5
    """
    constant = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2)) / math.sqrt(math.pi)
    return np.asarray(constant * np.sin(angle) ** (d - 2))


@dataclass(frozen=True)
class UniformLaw:
    r"""The laws of n >= 2 independent uniform points in d >= 2 dimensions; angles in radians.

    **The nearest angle of a point**, the angle to its nearest neighbour, exceeds t with probability
    :math:`(1 - F(t))^{n-1}`, exactly: given the point, the angles to the others are independent. So the expected mean
    of all nearest angles is exact too, and their median tends to the median of this law.

    **The smallest angle of all pairs** exceeds t with probability :math:`(1 - n t / 2 \pi)^{n-1}` on the circle,
    exactly: the law of spacings. In more dimensions the N = n(n-1)/2 pairs are pairwise but not jointly independent,
    and :math:`(1 - F(t))^N` is a limit: exact for two points, and, by the Chen-Stein method, off by less than 2.8 / n
    at the median. The tests compare it with simulations: even for three points, the probability at the median is off
    by less than 0.04.

    **The mean of the points** has a length R with :math:`n d R^2 \to \chi^2_d`. **Their effective rank** is taken from
    the Marchenko-Pastur law, the limit for large n and d at any fixed ratio.

    References:
        Arratia, Goldstein and Gordon. Two moments suffice for Poisson approximations. Annals of Probability 1989.
        Cai, Fan and Jiang. Distributions of angles in random packing on spheres. JMLR 2013.
    """

    n: int
    d: int

    @property
    def smallest_is_exact(self) -> bool:
        """Whether the law of the smallest angle is exact, rather than a limit."""
        return self.n == 2 or self.d == 2

    def nearest_survival(self, angle: Angles | float) -> Angles:
        """The probability that a point's nearest angle exceeds `angle`."""
        return _power(cap_fraction(angle, self.d), self.n - 1)

    def nearest_density(self, angle: Angles | float) -> Angles:
        """The density of a point's nearest angle."""
        pair = uniform_density(angle, self.d)
        return np.asarray((self.n - 1) * pair * _power(cap_fraction(angle, self.d), self.n - 2))

    def smallest_survival(self, angle: float) -> float:
        """The probability that the smallest of all angles exceeds `angle`."""
        if self.d == 2:
            return max(0.0, 1 - self.n * angle / (2 * math.pi)) ** (self.n - 1)
        return float(_power(cap_fraction(angle, self.d), self.pairs))

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return math.comb(self.n, 2)

    @cached_property
    def median_smallest_angle(self) -> float:
        """The median of the smallest angle."""
        if self.d == 2:
            return -2 * math.pi / self.n * math.expm1(-math.log(2) / (self.n - 1))
        return float(cap_angle(-math.expm1(-math.log(2) / self.pairs), self.d))

    @cached_property
    def median_nearest_angle(self) -> float:
        """The median of a point's nearest angle."""
        return float(self._nearest_quantile(0.5))

    @cached_property
    def mean_nearest_angle(self) -> float:
        r"""The mean of a point's nearest angle, :math:`\int_0^\pi (1 - F(t))^{n-1} dt`."""
        return self._integral(np.ones_like)

    @cached_property
    def std_nearest_angle(self) -> float:
        """The standard deviation of a point's nearest angle."""
        mean = self.mean_nearest_angle
        return math.sqrt(max(0.0, mean**2 + self._integral(lambda t: 2 * (t - mean))))

    @cached_property
    def resultant_length(self) -> float:
        r"""The expected length of the mean, :math:`\sqrt{2 / nd} \; \Gamma(\frac{d+1}2) / \Gamma(\frac d2)`."""
        ratio = math.exp(math.lgamma((self.d + 1) / 2) - math.lgamma(self.d / 2))
        return math.sqrt(2 / (self.n * self.d)) * ratio

    @cached_property
    def mean_angle_to_mean(self) -> float:
        r"""The expected angle between a point and the mean of all: below 90 degrees, since the mean includes the point.

        The others sum to a vector of length s in a uniform direction, with :math:`s^2 d / (n - 1) \to \chi^2_d`. If t
        is its angle to the point, the sum of all is at :math:`\operatorname{atan2}(s \sin t, 1 + s \cos t)` to it.
        """
        share = (1 + _NODES) / 2
        length = np.sqrt(special.chdtri(self.d, share) * (self.n - 1) / self.d) if self.n > 2 else np.ones_like(share)
        t = cap_angle(share, self.d)[:, None]
        return float(_WEIGHTS @ np.arctan2(length * np.sin(t), 1 + length * np.cos(t)) @ _WEIGHTS) / 4

    @property
    def spherical_variance(self) -> float:
        """One minus `resultant_length`."""
        return 1 - self.resultant_length

    @cached_property
    def effective_rank(self) -> float:
        """The exponential of the entropy of the normalised singular values, by the Marchenko-Pastur law."""
        squares, weights = marchenko_pastur(self.n, self.d)
        return entropy_rank(min(self.n, self.d), np.sqrt(squares), weights)

    @property
    def centred_rank(self) -> float:
        """The effective rank after subtracting the mean, which leaves as much as n - 1 points have."""
        return UniformLaw(self.n - 1, self.d).effective_rank

    def _nearest_quantile(self, probability: float) -> Angles:
        return cap_angle(-math.expm1(math.log1p(-probability) / (self.n - 1)), self.d)

    def _integral(self, slope: Callable[[Angles], Angles]) -> float:
        """Return the expectation of f(nearest angle of a point), where f(0) = 0 and f' is `slope`."""
        ends = float(self._nearest_quantile(_NEGLIGIBLE)), float(cap_angle(_far_fraction(self.n), self.d))
        total = 0.0
        for start, stop, needs_survival in ((0.0, ends[0], False), (*ends, True)):
            angle = start + (stop - start) * (1 + _NODES) / 2
            weight = self.nearest_survival(angle) if needs_survival else 1.0
            total += (stop - start) / 2 * float(_WEIGHTS @ (slope(angle) * weight))
        return total


def duplicate_angle(n: int, d: int) -> float:
    r"""Return the default angle within which two of n rows in d dimensions count as duplicates.

    It is at most one degree: about as far as rounding to eight bits rotates a row, and less than the smallest angle
    between different rows of good tables (2.6 degrees in the four of `experiments/verdict.py`). If uniform points come
    that close, as many points in few dimensions do, it is a tenth of the median of their smallest angle, or less on the
    circle, so that fewer than one in a hundred uniform tables has a pair within this angle.

    Example:
        >>> from unclump import duplicate_angle
        >>> round(math.degrees(duplicate_angle(50_000, 100)), 2), round(math.degrees(duplicate_angle(50_000, 3)), 6)
        (1.0, 0.00027)
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    uniform = UniformLaw(n, d)
    return min(_ROUNDING_ANGLE, uniform.median_smallest_angle / 10, float(cap_angle(0.01 / uniform.pairs, d)))


def _far_fraction(n: int) -> float:
    """Return the fraction of the sphere around a point that contains its nearest neighbour almost surely."""
    return -math.expm1(math.log(_NEGLIGIBLE) / (n - 1))


def _power(fraction: Angles, exponent: int) -> Angles:
    """Return (1 - fraction)^exponent, accurate for tiny fractions, and 1 if the exponent is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(special.xlog1py(exponent, -fraction)))
