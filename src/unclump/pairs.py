r"""The pairwise engine: nearest neighbours and kernel sums over blocks of the upper triangle.

Memory is O(n d + block^2), whatever n; a block that holds everything is the dense case. Sums come with their exact
gradient from the same pass.

As :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 \langle x, y \rangle` in float32, the squared chord would lose every
angle below 0.02 degrees. The fused loops take it for far pairs only, and measure near ones by their differences; the
torch path computes blocks in double precision, where it is right to 1e-15: a pair 1e-5 apart to five digits, one 1e-6
apart to three.

**Rows that coincide** have no direction to be pushed apart in, and singular kernels are infinite there. Such a pair,
and none farther apart than the precision, is taken to be `apart`, the root of it, along a direction that is tangent at
both: the later row one way and the earlier one the other. Values and gradients stay finite, and the rows come apart.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump import _numba
from unclump._once import once_differentiable
from unclump.kernels import Kernel
from unclump.sphere import angle, project, tangent, without_autocast

Block = tuple[slice, slice]

_OPPOSITE = 3.9  # squared chords beyond it are those of near antipodes
_GRADIENTS = 2**28  # bytes that the threads' own gradients may take in all


def upper_triangle(n: int, block: int) -> Iterator[Block]:
    """The row and column slices of the blocks on and above the diagonal."""
    for row in range(0, n, block):
        for column in range(row, n, block):
            yield slice(row, min(row + block, n)), slice(column, min(column + block, n))


def block_size(x: Tensor) -> int:
    """A block that stays in a CPU's cache, or fills a GPU."""
    return 512 if x.device.type == "cpu" else 4096


def squared_chord_block(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    r"""Squared chords between two sets of double-precision points, by one matrix product."""
    norms = a.square().sum(dim=-1, keepdim=True) + b.square().sum(dim=-1)
    return torch.addmm(norms, a, b.mT, alpha=-2).clamp(0, 4)


def nearest(x: Float[Tensor, "n d"], *, block: int | None = None) -> Int[Tensor, " n"]:
    """The row number of every point's nearest other point, without gradient.

    Example:
        >>> from unclump.pairs import nearest
        >>> nearest(torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]))
        tensor([1, 0, 1])
    """
    block = block or block_size(x)
    if _numba.usable(x):
        from unclump._numba import nearest as loops

        with without_autocast(x.device):
            return torch.from_numpy(loops.nearest(x, upper_triangle(len(x), block), block)).long()
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
    if x.dtype is torch.float32 and _numba.usable(samples, x):
        from unclump._numba import nearest as loops

        return torch.from_numpy(loops.nearest_to(samples, x, block)).long()
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
    if x.dtype is torch.float32 and _numba.usable(x):
        return _distances(x, x, near, distance, apart(x.dtype))
    return length(separation(x, near), x + x[near], distance)


def mean_of_nearest(
    embeddings: Float[Tensor, "n d"], *, distance: str, logarithm: bool, wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """Minus the mean of `nearest_distances` of the embeddings' directions, or of their logarithms; float32 on the CPU.

    Where it is wanted, with the gradient by the embeddings.
    """
    from unclump._numba import distances as loops

    block = block_size(embeddings)
    blocks = upper_triangle(len(embeddings), block), block
    near = apart(embeddings.dtype)
    return loops.mean_of_nearest(embeddings, *blocks, kind=distance, logarithm=logarithm, apart=near, wanted=wanted)


def mean_square_to_nearest(
    embeddings: Float[Tensor, "n d"], *, samples: Float[Tensor, "m d"], wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """Half the mean square of `distances_to` the nearest of the embeddings' directions; float32 on the CPU."""
    from unclump._numba import distances as loops

    return loops.mean_square_to_nearest(embeddings, samples, 16 * block_size(embeddings), wanted=wanted)


def distances_to(
    samples: Float[Tensor, "m d"], x: Float[Tensor, "n d"], near: Int[Tensor, " m"]
) -> Float[Tensor, " m"]:
    """The angles between samples and the points whose row numbers are given."""
    if x.dtype is torch.float32 and _numba.usable(samples, x):
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
        from unclump._numba import distances as loops

        ctx.distance, ctx.apart = distance, apart
        ctx.save_for_backward(samples, x, near)
        return loops.distances(samples, x, near, distance, apart)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        from unclump._numba import distances as loops

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


def kernel_sum(
    x: Float[Tensor, "n d"], kernel: Kernel, *, weight: Float[Tensor, " n"] | None = None, block: int | None = None
) -> Float[Tensor, ""]:
    r"""The sum of the kernel over ordered pairs of different points, :math:`\sum_{i \ne j} w_i w_j k(x_i, x_j)`.

    The weights are constants, and one where none are given.

    Example:
        >>> from unclump.pairs import kernel_sum
        >>> kernel_sum(torch.eye(3), Riesz(s=2.0))  # six pairs at distance sqrt(2)
        tensor(3.)
    """
    return _kernel_sum(x, kernel, weight, block or block_size(x))


def kernel_sum_of_directions(
    embeddings: Float[Tensor, "n d"], kernel: Kernel, *, wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "n d"] | None]:
    """`kernel_sum` of the embeddings' directions, and where it is wanted its gradient by them; float32 on the CPU."""
    from unclump._numba import rows as loops

    x, inverse_norm = loops.project(embeddings)
    block = block_size(x)
    total, gradient = sum_and_gradient(x, kernel, upper_triangle(len(x), block), block, wanted=wanted)
    return total, None if gradient is None else loops.project_backward(x, inverse_norm, gradient)


def kernel_matrix(x: Float[Tensor, "n d"], kernel: Kernel) -> Float[Tensor, "n n"]:
    """The dense matrix of the kernel in double precision, for objectives that need all of it at once."""
    return _kernel_matrix(x, kernel)


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


class Pairs:
    """The points in double precision, ready to give blocks of squared chords and to collect forces between pairs.

    Points of lower precision are unit only to its rounding, which near antipodes would be the better part of an angle:
    in double precision they are made so again.
    """

    def __init__(self, x: Tensor) -> None:
        self.exact = x.dtype is torch.float64  # no wider type is left: near pairs need their differences
        self.wide = x if self.exact else project(widen(x))
        self.coincident = torch.finfo(x.dtype).eps ** 2
        self.apart = apart(x.dtype)
        self.gradient = torch.zeros_like(self.wide)
        self.pushes = self.wide.new_zeros(len(x))

    def block(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """Squared chords, and which of them belong to coinciding rows."""
        a, b = self.wide[rows], self.wide[columns]
        if self.exact:
            r2 = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square().clamp_max(4)
        else:
            r2 = squared_chord_block(a, b)
        if rows == columns:
            r2.fill_diagonal_(2)  # any harmless value: no kernel is singular there
        coincide = r2 <= self.coincident
        return torch.where(coincide, self.apart**2, r2), coincide

    def add_forces(self, weights: Tensor, r2: Tensor, coincide: Tensor, rows: slice, columns: slice) -> None:
        r"""Add the gradient of :math:`\sum_{i < j} w_{ij} r_{ij}^2` in this block, the weights being constants."""
        pull, push = torch.where(coincide, 0, weights), torch.where(coincide, weights, 0)
        # Near antipodes the part that is normal to the sphere would drown the rest: it is left out there.
        along = pull if self.exact else torch.where(r2 > _OPPOSITE, -pull, pull)
        self._add(pull, along, push, rows, columns, -1)
        if rows != columns:
            self._add(pull.mT, along.mT, push.mT, columns, rows, 1)

    def _add(self, pull: Tensor, along: Tensor, push: Tensor, rows: slice, columns: slice, side: int) -> None:
        pulled = along.sum(dim=1, keepdim=True) * self.wide[rows] - pull @ self.wide[columns]
        self.gradient[rows] += 2 * pulled
        if rows == columns:  # the earlier row of a pair is pushed back, the later one forth
            self.pushes[rows] += 2 * (push.tril().sum(dim=1) - push.triu().sum(dim=1))
        else:
            self.pushes[rows] += 2 * side * push.sum(dim=1)

    def collected(self, dtype: torch.dtype) -> Tensor:
        """The whole gradient."""
        pushed = self.apart * self.pushes.unsqueeze(-1) * escape(self.wide)
        return narrow(self.gradient + pushed, dtype)


class _KernelSum(torch.autograd.Function):
    """Value and gradient in one pass; what is kept for the backward pass is the gradient, not the matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Kernel, weight: Tensor | None, block: int) -> Tensor:
        blocks = upper_triangle(len(x), block)
        total, gradient = sum_and_gradient(x, kernel, blocks, block, weight, wanted=ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient, x)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, _ = ctx.saved_tensors
        return grad_output * gradient, None, None, None


def sum_and_gradient(
    x: Tensor, kernel: Kernel, blocks: Iterable[Block], block: int, weight: Tensor | None = None, *, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The sum of the kernel over the pairs in these blocks, in both orders; and where it is wanted its gradient.

    The term of a pair is multiplied with the weights of both points, which are constants.
    """
    if weight is None and x.dtype is torch.float32 and _numba.usable(x) and (table := _table(kernel)) is not None:
        with without_autocast(x.device):
            return _sum_in_single(x, kernel, table, blocks, block, wanted=wanted)
    pairs = Pairs(x)
    total = pairs.wide.new_zeros(())
    for rows, columns in blocks:
        r2, coincide = pairs.block(rows, columns)
        values = kernel(r2) if weight is None else kernel(r2) * (weight[rows, None] * weight[columns])
        if rows == columns:
            values.fill_diagonal_(0)
        total += values.sum() * (1 if rows == columns else 2)
        if wanted:
            slopes = bounded(kernel.derivative(r2))
            if rows == columns:
                slopes.fill_diagonal_(0)
            if weight is not None:
                slopes = slopes * (weight[rows, None] * weight[columns])
            pairs.add_forces(2 * slopes, r2, coincide, rows, columns)  # both orders of every pair
    return narrow(total, x.dtype), pairs.collected(x.dtype) if wanted else None


def _sum_in_single(
    x: Tensor, kernel: Kernel, table: Tensor, blocks: Iterable[Block], block: int, *, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The sum and its gradient, far pairs by products in single precision and near ones by differences in double."""
    from unclump._numba import pairs as loops

    chords = loops.Blocks(x, block, apart=apart(x.dtype))

    def sums(blocks: Sequence[Block]) -> tuple[float, Tensor]:
        total, gradient = 0.0, x.new_zeros(x.shape if wanted else 0, dtype=torch.float64)
        for rows, columns in blocks:
            value, slopes, near = chords.slopes_and_near(rows, columns, table)
            total += value
            if wanted:
                chords.add_gradient(slopes, rows, columns, gradient)
                if rows != columns:
                    chords.add_gradient(slopes.mT, columns, rows, gradient)
            if len(near.r2) > 0:
                total += kernel(near.r2).sum().item()
            if len(near.r2) > 0 and wanted:
                chords.add_forces(near, bounded(kernel.derivative(near.r2)), gradient)
        return total, gradient

    parts = _numba.deal(sums, blocks, most=max(1, _GRADIENTS // (8 * x.numel())) if wanted else None)
    totals, gradients = zip(*parts, strict=True)
    total = narrow(x.new_tensor(2 * sum(totals), dtype=torch.float64), x.dtype)
    if not wanted:
        return total, None
    # By each of the points, and both orders of every pair: four times.
    return total, narrow(functools.reduce(torch.add, gradients).mul_(4), x.dtype)


@lru_cache(maxsize=256)
def _table(kernel: Kernel) -> Tensor | None:
    """The kernel of far pairs as 2048 cubics; None where single precision does not serve, or cubics do not.

    Nothing may overflow; the rounding of r2, 2e-7, may be 4e-6 of the largest value, and the error of a cubic 1e-6.
    """
    from unclump._numba.pairs import NEAR, hermite

    nodes = torch.linspace(NEAR, 4 - NEAR, 2049, dtype=torch.float64)
    step = (4 - 2 * NEAR) / 2048
    values, slopes, between = kernel(nodes), kernel.derivative(nodes), nodes[:-1] + step / 2
    largest, steepest = values.abs().max(), slopes.abs().max()
    table = hermite(values, slopes, step)
    error = (table.double() @ nodes.new_tensor([1, 1 / 2, 1 / 4, 1 / 8]) - kernel(between)).abs().max()
    serves = (largest < 1e30) & (steepest < 1e30) & (steepest <= 20 * largest) & (error <= 1e-6 * largest)
    return table if serves else None


class _KernelMatrix(torch.autograd.Function):
    """The dense matrix, with the kernel's own derivative, which is finite where that of its expression is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Kernel) -> Tensor:
        everything = slice(0, len(x))
        r2, coincide = Pairs(x).block(everything, everything)
        ctx.save_for_backward(x, r2, coincide, bounded(kernel.derivative(r2)).fill_diagonal_(0))
        on_diagonal = torch.eye(len(x), dtype=torch.bool, device=x.device)
        return kernel(torch.where(on_diagonal, 0, r2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        x, r2, coincide, slopes = ctx.saved_tensors
        pairs, everything = Pairs(x), slice(0, len(x))
        pairs.add_forces((grad_output + grad_output.mT) * slopes, r2, coincide, everything, everything)
        return pairs.collected(x.dtype), None


_distances: Callable[[Tensor, Tensor, Tensor, str, float], Tensor] = _Distances.apply
_kernel_sum: Callable[[Tensor, Kernel, Tensor | None, int], Tensor] = _KernelSum.apply
_kernel_matrix: Callable[[Tensor, Kernel], Tensor] = _KernelMatrix.apply
