"""The numbers behind the figures: pair angles, spectra, and map coordinates."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.geometry.random_spectra import marchenko_pastur, quantiles
from unclump.geometry.sphere import angle, angle_of
from unclump.measures.angles import singular_values
from unclump.measures.pair_chords import pair_chords

_MAX_GATHERED = 2**22  # entries of gathered rows in memory at once


def all_angle_counts(x: Float[Tensor, "n d"], edges: Float[np.ndarray, " k"]) -> Float[np.ndarray, " m"]:
    """Count the angles of all pairs in each bin."""
    counts = np.zeros(len(edges) - 1)
    for r2 in pair_chords(x, Alone([len(x)])):
        counts += np.histogram(angle_of(r2).cpu().numpy(), edges)[0]
    return counts


def pair_angles(
    take: Callable[[Tensor], Tensor], n: int, d: int, *, limit: int, generator: torch.Generator | None
) -> Float[np.ndarray, " k"]:
    """The angles of all pairs, or of `limit` random pairs if there are more, of n points on the sphere.

    Args:
        take: Returns the points with these row numbers; the table need not be in memory.
        n: The number of points.
        d: Their dimension.
        limit: The largest number of pairs.
        generator: Draws the random pairs.
    """
    if math.comb(n, 2) <= limit:
        first, second = torch.triu_indices(n, n, offset=1)
    else:
        first = torch.randint(n, (limit,), generator=generator)
        second = (first + torch.randint(1, n, (limit,), generator=generator)) % n  # never the row itself
    step = max(1, _MAX_GATHERED // d)
    chunks = [
        angle(take(first[k : k + step]), take(second[k : k + step])).cpu().numpy() for k in range(0, len(first), step)
    ]
    angles: Float[np.ndarray, " k"] = np.concatenate(chunks).astype(np.float64)
    return angles


def spectrum_shares(x: Float[Tensor, "n d"]) -> Float[np.ndarray, " d"]:
    """Share of the squared length along each principal axis, largest first."""
    return shares_of(singular_values(x), x.shape[1])


def shares_of(singular: Float[Tensor, " m"], d: int) -> Float[np.ndarray, " {d}"]:
    """The same from at most d singular values; the others are zero."""
    squares = singular.double().square().cpu().numpy()
    shares: Float[np.ndarray, " {d}"] = np.pad(squares, (0, d - len(squares))) / squares.sum()
    return shares


def uniform_spectrum(n: int, d: int) -> Float[np.ndarray, " d"]:
    r"""The `spectrum_shares` expected of n uniform directions in d dimensions, largest first.

    The i-th of the m = min(n, d) nonzero shares is the quantile at 1 - (i - 1/2) / m of the law of Marchenko and Pastur
    (`unclump.geometry.random_spectra`), normalised.

    References:
        Marchenko and Pastur. Distribution of eigenvalues for some sets of random matrices. 1967.

    Example:
        >>> from unclump.figures.data import uniform_spectrum
        >>> uniform_spectrum(10**9, 4).round(4)  # many points use all dimensions equally
        array([0.25, 0.25, 0.25, 0.25])
    """
    count = min(n, d)
    spectrum = quantiles(1 - (np.arange(count) + 0.5) / count, marchenko_pastur(n, d))
    shares: Float[np.ndarray, " d"] = np.pad(spectrum / spectrum.sum(), (0, d - count))
    return shares


def principal_axes(x: Float[Tensor, "n d"], count: int) -> tuple[Float[Tensor, " d"], Float[Tensor, "d {count}"]]:
    """The mean of the points and the axes of largest variance, signed so that the largest entry is positive."""
    mean = x.mean(dim=0)
    covariance = (x.mT @ x / len(x)).double() - torch.outer(mean, mean).double()
    axes = torch.linalg.eigh(covariance).eigenvectors[:, -count:].flip(1).to(x.dtype)
    largest = axes.abs().argmax(dim=0)
    return mean, axes * torch.sign(axes[largest, torch.arange(count)])


def sample_rows(n: int, limit: int, keep: Int[Tensor, " k"], generator: torch.Generator | None) -> Int[Tensor, " m"]:
    """Sorted row numbers: all n, or `limit` random ones plus those in `keep`."""
    if n <= limit:
        return torch.arange(n)
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[torch.randperm(n, generator=generator)[:limit]] = True
    chosen[keep] = True
    return chosen.nonzero().flatten()
