"""Which rows of a table may move, how far, and how they are written down where they went."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import widen
from unclump.geometry.sphere import angle, exp, log
from unclump.ops.project import project

_BLOCK = 2**20  # numbers settled at once, in double precision
_TRIES = 12  # to round a row such that it is within its bound

Rows = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[bool]


def moving_rows(frozen: Rows | None, x: Tensor, *, elsewhere: bool = False) -> Tensor | None:
    """The mask of the rows that are not frozen, or None where all of them may move; `elsewhere` there are more rows."""
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
    if not moving.any() and not elsewhere:
        raise ValueError(f"expected at least one row that may move, got all {n} frozen; leave some out of frozen")
    return moving


def bring_back(table: Tensor, start: Tensor, rows: Tensor | slice, max_move: float) -> None:
    """Put those of the rows that are farther than `max_move` from their start at just this angle from it."""
    origin, here = start[rows], table[rows]
    travelled = angle(origin, here).unsqueeze(-1)
    bounded = project(exp(origin, log(origin, here) * (max_move / travelled)))
    table[rows] = torch.where(travelled > max_move, bounded, here)


def settle(
    directions: Float[Tensor, "n d"], original: Float[Tensor, "n d"], *, keep_norms: bool, max_move: float | None = None
) -> Float[Tensor, "n d"]:
    """The rows of a table turned into new directions, in its dtype, with the bound on moves kept after rounding.

    Args:
        directions: Where the rows should point, unit rows.
        original: The rows as they were.
        keep_norms: Keep the norm of each row; otherwise rows are the directions, rounded. A row whose norm its dtype
            cannot carry in the new direction, too large or too small for it, stays as it was.
        max_move: The largest angle between a row as it was and as it is returned, both taken to the last bit. A row
            that rounding would carry farther is turned less.
    """
    rows = max(1, _BLOCK // original.shape[1])
    blocks = zip(torch.split(directions.detach(), rows), torch.split(original.detach(), rows), strict=True)
    return torch.cat([_settle(new, old, keep_norms, max_move) for new, old in blocks])


def norms_of(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """The norms of rows that are not zero, in double precision, from the smallest number to the largest."""
    rows = widen(rows)
    largest = rows.abs().amax(dim=-1, keepdim=True)
    norms: Tensor = largest * vector_norm(rows / largest, dim=-1, keepdim=True)
    return norms


def _with_norms(rows: Tensor, norms: Tensor | None) -> Tensor:
    """Rows whose norm is one but for rounding, with these norms instead."""
    return rows if norms is None else rows * (norms / vector_norm(rows, dim=-1, keepdim=True))


def _settle(directions: Tensor, original: Tensor, keep_norms: bool, max_move: float | None) -> Tensor:
    wide, aim = widen(original), widen(directions)
    norms = norms_of(wide) if keep_norms else None
    start = project(wide)
    rows = _with_norms(aim, norms).to(original.dtype)
    if max_move is not None:
        there, length = log(start, aim), angle(start, aim)
        allowed, far = length, (length > max_move).nonzero()[:, 0]
        excess = length - max_move
        for attempt in range(_TRIES):
            allowed = torch.where(excess > 0, (allowed - excess).clamp_min(0), allowed)
            share = torch.where(length[far] > 0, allowed[far] / length[far], 0).unsqueeze(-1)
            turned = exp(start[far], share * there[far])
            rows[far] = _with_norms(turned, None if norms is None else norms[far]).to(original.dtype)
            # What is too far now is so by rounding: turned less, and less at every attempt, it is rounded otherwise.
            excess = 2.0 ** (attempt + 1) * (angle(start, project(widen(rows))) - max_move)
            far = (excess > 0).nonzero()[:, 0]
            if len(far) == 0:
                break
        far = angle(start, project(widen(rows))) > max_move
        if keep_norms:
            rows[far] = original[far]
        elif far.any():
            _place_unit_rows(rows, start, far, max_move)
    lost = ~rows.isfinite().all(dim=-1) | (rows == 0).all(dim=-1)
    rows[lost] = original[lost]
    return rows


def _place_unit_rows(rows: Tensor, start: Tensor, far: Tensor, max_move: float) -> None:
    """Unit rows that did not move; rounding alone may turn them too far."""
    rows[far] = start[far].to(rows.dtype)
    turned = angle(start, project(widen(rows))).max().item()
    if turned > max_move:
        raise ValueError(
            f"expected max_move of at least {turned:.3g} radians, got {max_move:.3g}: so far do rows turn that are "
            f"made unit and rounded to {str(rows.dtype).removeprefix('torch.')}; allow more, or keep the norms"
        )
