"""Projection onto the sphere, one pass over the rows there and one back."""

from jaxtyping import Float
from torch import Tensor

from unclump.ops.native import Loop, empty, failure, threads

A_THREAD = 2**13
"""Entries that are worth a thread: a hundredth of a millisecond."""

_PROJECT, _BACK = Loop("project", "pppiii"), Loop("project_back", "ppppiii")


def project(x: Float[Tensor, "*shape d"]) -> tuple[Float[Tensor, "*shape d"], Float[Tensor, "*shape 1"]]:
    """The rows on the sphere, and one over their norms."""
    x = x.contiguous()
    y, inverse = empty(x.shape, x.dtype), x.new_empty((*x.shape[:-1], 1))
    sizes = inverse.numel(), x.shape[-1], threads(x.numel(), at_least=A_THREAD)
    if status := _PROJECT[x.itemsize](x.data_ptr(), y.data_ptr(), inverse.data_ptr(), *sizes):
        raise failure(status)
    return y, inverse


def project_back(
    y: Float[Tensor, "*shape d"], inverse: Float[Tensor, "*shape 1"], grad: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape d"]:
    """The gradient by what was projected."""
    y, inverse, grad = y.contiguous(), inverse.contiguous(), grad.contiguous()
    result = empty(y.shape, y.dtype)
    sizes = inverse.numel(), y.shape[-1], threads(y.numel(), at_least=A_THREAD)
    if status := _BACK[y.itemsize](y.data_ptr(), inverse.data_ptr(), grad.data_ptr(), result.data_ptr(), *sizes):
        raise failure(status)
    return result
