r"""Pairs of points, block by block: nearest neighbours, and the distances to them with their gradients.

Memory is O(n d + block^2), and sixteen bytes for every block; a block that holds everything is the dense case.

As :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32, the squared chord would lose every
angle below 0.02 degrees. The fused loops take it for far pairs only, and measure near ones by their differences; the
torch path computes blocks in double precision, where it is right to 1e-15: a pair 1e-5 apart to five digits, one 1e-6
apart to three.

**Rows that coincide** have no direction to be pushed apart in, and singular kernels are infinite there. Such a pair,
and none farther apart than the precision, is taken to be `apart`, the root of it, along a direction that is tangent at
both: the later row one way and the earlier one the other. Values and gradients stay finite, and the rows come apart.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump.geometry.sphere import angle, project, tangent
from unclump.ops import native

Block = tuple[slice, slice]


def upper_triangle(n: int, block: int) -> Iterator[Block]:
    """The row and column slices of the blocks on and above the diagonal."""
    for row in range(0, n, block):
        for column in range(row, n, block):
            yield slice(row, min(row + block, n)), slice(column, min(column + block, n))


def block_size(x: Tensor) -> int:
    """A block whose doubles stay in a CPU's cache, or fill a GPU; the fused loops cut it smaller."""
    return 512 if x.device.type == "cpu" else 4096


def squared_chord_block(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    r"""Squared chords between two sets of double-precision points, by one matrix product."""
    norms = a.square().sum(dim=-1, keepdim=True) + b.square().sum(dim=-1)
    return torch.addmm(norms, a, b.mT, alpha=-2).clamp(0, 4)


def nearest(x: Float[Tensor, "n d"], *, block: int | None = None) -> Int[Tensor, " n"]:
    """The row number of every point's nearest other point, without gradient.

    Example:
        >>> from unclump.ops.pairs import nearest
        >>> nearest(torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]))
        tensor([1, 0, 1])
    """
    block = block or block_size(x)
    if native.usable(x):
        from unclump.ops.native import nearest as loops

        return torch.from_numpy(loops.nearest(x, upper_triangle(len(x), block))).long()
    wide, n = widen(x.detach()), len(x)
    smallest, index = wide.new_full((n,), math.inf), torch.zeros(n, dtype=torch.long, device=x.device)

    def keep_nearer(rows: slice, found: Any, offset: int) -> None:
        nearer = found.values < smallest[rows]
        smallest[rows] = torch.where(nearer, found.values, smallest[rows])
        index[rows] = torch.where(nearer, found.indices + offset, index[rows])

    for rows, columns in upper_triangle(n, block):
        r2 = squared_chord_block(wide[rows], wide[columns])
        if rows == columns:
            r2.fill_diagonal_(math.inf)
        keep_nearer(rows, r2.min(dim=1), columns.start)
        if rows != columns:
            keep_nearer(columns, r2.min(dim=0), rows.start)
    return index


def nearest_to(
    samples: Float[Tensor, "m d"], x: Float[Tensor, "n d"], *, block: int | None = None
) -> Int[Tensor, " m"]:
    """The row number of the point of `x` nearest to every sample, without gradient."""
    samples, x = samples.detach(), x.detach()
    block = block or 16 * block_size(x)
    if x.dtype is torch.float32 and native.usable(samples, x):
        from unclump.ops.native import nearest as loops

        return torch.from_numpy(loops.nearest_to(samples, x)).long()
    largest = samples.new_full((len(samples),), -math.inf)
    index = torch.zeros(len(samples), dtype=torch.long, device=x.device)
    for start in range(0, len(x), block):
        found = (samples @ x[start : start + block].mT).max(dim=1)
        nearer = found.values > largest
        largest = torch.where(nearer, found.values, largest)
        index = torch.where(nearer, found.indices + start, index)
    return index


def nearest_distances(
    x: Float[Tensor, "n d"], near: Int[Tensor, " n"], *, distance: str = "chordal"
) -> Float[Tensor, " n"]:
    """The distances of all points to the given other one of each, with coinciding rows taken apart.

    Args:
        x: Points on the sphere.
        near: From `nearest`.
        distance: "chordal", "geodesic" or "squared".
    """
    if x.dtype is torch.float32 and native.usable(x):
        return _distances(x, x, near, distance, apart(x.dtype))
    return length(separation(x, near), x + x[near], distance)


def mean_of_nearest(
    embeddings: Float[Tensor, "n d"], *, distance: str, logarithm: bool, wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """Minus the mean of `nearest_distances` of the embeddings' directions, or of their logarithms; float32 on the CPU.

    Where it is wanted, with the gradient by the embeddings.
    """
    from unclump.ops.native import distances as loops

    near = apart(embeddings.dtype)
    return loops.mean_of_nearest(embeddings, kind=distance, logarithm=logarithm, apart=near, wanted=wanted)


def mean_square_to_nearest(
    embeddings: Float[Tensor, "n d"], *, samples: Float[Tensor, "m d"], wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """Half the mean square of `distances_to` the nearest of the embeddings' directions; float32 on the CPU.

    Samples may be of any norm.
    """
    from unclump.ops.native import distances as loops

    return loops.mean_square_to_nearest(embeddings, samples, wanted=wanted)


def distances_to(
    samples: Float[Tensor, "m d"], x: Float[Tensor, "n d"], near: Int[Tensor, " m"]
) -> Float[Tensor, " m"]:
    """The angles between samples and the points whose row numbers are given."""
    if x.dtype is torch.float32 and native.usable(samples, x):
        return _distances(samples, x, near, "geodesic", 0.0)
    return angle(samples, x[near])


def length(difference: Tensor, total: Tensor, distance: str) -> Tensor:
    """The distances of points whose differences and sums are given: "chordal", "geodesic" or "squared"."""
    if distance == "squared":
        return difference.square().sum(dim=-1)
    chord: Tensor = vector_norm(difference, dim=-1)
    return chord if distance == "chordal" else 2 * torch.atan2(chord, vector_norm(total, dim=-1))


def separation(x: Float[Tensor, "n d"], near: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
    """The differences between all points and the given other one of each, with coinciding rows taken apart."""
    return separation_from(x, x[near], torch.sign(torch.arange(len(x), device=x.device) - near))


def separation_from(
    x: Float[Tensor, "n d"], others: Float[Tensor, "n d"], side: Int[Tensor, " n"]
) -> Float[Tensor, "n d"]:
    """The differences between all points and another one for each, which is an earlier row (1) or a later (-1)."""
    difference = x - others
    coincide = (difference == 0).all(dim=-1, keepdim=True)
    return difference + torch.where(coincide, apart(x.dtype) * side.unsqueeze(-1) * escape(x.detach()), 0)


class _Distances(torch.autograd.Function):
    """Fused distances; only a second derivative needs the operations of torch."""

    @staticmethod
    def forward(ctx: Any, samples: Tensor, x: Tensor, near: Tensor, distance: str, apart: float) -> Tensor:
        from unclump.ops.native import distances as loops

        ctx.distance, ctx.apart = distance, apart
        ctx.save_for_backward(samples, x, near)
        return loops.distances(samples, x, near, distance, apart)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        from unclump.ops.native import distances as loops

        samples, x, near = ctx.saved_tensors
        if torch.is_grad_enabled():
            itself = ctx.apart > 0  # samples and points are one table: all of the gradient is that by the samples
            difference = separation(x, near) if itself else samples - x[near]
            plain = length(difference, samples + x[near], ctx.distance)
            needed = [True, False] if itself else ctx.needs_input_grad[:2]
            wanted = [table for table, need in zip((samples, x), needed, strict=True) if need]
            found = iter(torch.autograd.grad(plain, wanted, grad_output, create_graph=True))
            return *(next(found) if need else None for need in needed), None, None, None
        return *loops.distances_backward(samples, x, near, ctx.distance, ctx.apart, grad_output), None, None, None


def widen(x: Tensor) -> Tensor:
    """`x` in double precision, or in single on devices that have no other."""
    return x.to(torch.float32 if x.device.type == "mps" else torch.float64)


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` in `dtype`; what is too large for it becomes its largest number."""
    return x.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype)


def apart(dtype: torch.dtype) -> float:
    """How far apart coinciding rows are taken to be: far enough to survive rounding, in radians."""
    return math.sqrt(torch.finfo(dtype).eps)


def escape(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """A unit tangent vector at every point, the same at the same point: to the axis most nearly orthogonal to it."""
    axis = torch.zeros_like(x).scatter(-1, x.abs().argmin(dim=-1, keepdim=True), 1)
    return project(tangent(x, axis))


def bounded(slopes: Tensor) -> Tensor:
    """Slopes that overflow would make forces of infinity less infinity; so large a number is as good."""
    largest = torch.finfo(slopes.dtype).max ** 0.9
    return slopes.clamp(-largest, largest)


_distances: Callable[[Tensor, Tensor, Tensor, str, float], Tensor] = _Distances.apply
