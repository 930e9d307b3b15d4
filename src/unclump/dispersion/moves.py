"""Bounds on the moves of rows: which may move, how far, and rounding that respects the bound."""

import math
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm
from tqdm import tqdm

from unclump._precision import widen
from unclump.geometry.sphere import angle, exp, log, tangent
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
    size = max(1, _BLOCK // table.shape[1])
    blocks = (
        torch.split(rows, size)
        if isinstance(rows, Tensor)
        else [slice(k, k + size) for k in range(0, len(table), size)]
    )
    for block in blocks:
        table[block] = _within(table[block], start[block], max_move)


def _within(x: Tensor, start: Tensor, max_move: float) -> Tensor:
    """Turn rows that are farther than this angle from their start back to it, along the great circle between them."""
    direction = project(tangent(start, x - start))
    bounded = project(math.cos(max_move) * start + math.sin(max_move) * direction)
    return torch.where(angle(start, x).unsqueeze(-1) > max_move, bounded, x)


def settle(
    directions: Float[Tensor, "n d"],
    original: Float[Tensor, "n d"],
    *,
    keep_norms: bool,
    max_move: float | None = None,
    progress: bool = False,
) -> Float[Tensor, "n d"]:
    """Round new directions to the dtype of a table, such that the bound on moves holds after rounding.

    Args:
        directions: The new directions, unit rows.
        original: The original rows.
        keep_norms: Keep the norm of each row; otherwise return the rounded directions. A row whose norm would overflow
            or underflow in the new direction is returned unchanged.
        max_move: The largest angle between an original row and the returned one, computed from their exact values. A
            row that rounding would move farther is rotated less.
        progress: Show a progress bar on stderr.
    """
    size = max(1, _BLOCK // original.shape[1])
    blocks = zip(torch.split(directions.detach(), size), torch.split(original.detach(), size), strict=True)
    settled = torch.empty_like(original)
    with tqdm(total=len(original), desc="rounding", unit="row", disable=not progress, leave=False) as bar:
        for rows, (new, old) in zip(torch.split(settled, size), blocks, strict=True):
            rows.copy_(_settle(new, old, keep_norms, max_move))
            bar.update(len(rows))
    return settled


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
        allowed, far = length.clamp_max(max_move), (length > max_move).nonzero()[:, 0]
        unchecked = torch.arange(len(rows), device=rows.device)
        for attempt in range(_TRIES):
            share = torch.where(length[far] > 0, allowed[far] / length[far], 0).unsqueeze(-1)
            turned = exp(start[far], share * displacement[far])
            rows[far] = _scale_to_norms(turned, None if norms is None else norms[far]).to(original.dtype)
            # Rows that are still too far are so because of rounding. Every attempt rotates them less.
            excess = angle(start[unchecked], project(widen(rows[unchecked]))) - max_move
            far = unchecked = unchecked[excess > 0]
            if len(far) == 0:
                break
            allowed[far] = (allowed[far] - 2.0 ** (attempt + 1) * excess[excess > 0]).clamp_min(0)
        if keep_norms:
            rows[far] = original[far]
        elif len(far) > 0:
            _reset_unit_rows(rows, start, far, max_move)
    is_unrepresentable = ~rows.isfinite().all(dim=-1) | (rows == 0).all(dim=-1)
    rows[is_unrepresentable] = original[is_unrepresentable]
    return rows


def _reset_unit_rows(rows: Tensor, start: Tensor, far: Tensor, max_move: float) -> None:
    """Reset these rows to their start, as unit rows; raise if rounding alone rotates them too far."""
    rows[far] = start[far].to(rows.dtype)
    turned = angle(start[far], project(widen(rows[far]))).max().item()
    if turned > max_move:
        raise ValueError(
            f"expected max_move of at least {turned:.3g} radians, got {max_move:.3g}: normalising rows and rounding "
            f"them to {str(rows.dtype).removeprefix('torch.')} rotates them that far; allow more, or keep the norms"
        )
