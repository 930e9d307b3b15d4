r"""Measures of cosines: between all rows, and between views of the same sample.

Points, shapes and `gather` are those of all measures (`unclump.measures.angles`); rows are projected onto the sphere.
`unclump.alignment` and `unclump.uniformity` are the corresponding differentiable losses.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_positive, check_sharpness
from unclump.distributed.ranks import Alone, Gather
from unclump.kernels import Gaussian, Relative
from unclump.measures.rows import (
    PerSet,
    Points,
    directions_of_sets,
    directions_on_ranks,
    map_sets,
    per_set,
    sum_of_directions,
)
from unclump.ops.kernel_sum import kernel_sum


def mean_cosine(x: Points, *, gather: Gather = False) -> PerSet:
    r"""The mean cosine over all pairs of different rows: 1 if all point the same way, about 0 for uniform points.

    .. math:: \frac{1}{n (n - 1)} \sum_{i \ne j} \langle x_i, x_j \rangle
        = \frac{\lVert \sum_i x_i \rVert^2 - n}{n (n - 1)}

    It takes O(n d) time. Also known as average cosine similarity or anisotropy [1]; it detects a common direction and
    nothing else. For uniform points its mean is 0 and its standard deviation :math:`\sqrt{2 / (n (n - 1) d)}`.

    References:
        [1] Ethayarajh. How contextual are contextualized word representations? EMNLP 2019.

    Example:
        >>> round(mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])), 6)  # 0, 0 and 1
        0.333333
    """
    return per_set(cosine_of_sum(*sum_of_directions(x, gather)))


def cosine_of_sum(total: Float[Tensor, "*sets d"], n: int) -> Float[Tensor, "*sets"]:
    """The mean cosine of n unit rows with this sum."""
    return (total.square().sum(dim=-1) - n) / (n * (n - 1))


def alignment(x: Points, *, power: float = 2.0) -> PerSet:
    r"""The mean power of the distance between views of the same sample, on the sphere: 0 if they coincide.

    .. math:: E \lVert x - x^+ \rVert^\alpha

    The mean is over samples and pairs of different views. For power 2, independent uniform points have 2.

    Args:
        x: Groups of views, of shape (samples, views, d), with at least two views: `torch.stack([a, b], dim=1)` for two
            tables. Shape (..., samples, views, d) is a batch of separate sets.
        power: The exponent.

    References:
        Wang and Isola. Understanding contrastive representation learning through alignment and uniformity on the
        hypersphere. ICML 2020.

    Example:
        >>> from unclump.measures.pairs import alignment
        >>> round(alignment(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [2.0, 0.0]]])), 6)  # 2 and 0
        1.0
    """
    check_positive("power", power)
    x = directions_of_sets(x)
    if x.ndim < 3:
        raise ValueError(
            f"expected groups of views, of shape (samples, views, d), got {tuple(x.shape)}; "
            "stack the views of a sample along the dimension before the last"
        )
    views = x.shape[-2]
    pairs = [
        torch.linalg.vector_norm(x[..., i, :] - x[..., j, :], dim=-1) ** power for i in range(views) for j in range(i)
    ]
    return per_set(torch.stack(pairs).mean(dim=(0, -1)))


def uniformity(x: Points, *, t: float = 2.0, gather: Gather = False) -> PerSet:
    r"""The logarithm of the mean Gaussian potential over pairs of different rows: lower for more uniform points.

    .. math:: \log \frac{1}{n (n - 1)} \sum_{i \ne j} e^{-t \lVert x_i - x_j \rVert^2}

    It is 0 if all rows point the same way. It takes O(n^2 d) time.

    Args:
        x: Points, n >= 2.
        t: Twice the inverse squared width.
        gather: True, a process group or `Shards`: the rows of all ranks are one table.

    References:
        Wang and Isola. Understanding contrastive representation learning through alignment and uniformity on the
        hypersphere. ICML 2020.

    Example:
        >>> from unclump.measures.pairs import uniformity
        >>> uniformity(torch.eye(3))  # squared distances 2
        -4.0
    """
    check_sharpness(t)
    x, ranks = directions_on_ranks(x, gather)
    return map_sets(lambda table: _uniformity(table, t, ranks), x)


def _uniformity(x: Tensor, t: float, ranks: Alone) -> float:
    kernel = Relative(Gaussian(2 * t))
    total = kernel_sum(x, kernel, needs_grad=False)[0].sum()
    for _, (y,) in ranks.ring(x):
        total += kernel_sum(x, kernel, y, needs_grad=False)[0].sum()
    return math.log(float(ranks.sum(total)) / (ranks.total * (ranks.total - 1)))
