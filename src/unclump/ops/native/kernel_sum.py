"""Sums of a kernel over pairs. The loops know the kernels of the library; others take the reference."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from unclump.kernels import Gaussian, Kernel, Laplace, Relative, Riesz
from unclump.ops.native import NO_DIRECTION, Loop, check_alike, empty, failure, threads

_A_THREAD = 2**15  # pairs that are worth a thread
NEAR = 0.1
"""Squared chords below it, or as near to 4, are measured by themselves."""

DISTANCES = {"chordal": 0, "geodesic": 1, "shifted": 2}
FORMS = range(6)
_GAUSSIAN, _LAPLACE, _RIESZ, _INVERSE, _LOGARITHM, _DISTANCE = FORMS
_RIESZ_FORMS: dict[float, int] = {
    1: _INVERSE,
    0: _LOGARITHM,
    -1: _DISTANCE,
}  # by the exponent; any other is computed by a logarithm

_MEAN, _SUM = Loop("mean_over_pairs", "pppiiiiiddi"), Loop("kernel_sum", "ppppppppiiiiiiidddi")


class Code(NamedTuple):
    """A kernel as the loops have it; see kernel.hpp."""

    form: int
    distance: int
    parameter: float
    offset: float


def code_of(kernel: Kernel, dtype: torch.dtype) -> Code | None:
    """The kernel for the loops; None for one of the user's own, or too steep for what products leave of its digits."""
    return _code_of(kernel, dtype) if type(kernel) in (Gaussian, Laplace, Riesz, Relative) else None


@lru_cache(maxsize=256)
def _code_of(kernel: Kernel, dtype: torch.dtype) -> Code | None:
    relative = type(kernel) is Relative
    bare = kernel.kernel if isinstance(kernel, Relative) and relative else kernel
    code = form_of(bare)
    if code is None or not _is_tame(kernel, dtype):
        return None
    return code._replace(offset=code.offset - bare.log_self) if relative else code


def form_of(kernel: Kernel) -> Code | None:
    """The kernel for the loops, however steep; None for one of the user's own."""
    distance = DISTANCES[kernel.distance]
    if type(kernel) is Gaussian:
        if kernel.distance == "geodesic":
            return Code(_GAUSSIAN, distance, kernel.gamma, 0.0)
        return Code(_GAUSSIAN, DISTANCES["chordal"], kernel.gamma / 2, kernel.log_self)
    if type(kernel) is Laplace:
        return Code(_LAPLACE, distance, kernel.gamma, 0.0)
    if type(kernel) is Riesz:
        return Code(_RIESZ_FORMS.get(kernel.s, _RIESZ), distance, kernel.s, 0.0)
    return None


def _is_tame(kernel: Kernel, dtype: torch.dtype) -> bool:
    """Nothing may overflow, and the rounding of squared chords must be little of the largest value."""
    r2 = torch.linspace(NEAR, 4 - NEAR, 2049, dtype=torch.float64)
    largest, steepest = kernel(r2).abs().max().item(), kernel.derivative(r2).abs().max().item()
    most = torch.finfo(dtype).max ** 0.8
    steepness = 20 if dtype is torch.float32 else 5000
    return math.isfinite(largest) and max(largest, steepest) < most and steepest <= steepness * largest


def mean_over_pairs(
    embeddings: Float[Tensor, "*sets n d"], code: Code, *, needs_grad: bool
) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"] | None] | None:
    """The mean of the kernel over ordered pairs of the embeddings' directions; and its gradient by the embeddings.

    None where a row has no direction.
    """
    x = embeddings.contiguous()
    *sets, n, d = x.shape
    values, gradient = x.new_empty(sets), empty(x.shape, x.dtype) if needs_grad else None
    addresses = x.data_ptr(), values.data_ptr(), None if gradient is None else gradient.data_ptr()
    status = _MEAN[x.itemsize](*addresses, math.prod(sets), n, d, *code, threads(n * n, at_least=_A_THREAD))
    if status == NO_DIRECTION:
        return None
    if status:
        raise failure(status)
    return values, gradient


def kernel_sum(
    x: Float[Tensor, "*sets n d"], y: Float[Tensor, "*sets m d"] | None, right: Float[Tensor, "*sets m 1"] | None,
    left: Float[Tensor, "*sets n 1"] | None, code: Code, itself: int, needs_grad: bool,
) -> tuple[Float[Tensor, "*sets n 1"], Float[Tensor, "*sets n d"] | None]:  # fmt: skip
    """`unclump.ops.kernel_sum.kernel_sum` of sets."""
    x, y = x.contiguous(), y if y is None else y.contiguous()
    *sets, n, d = x.shape
    check_alike(x, y)
    m = n if y is None else y.shape[-2]
    weights = weights_of_pairs(x, m, right, left, itself)
    sums, gradient = x.new_empty(*sets, n, 1), empty(x.shape, x.dtype) if needs_grad else None
    inputs = x.data_ptr(), None if y is None else y.data_ptr(), *([one.data_ptr() for one in weights] or 4 * [None])
    results = sums.data_ptr(), None if gradient is None else gradient.data_ptr()
    # Between points that are all among the others both terms of a pair count; weights count them themselves.
    factor = 4.0 if 0 <= itself <= m - n and not weights else 2.0
    several = threads(n * m, at_least=_A_THREAD)
    if status := _SUM[x.itemsize](*inputs, *results, math.prod(sets), n, m, d, itself, *code, factor, several):
        raise failure(status)
    return sums, gradient


def weights_of_pairs(
    x: Float[Tensor, "*sets n d"], m: int, right: Float[Tensor, "*sets m 1"] | None,
    left: Float[Tensor, "*sets n 1"] | None, itself: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The points' weights u and v, then those of the m others; none where all are one and no point is but one of them.

    The sum of point i is that of v_j k_ij, and the force between i and j counts u_i v_j + v_i u_j times.
    """
    *sets, n, _ = x.shape
    among = 0 <= itself <= m - n
    if right is None and left is None and not (among and n != m):
        return ()
    right = x.new_ones(*sets, m, 1) if right is None else right.contiguous()
    own = right[..., itself : itself + n, :].contiguous() if among else x.new_zeros(*sets, n, 1)
    left = (own if among else x.new_ones(*sets, n, 1)) if left is None else left.contiguous()
    others_left = pad(left, (0, 0, itself, m - n - itself)) if among else torch.zeros_like(right)
    return left, own, others_left, right
