r"""The update rules of `unclump.ops.update_rules`, one pass over the rows, in place."""

import torch
from torch import Tensor

from unclump.ops.native import Loop, failure

_SGD, _ADAM = Loop("sgd", "ppppiiiddii"), Loop("adam", "pppppppiiiiddddii")


def sgd_update(
    x: Tensor,
    grad: Tensor,
    momentum_buffer: Tensor | None,
    *,
    rows: Tensor | None,
    lr: float | Tensor,
    momentum: float,
    retraction: str,
    threads: int,
) -> None:
    """`update_rules.sgd_update`, plain or with momentum: on all rows, or on those named, by the sum of each one's
    gradients.
    """
    addresses = [None if table is None else table.data_ptr() for table in (x, grad, momentum_buffer, rows)]
    if status := _SGD[x.itemsize](
        *addresses, x.shape[0], *grad.shape, float(lr), momentum, retraction == "exp", threads
    ):
        raise failure(status)
    # Autograd must refuse a backward pass through values that are no longer there.
    torch.autograd.graph.increment_version([table for table in (x, momentum_buffer) if table is not None])


def adam_update(
    x: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    steps: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    *,
    rows: Tensor | None,
    lazy: bool,
    lr: float | Tensor,
    betas: tuple[float, float],
    eps: float,
    retraction: str,
    threads: int,
) -> None:
    """`update_rules.adam_update`: on all rows; on those named, by the sum of each one's gradients; or if `lazy`, on
    those with a gradient.
    """
    tables = x, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, steps, rows
    addresses = [None if table is None else table.data_ptr() for table in tables]
    choices = lazy, float(lr), *betas, eps, retraction == "exp"
    if status := _ADAM[x.itemsize](*addresses, x.shape[0], *grad.shape, *choices, threads):
        raise failure(status)
    written = x, exp_avg, exp_avg_sq, steps, max_exp_avg_sq
    torch.autograd.graph.increment_version([table for table in written if table is not None])
