"""Nearest neighbours, and the losses made of the distances to them."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump.ops.native import NO_DIRECTION, Loop, check_alike, empty, failure, has_native, threads

_A_THREAD = 2**15  # pairs that are worth a thread
_DISTANCES = {"chordal": 0, "geodesic": 1, "squared": 2}

_NEAREST = Loop("nearest", "pppppiiiiiii")
_MEAN, _ERROR = Loop("mean_of_nearest", "pppiiiiii"), Loop("quantisation_error", "ppppiiiii")


def nearest(
    x: Float[Tensor, "*sets n d"],
    y: Float[Tensor, "*sets m d"] | None,
    mask: Bool[Tensor, "*sets m"] | None,
    k: int,
    itself: int,
) -> tuple[Int[Tensor, "*sets n k"], Float[Tensor, "*sets n k"]]:
    """`unclump.ops.nearest.nearest` of sets."""
    x, y, mask = x.contiguous(), y if y is None else y.contiguous(), mask if mask is None else mask.contiguous()
    *sets, n, d = x.shape
    check_alike(x, y)
    m = n if y is None else y.shape[-2]
    index, r2 = x.new_empty((*sets, n, k), dtype=torch.long), x.new_empty((*sets, n, k))
    addresses = (None if table is None else table.data_ptr() for table in (x, y, mask, index, r2))
    if status := _NEAREST[x.itemsize](
        *addresses, math.prod(sets), n, m, d, k, itself, threads(n * m, at_least=_A_THREAD)
    ):
        raise failure(status)
    return index, r2


def fused_mean_of_nearest(
    embeddings: Float[Tensor, "*sets n d"], *, distance: str, logarithm: bool, needs_grad: bool
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"] | None] | None:
    """Minus the mean distance, or its logarithm, of the embeddings' directions to the nearest other, in one pass.

    With the gradient by the embeddings; None where no loop does it, or a row has no direction.
    """
    if not has_native(embeddings):
        return None
    x = embeddings.contiguous()
    *sets, n, d = x.shape
    values, gradient = x.new_empty(sets), empty(x.shape, x.dtype) if needs_grad else None
    addresses = x.data_ptr(), values.data_ptr(), None if gradient is None else gradient.data_ptr()
    several = threads(n * n, at_least=_A_THREAD)
    status = _MEAN[x.itemsize](*addresses, math.prod(sets), n, d, _DISTANCES[distance], logarithm, several)
    if status == NO_DIRECTION:
        return None
    if status:
        raise failure(status)
    return values, gradient


def fused_quantisation_error(
    embeddings: Float[Tensor, "*sets n d"], samples: Float[Tensor, "m d"], *, needs_grad: bool
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"] | None] | None:
    """Half the mean squared angle of the samples' directions to the nearest of the embeddings'; the same otherwise."""
    if not has_native(embeddings, samples):
        return None
    x, samples = embeddings.contiguous(), samples.contiguous()
    *sets, n, d = x.shape
    if samples.ndim != 2 or samples.shape[1] != d:
        raise ValueError(f"expected samples of shape (m, {d}), got {tuple(samples.shape)}")
    values, gradient = x.new_empty(sets), empty(x.shape, x.dtype) if needs_grad else None
    results = values.data_ptr(), None if gradient is None else gradient.data_ptr()
    several = threads(n * len(samples), at_least=_A_THREAD)
    status = _ERROR[x.itemsize](
        x.data_ptr(), samples.data_ptr(), *results, math.prod(sets), n, len(samples), d, several
    )
    if status == NO_DIRECTION:
        return None
    if status:
        raise failure(status)
    return values, gradient
