"""Draws that follow their `generator` to its device and arrive on the one they are for."""

import torch
from torch import Tensor

from unclump._checks import check_generator


def standard_normal(
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Independent standard normal numbers; a CPU generator serves a GPU too, at the price of a copy."""
    check_generator(generator)
    source = device if generator is None else generator.device
    return torch.randn(*shape, generator=generator, dtype=dtype, device=source).to(device)


def unit_interval(
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Independent numbers, uniform in [0, 1)."""
    check_generator(generator)
    source = device if generator is None else generator.device
    return torch.rand(*shape, generator=generator, dtype=dtype, device=source).to(device)
