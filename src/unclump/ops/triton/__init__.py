r"""Kernels for GPUs in Triton behind the operations: when they are used, and what they have in common.

Where triton is importable, as it is beside torch for CUDA and ROCm, float32 tensors on the current device go through
these kernels; everything else takes the reference. `UNCLUMP_TRITON=0` turns them off. Pairs of points are tiles that
never leave the chip: memory is O(n d), and no sum in them is an atomic one.

The policy of precision is that of `unclump._precision`: products of float32 select, differences measure.
"""

import torch
from torch import Tensor, nn

from unclump._library import choose_triton
from unclump.ops.native import have_memory

ENABLED = choose_triton()[0]
"""Set to False by tests that compare both ways."""

DEVICE = "cuda"
"""The type of device whose tensors the kernels take, ROCm's too. Set to "cpu" by tests that interpret them."""

_WIDEST = 2**14  # numbers of a row that one program holds


def has_triton(*tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,), width: int = 0) -> bool:
    """Whether the kernels can take these tensors: plain ones of such a dtype with values to read, on the current GPU.

    Args:
        tensors: All that a kernel reads.
        dtypes: Those that it can read.
        width: The length of rows, where a program holds whole ones.
    """
    device = tensors[0].device
    return (
        ENABLED
        and device.type == DEVICE
        and not torch.compiler.is_compiling()
        and width <= _WIDEST
        and (device.index is None or device.index == torch.cuda.current_device())  # where Triton launches
        and all(
            type(x) in (Tensor, nn.Parameter) and x.device == device and x.dtype in dtypes and x.numel() > 0
            for x in tensors
        )
        and have_memory(*tensors)
    )
