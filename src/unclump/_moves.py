"""Which rows of a table may move, and how far."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from unclump.sphere import angle, exp, log, project

Rows = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[bool]


def moving_rows(frozen: Rows | None, x: Tensor) -> Tensor | None:
    """The mask of the rows that are not frozen, or None where all of them may move."""
    if frozen is None:
        return None
    chosen, n = torch.as_tensor(frozen).to(x.device), len(x)
    if chosen.numel() == 0:
        return None
    if chosen.dtype == torch.bool:
        if chosen.shape != (n,):
            raise ValueError(f"expected frozen as a mask of shape ({n},), got shape {tuple(chosen.shape)}")
        moving = ~chosen
    else:
        if chosen.is_floating_point() or chosen.ndim != 1:
            raise TypeError(
                f"expected frozen as a mask or a list of row numbers, got {chosen.dtype} of shape {tuple(chosen.shape)}"
            )
        wrong = chosen[(chosen < 0) | (chosen >= n)].tolist()
        if wrong:
            raise ValueError(f"expected frozen rows from 0 to {n - 1}, got {wrong[0]}; a table of {n} has no such row")
        moving = torch.ones(n, dtype=torch.bool, device=x.device)
        moving[chosen.long()] = False
    if not moving.any():
        raise ValueError(f"expected at least one row that may move, got all {n} frozen; leave some out of frozen")
    return moving


def bring_back(table: Tensor, start: Tensor, rows: Tensor | slice, max_move: float) -> None:
    """Put those of the rows that are farther than `max_move` from their start at just this angle from it."""
    origin, here = start[rows], table[rows]
    travelled = angle(origin, here).unsqueeze(-1)
    bounded = project(exp(origin, log(origin, here) * (max_move / travelled)))
    table[rows] = torch.where(travelled > max_move, bounded, here)
