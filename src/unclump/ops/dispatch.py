"""Dispatch of operations: to compiled loops on the CPU, Triton kernels on a GPU, or the reference in plain torch.

Every operation is registered once under `torch.ops.unclump`, with a fake implementation that only computes shapes, so
that `torch.compile`, `torch.export` and the meta device see an ordinary operator.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from unclump.ops.native import has_native
from unclump.ops.triton import has_triton

__all__ = ["has_native", "has_triton", "register"]

_LIBRARY: Any = torch.library.Library("unclump", "DEF")  # type: ignore[no-untyped-call]


def register(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Register a function as the operator with this schema, on all devices.

    Under a compiler, calls go through the operator; otherwise directly to the function, which saves ten microseconds.

    Args:
        schema: For example ``"nearest(Tensor x, int k) -> (Tensor, Tensor)"``.
        fake: Maps the same arguments to empty tensors of the right shape.
    """
    name = schema[: schema.index("(")]

    def decorator(function: Callable[..., Any]) -> Any:
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"unclump::{name}", fake, lib=_LIBRARY)
        operator = getattr(torch.ops.unclump, name).default

        @wraps(function)
        def call(*args: Any) -> Any:
            return (operator if torch.compiler.is_compiling() else function)(*args)

        return call

    return decorator
