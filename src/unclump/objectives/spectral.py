r"""The determinant of the kernel matrix as an objective: the volume that the points span in feature space."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_points
from unclump.distributed.ranks import Gather
from unclump.geometry.sphere import full_precision
from unclump.kernels import Gaussian, Kernel, Relative
from unclump.objectives._base import Objective
from unclump.objectives.energy import RBF, check_finite_self
from unclump.ops.kernel_sums import kernel_matrix
from unclump.ops.pairs import narrow


def log_det(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, ""]:
    r"""Minus the logarithm of the determinant of the kernel matrix, a point.

    .. math:: \mathcal{L}_{LogDet}(x) = -\frac1n \log \det K, \quad K_{ij} = k(x_i, x_j)

    The maximum Gram determinant of [1]. Takes O(n^3) time and O(n^2) memory, in double precision. Where the matrix is
    singular to that precision, for many points in few dimensions, what counts is its rounding error, n eps k(x, x).

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        kernel: One that is positive and finite at coinciding points: `Gaussian`, `Laplace`, or a shifted `Riesz`.

    References:
        [1] Liu et al. Learning with Hyperspherical Uniformity. AISTATS 2021.

    Example:
        >>> log_det(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), Laplace())  # -log(1 - exp(-2 pi)) / 2
        tensor(0.0009)
    """
    check_points(x, at_least=2)
    _check_definite(kernel)
    n = len(x)
    relative = kernel_matrix(full_precision(x), Relative(kernel))
    rounding = n * torch.finfo(relative.dtype).eps * torch.eye(n, dtype=relative.dtype, device=x.device)
    log_determinant = torch.linalg.slogdet(relative + rounding).logabsdet
    return narrow(-log_determinant / n - kernel.log_self, full_precision(x).dtype)


def _check_definite(kernel: Kernel) -> None:
    check_finite_self(kernel)
    if isinstance(kernel, Gaussian) and kernel.distance == "geodesic":
        raise ValueError(
            f"expected a positive definite kernel, got {kernel}: its determinant may be negative; "
            'use Laplace(), or Gaussian(distance="chordal")'
        )


class LogDet(Objective):
    """`log_det` of raw embeddings."""

    choices = ("kernel",)

    def __init__(self, kernel: Kernel = RBF, *, gather: Gather = False) -> None:
        super().__init__(gather=gather)
        _check_definite(kernel)
        self.kernel = kernel

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return log_det(x, self.kernel)
