r"""Objectives of the kernel energy: every point is pushed away from all others."""

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_kernel, check_points
from unclump.distributed.ranks import Gather, with_gradient
from unclump.geometry.sphere import full_precision
from unclump.kernels import Gaussian, Kernel, Relative, Riesz, kernel_mean
from unclump.objectives._base import Objective, Others
from unclump.ops.between import kernel_sum_between, kernel_sums
from unclump.ops.kernel_sums import kernel_sum, mean_over_pairs
from unclump.ops.one_pass import Fused, Plain
from unclump.ops.pairs import narrow, widen

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
    return _less_mean(energy(x, kernel), kernel, x.shape[1])


def _less_mean(values: Tensor, kernel: Kernel, d: int) -> Tensor:
    mean = kernel_mean(kernel, d)
    if math.isinf(mean):
        raise ValueError(
            f"expected a kernel with a finite mean on the sphere in {d} dimensions, got {kernel}; "
            + (f"use s < {d - 1}" if isinstance(kernel, Riesz) else "use a smaller gamma")
            + ", or Energy, which needs no mean"
        )
    return narrow(widen(values) - mean, values.dtype)


def check_finite_self(kernel: Kernel) -> None:
    """Refuse kernels that are not positive and finite at coinciding points."""
    check_kernel(kernel, Kernel)
    if math.isnan(kernel.log_self):
        raise ValueError(
            f"expected a kernel that is positive and finite at coinciding points, got {kernel}; "
            "use Gaussian or Laplace, or Energy, which leaves each point's pair with itself out"
        )


def _sum_among(x: Tensor, kernel: Kernel, others: Others) -> Tensor:
    r"""The weighted sum of the kernel over pairs of a point, on any rank, and another or a fixed one.

    Every rank computes the pairs of its own points. The term of a point here with one elsewhere comes once on both
    ranks, and its gradient here is therefore that of two terms.
    """
    at = x.detach().requires_grad_(x.requires_grad)
    with torch.set_grad_enabled(at.requires_grad):
        total = kernel_sum(at, kernel, weight=others.weight)
        if others.against is not None:
            total = total + kernel_sum_between(at, others.against, kernel, weight=others.weight)
    gradient = _gradient(total, at)
    total = total.detach()
    for origin, (y, weight) in others.ranks.ring(at, others.weight):
        with torch.set_grad_enabled(at.requires_grad):
            part = kernel_sum_between(
                at, y, kernel, weight=others.weight, y_weight=weight, y_first=origin < others.ranks.rank
            )
        gradient += 2 * _gradient(part, at)
        total += part.detach()
    return with_gradient(x, others.ranks.sum(total), gradient)


def _gradient(total: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(total, x)[0] if x.requires_grad else torch.zeros_like(x)


def _pairs_among(x: Tensor, others: Others) -> Tensor:
    """The sum of the weights of these pairs."""
    mass = others.mass(x)
    squares = mass if others.weight is None else others.ranks.sum(others.weight.square().sum())
    return mass * mass - squares + others.fixed * mass


class Energy(Objective):
    """`energy` of raw embeddings."""

    choices = ("kernel",)
    of_weights = True

    def __init__(self, kernel: Kernel = THOMSON, *, gather: Gather = False) -> None:
        super().__init__(gather=gather)
        check_kernel(kernel, Kernel)
        self.kernel = kernel

    def one_pass(self, embeddings: Float[Tensor, "n d"]) -> tuple[Fused, Plain]:
        check_points(embeddings, at_least=2)
        return partial(mean_over_pairs, kernel=self.kernel), self.value

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return energy(x, self.kernel)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        return _sum_among(x, self.kernel, others) / _pairs_among(x, others)

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        sums = kernel_sums(x, self.kernel, weight=others.weight, against=others.against)
        return sums * (others.mass(x) / _pairs_among(x, others))


class Uniformity(Objective):
    """`uniformity` of raw embeddings."""

    choices = ("kernel",)
    of_weights = True

    def __init__(self, kernel: Kernel = RBF, *, gather: Gather = False) -> None:
        super().__init__(gather=gather)
        check_finite_self(kernel)
        self.kernel = kernel

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return uniformity(x, self.kernel)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        mass = others.mass(x)
        with_itself = mass if others.weight is None else others.ranks.sum(others.weight.square().sum())
        relative_sum = _sum_among(x, Relative(self.kernel), others)
        return self.kernel.log_self + torch.log((with_itself + relative_sum) / (mass * mass + others.fixed * mass))


class MMD(Energy):
    """`mmd` of raw embeddings."""

    def __init__(self, kernel: Kernel = RBF, *, gather: Gather = False) -> None:
        super().__init__(kernel, gather=gather)

    def one_pass(self, embeddings: Float[Tensor, "n d"]) -> tuple[Fused, Plain]:
        energy_of, plain = super().one_pass(embeddings)

        def fused(embeddings: Tensor, *, wanted: bool) -> tuple[Tensor, Tensor | None]:
            value, gradient = energy_of(embeddings, wanted=wanted)
            return _less_mean(value, self.kernel, embeddings.shape[1]), gradient

        return fused, plain

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return mmd(x, self.kernel)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        return _less_mean(super().value_among(x, others), self.kernel, x.shape[1])

    def terms_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, " n"]:
        return _less_mean(super().terms_among(x, others), self.kernel, x.shape[1])
