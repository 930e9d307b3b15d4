r"""The alignment and uniformity losses of contrastive learning."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_number, check_points, check_positive
from unclump._precision import widen
from unclump.distributed.ranks import Gather
from unclump.kernels import Gaussian, Kernel, Relative
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.objectives.energy import check_finite_self, pairs_among, sums_among, total_among
from unclump.ops.kernel_sum import fused_mean_over_pairs
from unclump.ops.project import project


def uniformity(
    x: Float[Tensor, "*sets n d"], t: float = 2.0, *, kernel: Kernel | None = None, diagonal: bool = False
) -> Float[Tensor, "*sets"]:
    r"""The uniformity loss of [1]: the logarithm of the mean Gaussian of the distance over all pairs.

    .. math:: \mathcal{L}_{uniform}(x) = \log \frac{2}{n(n-1)} \sum_{i < j} e^{-t \lVert x_i - x_j \rVert^2}

    It is finite even if the sum underflows. "Keep your distance" has another kernel, and includes the pair of each
    point with itself in the mean: with ``diagonal=True`` it is

    .. math:: \mathcal{L}_{WI}(x) = \log \frac{1}{n^2} \sum_{i=1}^n \sum_{j=1}^n k(x_i, x_j),

    with :math:`e^{\mathcal{L}_{WI}} = \frac{n-1}{n} \mathcal{L}_{MHE} + \frac1{n^2} \sum_i k(x_i, x_i)`, where
    :math:`\mathcal{L}_{MHE}` is `energy`.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        t: The sharpness of the Gaussian.
        kernel: Another kernel instead, positive and finite at coinciding points: `Gaussian`, `Laplace`, or a shifted
            `Riesz`; then `t` is ignored. ``Gaussian(gamma=1.0)`` is the paper's.
        diagonal: Whether the pair of each point with itself counts.

    References:
        [1] Wang and Isola. Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere. ICML 2020.

    Example:
        >>> uniformity(torch.eye(3))  # squared chords of two, times minus two
        tensor(-4.0000)
        >>> uniformity(torch.eye(3), kernel=Gaussian(gamma=1.0), diagonal=True)  # log((3 e + 6) / 9)
        tensor(0.4528)
    """
    result: Tensor = Uniformity(t, kernel=kernel, diagonal=diagonal)(x)
    return result


def alignment(x: Float[Tensor, "*sets n d"], y: Float[Tensor, "*sets n d"], alpha: float = 2.0) -> Float[Tensor, ""]:
    r"""The alignment loss of contrastive learning: the mean power of the distance between two views of an input.

    .. math:: \mathcal{L}_{align}(x, y) = \frac1n \sum_{i=1}^n \lVert x_i - y_i \rVert^\alpha

    Args:
        x: One view of every input; only the rows' directions count.
        y: The other view, in the same order.
        alpha: The power, at least one.

    References:
        Wang and Isola. Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere. ICML 2020.

    Example:
        >>> alignment(torch.eye(2), torch.eye(2).flip(0))  # all pairs are orthogonal
        tensor(2.0000)
    """
    check_points(x)
    check_points(y)
    if x.shape != y.shape:
        raise ValueError(f"expected a row of y for every row of x, got shapes {tuple(x.shape)} and {tuple(y.shape)}")
    check_number("alpha", alpha)
    if alpha < 1:
        raise ValueError(f"expected alpha >= 1, got {alpha}; the gradient would be infinite where rows coincide")
    distance: Tensor = vector_norm(project(x) - project(y), dim=-1)
    return distance.pow(alpha).mean()


class Uniformity(Objective):
    """`uniformity` of raw embeddings.

    Args:
        t: The sharpness of the Gaussian.
        kernel: Another kernel; then `t` is ignored. The paper's is ``Gaussian(gamma=1.0)``, with the diagonal.
        diagonal: Whether the pair of each point with itself counts.
    """

    supports_weights = True
    vanishes = True

    def __init__(
        self, t: float = 2.0, *, kernel: Kernel | None = None, diagonal: bool = False, gather: Gather = False
    ) -> None:
        super().__init__(gather=gather)
        if kernel is None:
            check_positive("t", t)
        else:
            check_finite_self(kernel)
        self.choices = ("t" if kernel is None else "kernel", "diagonal")
        self.t, self.kernel, self.diagonal = t, kernel, diagonal
        self.relative = Relative(Gaussian(2 * t) if kernel is None else kernel)  # k(x, y) / k(x, x): no sum overflows
        self.log_self = 0.0 if kernel is None else kernel.log_self
        self.least = float(self.relative(torch.tensor(4.0, dtype=torch.float64)))
        if not diagonal and self.least < torch.finfo(torch.float64).tiny:
            raise ValueError(
                f"expected a kernel that does not underflow to zero at antipodes, got "
                f"{f't={t:g}' if kernel is None else kernel}; use t <= 175, or MaxMin, which is the limit of large t"
            )

    def normalise(self, x: Float[Tensor, "*sets n d"]) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets n 1"]]:
        return super().normalise(self._widen_if_sharp(x))

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        x = self._widen_if_sharp(embeddings)
        if (fused := fused_mean_over_pairs(x, self.relative, needs_grad=needs_grad)) is None:
            return None
        mean, gradient = fused
        n, pairs = x.shape[-2], float(x.shape[-2] * (x.shape[-2] - 1))
        pull = None if gradient is None else Pull(gradient).times(torch.full_like(mean, pairs))
        return self._log_mean(mean * pairs, pairs, float(n), pull)

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        sums, pull = sums_among(x, self.relative, others, None, needs_grad)
        total, too_few = total_among(sums, others), others.too_few
        if too_few is None:
            return self._log_mean(total, pairs_among(others), others.power_sum(2), pull)
        value, pull = self._log_mean(
            total.masked_fill_(too_few, torch.inf), pairs_among(others), others.power_sum(2), pull
        )
        return value.masked_fill_(too_few, 0), pull

    def _log_mean(
        self, total: Float[Tensor, "*sets"], pairs: Tensor | float, itself: Tensor | float, pull: Pull | None
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        """The logarithm of the mean over pairs, from the sum over pairs; and its gradient, from that of the sum.

        With the diagonal, the pairs of each point with itself count, for which the kernel is one.
        """
        if self.diagonal:
            total, pairs = total + itself, pairs + itself
        return torch.log(total / pairs) + self.log_self, None if pull is None else pull.over(total)

    def _widen_if_sharp(self, x: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets n d"]:
        """Convert to double precision if a sharp kernel may underflow in single precision for all pairs at once.

        If the pair of each point with itself counts, the sum cannot vanish.
        """
        return widen(x) if x.dtype == torch.float32 and not self.diagonal and self.least < 1e-30 else x
