r"""The precision policy, shared by every operation and every implementation.

float64 stays float64. Half precision is computed in float32. In float32, **products select and differences measure**:
a matrix product of the points finds the near pairs, and is accurate enough for all others; near pairs are measured by
coordinate differences. No product of float32 points is computed in float64, and none depends on autocast or on the TF32
and bfloat16 settings (`torch.set_float32_matmul_precision`).

**Coinciding rows** have no direction in which to push them apart, and singular kernels are infinite there. Such a pair
is treated as if it were `apart(dtype)` = sqrt(eps) apart, along a direction that is tangent at both. Values and
gradients stay finite, and the rows separate.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

_HALF = (torch.float16, torch.bfloat16)


def full_precision(x: Tensor) -> Tensor:
    """Convert half precision to float32; return other dtypes unchanged."""
    return _to_single(x) if x.dtype in _HALF else x


def full_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that `full_precision` converts to."""
    return torch.float32 if dtype in _HALF else dtype


def widen(x: Tensor) -> Tensor:
    """Convert to float64, or to float32 on devices without float64."""
    return x.to(widest(x.device))


def widest(device: torch.device) -> torch.dtype:
    """float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert to `dtype`, clamped to its finite range."""
    limits = torch.finfo(dtype)
    return x.clamp(limits.min, limits.max).to(dtype)


def apart(dtype: torch.dtype) -> float:
    """The distance, in radians, that coinciding rows are treated as having: large enough to survive rounding."""
    return math.sqrt(torch.finfo(dtype).eps)


def largest_slope(dtype: torch.dtype) -> float:
    """The bound on derivatives: larger ones could overflow, and their sum be infinity minus infinity."""
    return float(torch.finfo(dtype).max ** 0.9)


def push_aside(
    vector: Float[Tensor, "*sets n d"],
    x: Float[Tensor, "*sets n d"],
    by: Float[Tensor, "*sets n 1"],
    *,
    unit: float = 1.0,
) -> None:
    """Add a multiple of an axis to every vector, in place; its component tangent at the point has the norm `by * unit`.

    The axis is the one with the smallest of the first eight coordinates, which is small enough. The component normal to
    the sphere is removed later, when gradients are projected.
    """
    first = x[..., :8]
    smallest, axis = first.square().min(dim=-1, keepdim=True)
    is_axis = torch.arange(first.shape[-1], device=x.device) == axis  # vmap has no scatter, a GPU no fixed order of it
    along = torch.rsub(smallest, unit**-2, alpha=unit**-2).rsqrt_().mul_(by)  # by * unit / sqrt(1 - smallest)
    vector[..., :8].add_(is_axis * along)


def take_apart(
    vector: Float[Tensor, "*sets n d"],
    x: Float[Tensor, "*sets n d"],
    length: Float[Tensor, "*sets n 1"],
    coincide: Bool[Tensor, "*sets n 1"],
    after: Int[Tensor, "*sets n 1"],
) -> None:
    """Set the distance of coinciding points to `apart`, in place, and push each aside by its own amount.

    So a whole clump comes apart within a few steps.

    Args:
        vector: The points minus one other each.
        x: The points.
        length: The norms of the vectors.
        coincide: Whether the points coincide.
        after: By how many rows the point comes after the other: the later is pushed to one side, the earlier to the
            other.
    """
    length.masked_fill_(coincide, apart(x.dtype))
    by = (after * coincide).to(x.dtype)
    push_aside(vector, x, by.div_(by.abs().add_(1)), unit=apart(x.dtype))


_NO_CHANGE = nullcontext()
_CPU_SWITCH: Any = getattr(torch.backends.mkldnn, "matmul", None)  # torch before 2.9 has none


def exact_products(device: torch.device) -> AbstractContextManager[None]:
    """A context in which float32 products are computed in float32, whatever autocast and torch's settings say.

    Under a compiler, products on a CPU outside of our operators still follow `torch.set_float32_matmul_precision`.
    """
    kind = device.type
    autocast = (kind == "cpu" or torch.amp.is_autocast_available(kind)) and torch.is_autocast_enabled(kind)
    if kind == "cpu":
        switch = _switch_of_cpu()
        is_exact = switch is None or switch.fp32_precision in ("ieee", "none")
    else:
        switch, is_exact = (torch.backends.cuda.matmul, False) if kind == "cuda" else (None, True)
    return _NO_CHANGE if is_exact and not autocast else _ieee_products(kind, switch, autocast)


def _switch_of_cpu() -> Any:
    """The object that holds torch's precision of float32 products on a CPU; None where there is none."""
    return None if torch.compiler.is_compiling() else _CPU_SWITCH  # which compilers cannot trace


@contextmanager
def _ieee_products(kind: str, switch: Any, autocast: bool) -> Iterator[None]:
    name, exact = ("fp32_precision", "ieee") if hasattr(switch, "fp32_precision") else ("allow_tf32", False)
    before = getattr(switch, name, None)
    if before is not None:
        setattr(switch, name, exact)
    try:
        with torch.autocast(kind, enabled=False) if autocast else _NO_CHANGE:
            yield
    finally:
        if before is not None:
            _restore(switch, name, before)


def _restore(switch: Any, name: str, before: str | bool) -> None:
    """Set back what was read from torch's switch, which may have been the setting that this one inherits."""
    if name == "fp32_precision":
        switch.fp32_precision = "none"  # inherits
    if getattr(switch, name) != before:
        setattr(switch, name, before)


class _ToSingle(torch.autograd.Function):
    """Half precision to float32; in backward, gradients are clamped to the finite range of the half-precision dtype."""

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
    """Flatten leading dimensions to at most one, which is all that operations accept."""
    return x if x.ndim <= 3 else x.flatten(0, -3)


def take_rows(table: Float[Tensor, "*sets m d"], index: Int[Tensor, "*sets n"]) -> Float[Tensor, "*sets n d"]:
    """For every set, the rows with these indices."""
    if table.ndim == 2:
        return table.index_select(0, index)
    return table.flatten(0, 1).index_select(0, flat_row_index(index, table.shape[1])).view(*index.shape, table.shape[2])


def flat_row_index(index: Int[Tensor, "*sets k"], n: int) -> Int[Tensor, " bk"]:
    """Convert row indices within sets of n rows to indices into the flattened table of all sets."""
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
    """Return beta * bias + alpha * (a @ c) for every set; the bias is broadcast."""
    return (torch.addmm if a.ndim == 2 else torch.baddbmm)(bias, a, c, beta=beta, alpha=alpha)
