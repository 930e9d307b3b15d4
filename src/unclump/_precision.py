r"""One policy of precision, for every operation and whoever computes it.

float64 stays float64. Half precision is computed in float32. In float32 **products select and differences measure**:
a matrix product of points says which pairs are near, and is good enough for those that are not; the near ones are
measured by the differences of their coordinates. No product of float32 points is taken in float64, and none depends on
autocast or on the switches for TF32 and bfloat16 (`torch.set_float32_matmul_precision`).

**Rows that coincide** have no direction to be pushed apart in, and singular kernels are infinite there. Such a pair is
taken to be `apart`, the root of the precision, along a direction that is tangent at both. Values and gradients stay
finite, and the rows come apart.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


def full_precision(x: Tensor) -> Tensor:
    """`x` in float32 where it is in half precision, otherwise as it is."""
    return _to_single(x) if x.dtype in (torch.float16, torch.bfloat16) else x


def widen(x: Tensor) -> Tensor:
    """`x` in double precision, or in single on devices that have no other."""
    return x.to(widest(x.device))


def widest(device: torch.device) -> torch.dtype:
    """Double precision, or single on devices that have no other."""
    return torch.float32 if device.type == "mps" else torch.float64


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


def push_aside(
    vector: Float[Tensor, "*sets n d"], x: Float[Tensor, "*sets n d"], by: Float[Tensor, "*sets n 1"]
) -> None:
    """Add to every vector, in place, one whose part tangent at the point has this length: along a coordinate axis.

    The axis is that of the smallest of the first coordinates: of eight, one is small enough. The part that is normal to
    the sphere is taken away where gradients are projected.
    """
    first = x[..., :8]
    smallest, axis = first.square().min(dim=-1, keepdim=True)
    is_axis = torch.arange(first.shape[-1], device=x.device) == axis
    vector[..., :8].add_(is_axis * (by * torch.rsqrt(1 - smallest)))


_UNCHANGED = nullcontext()


def exact_products(device: torch.device) -> AbstractContextManager[None]:
    """Products of float32 stay float32 in here, whatever autocast and the switches for TF32 and bfloat16 say."""
    kind = device.type
    autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return _ieee_products(kind, autocast) if autocast or kind == "cuda" or _may_round(kind) else _UNCHANGED


def _may_round(kind: str) -> bool:
    """Whether products on a CPU may round to TF32 or bfloat16 first."""
    return kind == "cpu" and getattr(_switch(kind), "fp32_precision", "ieee") not in ("ieee", "none")


def _switch(kind: str) -> Any:
    """Where torch keeps the precision of float32 products on such a device; None where there is none to turn."""
    if kind == "cuda":
        return torch.backends.cuda.matmul
    if kind == "cpu" and not torch.compiler.is_compiling():  # compilers cannot trace the CPU's
        return getattr(torch.backends.mkldnn, "matmul", None)  # torch before 2.9 has none
    return None


@contextmanager
def _ieee_products(kind: str, autocast: bool) -> Iterator[None]:
    switch = _switch(kind)
    name, exact = ("fp32_precision", "ieee") if hasattr(switch, "fp32_precision") else ("allow_tf32", False)
    before = getattr(switch, name, None)
    if before is not None:
        setattr(switch, name, exact)
    try:
        with torch.autocast(kind, enabled=False) if autocast else _UNCHANGED:
            yield
    finally:
        if before is not None:
            setattr(switch, name, before)


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


def as_sets(x: Shaped[Tensor, "*sets n d"]) -> Shaped[Tensor, "..."]:
    """Tables with one leading dimension, or none where there is a single one: operations take no more."""
    return x if x.ndim <= 3 else x.flatten(0, -3)


def take_rows(table: Float[Tensor, "*sets m d"], index: Int[Tensor, "*sets n"]) -> Float[Tensor, "*sets n d"]:
    """For every set the rows with these numbers."""
    if table.ndim == 2:
        return table.index_select(0, index)
    return table.flatten(0, 1).index_select(0, numbers_in_all(index, table.shape[1])).view(*index.shape, table.shape[2])


def numbers_in_all(index: Int[Tensor, "*sets k"], n: int) -> Int[Tensor, " bk"]:
    """Row numbers of sets of n rows as those of all sets in one table."""
    if index.ndim == 1:
        return index
    return (index + torch.arange(len(index), device=index.device).unsqueeze(1) * n).flatten()


def add_product(
    bias: Float[Tensor, "..."],
    a: Float[Tensor, "*sets n d"],
    c: Float[Tensor, "*sets d m"],
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
) -> Float[Tensor, "*sets n m"]:
    """Beta times the bias, which may be broadcast, and alpha times the matrix product of every set."""
    return (torch.addmm if a.ndim == 2 else torch.baddbmm)(bias, a, c, beta=beta, alpha=alpha)
