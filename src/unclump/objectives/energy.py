r"""Objectives of the kernel energy: every point is pushed away from all others."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_kernel
from unclump._precision import exact_products, narrow
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import tangent
from unclump.kernel_means import kernel_mean
from unclump.kernels import FramePotential, Gaussian, Kernel, Riesz, kernel_by_name, name_of
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.ops.dispatch import register
from unclump.ops.kernel_sum import fused_mean_over_pairs, kernel_sum

THOMSON, RBF = Riesz(s=1.0), Gaussian(gamma=1.0)


def energy(x: Float[Tensor, "*sets n d"], kernel: Kernel) -> Float[Tensor, "*sets"]:
    r"""Mean of the kernel over all ordered pairs of different points.

    .. math:: \mathcal{L}_{MHE}(x) = \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j)

    With `Riesz` this is the minimum hyperspherical energy of [1].

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        kernel: `Gaussian`, `Laplace` or `Riesz`.

    References:
        [1] Liu et al. Learning towards Minimum Hyperspherical Energy. NeurIPS 2018.

    Example:
        >>> energy(torch.eye(3), Riesz(s=1.0))  # three points, sqrt(2) apart
        tensor(0.7071)
    """
    result: Tensor = Energy(kernel)(x)
    return result


def mmd(x: Float[Tensor, "*sets n d"], kernel: Kernel) -> Float[Tensor, "*sets"]:
    r"""Unbiased estimate of the squared maximum mean discrepancy between the points and the uniform distribution.

    .. math:: \operatorname{MMD}^2 = \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j) - c, \quad c = \mathbb{E}[k(U, U')]

    It is `energy` minus `kernel_mean`, and may be negative: dispersed points are more even than random ones.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        kernel: One with a finite mean over the sphere: any but `Riesz` with s >= d - 1.

    References:
        Gretton et al. A Kernel Two-Sample Test. JMLR 2012.

    Example:
        >>> mmd(torch.eye(3), Gaussian())  # 1 - sinh(1)
        tensor(-0.1752)
    """
    result: Tensor = MMD(kernel)(x)
    return result


def _fake_minus_mean(values: Tensor, kernel: str, d: int) -> Tensor:
    return torch.empty_like(values)


@register("minus_kernel_mean(Tensor values, str kernel, SymInt d) -> Tensor", _fake_minus_mean)
def _minus_mean(values: Tensor, kernel: str, d: int) -> Tensor:
    """Values less the mean of the kernel on the sphere; an operator, since compilers cannot trace its quadrature."""
    mean = kernel_mean(kernel_by_name(kernel), d)
    if math.isinf(mean):
        raise ValueError(
            f"expected a kernel with a finite mean on the sphere in {d} dimensions, got {kernel}; "
            + (f"use s < {d - 1}" if isinstance(kernel_by_name(kernel), Riesz) else "use a smaller gamma")
            + ", or Energy, which needs no mean"
        )
    if not kernel_by_name(kernel).may_overflow:
        return values - mean
    limits = torch.finfo(values.dtype)
    return (values - min(mean, limits.max)).clamp_(limits.min, limits.max)


def check_finite_self(kernel: Kernel) -> None:
    """Refuse kernels that are not positive and finite at coinciding points."""
    check_kernel(kernel, Kernel)
    if math.isnan(kernel.log_self):
        raise ValueError(
            f"expected a kernel that is positive and finite at coinciding points, got {kernel}; "
            "use Gaussian or Laplace, or Energy, which leaves each point's pair with itself out"
        )


def sums_among(
    x: Tensor, kernel: Kernel, others: Others, left: Tensor | None, needs_grad: bool
) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
    r"""For every point, sum the kernel over all other points, on any rank, and the fixed points, by their weights.

    The gradient is that of the sum of these sums over all ranks, weighted by `left`, or by the points' own weights if
    it is None. Every rank computes the pairs of its own points. A pair of points on two ranks has a term on each, so
    its gradient counts twice.
    """
    if type(kernel) is FramePotential and others.ranks.total + others.fixed > 2 * x.shape[-1]:
        return _sums_of_squared_cosines(x, others, left, needs_grad)
    is_mask = others.is_binary and others.ranks.size == 1
    right = others.mask_with_fixed if is_mask else others.weight_with_fixed
    table, itself = (None, None) if others.against is None else (others.table, others.fixed)
    sums, gradient = kernel_sum(x, kernel, table, itself=itself, right=right, left=left, needs_grad=needs_grad)
    own = others.weight if others.ranks.size > 1 else None  # converting a mask takes time, and alone the ring is empty
    for rank, (y, weight) in others.ranks.ring(x, own):
        itself = others.ranks.before - sum(others.ranks.counts[:rank])
        part, by_points = kernel_sum(x, kernel, y, itself=itself, right=weight, left=own, needs_grad=needs_grad)
        sums += part
        if gradient is not None and by_points is not None:
            gradient += 2 * by_points
    return sums, None if gradient is None else Pull(tangent(x, gradient), others.scale)


def _sums_of_squared_cosines(
    x: Tensor, others: Others, left: Tensor | None, needs_grad: bool
) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
    r"""The same for the squared cosine, by second moments: O(n d^2) for more points than dimensions.

    .. math:: \sum_{j \ne i} w_j \langle x_i, x_j \rangle^2 = x_i^\top M_w x_i - w_i, \qquad
        M_w = \sum_j w_j x_j x_j^\top

    and :math:`2 (u_i M_w + w_i M_u) x_i` is the gradient of the sum with weights u, up to its normal part. For
    fewer than 2d points, the difference would lose digits. Unlike the sums over pairs, this does not separate
    coinciding rows: a tight frame may contain a point twice.
    """
    with exact_products(x.device):
        own = x if others.weight is None else x * others.weight.unsqueeze(-1)
        moments = around = others.ranks.sum(own.mT @ x)
        if others.against is not None:
            fixed = others.against
            weighted = fixed if others.against_weight is None else fixed * others.against_weight.unsqueeze(-1)
            around = moments + weighted.mT @ fixed
        pulled = x @ around
        sums = (pulled * x).sum(dim=-1) - (1 if others.weight is None else others.weight)
        if not needs_grad:
            return sums, None
        if left is None:
            gradient = 2 * (pulled + x @ moments)
            gradient = gradient if others.weight is None else gradient * others.weight.unsqueeze(-1)
        else:
            back = x @ others.ranks.sum((x * left.unsqueeze(-1)).mT @ x)
            back = back if others.weight is None else back * others.weight.unsqueeze(-1)
            gradient = 2 * (pulled * left.unsqueeze(-1) + back)
    return sums, Pull(tangent(x, gradient), others.scale)


def total_among(sums: Float[Tensor, "*sets n"], others: Others) -> Float[Tensor, "*sets"]:
    """Add up the sums of all points, on all ranks, by their weights."""
    return others.ranks.sum((sums if others.factors is None else sums * others.factors).sum(dim=-1))


def pairs_among(others: Others) -> Float[Tensor, "*sets"] | float:
    """The total weight of all pairs of a point with another point or a fixed one."""
    if others.is_binary:
        return others.mass * (others.mass_with_fixed - 1)
    return others.mass * others.mass_with_fixed - others.power_sum(2)


class Energy(Objective):
    """`energy` of raw embeddings.

    The kernel and the formula are those of `energy`. See `Objective.forward` for queues, masks and reductions.
    """

    choices = ("kernel",)
    supports_weights = True
    vanishes = True

    def __init__(self, kernel: Kernel = THOMSON, *, gather: Gather = False) -> None:
        super().__init__(gather=gather)
        check_kernel(kernel, Kernel)
        self.kernel = kernel

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        fused = fused_mean_over_pairs(embeddings, self.kernel, needs_grad=needs_grad)
        return None if fused is None else (fused[0], None if fused[1] is None else Pull(fused[1]))

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        sums, pull = sums_among(x, self.kernel, others, None, needs_grad)
        pairs = pairs_among(others)
        value = total_among(sums, others) / pairs
        value = narrow(value, sums.dtype) if self.kernel.may_overflow else value
        return value, None if pull is None else pull.over(pairs)

    def terms(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, left: Float[Tensor, "*sets n"] | None
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        pairs = pairs_among(others)
        scale = others.mass / pairs
        if isinstance(pairs, Tensor) and isinstance(scale, Tensor):  # zero where there is no pair
            scale = torch.where((pairs > 0) & (pairs < math.inf), scale, 0).unsqueeze(-1)
        weights = None if left is None else left * scale
        sums, pull = sums_among(x, self.kernel, others, weights, left is not None)
        return sums * scale, pull


class MMD(Energy):
    """`mmd` of raw embeddings.

    The kernel and the formula are those of `mmd`. See `Objective.forward` for queues, masks and reductions.
    """

    def __init__(self, kernel: Kernel = RBF, *, gather: Gather = False) -> None:
        super().__init__(kernel, gather=gather)

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        fused = super().fused(embeddings, draw, needs_grad)
        return None if fused is None else (self._minus_mean(fused[0], embeddings), fused[1])

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        value, pull = super().loss(x, others, draw, needs_grad)
        value = self._minus_mean(value, x)
        return value if others.too_few is None else value.masked_fill_(others.too_few, 0), pull

    def terms(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, left: Float[Tensor, "*sets n"] | None
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        terms, pull = super().terms(x, others, draw, left)
        return self._minus_mean(terms, x), pull

    def _minus_mean(self, values: Float[Tensor, "*shape"], x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*shape"]:
        result: Tensor = _minus_mean(values, name_of(self.kernel), x.shape[-1])
        return result
