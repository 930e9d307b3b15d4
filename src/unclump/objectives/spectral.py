r"""The determinant of the kernel matrix as an objective: the volume that the points span in feature space."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._precision import apart, narrow, push_aside, widen
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import tangent, unit
from unclump.kernels import Gaussian, Kernel, Relative
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.objectives.energy import RBF, check_finite_self


def log_det(x: Float[Tensor, "*sets n d"], kernel: Kernel) -> Float[Tensor, "*sets"]:
    r"""Minus the logarithm of the determinant of the kernel matrix, divided by the number of points.

    .. math:: \mathcal{L}_{LogDet}(x) = -\frac1n \log \det K, \quad K_{ij} = k(x_i, x_j)

    The maximum Gram determinant of [1]. Takes O(n^3) time and O(n^2) memory, in double precision. Adding n eps k(x, x)
    to the diagonal keeps the result finite for a numerically singular matrix, as of many points in few dimensions.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        kernel: A kernel that is positive and finite at coinciding points: `Gaussian`, `Laplace`, or a shifted `Riesz`.

    References:
        [1] Liu et al. Learning with Hyperspherical Uniformity. AISTATS 2021.

    Example:
        >>> log_det(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), Laplace())  # -log(1 - exp(-2 pi)) / 2
        tensor(0.0009)
    """
    result: Tensor = LogDet(kernel)(x)
    return result


def _check_definite(kernel: Kernel) -> None:
    check_finite_self(kernel)
    if isinstance(kernel, Gaussian) and kernel.distance == "geodesic":
        raise ValueError(
            f"expected a positive definite kernel, got {kernel}: its determinant may be negative; "
            'use Laplace(), or Gaussian(distance="chordal")'
        )


class LogDet(Objective):
    """`log_det` of raw embeddings.

    The kernel and the formula are those of `log_det`. See `Objective.forward` for queues, masks and reductions.
    """

    choices = ("kernel",)

    def __init__(self, kernel: Kernel = RBF, *, gather: Gather = False) -> None:
        super().__init__(gather=gather)
        _check_definite(kernel)
        self.kernel, self.relative = kernel, Relative(kernel)

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: None, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        table = others.ranks.rows(x)
        table = table if others.against is None else torch.cat([others.against, table], dim=-2)
        weight = None if others.weight is None else others.after_fixed(others.ranks.columns(others.weight))
        mask = None if weight is None else weight > 0
        value, gradient = _log_det(table, self.relative, mask)
        count = value.new_full((), table.shape[-2]) if mask is None else mask.sum(dim=-1)
        first = others.fixed + others.ranks.before
        own = gradient[..., first : first + x.shape[-2], :]
        value = narrow(value / count - self.kernel.log_self, x.dtype)
        own = narrow(own / count[..., None, None], x.dtype)
        return value, Pull(tangent(x, own), others.scale)


def _log_det(
    x: Float[Tensor, "*sets n d"], kernel: Kernel, mask: Tensor | None
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"]]:
    r"""Minus the logarithm of the determinant of the kernel matrix in double precision, and its gradient.

    .. math:: \nabla_{x_i} = -4 \sum_j (K^{-1})_{ij} \, k'(r_{ij}^2) (x_i - x_j)

    Masked points are excluded: their rows and columns are those of the identity.
    """
    wide, n = unit(widen(x)), x.shape[-2]
    r2 = torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist").square().clamp_max(4)
    itself = torch.eye(n, dtype=torch.bool, device=x.device)
    is_coinciding = (r2 <= torch.finfo(x.dtype).eps ** 2) & ~itself
    r2 = torch.where(is_coinciding, apart(x.dtype) ** 2, r2)
    matrix = kernel(torch.where(itself, 0, r2))
    slopes = kernel.derivative(torch.where(itself, 2, r2)).masked_fill(itself, 0)
    if mask is not None:
        both = mask.unsqueeze(-1) & mask.unsqueeze(-2)
        matrix = torch.where(both, matrix, itself.to(matrix.dtype))
        slopes = slopes * both
    # Regularise the diagonal, so that a numerically singular matrix has a finite log determinant.
    matrix = matrix + n * torch.finfo(matrix.dtype).eps * itself
    weights = -2 * torch.linalg.inv_ex(matrix).inverse * slopes  # `inv` would synchronise to check for errors
    pull, push = torch.where(is_coinciding, 0, weights), torch.where(is_coinciding, weights, 0)
    # Near antipodes, the normal component of x - y would swamp the tangent one, which is also that of -x - y.
    along = torch.where(r2 > 3.9, -pull, pull).sum(dim=-1, keepdim=True)
    gradient = 2 * (along * wide - pull @ wide)
    side = torch.sign(torch.arange(n, device=x.device).unsqueeze(1) - torch.arange(n, device=x.device))
    push_length = 2 * apart(x.dtype) * (push * side).sum(dim=-1, keepdim=True)
    push_aside(gradient, wide, push_length)
    return -torch.linalg.slogdet(matrix).logabsdet, gradient
