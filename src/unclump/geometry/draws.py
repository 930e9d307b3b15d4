"""Draws that follow their `generator` to its device and arrive on the one they are for."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from unclump._checks import check_generator


def _draw(
    sampler: Callable[..., Tensor],
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Independent numbers of torch's `sampler`; a CPU generator serves a GPU too, at the price of a copy."""
    check_generator(generator)
    source = device if generator is None else generator.device
    return sampler(*shape, generator=generator, dtype=dtype, device=source).to(device)


standard_normal = partial(_draw, torch.randn)
unit_interval = partial(_draw, torch.rand)
"""Uniform in [0, 1)."""
