r"""The CPU's fused loops behind the torch operations: the door, and how many threads there are.

Where numba is installed, float32 and float64 on the CPU go through the loops of this package; everything else, GPUs
and `torch.compile` among it, takes the torch operations beside each call. Both give the same numbers. A loop touches a
row once where the torch expression makes a dozen temporaries of the table's size.

Numba itself is imported by the files here, and these by the first call that needs them: it takes a third of a second.
"""

import math
import os
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

ENABLED = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Set to False by tests that compare both ways."""

_most_threads = torch.get_num_threads
_APART = math.sqrt(torch.finfo(torch.float32).eps)  # how far apart coinciding rows are taken to be


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


def fused_mean_of_nearest(
    embeddings: Float[Tensor, "*sets n d"], *, distance: str, logarithm: bool, needs_grad: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None] | None:
    """Minus the mean distance, or its logarithm, of the embeddings' directions to the nearest other, in one pass.

    With the gradient by the embeddings; None where no loop does it.
    """
    if embeddings.ndim > 2 or embeddings.dtype is not torch.float32 or not usable(embeddings):
        return None
    from unclump.ops.native import distances as loops

    n, table = len(embeddings), embeddings.detach().contiguous().numpy()
    gradient = np.empty_like(table if needs_grad else table[:0])
    choices = distance == "geodesic", distance == "squared", logarithm, _APART
    value = loops.mean_of_nearest(table, *choices, gradient, threads(n * n, at_least=2**15))
    return embeddings.new_full((), value), torch.from_numpy(gradient) if needs_grad else None


def fused_quantisation_error(
    embeddings: Float[Tensor, "*sets n d"], samples: Float[Tensor, "m d"], *, needs_grad: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None] | None:
    """Half the mean squared angle of the samples' directions to the nearest of the embeddings'; the same otherwise."""
    if embeddings.ndim > 2 or embeddings.dtype is not torch.float32 or not usable(embeddings, samples):
        return None
    from unclump.ops.native import distances as loops

    value, gradient = loops.mean_square_to_nearest(embeddings, samples, wanted=needs_grad)
    return value, gradient


def _one_thread() -> None:
    """In a forked child, such as a data loader's worker: the threads of its parent's team are not there."""
    global _most_threads  # noqa: PLW0603
    _most_threads = lambda: 1  # noqa: E731


if hasattr(os, "register_at_fork"):  # where there is fork
    os.register_at_fork(after_in_child=_one_thread)
