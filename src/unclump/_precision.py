r"""One policy of precision, for every operation and whoever computes it.

float64 stays float64. Half precision is computed in float32. In float32 **products select and differences measure**:
a matrix product of points says which pairs are near, and is good enough for those that are not; the near ones are
measured by the differences of their coordinates. No product of float32 points is taken in float64, and none depends on
autocast or on the switch for TF32.

**Rows that coincide** have no direction to be pushed apart in, and singular kernels are infinite there. Such a pair is
taken to be `apart`, the root of the precision, along a direction that is tangent at both. Values and gradients stay
finite, and the rows come apart.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


def full_precision(x: Tensor) -> Tensor:
    """`x` in float32 where it is in half precision, otherwise as it is."""
    return _to_single(x) if x.dtype in (torch.float16, torch.bfloat16) else x


def widen(x: Tensor) -> Tensor:
    """`x` in double precision, or in single on devices that have no other."""
    return x.to(torch.float32 if x.device.type == "mps" else torch.float64)


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` in `dtype`; what is too large for it becomes its largest number."""
    limits = torch.finfo(dtype)
    return x.clamp(limits.min, limits.max).to(dtype)


def apart(dtype: torch.dtype) -> float:
    """How far apart coinciding rows are taken to be: far enough to survive rounding, in radians."""
    return math.sqrt(torch.finfo(dtype).eps)


def largest_slope(dtype: torch.dtype) -> float:
    """Larger slopes would make forces of infinity minus infinity; so large a number is as good."""
    return float(torch.finfo(dtype).max ** 0.9)


def push_aside(vector: Float[Tensor, "b n d"], x: Float[Tensor, "b n d"], by: Float[Tensor, "b n 1"]) -> None:
    """Add to every vector, in place, one whose part tangent at the point has this length: along a coordinate axis.

    The axis is that of the smallest of the first coordinates: of eight, one is small enough. The part that is normal to
    the sphere is taken away where gradients are projected.
    """
    smallest, axis = x[..., :8].square().min(dim=-1, keepdim=True)
    vector.scatter_add_(-1, axis, by * torch.rsqrt(1 - smallest))


@contextmanager
def _ieee_products(device: torch.device) -> Iterator[None]:
    """Products in here keep all digits of float32 on a GPU, whatever the user's switch for TF32 says."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Products of float32 stay float32 in here, whatever autocast and the switch for TF32 say."""
    cast = torch.is_autocast_enabled(device.type) if torch.amp.is_autocast_available(device.type) else False
    with (
        torch.autocast(device.type, enabled=False) if cast else nullcontext(),
        _ieee_products(device) if device.type == "cuda" else nullcontext(),
    ):
        yield


class _ToSingle(torch.autograd.Function):
    """Half precision to single; on the way back, gradients beyond half precision become its largest number."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.float()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return narrow(grad_output, ctx.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], x: Tensor) -> tuple[Tensor, int]:
        return _to_single(x), in_dims[0]


_to_single: Callable[[Tensor], Tensor] = _ToSingle.apply


def as_sets(x: Shaped[Tensor, "*sets n d"]) -> Shaped[Tensor, "b n d"]:
    """Tables with one leading dimension."""
    return x.unsqueeze(0) if x.ndim == 2 else x.flatten(0, -3)


def take_rows(table: Float[Tensor, "b m d"], index: Int[Tensor, "b n"]) -> Float[Tensor, "b n d"]:
    """For every set the rows with these numbers."""
    return table.reshape(-1, table.shape[2]).index_select(0, _flat(table, index)).view(*index.shape, table.shape[2])


def add_rows(
    table: Float[Tensor, "b n d"], index: Int[Tensor, "b k"], values: Float[Tensor, "b k d"]
) -> Float[Tensor, "b n d"]:
    """Add values, in place, to the rows with these numbers."""
    table.view(-1, table.shape[2]).index_add_(0, _flat(table, index), values.reshape(-1, table.shape[2]))
    return table


def _flat(table: Float[Tensor, "b m d"], index: Int[Tensor, "b n"]) -> Int[Tensor, " bn"]:
    """Row numbers of sets as those of all sets in one table."""
    if len(table) == 1:
        return index.reshape(-1)
    first = torch.arange(len(table), device=table.device).unsqueeze(1) * table.shape[1]
    return (index + first).reshape(-1)


def product(a: Float[Tensor, "b n d"], c: Float[Tensor, "b d m"]) -> Float[Tensor, "b n m"]:
    """The matrix products of all sets; of a single set as a plain one, which is faster."""
    return torch.mm(a[0], c[0]).unsqueeze(0) if len(a) == 1 else torch.bmm(a, c)


def add_product(
    bias: Float[Tensor, "b 1 m"], a: Float[Tensor, "b n d"], c: Float[Tensor, "b d m"]
) -> Float[Tensor, "b n m"]:
    """The same with a row added to every row."""
    return torch.addmm(bias[0], a[0], c[0]).unsqueeze(0) if len(a) == 1 else torch.baddbmm(bias, a, c)
