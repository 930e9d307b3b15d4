r"""How a codebook is used: which share of its codes, and how evenly."""

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
    """The share of the codes that occur at all.

    Args:
        indices: The numbers of the codes to which n vectors were assigned, from 0; of shape (..., n), separate sets
            such as heads with a codebook each. Flatten images.
        codes: How many codes the codebook has.
        counts: Instead of both, how often each code occurs, of shape (..., codes).
        gather: True, a process group or `Shards`: the counts of all its ranks are added.

    Example:
        >>> codebook_usage(torch.tensor([0, 3, 3, 0]), codes=8)
        0.25
    """
    counts = _counted(indices, codes, counts, gather)
    return per_set(widen(counts > 0).mean(dim=-1))


def codebook_perplexity(
    indices: Indices | None = None,
    *,
    codes: int | None = None,
    counts: Counts | None = None,
    gather: Gather = False,
) -> PerSet:
    r"""The exponential of the entropy of the codes' frequencies: the number of codes, used equally, that would have it.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big)

    Between 1 and the number of codes. Its arguments are those of `codebook_usage`; counts may be sums of probabilities.

    Example:
        >>> round(codebook_perplexity(counts=torch.tensor([5, 5, 0, 0])), 6)
        2.0
    """
    counts = _counted(indices, codes, counts, gather)
    shares = counts / counts.sum(dim=-1, keepdim=True)
    return per_set(torch.special.entr(shares).sum(dim=-1).exp())


@dataclass(frozen=True)
class UniformAssignments:
    """The usage and perplexity expected of n vectors that are assigned to codes at random, all equally likely.

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
        """The expected share of codes that occur, exactly."""
        return -float(np.expm1(self.n * np.log1p(-1 / self.codes))) if self.codes > 1 else 1.0

    @cached_property
    def perplexity(self) -> float:
        """The exponential of the expected entropy, which is exact."""
        count = np.arange(1, self.n + 1)
        share = count / self.n
        entropy = -self.codes * float(stats.binom.pmf(count, self.n, 1 / self.codes) @ (share * np.log(share)))
        return float(np.exp(entropy))


def _counted(
    indices: Indices | None, codes: int | None, counts: Counts | None, gather: Gather
) -> Float[Tensor, "*sets k"]:
    """How often each code occurs, on all ranks."""
    if (indices is None) == (counts is None) or (indices is None) != (codes is None):
        raise TypeError("expected indices with codes=, the size of the codebook, or counts= alone")
    found = occurrences(indices, codes) if indices is not None and codes is not None else _checked(counts)
    check_gather(gather)
    if gather is not False:
        found, group, _ = rows_here(found, gather)
        found = found if group is None else Ranks(found.reshape(1, -1), group).sum(found)
    if not (found.sum(dim=-1) > 0).all():
        raise ValueError("expected a code for one vector or more, got none; pass some indices")
    return found


def occurrences(indices: Indices, codes: int) -> Float[Tensor, "*sets k"]:
    """How often each code occurs."""
    check_count("codes", codes)
    numbers = as_tensor(indices)
    if not isinstance(numbers, Tensor) or numbers.dtype.is_floating_point or numbers.dtype == torch.bool:
        kind = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
        raise TypeError(f"expected the numbers of codes as integers, got {kind}; pass counts= for counts")
    if numbers.ndim == 0:
        raise ValueError("expected indices of shape (..., n), got a single number; pass a vector of them")
    if numbers.numel() > 0 and (numbers.min() < 0 or numbers.max() >= codes):
        raise ValueError(
            f"expected indices from 0 to {codes - 1}, got {int(numbers.min())} to {int(numbers.max())}; "
            "codes= is the size of the codebook, and padding is to be left out"
        )
    sets = numbers.long().reshape(math.prod(numbers.shape[:-1]), numbers.shape[-1])
    first = codes * torch.arange(len(sets), device=numbers.device).unsqueeze(1)
    return widen(torch.bincount((sets + first).flatten(), minlength=codes * len(sets))).view(*numbers.shape[:-1], codes)


def _checked(counts: Counts | None) -> Float[Tensor, "*sets k"]:
    found = None if counts is None else as_tensor(counts)
    if not isinstance(found, Tensor) or found.ndim == 0 or found.shape[-1] == 0:
        raise TypeError(f"expected counts of shape (..., codes), one number a code, got {counts!r}")
    found = widen(found.detach())
    if not ((found >= 0) & found.isfinite()).all():
        raise ValueError("expected counts that are finite and not negative, got others; pass occurrences of each code")
    return found
