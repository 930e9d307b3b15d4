"""The kernels for GPUs against the reference: by Triton's interpreter on the CPU, or on a GPU where there is one."""

from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from unclump import project
from unclump.ops import native
from unclump.ops import triton as door

triton = pytest.importorskip(
    "triton", reason="the kernels for GPUs need the package triton: pip install 'unclump[dev]'"
)

from unclump.ops.triton import add_rows as sum_of_rows_kernels  # noqa: E402
from unclump.ops.triton import circles as circle_kernels  # noqa: E402
from unclump.ops.triton import kernel_sum as sum_kernels  # noqa: E402
from unclump.ops.triton import nearest as nearest_kernels  # noqa: E402
from unclump.ops.triton import projection as projection_kernels  # noqa: E402
from unclump.ops.triton import rows as row_kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

close = partial(assert_close, rtol=2e-6, atol=2e-6)  # the rounding of float32, in sums of a few hundred numbers


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 32 by 32: few points are several tiles."""
    tile = triton.Config({"BLOCK_N": 32, "BLOCK_M": 32}, num_warps=1)
    monkeypatch.setattr(nearest_kernels._select, "configs", [tile])
    monkeypatch.setattr(sum_kernels, "_ROWS", 32)
    monkeypatch.setattr(sum_kernels, "_COLUMNS", 32)


@pytest.fixture
def three_parts(monkeypatch):
    """Columns in three parts, as where there are few rows for many processors."""
    for module in (nearest_kernels, sum_kernels):
        monkeypatch.setattr(module, "parts_of_columns", lambda x, rows, columns: 3)


@contextmanager
def computed_by(kernels):
    """By the kernels, or by the reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "ENABLED", False)
        patch.setattr(door, "ENABLED", kernels)
        patch.setattr(door, "DEVICE", DEVICE)
        yield


@contextmanager
def launches():
    """How often each kernel is launched in here, by its name."""
    modules = sum_of_rows_kernels, circle_kernels, sum_kernels, nearest_kernels, projection_kernels, row_kernels
    named = [(name, one) for module in modules for name, one in vars(module).items() if not isinstance(one, type)]
    kernels = {id(one): (name, one) for name, one in named if hasattr(one, "run")}
    counts = Counter()

    def counted(name, run):
        def launch(*args, **kwargs):
            counts[name] += 1
            return run(*args, **kwargs)

        return launch

    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in kernels.values():
            patch.setattr(kernel, "run", counted(name, kernel.run))
        yield counts


def both(compute):
    """What `compute()` gives by the kernels, and by the reference."""
    results = []
    for kernels in (True, False):
        with computed_by(kernels):
            assert door.has_triton(torch.zeros(1, 1, device=DEVICE)) is kernels
            results.append(compute())
    return results


def table(*shape, seed=0):
    """Points on the sphere, in float32."""
    seeded = torch.Generator().manual_seed(seed)
    return project(torch.randn(*shape, generator=seeded)).to(DEVICE)
