r"""The CPU's loops in C++ behind the operations: when they are used, and on how many threads.

Where the library was compiled, float32 and float64 on the CPU go through it; everything else, GPUs and `torch.compile`
among it, takes the reference beside each call. Both give the same numbers. A loop touches a row once where the torch
expression makes a dozen temporaries of the table's size.

The Python files here are thin: they make tensors contiguous, allocate results, and pass addresses on. What is wrong
with the arguments is found before.
"""

import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from unclump._library import function, is_loadable

ENABLED = is_loadable()
"""Set to False by tests that compare both ways."""

NO_DIRECTION = 3
"""The status of a loop that met a row of zeros, for which it has no place."""

_most_threads = torch.get_num_threads


class Loop(dict[int, Callable[..., int]]):
    """A function that the library has for float and for double, by the size of these in bytes.

    It is looked up at the first use. Called with addresses and numbers it returns a status, zero or one of `failure`.

    Args:
        name: Without the prefix `unclump_` and the type.
        arguments: As for `unclump._library.function`.
    """

    def __init__(self, name: str, arguments: str) -> None:
        super().__init__()
        self._name, self._arguments = name, arguments

    def __missing__(self, itemsize: int) -> Callable[..., int]:
        loop = function(f"{self._name}_{'float' if itemsize == 4 else 'double'}", self._arguments, "s")
        return self.setdefault(itemsize, loop)


def failure(status: int) -> Exception:
    """What a loop that returned this status could not do; see interface.hpp."""
    if status == 1:
        return MemoryError("expected memory for the temporaries of an operation, got none; use fewer rows at a time")
    return IndexError("expected numbers of rows of the table, got one outside of it")


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """For results of a table's size. NumPy's memory is in large pages, which the system hands out much faster."""
    return torch.from_numpy(np.empty(shape, _NUMPY[dtype]))


_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def has_native(*tensors: Tensor) -> bool:
    """Whether the loops can take these tensors: plain ones with values to read, all of the same precision."""
    dtype = tensors[0].dtype
    if not ENABLED or dtype not in _NUMPY or torch.compiler.is_compiling():
        return False
    for x in tensors:
        if type(x) not in (Tensor, nn.Parameter) or not x.is_cpu or x.dtype != dtype:
            return False
    return have_memory(*tensors)


def have_memory(*tensors: Tensor) -> bool:
    """Whether these tensors, and new ones, have an address: within `torch.func` some of them have none."""
    try:
        for x in (*tensors, torch.empty(0)):
            x.data_ptr()
    except RuntimeError:
        return False
    return True


def check_alike(x: Tensor, y: Tensor | None) -> None:
    """Raise unless the others are as many sets as the points, of the same dimension: loops would read beyond them."""
    if y is not None and (y.shape[:-2], y.shape[-1]) != (x.shape[:-2], x.shape[-1]):
        raise ValueError(f"expected others of shape (..., m, {x.shape[-1]}) for {tuple(x.shape)}, got {tuple(y.shape)}")


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
