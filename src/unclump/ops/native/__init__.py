r"""The CPU's loops in C++ behind the operations: when they are used, and on how many threads.

Where the library was compiled, float32 and float64 on the CPU go through it; everything else, GPUs and `torch.compile`
among it, takes the reference beside each call. Both give the same numbers. A loop touches a row once where the torch
expression makes a dozen temporaries of the table's size.

The Python files here are thin: they make tensors contiguous, allocate results, and pass addresses on. What is wrong
with the arguments is found before.
"""

import os

import torch
from torch import Tensor, nn

from unclump.ops.native.library import choose

ENABLED = choose()[0] is not None
"""Set to False by tests that compare both ways."""

_most_threads = torch.get_num_threads


def usable(*tensors: Tensor) -> bool:
    """Whether the loops can take these tensors: plain ones with values to read, all of the same precision."""
    dtype = tensors[0].dtype
    return (
        ENABLED
        and dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None  # torch.func's tensors have no memory of their own
        and all(type(x) in (Tensor, nn.Parameter) and x.is_cpu and x.dtype == dtype for x in tensors)
    )


def threads(count: int, *, at_least: int) -> int:
    """How many threads a loop of this length may use: no more than torch, and each must be worth it.

    Args:
        count: How much there is to do.
        at_least: The least that is worth a thread.
    """
    return max(1, min(_most_threads(), count // at_least))


def _one_thread() -> None:
    """In a forked child, such as a data loader's worker: the threads of its parent's team are not there."""
    global _most_threads  # noqa: PLW0603
    _most_threads = lambda: 1  # noqa: E731


if hasattr(os, "register_at_fork"):  # where there is fork
    os.register_at_fork(after_in_child=_one_thread)
