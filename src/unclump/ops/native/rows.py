r"""The update rules of `unclump.ops.row_update`, one pass over the rows, in place."""

import torch
from torch import Tensor

from unclump.ops.native import Loop, failure

_SGD, _ADAM = Loop("sgd", "ppppiiiddii"), Loop("adam", "ppppppiiiiddddii")


def sgd_update(
    x: Tensor,
    grad: Tensor,
    momentum_buffer: Tensor | None,
    *,
    rows: Tensor | None,
    lr: float,
    momentum: float,
    retraction: str,
    threads: int,
) -> None:
    """`row_update.sgd_update`: on all rows, or on those named, by the sum of each one's gradients."""
    addresses = (None if table is None else table.data_ptr() for table in (x, grad, momentum_buffer, rows))
    if status := _SGD[x.itemsize](*addresses, len(x), *grad.shape, lr, momentum, retraction == "exp", threads):
        raise failure(status)
    # Autograd must refuse a backward pass through values that are no longer there.
    torch.autograd.graph.increment_version([table for table in (x, momentum_buffer) if table is not None])


def adam_update(
    x: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    steps: Tensor,
    *,
    rows: Tensor | None,
    lazy: bool,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    retraction: str,
    threads: int,
) -> None:
    """`row_update.adam_update`: on all rows; on those named, by the sum of each one's gradients; or if `lazy`, on those
    with a gradient.
    """
    tables = x, grad, exp_avg, exp_avg_sq, steps
    addresses = *(table.data_ptr() for table in tables), None if rows is None else rows.data_ptr()
    choices = lazy, lr, *betas, eps, retraction == "exp"
    if status := _ADAM[x.itemsize](*addresses, len(x), *grad.shape, *choices, threads):
        raise failure(status)
    torch.autograd.graph.increment_version([x, exp_avg, exp_avg_sq, steps])
