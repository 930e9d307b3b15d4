"""Bounds on the moves of rows: which may move, how far, and rounding that respects the bound."""

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

_BLOCK = 2**20  # entries converted to double precision at a time
_TRIES = 12  # attempts to round a row to within its bound

Rows = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[bool]


def moving_rows(frozen: Rows | None, x: Tensor, *, elsewhere: bool = False) -> Tensor | None:
    """The mask of the rows that are not frozen, or None if all may move; `elsewhere` if other ranks have rows, too."""
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
            raise ValueError(f"expected frozen rows from 0 to {n - 1}, got {wrong[0]}; there is no such row")
        moving = torch.ones(n, dtype=torch.bool, device=x.device)
        moving[chosen.long()] = False
    if not moving.any() and not elsewhere:
        raise ValueError(f"expected at least one row that may move, got all {n} frozen; leave some out of frozen")
    return moving


def bring_back(table: Tensor, start: Tensor, rows: Tensor | slice, max_move: float) -> None:
    """Move rows that are farther than `max_move` from their start back to this angle, in place."""
    origin, current = start[rows], table[rows]
    travelled = angle(origin, current).unsqueeze(-1)
    bounded = project(exp(origin, log(origin, current) * (max_move / travelled)))
    table[rows] = torch.where(travelled > max_move, bounded, current)


def settle(
    directions: Float[Tensor, "n d"], original: Float[Tensor, "n d"], *, keep_norms: bool, max_move: float | None = None
) -> Float[Tensor, "n d"]:
    """Round new directions to the dtype of a table, such that the bound on moves holds after rounding.

    Args:
        directions: The new directions, unit rows.
        original: The original rows.
        keep_norms: Keep the norm of each row; otherwise return the rounded directions. A row whose norm would overflow
            or underflow in the new direction is returned unchanged.
        max_move: The largest angle between an original row and the returned one, computed from their exact values. A
            row that rounding would move farther is rotated less.
    """
    rows = max(1, _BLOCK // original.shape[1])
    blocks = zip(torch.split(directions.detach(), rows), torch.split(original.detach(), rows), strict=True)
    return torch.cat([_settle(new, old, keep_norms, max_move) for new, old in blocks])


def norms_of(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """The norms of nonzero rows, in double precision, without underflow or overflow."""
    rows = widen(rows)
    largest = rows.abs().amax(dim=-1, keepdim=True)
    norms: Tensor = largest * vector_norm(rows / largest, dim=-1, keepdim=True)
    return norms


def _scale_to_norms(rows: Tensor, norms: Tensor | None) -> Tensor:
    """Scale rows of norm one, up to rounding, to these norms."""
    return rows if norms is None else rows * (norms / vector_norm(rows, dim=-1, keepdim=True))


def _settle(directions: Tensor, original: Tensor, keep_norms: bool, max_move: float | None) -> Tensor:
    norms = norms_of(original) if keep_norms else None
    rows = _scale_to_norms(directions if norms is None else widen(directions), norms).to(original.dtype, copy=True)
    if max_move is not None:
        start, target = project(widen(original)), widen(directions)
        displacement, length = log(start, target), angle(start, target)
        allowed, far = length, (length > max_move).nonzero()[:, 0]
        excess = length - max_move
        for attempt in range(_TRIES):
            allowed = torch.where(excess > 0, (allowed - excess).clamp_min(0), allowed)
            share = torch.where(length[far] > 0, allowed[far] / length[far], 0).unsqueeze(-1)
            turned = exp(start[far], share * displacement[far])
            rows[far] = _scale_to_norms(turned, None if norms is None else norms[far]).to(original.dtype)
            # Rows that are still too far are so because of rounding. Every attempt rotates them less.
            excess = 2.0 ** (attempt + 1) * (angle(start, project(widen(rows))) - max_move)
            far = (excess > 0).nonzero()[:, 0]
            if len(far) == 0:
                break
        far = angle(start, project(widen(rows))) > max_move
        if keep_norms:
            rows[far] = original[far]
        elif far.any():
            _reset_unit_rows(rows, start, far, max_move)
    is_unrepresentable = ~rows.isfinite().all(dim=-1) | (rows == 0).all(dim=-1)
    rows[is_unrepresentable] = original[is_unrepresentable]
    return rows


def _reset_unit_rows(rows: Tensor, start: Tensor, far: Tensor, max_move: float) -> None:
    """Reset these rows to their start, as unit rows; raise if rounding alone rotates them too far."""
    rows[far] = start[far].to(rows.dtype)
    turned = angle(start, project(widen(rows))).max().item()
    if turned > max_move:
        raise ValueError(
            f"expected max_move of at least {turned:.3g} radians, got {max_move:.3g}: normalising rows and rounding "
            f"them to {str(rows.dtype).removeprefix('torch.')} rotates them that far; allow more, or keep the norms"
        )
