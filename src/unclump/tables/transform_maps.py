r"""Affine maps that make a table more isotropic, in closed form: :math:`y = A (x - b)`, with A and b of the moments.

Every map takes a strength s from 0, the identity, to 1, and every matrix is symmetric.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from unclump.tables.transform_covariance import Covariance

_ROUNDING = 64  # of an eigenvalue, in units of the precision and the root of d


class Affine(NamedTuple):
    """The map that takes a row x to (x - shift) @ matrix."""

    shift: Float64[Tensor, " d"]
    matrix: Float64[Tensor, "d d"]


def closed_form(
    method: str, table: Covariance, strength: float, *, directions: int | None = None, shrinkage: float | None = None
) -> Affine:
    """The map of a method; None for the directions and the shrinkage that `Isotropy` has by default."""
    if method == "centre":
        return centre(table, strength)
    if method == "all_but_the_top":
        d = len(table.mean)
        return all_but_the_top(table, strength, max(1, round(d / 100)) if directions is None else directions)
    return whiten(table, strength, table.shrinkage if shrinkage is None else shrinkage)


def centre(table: Covariance, strength: float) -> Affine:
    r"""Take the mean m away: :math:`y = x - s m`."""
    return Affine(strength * table.mean, torch.eye(len(table.mean)).double())


def all_but_the_top(table: Covariance, strength: float, directions: int) -> Affine:
    r"""Take the mean and the D directions of most variance away, by their unit vectors :math:`u_k`.

    .. math:: y = z - s \sum_{k \le D} u_k u_k^\top z, \quad z = x - s m

    References:
        Mu and Viswanath. All-but-the-top: simple and effective postprocessing for word representations. ICLR 2018.
    """
    d = len(table.mean)
    if directions >= min(d, table.rows - 1):
        raise ValueError(
            f"expected fewer directions than the {min(d, table.rows - 1)} along which {table.rows} rows in {d} "
            f"dimensions can vary, got {directions}; nothing would be left; take fewer, or fit on more rows"
        )
    top = torch.linalg.eigh(table.matrix).eigenvectors[:, d - directions :]
    return Affine(strength * table.mean, torch.eye(d).double() - strength * top @ top.mT)


def whiten(table: Covariance, strength: float, shrinkage: float) -> Affine:
    r"""Bring the variances of all directions closer to one, and at full strength to one.

    .. math:: y = S_\rho^{-s/2} (x - s m), \quad S_\rho = (1 - \rho) S + \rho \frac{\operatorname{tr} S}{d} I

    with the covariance S. The root is the symmetric one, which moves rows least. A direction along which the rows do
    not vary at all is scaled like that of least variance, so that a query that has a part along it stays finite.
    """
    variances, directions = torch.linalg.eigh(table.matrix)
    rounding = _ROUNDING * len(variances) ** 0.5 * torch.finfo(variances.dtype).eps
    if variances[-1] <= (rounding * table.mean.norm()) ** 2:
        raise ValueError("expected rows that differ, to whiten them, got equal rows; leave them as they are")
    least = variances[variances > rounding * variances[-1]].min()
    shrunk = (1 - shrinkage) * variances.clamp_min(float(least)) + shrinkage * variances.mean()
    scales = shrunk ** (-strength / 2)
    return Affine(strength * table.mean, (directions * scales) @ directions.mT)
