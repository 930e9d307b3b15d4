"""A learned affine map that disperses the rows, by an objective."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from unclump._arrays import Floats
from unclump._precision import full_precision
from unclump.tables.transform_covariance import check_enough, row_blocks
from unclump.tables.transform_maps import Affine

_BATCH = 2048  # rows in a step
_MOST_ROWS = 2**17  # from which the batches are drawn
_LR = 0.02


def learn(
    rows: Float[Tensor, "n d"],
    objective: nn.Module,
    *,
    steps: int,
    generator: torch.Generator,
    progress: bool = False,
) -> Affine:
    r"""Minimise an objective f of the rows' images over all affine maps, from the identity on.

    .. math:: \min_{W, b} f\big((I + W)(x_i - b)\big), \quad W = 0, b = 0 \text{ at first}

    The map is one for all rows, so it applies to rows that it was not fitted on. By Adam, with a rate that falls to
    zero, on batches of rows.
    """
    size = rows.double().norm(dim=1).mean()  # steps are relative to it; squares of large rows overflow in single
    d = rows.shape[1]
    weight, shift = (nn.Parameter(rows.new_zeros(shape)) for shape in ((d, d), (d,)))
    identity = torch.eye(d, dtype=rows.dtype)
    optimizer = torch.optim.Adam([weight, shift], lr=_LR / d**0.5)  # d steps of a row of W add up by their squares
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in tqdm(range(steps), disable=not progress, unit="step"):
        batch = torch.randint(len(rows), (min(_BATCH, len(rows)),), generator=generator)
        optimizer.zero_grad()
        objective((rows[batch] / size - shift) @ (identity + weight)).backward()
        optimizer.step()
        decay.step()
    fitted = Affine(shift.detach().double() * size, (identity + weight.detach()).double())
    if not all(part.isfinite().all() for part in fitted):
        raise ValueError("expected a finite map, got one that is not; take another objective, or fewer steps")
    return fitted


def soften(full: Affine, strength: float) -> Affine:
    r"""The map part of the way from the identity: :math:`y = (I + s W)(x - s b)`, with the strength s."""
    identity = torch.eye(len(full.shift)).double()
    return Affine(strength * full.shift, identity + strength * (full.matrix - identity))


def sample_rows(x: Tensor | Floats, generator: torch.Generator) -> Float[Tensor, "m d"]:
    """Rows to learn from, on the CPU, without those of zeros: all, or a random choice of a large table."""
    n = x.shape[0]
    keep = torch.ones(n, dtype=torch.bool)
    if n > _MOST_ROWS:
        keep.zero_()
        keep[torch.randperm(n, generator=generator)[:_MOST_ROWS]] = True
    parts = []
    for start, block in row_blocks(x):
        part = full_precision(block.cpu()[keep[start : start + len(block)]])
        parts.append(part[part.any(dim=1)])
    rows = torch.cat(parts)
    check_enough(len(rows), n)
    return rows
