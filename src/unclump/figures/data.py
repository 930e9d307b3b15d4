"""The numbers behind the figures: angles of pairs, spectra, and places on a map."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.geometry.sphere import angle
from unclump.ops.blocks import upper_triangle

_BLOCK = 1024
_NODES = 4096
_NUMBERS = 2**22  # of gathered rows, held at once


def all_angle_counts(x: Float[Tensor, "n d"], edges: Float[np.ndarray, " k"]) -> Float[np.ndarray, " m"]:
    """How many of all pairs have an angle in each bin."""
    counts = np.zeros(len(edges) - 1)
    for rows, columns in upper_triangle(len(x), _BLOCK):
        found = torch.acos((x[rows] @ x[columns].mT).clamp(-1, 1))
        angles = found[torch.ones_like(found, dtype=torch.bool).triu(1)] if rows == columns else found.flatten()
        counts += np.histogram(angles.cpu().numpy(), edges)[0]
    return counts


def pair_angles(x: Float[Tensor, "n d"], *, most: int, generator: torch.Generator | None) -> Float[np.ndarray, " k"]:
    """The angles of all pairs where these are at most so many, of so many random pairs otherwise."""
    n, d = x.shape
    if math.comb(n, 2) <= most:
        first, second = torch.triu_indices(n, n, offset=1)
    else:
        first = torch.randint(n, (most,), generator=generator)
        second = (first + torch.randint(1, n, (most,), generator=generator)) % n  # any other row
    step = max(1, _NUMBERS // d)
    pieces = [angle(x[first[k : k + step]], x[second[k : k + step]]).cpu().numpy() for k in range(0, len(first), step)]
    found: Float[np.ndarray, " k"] = np.concatenate(pieces).astype(np.float64)
    return found


def spectrum_shares(x: Float[Tensor, "n d"]) -> Float[np.ndarray, " d"]:
    """The shares of the squared length along the principal axes, the largest first."""
    n, d = x.shape
    gram = (x.mT @ x if n >= d else x @ x.mT).double()
    values = torch.linalg.eigvalsh(gram).flip(0).clamp_min(0).cpu().numpy()
    shares: Float[np.ndarray, " d"] = np.concatenate([values, np.zeros(max(0, d - n))]) / values.sum()
    return shares


def uniform_spectrum(n: int, d: int) -> Float[np.ndarray, " d"]:
    r"""The shares of the squared length that n uniform directions have along their principal axes, the largest first.

    With c = d / n, the eigenvalues :math:`\lambda` of :math:`(d/n) \, x^\top x` follow the law of Marchenko and Pastur,

    .. math:: \frac{\sqrt{(b - \lambda)(\lambda - a)}}{2 \pi c \lambda}, \quad a, b = (1 \mp \sqrt c)^2,

    and 1 - 1/c of them are zero where c > 1. The shares are its quantiles at 1 - (i - 1/2) / d, over their sum.

    References:
        Marchenko and Pastur. Distribution of eigenvalues for some sets of random matrices. 1967.

    Example:
        >>> from unclump.figures.data import uniform_spectrum
        >>> uniform_spectrum(10**9, 4).round(4)  # many points fill all dimensions alike
        array([0.25, 0.25, 0.25, 0.25])
    """
    c = d / n
    t = (np.arange(_NODES) + 0.5) * math.pi / _NODES  # lambda = 1 + c - 2 sqrt(c) cos t: no roots are left at the ends
    eigenvalues = 1 + c - 2 * math.sqrt(c) * np.cos(t)
    weights = 2 * np.sin(t) ** 2 / (math.pi * eigenvalues)  # the density times d lambda / d t
    below = max(0.0, 1 - 1 / c) + np.cumsum(weights) * math.pi / _NODES - weights * math.pi / (2 * _NODES)
    levels = 1 - (np.arange(d) + 0.5) / d
    found = np.interp(levels, below, eigenvalues, left=0.0 if c > 1 else None)
    shares: Float[np.ndarray, " d"] = found / found.sum()
    return shares


def principal_plane(x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, "d 2"]]:
    """The mean of the points and the two axes along which they vary most, each pointing to its heavier side."""
    mean = x.mean(dim=0)
    covariance = (x.mT @ x / len(x)).double() - torch.outer(mean, mean).double()
    axes = torch.linalg.eigh(covariance).eigenvectors[:, -2:].flip(1).to(x.dtype)
    largest = axes.abs().argmax(dim=0)
    return mean, axes * torch.sign(axes[largest, torch.arange(2)])


def sample_rows(n: int, most: int, always: Int[Tensor, " k"], generator: torch.Generator | None) -> Int[Tensor, " m"]:
    """Row numbers in order: all, or so many at random, with those that must not be missing."""
    if n <= most:
        return torch.arange(n)
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[torch.randperm(n, generator=generator)[:most]] = True
    chosen[always] = True
    return chosen.nonzero().flatten()
