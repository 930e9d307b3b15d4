r"""The update rules of the optimisers: pure functions of points, gradients and state, one row a point.

Both retractions turn a point x towards a tangent vector u, in the plane of the two, by an angle :math:`\theta`:

.. math:: y = \cos\theta \, x + \sin\theta \, \frac{u}{\lVert u \rVert}, \quad
    \theta = \lVert u \rVert \text{ ("exp")} \quad\text{or}\quad \theta = \arctan \lVert u \rVert \text{ ("project")}

A vector that is parallel to u, as the momentum is, turns with it. `update_rows` applies a rule to a parameter.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._checks import check_rows
from unclump._precision import full_precision
from unclump.geometry.sphere import tangent
from unclump.ops import native
from unclump.ops.native import rows as loops
from unclump.ops.project import project

RETRACTIONS = ("exp", "project")

# Entries of a block on the CPU: temporaries of a few megabytes are reused where those of a table would be fetched anew.
_BLOCK = 2**20

Points = Float[Tensor, "n d"]
Column = Float[Tensor, "n 1"]
Update = partial[Any]  # of a rule, its choices given


def sgd_update(
    x: Points, grad: Points, momentum_buffer: Points | None, *, lr: float, momentum: float, retraction: str
) -> tuple[Points, Points | None]:
    r"""One step of Riemannian gradient descent [1]: new points, and the momentum carried to where they are.

    .. math::
        b &\leftarrow \mu b + (g - \langle x, g \rangle x) \\
        x, b &\leftarrow \cos\theta \, x - \sin\theta \, b / \lVert b \rVert, \;
                         \cos\theta \, b + \sin\theta \, \lVert b \rVert \, x

    The momentum is carried along the great circle of the step itself, and keeps its length.

    Args:
        x: Points on the sphere.
        grad: The Euclidean gradient at them.
        momentum_buffer: The momentum b, tangent at x: zeros at the first step, None to do without.
        lr: The step size; negative to climb.
        momentum: The factor :math:`\mu`.
        retraction: "exp" or "project".

    References:
        [1] Bonnabel. Stochastic Gradient Descent on Riemannian Manifolds. IEEE Transactions on Automatic Control, 2013.

    Example:
        >>> from unclump.ops.row_update import sgd_update
        >>> x, grad = torch.tensor([[1.0, 0.0]]), torch.tensor([[7.0, -1.0]])
        >>> sgd_update(x, grad, None, lr=math.pi / 6, momentum=0.0, retraction="exp")
        (tensor([[0.8660, 0.5000]]), None)
    """
    v = tangent(x, _bounded(grad))
    if momentum_buffer is not None:
        v = momentum * momentum_buffer + v
    speed, cosine, sine = _turn(v, lr, retraction)
    y = _unit(cosine * x - sine * v)
    return y, None if momentum_buffer is None else cosine * v + (sine * speed * speed) * x


def adam_update(
    x: Points,
    grad: Points,
    exp_avg: Points,
    exp_avg_sq: Column,
    steps: Int[Tensor, "n 1"],
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    retraction: str,
) -> tuple[Points, Points, Column, Int[Tensor, "n 1"]]:
    r"""One step of Riemannian Adam [1]: new points, moments and step counts.

    .. math::
        t &\leftarrow t + 1, \quad g \leftarrow g - \langle x, g \rangle x \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) \lVert g \rVert^2 \\
        \alpha &= \frac{\text{lr}}{1 - \beta_1^t} \Big/ \Big( \sqrt{\frac{v}{1 - \beta_2^t}} + \epsilon \Big) \\
        x &\leftarrow y = \cos\theta \, x - \sin\theta \, m / \lVert m \rVert,
            \quad \theta = \alpha \lVert m \rVert \text{ or its arctangent} \\
        m &\leftarrow m - \langle y, m \rangle y

    The second moment is one number a row, the squared length of the gradient: it does not depend on the coordinates,
    and the step is parallel to m. The first moment is projected onto the new tangent space, which shortens it by
    :math:`\cos\theta`; geoopt does the same.

    Args:
        x: Points on the sphere.
        grad: The Euclidean gradient at them.
        exp_avg: The first moment m, tangent at x; zeros at the first step.
        exp_avg_sq: The second moment v, of each row; zeros at the first step.
        steps: How many updates each row has had.
        lr: The step size; negative to climb.
        betas: The decay of both moments.
        eps: Adam's own, added to the root of the second moment.
        retraction: "exp" or "project".

    References:
        [1] Bécigneul and Ganea. Riemannian Adaptive Optimization Methods. ICLR 2019.

    Example:
        >>> from unclump.ops.row_update import adam_update
        >>> x, grad = torch.tensor([[1.0, 0.0]]), torch.tensor([[7.0, -5.0]])
        >>> state = torch.zeros(1, 2), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long)
        >>> adam_update(x, grad, *state, lr=math.pi / 6, betas=(0.9, 0.999), eps=1e-8, retraction="exp")[0]
        tensor([[0.8660, 0.5000]])
    """
    steps = steps + 1
    grad = tangent(x, _bounded(grad))
    exp_avg = torch.lerp(exp_avg, grad, 1 - betas[0])
    exp_avg_sq = torch.lerp(exp_avg_sq, vector_norm(grad, dim=-1, keepdim=True).square(), 1 - betas[1])
    first, second = (_bias_correction(beta, steps.to(x.dtype)) for beta in betas)
    rate = lr / first / (torch.sqrt(exp_avg_sq / second) + eps)
    _, cosine, sine = _turn(exp_avg, rate, retraction)
    y = _unit(cosine * x - sine * exp_avg)
    return y, tangent(y, exp_avg), exp_avg_sq, steps


def _bounded(grad: Points) -> Points:
    """The gradient, whose squared length must not overflow: that of coinciding rows may be as large as a number is."""
    most = torch.finfo(grad.dtype).max ** 0.45
    return grad.clamp(-most, most)


def _bias_correction(beta: float, steps: Column) -> Column:
    r""":math:`1 - \beta^t`, to full precision: as written it has four digits left in float32 at t = 1."""
    return -torch.expm1(steps * (math.log(beta) if beta > 0 else -math.inf))


def _turn(v: Points, rate: float | Column, retraction: str) -> tuple[Column, Column, Column]:
    r"""Of the step `-rate * v`: norm of v, :math:`\cos\theta`, and :math:`\sin\theta / \lVert v \rVert`, finite."""
    speed = vector_norm(v, dim=-1, keepdim=True)
    length = rate * speed
    if retraction == "exp":
        return speed, torch.cos(length), rate * torch.sinc(length / torch.pi)
    cosine = torch.rsqrt(1 + length * length)
    return speed, cosine, rate * cosine


def _unit(y: Points) -> Points:
    """`y`, of norm one but for rounding, without the rounding: over a thousand steps it would add up."""
    norm: Tensor = vector_norm(y, dim=-1, keepdim=True)
    return y / norm


def put_on_sphere(tables: Sequence[Tensor]) -> None:
    """Project the rows of tables of shape (..., d) that are off the sphere by more than rounding, in place.

    The others keep every bit. Rows without a direction are refused, which reads the data: one flag for all tables.
    """
    groups = [(_rows_of(group), group) for group in ([tables[i] for i in places] for places in _alike(tables))]
    if groups and not torch.compiler.is_compiling():
        sizes = [rows.abs().amax(dim=-1) for rows, _ in groups]
        if not all(torch.stack([((size > 0) & (size < torch.inf)).all() for size in sizes]).tolist()):
            for table in tables:
                check_rows(_rows(table))
    for rows, group in groups:
        norm = vector_norm(full_precision(rows), dim=-1, keepdim=True)
        rounding = torch.finfo(rows.dtype).eps + 16 * torch.finfo(norm.dtype).eps  # of the entries, and of their sum
        _write(torch.where((norm - 1).abs() > rounding, project(rows).to(rows.dtype), rows), group)


def update_rows(
    update: Update,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    states: Sequence[tuple[Tensor | None, ...]],
    *,
    lazy: bool = False,
) -> None:
    """`in_place` on parameters of shape (..., d): on all rows, or where `lazy` or sparse on those with a gradient.

    Dense parameters that no compiled loop updates go together, as one table.
    """
    together: list[tuple[Tensor, Tensor, tuple[Tensor | None, ...]]] = []
    for x, grad, state in zip(parameters, gradients, states, strict=True):
        if lazy or grad.is_sparse or torch.compiler.is_compiling() or (native.ENABLED and x.is_cpu):
            _update_alone(update, x, grad, state, lazy)
        else:
            together.append((x, grad, state))
    for places in _alike([x for x, _, _ in together]) if together else ():
        members = [together[i] for i in places]
        if len(members) == 1:
            _update_alone(update, *members[0], lazy=False)
            continue
        tables = [
            None if column[0] is None else list(column) for column in zip(*(s for _, _, s in members), strict=True)
        ]
        points = [x for x, _, _ in members]
        rows = [_rows_of(points), _rows_of([grad for _, grad, _ in members])]
        new = [None if table is None else _rows_of(table) for table in tables]
        in_place(update, *rows, *new)
        for written, parts in zip((rows[0], *new), (points, *tables), strict=True):
            if written is not None and parts is not None:
                _write(written, parts)


def _update_alone(update: Update, x: Tensor, grad: Tensor, state: tuple[Tensor | None, ...], lazy: bool) -> None:
    rows = None
    if grad.is_sparse:
        if x.ndim != 2 or grad.sparse_dim() != 1:
            raise ValueError(
                "expected a sparse gradient of whole rows, as nn.Embedding(sparse=True) gives, "
                f"got {grad.sparse_dim()} sparse dimensions for a parameter of shape {tuple(x.shape)}; pass a dense one"
            )
        rows, grad = grad._indices()[0], grad._values()
    else:
        grad = grad.reshape(-1, x.shape[-1])
    tables = (None if table is None else _rows(table) for table in state)
    in_place(update, _rows(x), grad, *tables, rows=rows, lazy=lazy and rows is None)


def _alike(tables: Sequence[Tensor]) -> list[list[int]]:
    """The places of tables of the same width, dtype and device, which can be one."""
    groups: dict[object, list[int]] = {}
    for place, table in enumerate(tables):
        groups.setdefault((table.shape[-1], table.dtype, table.device), []).append(place)
    return list(groups.values())


def _rows_of(tables: Sequence[Tensor]) -> Tensor:
    """The rows of several tables as one."""
    return _rows(tables[0]) if len(tables) == 1 else torch.cat([_rows(table) for table in tables])


def _write(rows: Tensor, tables: Sequence[Tensor]) -> None:
    """The inverse of `_rows_of`: the rows back into their tables."""
    parts = [_rows(table) for table in tables]
    if len(parts) == 1:
        parts[0].copy_(rows)
    else:
        torch.split_with_sizes_copy(rows, [len(part) for part in parts], out=parts)


def _rows(x: Tensor) -> Tensor:
    """`x` as a table, one row a point."""
    return x if x.ndim == 2 else x.view(-1, x.shape[-1])


def in_place(
    update: Update,
    x: Float[Tensor, "n d"],
    grad: Float[Tensor, "k d"],
    *state: Tensor | None,
    rows: Int[Tensor, " k"] | None = None,
    lazy: bool = False,
) -> None:
    r"""Replace points and state by what `update(x, grad, *state)` makes of them, block by block on the CPU.

    Half-precision points are computed in float32, from the nearest points of the sphere, and rounded when written.

    Args:
        update: A rule such as `adam_update`, its choices given.
        x: The table of points.
        grad: The gradients of all rows, or of those in `rows`.
        state: What else the rule takes, in its order; a row for each point, or None.
        rows: The rows to touch; gradients of one that is named twice are added. None for all, in their order.
        lazy: Of all rows, touch those whose gradient is not zero.
    """
    tables = [table for table in (x, *state) if table is not None]
    numbers = [table for table in (grad, *tables) if table.is_floating_point()]
    fused = update.func is adam_update or (update.func is sgd_update and not lazy)
    if fused and native.has_native(*numbers) and all(table.is_contiguous() for table in tables):
        several = native.threads(grad.numel(), at_least=2**13)
        named = None if rows is None else rows.contiguous()
        if update.func is adam_update:
            loops.adam_update(x, grad.contiguous(), *state, rows=named, lazy=lazy, threads=several, **update.keywords)  # type: ignore[arg-type]
        else:
            loops.sgd_update(x, grad.contiguous(), *state, rows=named, threads=several, **update.keywords)
        return
    if rows is not None:
        named = torch.sparse_coo_tensor(rows[None], grad, x.shape, check_invariants=False).coalesce()
        rows, grad = named.indices()[0], named.values()
    if lazy:  # written so that NaN counts as a gradient, and nothing of the table's size is allocated
        rows = ((grad.amax(dim=-1) != 0) | (grad.amin(dim=-1) != 0)).nonzero()[:, 0]
        grad = grad[rows]
    block = max(1, _BLOCK // x.shape[1] if x.device.type == "cpu" else len(grad))
    half = torch.finfo(x.dtype).bits < 32
    for start in range(0, len(grad), block):
        here = slice(start, start + block)
        touched = here if rows is None else rows[here]
        points = project(x[touched]) if half else x[touched]
        old = (None if table is None else table[touched] for table in state)
        new = update(points, full_precision(grad[here]), *old)
        for table, value in zip((x, *state), new, strict=True):
            if table is not None and value is not None:
                table[touched] = value.to(table.dtype)
