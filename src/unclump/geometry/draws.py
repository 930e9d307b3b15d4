"""Random numbers drawn on the generator's device and moved to the target device."""

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
    """Draw with torch's `sampler`; a CPU generator works for a GPU too, at the cost of a copy."""
    check_generator(generator)
    draw_device = device if generator is None else generator.device
    # Compilers with dynamic shapes have no draw that takes a generator, not even None.
    options = {} if generator is None else {"generator": generator}
    return sampler(*shape, dtype=dtype, device=draw_device, **options).to(device)


standard_normal = partial(_draw, torch.randn)
unit_interval = partial(_draw, torch.rand)
"""Uniform in [0, 1)."""
