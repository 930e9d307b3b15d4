r"""LiDAR: the number of dimensions that separate groups of views."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._arrays import as_tensor
from unclump._checks import check_points, check_positive, has_direction
from unclump._precision import widen
from unclump.distributed.ranks import Alone, Gather, check_gather, rows_here
from unclump.measures.angles import rank_of
from unclump.measures.rows import PerSet, Points, map_sets, ranks_of_rows
from unclump.measures.spectrum import covariance, eigenvalues, moments


def lidar(x: Points, *, delta: float = 1e-4, gather: Gather = False) -> PerSet:
    r"""LiDAR: the effective rank of the matrix of a linear discriminant analysis whose classes are groups of views.

    .. math::
        \exp\Big(-\sum_i p_i \log p_i\Big), \quad p_i = \lambda_i / \sum_j \lambda_j, \quad
        \lambda = \operatorname{eig}\big((\Sigma_w + \delta I)^{-1/2} \, \Sigma_b \, (\Sigma_w + \delta I)^{-1/2}\big)

    :math:`\Sigma_b` is the covariance of the group means, :math:`\Sigma_w` the mean covariance within groups. Unlike in
    `rankme`, dimensions in which views of the same sample differ as much as different samples do count little. LiDAR is
    between 1 and min(groups - 1, d), or 0 if all means are equal. It is large for pure noise: compare with
    `IsotropicLaw.lidar`.

    Args:
        x: Groups of views, of shape (groups, views, d), with at least two of each; the rows of a group are embeddings
            of one sample, augmented. Shape (..., groups, views, d) is a batch of separate sets. The authors use 1,000
            groups of 50 views.
        delta: Added to the variances within groups, in squared units of the rows; the authors use 1e-4.
        gather: The groups are part of one set that is distributed over ranks; a group has all its views on one rank.

    References:
        Thilak et al. LiDAR: sensing linear probing performance in joint embedding SSL architectures. ICLR 2024.

    Example:
        >>> means = torch.tensor([[[1.0, 0, 0]], [[-1, 0, 0]], [[0, 1, 0]], [[0, -1, 0]]])
        >>> offset = torch.tensor([[0.0, 0, 1], [0, 0, -1]])  # of two views
        >>> groups = means + 3 * offset  # views differ most, but not between groups
        >>> round(lidar(groups), 6), round(rankme(groups.flatten(0, 1)), 2)
        (2.0, 2.34)
    """
    check_positive("delta", delta)
    check_gather(gather)
    x, group = as_tensor(x), None
    if gather is not False:
        x, group, _ = rows_here(x, gather)
    check_points(x, at_least=2)
    if x.ndim < 3 or (gather is not False and x.ndim > 3):
        raise ValueError(
            f"expected groups of views, of shape (groups, views, d), got {tuple(x.shape)}; "
            "stack the views of a sample along the dimension before the last"
        )
    has_direction(x)  # raises on NaN and infinity
    x = x.detach()
    ranks = ranks_of_rows(x.flatten(-2), group, 2)
    if gather is not False:
        return float(_lidar(x, delta, ranks))
    flat = x.reshape(*x.shape[:-3], x.shape[-3], x.shape[-2] * x.shape[-1])
    return map_sets(lambda groups: float(_lidar(groups.view(x.shape[-3:]), delta, ranks)), flat)


def _lidar(x: Float[Tensor, "g v d"], delta: float, ranks: Alone) -> Tensor:
    views = x.shape[-2]
    means = widen(x).mean(dim=-2)
    within = moments((widen(x) - means.unsqueeze(-2)).flatten(0, 1), ranks) / (ranks.total * (views - 1))
    within.diagonal().add_(delta)
    root = torch.linalg.cholesky(within)
    between = covariance(means, ranks)
    half = torch.linalg.solve_triangular(root, between, upper=False)
    return rank_of(eigenvalues(torch.linalg.solve_triangular(root, half.mT, upper=False)))
