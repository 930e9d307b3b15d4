r"""The CPU's fused loops behind the torch operations: the door, the compiler and the threads.

Where numba is installed, float32 and float64 on the CPU go through the loops of this package; everything else, GPUs
and `torch.compile` among it, takes the torch operations beside each call. Both give the same numbers. A loop touches a
row once where the torch expression makes a dozen temporaries of the table's size.

Numba itself is imported by the files here, and these by the first call that needs them: it takes a third of a second.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise

import torch
from torch import Tensor, nn

ENABLED = find_spec("numba") is not None
"""Set to False by tests that compare both ways."""


def usable(*tensors: Tensor) -> bool:
    """Whether the loops can take these tensors: plain ones with values to read, all of the same precision."""
    dtype = tensors[0].dtype
    return (
        ENABLED
        and dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None  # torch.func's tensors have no memory of their own
        and all(type(x) in (Tensor, nn.Parameter) and x.device.type == "cpu" and x.dtype == dtype for x in tensors)
    )


def share(loop: Callable[[int, int], object], count: int, *, at_least: int) -> None:
    """Run `loop(start, stop)` over ranges that make up `range(count)`, on as many threads as torch may use.

    The loops release the interpreter's lock. Numba's own threads would end the process when a forked child, such as a
    data loader's worker, used them after its parent.

    Args:
        loop: Called once for each range, one of them on the calling thread.
        count: How much there is to do.
        at_least: The least that is worth a thread.
    """
    parts = max(1, min(torch.get_num_threads(), count // at_least))
    (start, stop), *others = pairwise(count * part // parts for part in range(parts + 1))
    started = [_threads(os.getpid(), parts).submit(loop, *other) for other in others]
    loop(start, stop)
    for other in started:
        other.result()


@lru_cache(maxsize=1)
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork copies the object, but not its threads."""
    return ThreadPoolExecutor(count, thread_name_prefix="unclump")
