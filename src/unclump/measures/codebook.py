r"""Measures of codebook usage: what share of the codes is used, and how evenly."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import stats
from torch import Tensor

from unclump._arrays import as_tensor
from unclump._checks import check_count
from unclump._precision import widen
from unclump.distributed.ranks import Gather, Ranks, check_gather, rows_here
from unclump.measures.rows import PerSet, per_set

Indices = Int[Tensor, "*sets n"] | Int[np.ndarray, "*sets n"]
Counts = Float[Tensor, "*sets k"] | Int[Tensor, "*sets k"] | Float[np.ndarray, "*sets k"] | Int[np.ndarray, "*sets k"]


def codebook_usage(
    indices: Indices | None = None,
    *,
    codes: int | None = None,
    counts: Counts | None = None,
    gather: Gather = False,
) -> PerSet:
    """The share of the codes that are used at least once.

    Args:
        indices: The codes to which n vectors were assigned, as integers from 0. Shape (..., n) is a batch of separate
            sets, such as heads with a codebook each; flatten the dimensions of images.
        codes: The number of codes in the codebook.
        counts: Instead of both, the number of occurrences of each code, of shape (..., codes).
        gather: True, a process group or `Shards`: the counts of all ranks are added.

    Example:
        >>> codebook_usage(torch.tensor([0, 3, 3, 0]), codes=8)
        0.25
    """
    counts = _count_on_all_ranks(indices, codes, counts, gather)
    return per_set(widen(counts > 0).mean(dim=-1))


def codebook_perplexity(
    indices: Indices | None = None,
    *,
    codes: int | None = None,
    counts: Counts | None = None,
    gather: Gather = False,
) -> PerSet:
    r"""The exponential of the entropy of the code frequencies: the effective number of codes in use.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big)

    It is between 1 and the number of codes. Arguments are those of `codebook_usage`; counts may be sums of
    probabilities.

    Example:
        >>> round(codebook_perplexity(counts=torch.tensor([5, 5, 0, 0])), 6)
        2.0
    """
    counts = _count_on_all_ranks(indices, codes, counts, gather)
    shares = counts / counts.sum(dim=-1, keepdim=True)
    return per_set(torch.special.entr(shares).sum(dim=-1).exp())


@dataclass(frozen=True)
class UniformAssignments:
    """The expected usage and perplexity if n vectors are assigned to codes uniformly at random.

    Example:
        >>> from unclump.measures.codebook import UniformAssignments
        >>> law = UniformAssignments(1000, 1024)
        >>> round(law.usage, 3), round(law.perplexity)
        (0.624, 570)
    """

    n: int
    codes: int

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("codes", self.codes)

    @property
    def usage(self) -> float:
        """The expected share of codes that are used, exactly."""
        return -float(np.expm1(self.n * np.log1p(-1 / self.codes))) if self.codes > 1 else 1.0

    @cached_property
    def perplexity(self) -> float:
        """The exponential of the exact expected entropy."""
        count = np.arange(1, self.n + 1)
        share = count / self.n
        entropy = -self.codes * float(stats.binom.pmf(count, self.n, 1 / self.codes) @ (share * np.log(share)))
        return float(np.exp(entropy))


def _count_on_all_ranks(
    indices: Indices | None, codes: int | None, counts: Counts | None, gather: Gather
) -> Float[Tensor, "*sets k"]:
    """The number of occurrences of each code, summed over ranks."""
    if (indices is None) == (counts is None) or (indices is None) != (codes is None):
        raise TypeError("expected indices with codes=, the size of the codebook, or counts= alone")
    totals = occurrences(indices, codes) if indices is not None and codes is not None else _validate_counts(counts)
    check_gather(gather)
    if gather is not False:
        totals, group, _ = rows_here(totals, gather)
        totals = totals if group is None else Ranks(totals.reshape(1, -1), group).sum(totals)
    if not (totals.sum(dim=-1) > 0).all():
        raise ValueError("expected the codes of one vector or more, got none; pass some indices")
    return totals


def occurrences(indices: Indices, codes: int) -> Float[Tensor, "*sets k"]:
    """The number of occurrences of each code."""
    check_count("codes", codes)
    values = as_tensor(indices)
    if not isinstance(values, Tensor) or values.dtype.is_floating_point or values.dtype == torch.bool:
        is_tensor = isinstance(values, Tensor)
        kind = values.dtype if is_tensor else type(values).__name__
        advice = "pass counts= for counts" if is_tensor else "convert with torch.as_tensor(...)"
        raise TypeError(f"expected indices of codes as a tensor of integers, got {kind}; {advice}")
    if values.ndim == 0:
        raise ValueError("expected indices of shape (..., n), got a single number; pass a vector of them")
    if values.numel() > 0 and (values.min() < 0 or values.max() >= codes):
        raise ValueError(
            f"expected indices from 0 to {codes - 1}, got {int(values.min())} to {int(values.max())}; "
            "codes= is the size of the codebook; remove padding"
        )
    sets = values.long().reshape(math.prod(values.shape[:-1]), values.shape[-1])
    first = codes * torch.arange(len(sets), device=values.device).unsqueeze(1)
    return widen(torch.bincount((sets + first).flatten(), minlength=codes * len(sets))).view(*values.shape[:-1], codes)


def _validate_counts(counts: Counts | None) -> Float[Tensor, "*sets k"]:
    values = None if counts is None else as_tensor(counts)
    if not isinstance(values, Tensor) or values.ndim == 0 or values.shape[-1] == 0:
        raise TypeError(f"expected counts of shape (..., codes), one number per code, got {counts!r}")
    values = widen(values.detach())
    if not ((values >= 0) & values.isfinite()).all():
        raise ValueError(
            "expected counts that are finite and not negative, got others; pass the number of occurrences per code"
        )
    return values
