"""What the kernels of pairs share: tables moved to their mean, how tiles are multiplied, and how columns are cut."""

from functools import lru_cache
from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor

TILE = 64
"""Rows of a tile, for counting programs before a kernel has chosen its own."""

TENSOR_CORES = ((8, 0), (9, 0), (10, 0))
"""Compute capabilities of data-centre cards, A100, H100 and B200: three products of TF32 are faster than float32."""

_PROGRAMS_A_PROCESSOR = 2


def tunable(configs: list[Any]) -> list[Any]:
    """The configurations to choose from: the first where kernels are interpreted, which has nothing to measure."""
    return configs[:1] if triton.knobs.runtime.interpret else configs


def centred(
    x: Float[Tensor, "*sets n d"], mean: Float[Tensor, "*sets 1 d"]
) -> tuple[Float[Tensor, "*sets n width"], Float[Tensor, "*sets n"]]:
    """The points, moved by the mean, in float32, and half their squared norms.

    Rows are filled up with zeros, to a multiple of what a tile takes at once: its loads need no masks.
    """
    *sets, n, d = x.shape
    depth = depth_of(d)
    if d % depth == 0:
        moved = x - mean
    else:
        moved = x.new_zeros((*sets, n, -(-d // depth) * depth), dtype=torch.float32)
        torch.sub(x, mean, out=moved[..., :d])
    return moved, torch.linalg.vector_norm(moved, dim=-1).square_().mul_(0.5)


def depth_of(d: int) -> int:
    """How many coordinates a tile takes at once."""
    return 16 if d <= 16 else 32


def product_precision(x: Tensor) -> str:
    """How tiles are multiplied: in plain float32, or by three products of TF32 where that is faster."""
    if x.device.type != "cuda" or torch.version.hip is not None:
        return "ieee"
    return "tf32x3" if torch.cuda.get_device_capability(x.device) in TENSOR_CORES else "ieee"


def parts_of_columns(x: Tensor, rows: int, columns: int) -> int:
    """Into how many parts the columns are cut, so that all processors have work where there are few rows.

    It depends on sizes and device alone: the same input has the same parts, and sums in the same order.
    """
    programs = _PROGRAMS_A_PROCESSOR * _processors(x.device)
    return max(1, min(-(-columns // TILE), programs // -(-rows // TILE)))


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
