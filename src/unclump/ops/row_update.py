"""Optimiser steps: a rule of `unclump.ops.update_rules`, applied in place to all or some rows of parameters."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._precision import full_precision
from unclump.ops import native
from unclump.ops.dispatch import has_triton
from unclump.ops.native import rows as loops
from unclump.ops.project import project
from unclump.ops.update_rules import adam_update, sgd_update

_BLOCK = 2**20  # entries of a block on the CPU, small enough for the allocator to reuse the memory of temporaries

Update = partial[Any]  # a rule with its options


def update_rows(
    update: Update,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    states: Sequence[tuple[Tensor | None, ...]],
    *,
    lazy: bool = False,
) -> None:
    """Apply `in_place` to parameters of shape (..., d): to all rows, or, if `lazy` or sparse, to those with a gradient.

    Each rank updates its rows of a DTensor. Dense parameters without a compiled loop are updated together: by a single
    kernel launch on a GPU, or as one table.
    """
    batched: list[tuple[Tensor, Tensor, tuple[Tensor | None, ...]]] = []
    for x, grad, state in zip(parameters, gradients, states, strict=True):
        if hasattr(x, "device_mesh"):
            grad = local_part(grad, as_in=x)  # noqa: PLW2901
            state = tuple(None if table is None else local_part(table) for table in state)  # noqa: PLW2901
            x = local_part(x)  # noqa: PLW2901
        if lazy or grad.is_sparse or torch.compiler.is_compiling() or (native.ENABLED and x.is_cpu):
            _update_alone(update, x, grad, state, lazy)
        else:
            batched.append((x, grad, state))
    for group in group_alike([x for x, _, _ in batched], [state for _, _, state in batched]) if batched else ():
        members = [batched[i] for i in group]
        if len(members) == 1:
            _update_alone(update, *members[0], lazy=False)
            continue
        if all(_has_kernel(update, x, grad, state, lazy=False) for x, grad, state in members):
            _update_by_kernel(update, members)
            continue
        tables = [
            None if column[0] is None else list(column) for column in zip(*(s for _, _, s in members), strict=True)
        ]
        points = [x for x, _, _ in members]
        rows = [rows_of(points), rows_of([grad for _, grad, _ in members])]
        new = [None if table is None else rows_of(table) for table in tables]
        in_place(update, *rows, *new)
        for written, parts in zip((rows[0], *new), (points, *tables), strict=True):
            if written is not None and parts is not None:
                write_rows(written, parts)


def update_named(
    update: Update, x: Tensor, grad: Tensor, state: tuple[Tensor | None, ...], rows: Tensor | None, lazy: bool = False
) -> None:
    """Apply `in_place` to one parameter: to `rows`, or to all rows if None."""
    in_place(update, as_rows(x), as_rows(grad), *_state_as_rows(state), rows=rows, lazy=lazy and rows is None)


def _update_alone(update: Update, x: Tensor, grad: Tensor, state: tuple[Tensor | None, ...], lazy: bool) -> None:
    rows = grad._indices()[0] if grad.is_sparse else None
    update_named(update, x, grad if rows is None else grad._values(), state, rows, lazy)


def _state_as_rows(state: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    return tuple([None if table is None else as_rows(table) for table in state])


def local_part(x: Any, *, as_in: Any = None) -> Tensor:
    """The local part of a DTensor, redistributed like `as_in` first; other tensors are returned unchanged."""
    if not hasattr(x, "device_mesh"):
        return x  # type: ignore[no-any-return]
    if as_in is not None and x.placements != as_in.placements:
        x = x.redistribute(as_in.device_mesh, as_in.placements)
    return x.to_local()  # type: ignore[no-any-return]


def group_alike(tables: Sequence[Tensor], states: Sequence[tuple[Tensor | None, ...]] | None = None) -> list[list[int]]:
    """Group the indices of tables that can be concatenated: of the same width, dtype, device and kind of state."""
    groups: dict[object, list[int]] = {}
    for index, table in enumerate(tables):
        parts = () if states is None else tuple(part is None for part in states[index])
        groups.setdefault((table.shape[-1], table.dtype, table.device, parts), []).append(index)
    return list(groups.values())


def rows_of(tables: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows of several tables."""
    return as_rows(tables[0]) if len(tables) == 1 else torch.cat([as_rows(table) for table in tables])


def write_rows(rows: Tensor, tables: Sequence[Tensor]) -> None:
    """The inverse of `rows_of`: write the rows back into their tables."""
    parts = [as_rows(table) for table in tables]
    if len(parts) == 1:
        parts[0].copy_(rows)
    else:
        torch.split_with_sizes_copy(rows, [len(part) for part in parts], out=parts)


def as_rows(x: Tensor) -> Tensor:
    """Reshape to a table with one row per point; a view if `x` is contiguous."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def block_height(x: Tensor) -> int:
    """How many rows to update at a time: on a GPU, all."""
    return max(1, _BLOCK // x.shape[1] if x.is_cpu else len(x))


def _check_sizes(x: Tensor, grad: Tensor, state: Sequence[Tensor | None], rows: Tensor | None) -> None:
    """Raise unless gradients and state have the size of the points: loops would read out of bounds."""
    n, d = x.shape
    is_whole = grad.shape == (n if rows is None else rows.shape[0], d)
    for table in state:
        if table is not None:
            is_whole &= table.shape in ((n, d), (n, 1)) and (table.is_floating_point() or table.dtype == torch.long)
    if not is_whole:
        shapes = [tuple(grad.shape), *(tuple(table.shape) for table in state if table is not None)]
        raise ValueError(
            f"expected the gradient and the state of {n} points in {d} dimensions, got shapes {shapes}: the parameter "
            "has another size than at the previous step, or the state of another one; create a new optimiser for it"
        )


def in_place(
    update: Update,
    x: Float[Tensor, "n d"],
    grad: Float[Tensor, "k d"],
    *state: Tensor | None,
    rows: Int[Tensor, " k"] | None = None,
    lazy: bool = False,
) -> None:
    r"""Replace points and state with the result of `update(x, grad, *state)`, block by block on the CPU.

    Half-precision points are projected onto the sphere, updated in float32, and rounded when written.

    Args:
        update: A rule such as `adam_update`, with its options.
        x: The table of points.
        grad: The gradients of all rows, or of those in `rows`.
        state: The further arguments of the rule, in order; each has a row per point, or is None.
        rows: The rows to update; gradients of repeated rows are added. None for all rows, in order. A row number out of
            range raises an `IndexError`; on a GPU, it triggers an assertion of torch at the next synchronisation.
        lazy: Update only rows whose gradient is not zero.
    """
    tables = [table for table in (x, *state) if table is not None]
    numbers = [table for table in (grad, *tables) if table.is_floating_point()]
    _check_sizes(x, grad, state, rows)
    if _has_loop(update, lazy=lazy) and native.has_native(*numbers) and all(table.is_contiguous() for table in tables):
        threads = native.threads(grad.numel(), at_least=2**13)
        named = None if rows is None else rows.contiguous()
        if update.func is adam_update:
            loops.adam_update(x, grad.contiguous(), *state, rows=named, lazy=lazy, threads=threads, **update.keywords)  # type: ignore[arg-type]
        else:
            choices = {name: update.keywords[name] for name in ("lr", "momentum", "retraction")}
            loops.sgd_update(x, grad.contiguous(), *state, rows=named, threads=threads, **choices)
        return
    if rows is not None:
        x[:, 0].index_select(0, rows)  # raises torch's error for row numbers out of range, without synchronising a GPU
        named = torch.sparse_coo_tensor(rows[None], grad, x.shape, check_invariants=False).coalesce()
        rows, grad = named.indices()[0], named.values()
    if _has_kernel(update, x, grad, state, lazy=lazy):
        _update_by_kernel(update, [(x, grad, state)], rows=rows, lazy=lazy)
        return
    if lazy:  # NaN counts as a gradient, and nothing of the table's size is allocated
        rows = ((grad.amax(dim=-1) != 0) | (grad.amin(dim=-1) != 0)).nonzero()[:, 0]
        grad = grad[rows]
    block = block_height(x)
    is_half = torch.finfo(x.dtype).bits < 32
    for start in range(0, len(grad), block):
        block_slice = slice(start, start + block)
        updated = block_slice if rows is None else rows[block_slice]
        points = project(x[updated]) if is_half else x[updated]
        old = (None if table is None else table[updated] for table in state)
        new = update(points, full_precision(grad[block_slice]), *old)
        for table, value in zip((x, *state), new, strict=True):
            if table is not None and value is not None:
                table[updated] = value.to(table.dtype)


def _has_loop(update: Update, *, lazy: bool) -> bool:
    """Whether the rule has a compiled loop: Adam, and SGD without its less common options."""
    if update.func is sgd_update:
        return not (lazy or update.keywords.get("nesterov") or update.keywords.get("dampening"))
    return update.func is adam_update


def _has_kernel(update: Update, x: Tensor, grad: Tensor, state: tuple[Tensor | None, ...], *, lazy: bool) -> bool:
    """Whether a Triton kernel can update in place; the state of half-precision points must be in float32."""
    tables = [table for table in state if table is not None]
    return (
        _has_loop(update, lazy=lazy)
        and has_triton(x, grad, dtypes=(torch.float32, torch.bfloat16, torch.float16), width=x.shape[-1])
        and all(table.is_contiguous() and table.dtype in (torch.float32, torch.long) for table in tables)
        and x.is_contiguous()
    )


def _update_by_kernel(
    update: Update,
    members: Sequence[tuple[Tensor, Tensor, tuple[Tensor | None, ...]]],
    *,
    rows: Tensor | None = None,
    lazy: bool = False,
) -> None:
    from unclump.ops.triton import rows as kernels

    tables = [(as_rows(x), as_rows(grad), _state_as_rows(state)) for x, grad, state in members]
    for x, grad, state in tables:
        _check_sizes(x, grad, state, rows)
    kernels.update(update, tables, rows=rows, lazy=lazy)
