r"""Objectives of the kernel energy: every point is pushed away from all others."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_kernel, check_points
from unclump.kernels import Gaussian, Kernel, Relative, Riesz, kernel_mean
from unclump.objectives._base import Objective
from unclump.pairs import kernel_sum, narrow, widen
from unclump.sphere import full_precision

THOMSON, RBF = Riesz(s=1.0), Gaussian(gamma=1.0)


def energy(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, ""]:
    r"""Mean of the kernel over all ordered pairs of different points.

    .. math:: \mathcal{L}_{MHE}(x) = \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j)

    With `Riesz` this is the minimum hyperspherical energy of [1].

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        kernel: `Gaussian`, `Laplace` or `Riesz`.

    References:
        [1] Liu et al. Learning towards Minimum Hyperspherical Energy. NeurIPS 2018.

    Example:
        >>> energy(torch.eye(3), Riesz(s=1.0))  # three points, sqrt(2) apart
        tensor(0.7071)
    """
    check_points(x, at_least=2)
    check_kernel(kernel, Kernel)
    n = len(x)
    return kernel_sum(full_precision(x), kernel) / (n * (n - 1))


def uniformity(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, ""]:
    r"""Logarithm of the mean of the kernel over all pairs, each point with itself among them.

    .. math:: \mathcal{L}_{WI}(x) = \log \frac{1}{n^2} \sum_{i=1}^n \sum_{j=1}^n k(x_i, x_j)

    The uniformity loss of [1]. With :math:`t = \sum_i k(x_i, x_i)` it is tied to `energy` by
    :math:`\exp \mathcal{L}_{WI} = \frac{n-1}{n} \mathcal{L}_{MHE} + t / n^2`.

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        kernel: One that is positive and finite at coinciding points: `Gaussian`, `Laplace`, or a shifted `Riesz`.

    References:
        [1] Wang and Isola. Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere. ICML 2020.

    Example:
        >>> uniformity(torch.eye(3), Gaussian())  # log((3 e + 6) / 9)
        tensor(0.4528)
    """
    check_points(x, at_least=2)
    check_finite_self(kernel)
    n = len(x)
    relative_sum = kernel_sum(full_precision(x), Relative(kernel))  # of k(x, y) / k(x, x): no sum overflows
    return kernel.log_self + torch.log((n + relative_sum) / n**2)


def mmd(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, ""]:
    r"""Unbiased estimate of the squared maximum mean discrepancy between the points and the uniform distribution.

    .. math:: \operatorname{MMD}^2 = \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j) - c, \quad c = \mathbb{E}[k(U, U')]

    It is `energy` minus `kernel_mean`, and may be negative: dispersed points are more even than random ones.

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        kernel: One with a finite mean over the sphere: any but `Riesz` with s >= d - 1.

    References:
        Gretton et al. A Kernel Two-Sample Test. JMLR 2012.

    Example:
        >>> mmd(torch.eye(3), Gaussian())  # 1 - sinh(1)
        tensor(-0.1752)
    """
    check_points(x, at_least=2)
    check_kernel(kernel, Kernel)
    mean = kernel_mean(kernel, x.shape[1])
    if math.isinf(mean):
        raise ValueError(
            f"expected a kernel with a finite mean on the sphere in {x.shape[1]} dimensions, got {kernel}; "
            + (f"use s < {x.shape[1] - 1}" if isinstance(kernel, Riesz) else "use a smaller gamma")
            + ", or Energy, which needs no mean"
        )
    return narrow(widen(energy(x, kernel)) - mean, full_precision(x).dtype)


def check_finite_self(kernel: Kernel) -> None:
    """Refuse kernels that are not positive and finite at coinciding points."""
    check_kernel(kernel, Kernel)
    if math.isnan(kernel.log_self):
        raise ValueError(
            f"expected a kernel that is positive and finite at coinciding points, got {kernel}; "
            "use Gaussian or Laplace, or Energy, which leaves each point's pair with itself out"
        )


class Energy(Objective):
    """`energy` of raw embeddings."""

    choices = ("kernel",)

    def __init__(self, kernel: Kernel = THOMSON) -> None:
        super().__init__()
        check_kernel(kernel, Kernel)
        self.kernel = kernel

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return energy(x, self.kernel)


class Uniformity(Objective):
    """`uniformity` of raw embeddings."""

    choices = ("kernel",)

    def __init__(self, kernel: Kernel = RBF) -> None:
        super().__init__()
        check_finite_self(kernel)
        self.kernel = kernel

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return uniformity(x, self.kernel)


class MMD(Objective):
    """`mmd` of raw embeddings."""

    choices = ("kernel",)

    def __init__(self, kernel: Kernel = RBF) -> None:
        super().__init__()
        check_kernel(kernel, Kernel)
        self.kernel = kernel

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return mmd(x, self.kernel)
