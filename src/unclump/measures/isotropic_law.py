r"""Expected values of the measures of raw rows for independent isotropic Gaussian rows, as a baseline."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from unclump._checks import check_count, check_sharpness
from unclump.geometry.random_spectra import entropy_rank, marchenko_pastur, quantiles, wachter
from unclump.geometry.uniform_law import UniformLaw
from unclump.kernel_means import kernel_mean
from unclump.kernels import Gaussian
from unclump.measures.spectrum import fit_range, power_law


@dataclass(frozen=True)
class IsotropicLaw:
    r"""Measures of n >= 2 independent isotropic Gaussian rows in d >= 2 dimensions; projected, they are uniform.

    Spectra follow the law of Marchenko and Pastur, or of Wachter for two covariances: the limits for large n and d at a
    fixed ratio. `mean_cosine` and `alignment` are exact means, and `uniformity` is the logarithm of an exact mean; for
    `isoscore` the mean reciprocal of the participation ratio is exact. The tests compare all of them with simulations.

    A representation near these values is not necessarily good, since noise attains them too. One far below them has
    collapsed.

    Example:
        >>> law = IsotropicLaw(1000, 128)
        >>> round(law.rankme, 1), round(law.isoscore, 3), round(law.alpha_req(), 2), law.mean_cosine
        (125.9, 0.885, 0.27, 0.0)
    """

    n: int
    d: int

    def __post_init__(self) -> None:
        check_count("n", self.n, at_least=2)
        check_count("d", self.d, at_least=2)

    @cached_property
    def rankme(self) -> float:
        """`rankme`, and `effective_rank` of the projected rows."""
        return UniformLaw(self.n, self.d).effective_rank

    @property
    def isoscore(self) -> float:
        r"""`isoscore`: the participation ratio is :math:`(d m + 2) / (d + m + 1)`, with m = n - 1.

        For a Wishart matrix :math:`E (\operatorname{tr} W)^2 = d m (d m + 2)` and
        :math:`E \operatorname{tr} W^2 = d m (d + m + 1)`. The ratio :math:`\operatorname{tr} W^2 / (\operatorname{tr}
        W)^2` is independent of the trace, so its mean is the ratio of these means.
        """
        m = self.n - 1
        return ((self.d * m + 2) / (self.d + m + 1) - 1) / (self.d - 1)

    def alpha_req(self, ranks: tuple[int, int] | None = None) -> float:
        """`alpha_req`, fitted to the quantiles of the law: not zero, since n rows have an uneven spectrum."""
        first, last = fit_range(self.d) if ranks is None else ranks
        count = min(self.n - 1, self.d)
        rank = np.arange(first, min(last, count) + 1)
        spectrum = quantiles(1 - (rank - 0.5) / count, marchenko_pastur(self.n - 1, self.d))
        return power_law(torch.from_numpy(spectrum), first)

    def lidar(self, groups: int) -> float:
        """`lidar` of the rows in `groups` groups of equal size, as if they were unrelated views.

        It assumes that the variance of the rows is far above `delta`, and requires n - groups > d; otherwise the
        covariance within groups is singular.
        """
        check_count("groups", groups, at_least=2)
        if self.n % groups or self.n - groups <= self.d:
            raise ValueError(
                f"expected groups of equal size of the {self.n} rows, and n - groups > d = {self.d}, "
                f"got {groups} groups; use more views of each sample, or fewer groups"
            )
        spectrum = wachter(groups - 1, self.n - groups, self.d)
        return entropy_rank(min(groups - 1, self.d), *spectrum)

    @property
    def mean_cosine(self) -> float:
        """The expected `mean_cosine`."""
        return 0.0

    @property
    def alignment(self) -> float:
        """The mean squared distance between two uniform points."""
        return 2.0

    def uniformity(self, t: float = 2.0) -> float:
        """The value that `unclump.measures.pairs.uniformity` tends to."""
        check_sharpness(t)
        return math.log(kernel_mean(Gaussian(2 * t), self.d)) - 2 * t
