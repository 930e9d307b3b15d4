"""Small tables, and what it means for two of them to be the same."""

import torch


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def clump(n, d, dtype=torch.float32):
    """Rows of many norms around the first axis."""
    x = 0.2 * torch.randn(n, d, generator=seeded(1), dtype=torch.float64)
    x[:, 0] += 1
    return (x * torch.linspace(0.5, 8, n, dtype=torch.float64).unsqueeze(-1)).to(dtype)


def same(a, b):
    """Equal to the last bit."""
    return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
