r"""The error of the estimated squared MMD: its variance, and a bound on its deviation."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_kernel, check_number
from unclump.kernels import Kernel
from unclump.measures.rows import PerSet, Points, directions_of_sets, map_sets, mean_over_pairs, sums_over_others


def mmd_variance(x: Points, kernel: Kernel) -> PerSet:
    r"""Estimate the variance of `mmd`, the estimated squared MMD, over samples of n points, from one sample.

    .. math::
        \operatorname{Var} = \frac{4 (n - 2)}{n (n - 1)} \zeta_1 + \frac{2}{n (n - 1)} \zeta_2, \quad
        \zeta_1 = E[k(x, y) k(x, z)] - E[k]^2, \quad \zeta_2 = E[k^2] - E[k]^2

    for independent points x, y, z of the sample's distribution. Each expectation is estimated by the mean over tuples
    of distinct points, so the result is unbiased, and may be negative if the variance is nearly zero. The appendix of
    "Keep your distance" prints E[k] for its square in the first term, which is then negative (erratum 12 in the
    documentation's page on theory).

    Args:
        x: Points, n >= 4; torch or NumPy. One table gives a float, separate sets a tensor of shape (...).
        kernel: Any kernel; unbounded Riesz kernels need distinct points.

    References:
        Serfling. Approximation Theorems of Mathematical Statistics, 5.2.1. Wiley 1980.

    Example:
        >>> from unclump.measures.mmd_error import mmd_variance
        >>> theta = torch.linspace(0, math.pi, 9)
        >>> half_circle = torch.stack([theta.cos(), theta.sin()], dim=1)
        >>> round(mmd_variance(half_circle, Gaussian(gamma=1.0)), 4)
        0.0134
    """
    check_kernel(kernel, Kernel)
    return map_sets(lambda table: _variance(table, kernel), directions_of_sets(x, at_least=4))


def _variance(x: Float[Tensor, "n d"], kernel: Kernel) -> float:
    n = len(x)
    center = mean_over_pairs(x, kernel)  # subtracting it keeps the variance and avoids cancellation
    if math.isinf(center):
        raise ValueError(f"expected distinct rows for {kernel}, got coinciding rows; drop the duplicates")
    sums, squares = sums_over_others(x, lambda r2: kernel(r2) - center, lambda r2: (kernel(r2) - center).square())
    one_pair = float(squares.sum())
    one_shared = float(sums.square().sum()) - one_pair
    disjoint = float(sums.sum()) ** 2 - 4 * one_shared - 2 * one_pair
    mean_square = one_pair / math.perm(n, 2)
    mean_shared = one_shared / math.perm(n, 3)
    squared_mean = disjoint / math.perm(n, 4)
    first, second = mean_shared - squared_mean, mean_square - squared_mean
    return (4 * (n - 2) * first + 2 * second) / (n * (n - 1))


def mmd_deviation(n: int, kernel: Kernel, probability: float) -> float:
    r"""Return the deviation by which the estimated squared MMD exceeds its mean with at most this probability.

    .. math::
        P\left( \operatorname{MMD}^2_u - \operatorname{MMD}^2 \ge t \right)
        \le \exp\left( -\frac{2 \lfloor n / 2 \rfloor t^2}{K^2} \right), \quad K = k(0) - k(4)

    solved for t: Hoeffding's inequality for U-statistics, whose kernel takes values in an interval of length K. It
    holds for independent points of any distribution. "Keep your distance" omits the 2 in the exponent, which is also
    valid, but looser.

    Args:
        n: The number of points, n >= 2.
        kernel: A bounded kernel: not Riesz with s >= 0, unless shifted.
        probability: Between 0 and 1.

    References:
        Hoeffding. Probability inequalities for sums of bounded random variables. JASA 1963, section 5a.

    Example:
        >>> from unclump.measures.mmd_error import mmd_deviation
        >>> round(mmd_deviation(1000, Laplace(gamma=1.0), 0.05), 4)
        0.0524
    """
    check_kernel(kernel, Kernel)
    check_count("n", n, at_least=2)
    check_number("probability", probability)
    if not 0 < probability < 1:
        raise ValueError(f"expected 0 < probability < 1, got {probability}")
    nearest, farthest = map(float, kernel(torch.tensor([0.0, 4.0], dtype=torch.float64)))
    if math.isinf(nearest):
        raise ValueError(f"expected a bounded kernel, got {kernel}; use Gaussian, Laplace, or Riesz with s < 0")
    return (nearest - farthest) * math.sqrt(-math.log(probability) / (2 * (n // 2)))
