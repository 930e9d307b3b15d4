r"""The CPU's fused loops behind the torch operations: the door, the compiler and the threads.

Where numba is installed, float32 and float64 on the CPU go through the loops of this package; everything else, GPUs
and `torch.compile` among it, takes the torch operations beside each call. Both give the same numbers. A loop touches a
row once where the torch expression makes a dozen temporaries of the table's size.

Numba itself is imported by the files here, and these by the first call that needs them: it takes a third of a second.
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from importlib.util import find_spec
from threading import Barrier
from typing import TypeVar

import torch
from torch import Tensor, nn

Job = TypeVar("Job")
Result = TypeVar("Result")

ENABLED = find_spec("numba") is not None
"""Set to False by tests that compare both ways."""

_PIECES = 4  # for each thread: one that wakes late, or shares its core, has fewer

_torch_threads = torch.get_num_threads
_this_thread = threading.local()


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
        loop: Called for each range, by whichever thread is free, the calling one among them.
        count: How much there is to do.
        at_least: The least that is worth a thread.
    """
    threads = _thread_count()
    helpers = min(threads, count // at_least) - 1
    if helpers <= 0:
        loop(0, count)
        return
    pieces = min(count, _PIECES * (helpers + 1))
    left = iter([(count * piece // pieces, count * (piece + 1) // pieces) for piece in range(pieces)])

    def work() -> None:
        for start, stop in left:
            loop(start, stop)

    started = [_threads(os.getpid(), threads).submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        list(left)  # after an error nothing more is begun, and nobody writes when it is raised
        begun = [other for other in started if not other.cancel()]  # who has not woken by now is not waited for
        wait(begun)
    for other in begun:
        other.result()


def deal(work: Callable[[Sequence[Job]], Result], jobs: Iterable[Job], *, most: int | None = None) -> list[Result]:
    """Deal jobs out to as many threads as torch may use: each calls `work` once, with every so manieth of them.

    A thread's own torch operations take no further threads. Those of a product that all threads share would wait for
    each other at its end, thousands of times over the blocks of a table.

    Args:
        work: Called once for each thread.
        jobs: What is dealt out.
        most: How many threads may be used at most.
    """
    jobs = list(jobs)
    threads = _thread_count()
    parts = min(threads, len(jobs), most or threads)
    if parts <= 1:
        return [work(jobs)]
    started = [_threads(os.getpid(), threads).submit(work, jobs[part::parts]) for part in range(parts)]
    return [each.result() for each in started]


def _thread_count() -> int:
    """How many threads a call may use. One of our own that waited for others might wait for ever."""
    return 1 if hasattr(_this_thread, "is_ours") else _torch_threads()


@lru_cache(maxsize=1)
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """Threads of this process, each with one thread for torch: a fork copies the object, but not its threads."""
    before, begun = torch.get_num_threads(), Barrier(count + 1)

    def begin() -> None:
        _this_thread.is_ours = True
        torch.get_num_threads()  # the first call sets the usual number, and must not come later
        torch.set_num_threads(1)  # for this thread, and for those that begin after it
        begun.wait()

    pool = ThreadPoolExecutor(count, thread_name_prefix="unclump", initializer=begin)
    try:
        for _ in range(count):
            pool.submit(int)  # no thread is idle before all have begun, so that each call starts another
        begun.wait()
    except BaseException:
        begun.abort()  # the system gives no more threads: those that wait for them must end
        raise
    finally:
        torch.set_num_threads(before)  # what others begin with is as it was
    return pool
