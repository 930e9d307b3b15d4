r"""Tests of the hypothesis that a table is a sample of the uniform distribution on the sphere, in any dimension d >= 2.

The p-value is the probability that n independent uniform points have a statistic at least as large. A small p-value
indicates clumps; one near 1, that the points are spread more evenly than independent ones. The tests detect different
departures from uniformity:

=================  ============================================================================================
`rayleigh_test`    a common direction
`bingham_test`     a common axis or plane, with points at either end of it
`ajne_test`        every departure in odd moments, such as a crowded hemisphere
`gine_test`        every departure in even moments, such as antipodal clumps
`mmd_test`         every departure, with a positive definite kernel: Laplace, chordal Gaussian or Riesz with s > -2
=================  ============================================================================================

A test takes one table of shape (n, d), torch or NumPy. Rows are projected onto the sphere first, in double precision.
The last three tests stream over pairs: memory is O(n d), time O(n^2 d). All have the same options:

* ``simulations``: None for a p-value from the limit law of many points, which is accurate from about twenty points; or
  the number of random uniform tables to compare with, which is exact for any n: the p-value is (1 + the number of
  tables whose statistic is at least as large) / (1 + the number of tables);
* ``generator``: draws these tables.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from scipy import special
from torch import Tensor

from unclump._checks import check_count
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import angle_of
from unclump.kernel_means import kernel_mean
from unclump.kernels import Kernel, Riesz
from unclump.measures.null_laws import zonal_null
from unclump.measures.rows import Points, directions, mean_over_pairs


class UniformityTest(NamedTuple):
    """The result of a test of uniformity.

    Attributes:
        statistic: Larger for points that are farther from uniform, as the test measures it.
        pvalue: The probability that uniform points have a statistic at least as large.
    """

    statistic: float
    pvalue: float

    def __str__(self) -> str:
        return f"statistic {self.statistic:.5g}, p-value {self.pvalue:.3g}"


def rayleigh_test(
    x: Points, *, simulations: int | None = None, generator: torch.Generator | None = None
) -> UniformityTest:
    r"""Rayleigh's test, for a common direction.

    .. math::
        S = n d \, \lVert \bar x \rVert^2, \quad
        \left( 1 - \frac{1}{2n} \right) S + \frac{S^2}{2n (d + 2)} \to \chi^2_d

    The p-value is that of the corrected form of S, which is chi-squared up to O(1/n^2). The test is blind to points
    whose mean is zero, such as antipodal pairs.

    `simulations` and `generator` are those of `mmd_test`.

    References:
        Mardia and Jupp. Directional Statistics, 10.4.1. Wiley 2000.

    Example:
        >>> from unclump.measures.uniformity_tests import rayleigh_test
        >>> print(rayleigh_test(torch.eye(3)))
        statistic 3, p-value 0.423
        >>> print(rayleigh_test(torch.eye(3), simulations=999, generator=torch.Generator().manual_seed(0)))
        statistic 3, p-value 0.486
    """
    x = directions(x)
    n, d = x.shape
    return _run_test(
        x,
        lambda x: rayleigh_of_mean(x.mean(dim=0), n).statistic,
        lambda s: _rayleigh_pvalue(s, n, d),
        simulations,
        generator,
    )


def bingham_test(
    x: Points, *, simulations: int | None = None, generator: torch.Generator | None = None
) -> UniformityTest:
    r"""Bingham's test, for a common axis or plane.

    .. math::
        S = \frac{n d (d + 2)}{2} \left( \operatorname{tr} T^2 - \frac1d \right) \to \chi^2_{(d-1)(d+2)/2}, \quad
        T = \frac1n \sum_i x_i x_i^\top

    The test is blind to differences between x and -x. (Jupp's cubic correction of S improves p-values for few points,
    but decreases again for large S, and would accept a clump as uniform. For few points, simulate.)

    `simulations` and `generator` are those of `mmd_test`.

    References:
        Mardia and Jupp. Directional Statistics, 10.7.1. Wiley 2000.
        Jupp. Modifications of the Rayleigh and Bingham tests for uniformity of directions.
        Journal of Multivariate Analysis 2001.

    Example:
        >>> from unclump.measures.uniformity_tests import bingham_test
        >>> print(bingham_test(torch.tensor([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3)))  # one axis
        statistic 12, p-value 0.00248
    """
    x = directions(x)
    n, d = x.shape
    return _run_test(
        x,
        lambda x: bingham_of_gram(x @ x.mT if n < d else x.mT @ x, n, d).statistic,
        lambda s: _bingham_pvalue(s, d),
        simulations,
        generator,
    )


def rayleigh_of_mean(mean: Float[Tensor, " d"], n: int) -> UniformityTest:
    """Rayleigh's test of n points with this mean, by the limit law."""
    d = len(mean)
    s = n * d * mean.square().sum().item()
    return UniformityTest(s, _rayleigh_pvalue(s, n, d))


def bingham_of_gram(gram: Float[Tensor, "m m"], n: int, d: int) -> UniformityTest:
    """Bingham's test of n points in d dimensions with this Gram matrix or sum of outer products, by the limit law."""
    even = torch.eye(d, dtype=gram.dtype, device=gram.device) / d if len(gram) == d else 0
    excess = float((gram / n - even).square().sum()) - (0 if len(gram) == d else 1 / d)  # tr T^2 - 1/d = |T - I/d|^2
    s = n * d * (d + 2) / 2 * excess
    return UniformityTest(s, _bingham_pvalue(s, d))


def ajne_test(x: Points, *, simulations: int | None = None, generator: torch.Generator | None = None) -> UniformityTest:
    r"""Ajne's test, for hemispheres that contain too many of the points.

    .. math:: A = \frac n4 - \frac{1}{\pi n} \sum_{i < j} \theta_{ij}

    with the angles :math:`\theta_{ij}`: up to a factor, the mean square excess over all hemispheres. The test is blind
    to departures that are symmetric in x and -x.

    `simulations` and `generator` are those of `mmd_test`.

    References:
        Ajne. A simple test for uniformity of a circular distribution. Biometrika 1968.
        Prentice. On invariant tests of uniformity for directions and orientations. Annals of Statistics 1978.

    Example:
        >>> from unclump.measures.uniformity_tests import ajne_test
        >>> print(ajne_test(torch.tensor([[1.0, 0.0]] * 5)))  # n / 4
        statistic 1.25, p-value 0.00149
    """
    x = directions(x)
    n, d = x.shape

    return _run_test(
        x,
        lambda x: n / 4 - (n - 1) / (2 * math.pi) * mean_over_pairs(x, angle_of),
        lambda a: _limit_pvalue(_ajne_kernel, n, d, 2 * (a - 1 / 4) / (n - 1)),
        simulations,
        generator,
    )


def gine_test(x: Points, *, simulations: int | None = None, generator: torch.Generator | None = None) -> UniformityTest:
    r"""Giné's test, for any departure of axes from uniformity.

    .. math::
        G = \frac n2 - \frac{d - 1}{2n} \left( \frac{\Gamma(\frac{d-1}2)}{\Gamma(\frac d2)} \right)^2
        \sum_{i < j} \sin \theta_{ij}

    `bingham_test` detects second moments only, this test all even ones. It is blind to differences between x and -x.

    `simulations` and `generator` are those of `mmd_test`.

    References:
        Giné. Invariant tests for uniformity on compact Riemannian manifolds based on Sobolev norms.
        Annals of Statistics 1975.
        Prentice. On invariant tests of uniformity for directions and orientations. Annals of Statistics 1978.

    Example:
        >>> from unclump.measures.uniformity_tests import gine_test
        >>> print(gine_test(torch.tensor([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3)))  # n / 2
        statistic 3, p-value 0.000102
    """
    x = directions(x)
    n, d = x.shape
    factor = (d - 1) / 2 * math.exp(2 * (math.lgamma((d - 1) / 2) - math.lgamma(d / 2)))  # one over the mean sine

    return _run_test(
        x,
        lambda x: n / 2 - factor * (n - 1) / 2 * mean_over_pairs(x, _sine),
        lambda g: _limit_pvalue(_minus_sine, n, d, 2 * (g - 1 / 2) / (n - 1) / factor),
        simulations,
        generator,
    )


def mmd_test(
    x: Points,
    kernel: Kernel,
    *,
    simulations: int | None = None,
    generator: torch.Generator | None = None,
) -> UniformityTest:
    r"""The kernel test: maximum mean discrepancy to the uniform distribution.

    .. math:: n \operatorname{MMD}^2_u = \frac{1}{n - 1} \sum_{i \ne j} k(x_i, x_j) - n c

    with the kernel's mean c over the sphere (`kernel_mean`). The test rejects for large values only, as it should for a
    positive definite kernel. The statistic is infinite, with p = 0, if two rows coincide and the kernel is infinite
    there. The closer the mean square of a Riesz kernel is to infinite, the more points its limit law needs.

    Args:
        x: Points, n >= 2.
        kernel: Needs a finite mean and, unless simulated, a finite mean square: 2 s < d - 1 for Riesz kernels.
        simulations: The number of simulations, or None for the limit law, which is accurate from about twenty points.
        generator: Draws the simulated tables.

    References:
        Gretton et al. A kernel two-sample test. JMLR 2012.

    Example:
        >>> from unclump.measures.uniformity_tests import mmd_test
        >>> print(mmd_test(torch.eye(3), Gaussian(gamma=1.0)))
        statistic -0.5256, p-value 0.613
    """
    x = directions(x)
    n, d = x.shape
    mean = kernel_mean(kernel, d)
    if not math.isfinite(mean):
        raise ValueError(
            f"expected a kernel with a finite mean over the sphere in {d} dimensions, "
            f"got {kernel}, whose mean is {mean}; use a smaller parameter or another kernel"
        )
    if simulations is None and isinstance(kernel, Riesz) and kernel.distance != "shifted" and 2 * kernel.s >= d - 1:
        raise ValueError(
            f"expected a kernel with a finite mean square over the sphere in {d} dimensions, got {kernel}; "
            f"use s < {(d - 1) / 2}, or compare with uniform tables: simulations=999"
        )

    return _run_test(
        x,
        lambda x: n * (mean_over_pairs(x, kernel) - mean),
        lambda statistic: _limit_pvalue(kernel, n, d, statistic / n),
        simulations,
        generator,
    )


def _run_test(
    x: Tensor,
    statistic: Callable[[Tensor], float],
    pvalue: Callable[[float], float],
    simulations: int | None,
    generator: torch.Generator | None,
) -> UniformityTest:
    """Return the statistic of the points, and its p-value from the limit law or from simulations."""
    observed = statistic(x)
    if simulations is None:
        return UniformityTest(observed, pvalue(observed))
    check_count("simulations", simulations)
    at_least_as_large = 0
    for _ in range(simulations):
        table = uniform(*x.shape, generator=generator, dtype=x.dtype, device=x.device)
        at_least_as_large += statistic(table) >= observed
    return UniformityTest(observed, (1 + at_least_as_large) / (1 + simulations))


def _rayleigh_pvalue(s: float, n: int, d: int) -> float:
    return float(special.chdtrc(d, (1 - 1 / (2 * n)) * s + s**2 / (2 * n * (d + 2))))


def _bingham_pvalue(s: float, d: int) -> float:
    return float(special.chdtrc((d - 1) * (d + 2) / 2, s))


def _limit_pvalue(function: Callable[[Tensor], Tensor], n: int, d: int, mean: float) -> float:
    r"""Return the limit probability that the mean U over pairs of a centred function exceeds `mean`.

    The limit law is evaluated at :math:`\sqrt{n (n - 1)} \, U` rather than n U, which has its variance for every n.
    """
    return zonal_null(function, d).survival(math.sqrt(n * (n - 1)) * mean)


def _ajne_kernel(r2: Tensor) -> Tensor:
    return 0.5 - angle_of(r2) / math.pi


def _sine(r2: Tensor) -> Tensor:
    return (r2 * (4 - r2)).sqrt() / 2


def _minus_sine(r2: Tensor) -> Tensor:
    return -_sine(r2)
