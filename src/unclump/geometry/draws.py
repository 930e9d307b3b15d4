"""Random numbers drawn on the generator's device and moved to the target device."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_generator


def _draw(
    sampler: Callable[..., Tensor],
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw with `sampler`, a function of torch; a CPU generator works for a GPU too, at the cost of a copy."""
    check_generator(generator)
    draw_device = device if generator is None else generator.device
    # With dynamic shapes, torch.compile has no overload of a sampler with a generator, not even with None.
    options = {} if generator is None else {"generator": generator}
    return sampler(*shape, dtype=dtype, device=draw_device, **options).to(device)


standard_normal = partial(_draw, torch.randn)
unit_interval = partial(_draw, torch.rand)
"""Uniform in [0, 1)."""


def unit_normal(x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
    """Normalise Gaussian vectors; unlike `unit`, without protection against underflow and overflow."""
    norm: Tensor = vector_norm(x, dim=-1, keepdim=True)
    return x / norm
