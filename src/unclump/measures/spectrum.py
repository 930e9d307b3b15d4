r"""Measures of the spectrum of raw rows: how many dimensions embeddings use, and how evenly.

Rows are not normalised, so a collapse of the norms counts too, which measures of angles cannot detect. Second moments
are summed in double precision over blocks of rows, so that even a table of millions of rows needs only a d x d matrix
of extra memory. Singular values are the square roots of that matrix's eigenvalues; those below about 1e-7 of the
largest are rounding errors, and set to zero.

Points, shapes and `gather` are those of all measures (`unclump.measures.angles`). `IsotropicLaw` has the values for
independent isotropic Gaussian rows.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count
from unclump._precision import widen
from unclump.distributed.ranks import Alone, Gather
from unclump.measures.angles import rank_of
from unclump.measures.rows import PerSet, Points, map_sets, per_set, raw_rows_on_ranks

_BLOCK = 2**21  # entries converted to double precision at a time
_ROUNDING = 8  # error of an eigenvalue of an m x m matrix, in units of sqrt(m) eps times the largest
FIT = 6, 100  # the ranks to which the authors of alpha-ReQ fit a power law, from 1


def rankme(x: Points, *, gather: Gather = False) -> PerSet:
    r"""RankMe: the exponential of the entropy of the normalised singular values of the uncentred rows.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \quad p_k = \sigma_k / \sum_j \sigma_j

    It is between 1 and min(n, d), or 0 if all rows are zero: the `effective_rank` of rows that are not normalised. The
    paper adds 1e-7 to every p to avoid the logarithm of zero; here 0 log 0 = 0, and the p sum to one. In 2,048
    dimensions the paper's value is larger by 0.14 % at full rank, and by 0.33 % at rank one.

    References:
        Garrido, Balestriero, Najman and LeCun. RankMe: assessing the downstream performance of pretrained
        self-supervised representations by their rank. ICML 2023.

    Example:
        >>> round(rankme(torch.diag(torch.tensor([3.0, 3.0, 0.0]))), 6)
        2.0
    """
    x, ranks = raw_rows_on_ranks(x, gather, at_least=1)
    return per_set(rank_of(eigenvalues(gram(x, ranks)).sqrt()))


def isoscore(x: Points, *, gather: Gather = False) -> PerSet:
    r"""IsoScore: how evenly the variance is spread over dimensions, from 0 (all in one) to 1 (the same in all).

    The published algorithm takes the variances :math:`\lambda` along the principal axes and scales them to the norm
    :math:`\sqrt d`; the isotropy defect is their distance to :math:`(1, \dots, 1)`, in units of the largest one,
    :math:`\sqrt{2 (d - \sqrt d)}`; and IsoScore is a function of it that is k / d, rescaled to [0, 1], for k equal
    nonzero variances. This simplifies to

    .. math:: \frac{1}{d - 1} \left(\frac{(\sum_j \lambda_j)^2}{\sum_j \lambda_j^2} - 1\right)
        = \frac{1}{d - 1} \left(\frac{(\operatorname{tr} \Sigma)^2}{\lVert \Sigma \rVert_F^2} - 1\right)

    with the covariance :math:`\Sigma`: the rescaled participation ratio. It is zero if all rows are equal.

    References:
        Rudman, Gillman, Rayne and Eickhoff. IsoScore: measuring the uniformity of embedding space utilization.
        Findings of ACL 2022.

    Example:
        >>> circle = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
        >>> isoscore(circle)  # two of three dimensions: (2 - 1) / (3 - 1)
        0.5
    """
    x, ranks = raw_rows_on_ranks(x, gather)
    matrix = covariance(x, ranks)
    trace, squares = _trace(matrix), matrix.square().sum(dim=(-2, -1))
    ratio = trace.square() / torch.where(squares > 0, squares, torch.inf)
    return per_set(torch.where(squares > 0, (ratio - 1) / (x.shape[-1] - 1), 0))


def alpha_req(x: Points, *, ranks: tuple[int, int] | None = None, gather: Gather = False) -> PerSet:
    r"""Alpha-ReQ: the exponent of a power law fitted to the eigenvalues of the covariance.

    .. math:: \lambda_i \propto i^{-\alpha}

    It is the slope of :math:`\log \lambda_i` against :math:`-\log i`, fitted by least squares with weights 1 / i over a
    range of ranks. A flat spectrum has 0; the authors find that the best representations are near 1, and that large
    values indicate collapse. The value depends on the range: compare only values with the same range. Eigenvalues that
    are zero up to rounding are ignored; if fewer than two remain in the range, the spectrum decays faster than any
    power, and the value is infinite.

    Args:
        x: Rows, n >= 2.
        ranks: The first and the last rank, starting from 1. None uses 6 to 100, as in the authors' code, or 1 to 100 in
            fewer than 12 dimensions.
        gather: True, a process group or `Shards`: the rows of all ranks are one table.

    References:
        Agrawal, Mondal, Ghosh and Richards. alpha-ReQ: assessing representation quality in self-supervised learning by
        measuring eigenspectrum decay. NeurIPS 2022.

    Example:
        >>> rows = torch.cat([torch.eye(20), -torch.eye(20)]) / torch.arange(1, 21)  # variances 1, 1/4, 1/9, ...
        >>> round(alpha_req(rows), 6)
        2.0
    """
    x, others = raw_rows_on_ranks(x, gather)
    first, last = fit_range(x.shape[-1]) if ranks is None else ranks
    check_count("the first of the ranks", first)
    check_count("the last of the ranks", last, at_least=first + 1)
    spectra = eigenvalues(covariance(x, others))[..., first - 1 : last]
    return map_sets(lambda spectrum: power_law(spectrum[:, 0], first), spectra.unsqueeze(-1))


def fit_range(d: int) -> tuple[int, int]:
    """The first and the last rank that `alpha_req` uses in d dimensions."""
    return (FIT[0] if d >= 2 * FIT[0] else 1), FIT[1]


def power_law(spectrum: Float[Tensor, " k"], first: int) -> float:
    """The exponent of a power law fitted to the positive values of a descending spectrum, starting at rank `first`."""
    spectrum = spectrum[spectrum > 0]
    if len(spectrum) < 2:
        return math.inf
    rank = torch.arange(first, first + len(spectrum), dtype=spectrum.dtype, device=spectrum.device)
    weight = 1 / rank
    log_rank, log_value = rank.log(), spectrum.log()
    centred = log_rank - (weight @ log_rank) / weight.sum()
    return -float((weight * centred) @ log_value / ((weight * centred) @ centred))


def gram(x: Float[Tensor, "*sets n d"], ranks: Alone) -> Float[Tensor, "*sets m m"]:
    """The smaller of x^T x and x x^T, whose nonzero eigenvalues are the squared singular values of the rows."""
    if ranks.size == 1 and x.shape[-2] < x.shape[-1]:
        rows = widen(x)
        return rows @ rows.mT
    return moments(x, ranks)


def moments(x: Float[Tensor, "*sets n d"], ranks: Alone) -> Float[Tensor, "*sets d d"]:
    """The sum of the outer products of all rows."""
    total = widen(x.new_zeros(*x.shape[:-2], x.shape[-1], x.shape[-1]))
    for block in _blocks(x):
        total += block.mT @ block
    return ranks.sum(total)


def covariance(x: Float[Tensor, "*sets n d"], ranks: Alone) -> Float[Tensor, "*sets d d"]:
    """The unbiased covariance matrix; exactly zero if all rows are equal up to rounding."""
    mean = mean_row(x, ranks)
    total = widen(x.new_zeros(*x.shape[:-2], x.shape[-1], x.shape[-1]))
    for block in _blocks(x):
        centred = block - mean.unsqueeze(-2)
        total += centred.mT @ centred
    total = ranks.sum(total) / (ranks.total - 1)
    rounding = 64 * torch.finfo(total.dtype).eps * mean
    return torch.where(_trace(total) > rounding.square().sum(dim=-1), 1.0, 0.0)[..., None, None] * total


def mean_row(x: Float[Tensor, "*sets n d"], ranks: Alone) -> Float[Tensor, "*sets d"]:
    """The mean of all rows, in double precision."""
    total = widen(x.new_zeros(*x.shape[:-2], x.shape[-1]))
    for block in _blocks(x):
        total += block.sum(dim=-2)
    return ranks.sum(total) / ranks.total


def eigenvalues(matrix: Float[Tensor, "*sets m m"]) -> Float[Tensor, "*sets m"]:
    """The eigenvalues of a positive semidefinite matrix, largest first; those within rounding error are set to zero."""
    values: Tensor = torch.linalg.eigvalsh(matrix).flip(-1)
    rounding = _ROUNDING * matrix.shape[-1] ** 0.5 * torch.finfo(values.dtype).eps
    return torch.where(values > rounding * values[..., :1], values, 0)


def _blocks(x: Float[Tensor, "*sets n d"]) -> Iterator[Float[Tensor, "*sets k d"]]:
    """Blocks of rows of every set, in double precision."""
    rows = max(1, _BLOCK // max(1, x.shape[-1] * math.prod(x.shape[:-2])))
    yield from (widen(block) for block in torch.split(x, rows, dim=-2) if block.numel() > 0)


def _trace(matrix: Float[Tensor, "*sets m m"]) -> Float[Tensor, "*sets"]:
    return matrix.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
