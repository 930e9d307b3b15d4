"""Products of float32 matrices inside of compiled loops: of blocks that what follows finds in the cache.

A tile of 4 rows and 16 columns is kept in registers while the sum runs over its depth, as in any fast product. So one
thread is as fast as BLAS, which cannot be called from a loop, knows nothing of triangles and brings its own threads.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jaxtyping import Float32, Int
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from unclump.ops.native.compiler import compiled

BLOCK = 128  # points on each side of a block of pairs: 64 kB or a little more, in every core's second cache

_ROWS, _VECTORS, _LANES = 4, 2, 8
WIDTH = _VECTORS * _LANES  # of a tile
STRIDE = BLOCK + WIDTH  # from row to row where columns are read, too: a power of two falls into few sets of a cache

_FLOAT, _NUMBER = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)
_FUSED = ["contract"]  # one rounding for product and sum, where there is such an instruction

Matrix = Float32[np.ndarray, "a b"]
Panels = Float32[np.ndarray, "p d 16"]
Chunks = Float32[np.ndarray, "c n 16"]


def _make_tile(
    typing: Any,
    a: Any, a_start: Any, a_row: Any, a_step: Any,
    b: Any, b_start: Any, b_step: Any,
    depth: Any, out: Any, out_start: Any, out_row: Any,
) -> tuple[Any, Callable[..., Any]] | None:  # fmt: skip
    """Write 4 rows of 16: of the entries of `a` at `a_start + a_row * row + a_step * k`, and the 16 of `b` from
    `b_start + b_step * k` on, the sums of the products over k < depth, which is not zero.
    """
    number = types.int64
    if any(array.dtype != types.float32 or array.layout != "C" for array in (a, b, out)):
        return None  # which the compiler refuses: entries are read as they lie there

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a_start, a_row, a_step = arguments[1:4]
        b_start, b_step, depth = arguments[5:8]
        out_start, out_row = arguments[9:]
        a, b, out = (
            builder.gep(context.make_array(signature.args[place])(context, builder, arguments[place]).data, [start])
            for place, start in ((0, a_start), (4, b_start), (8, out_start))
        )
        rows = [builder.gep(a, [builder.mul(a_row, _NUMBER(row))]) for row in range(_ROWS)]

        def vector(pointer: Any, place: int) -> Any:
            return builder.bitcast(builder.gep(pointer, [_NUMBER(_LANES * place)]), _VECTOR.as_pointer())

        before, body = builder.block, builder.append_basic_block("tile")
        end = builder.append_basic_block("tile.end")
        builder.branch(body)
        builder.position_at_end(body)
        k = builder.phi(_NUMBER)
        k.add_incoming(_NUMBER(0), before)
        sums = [builder.phi(_VECTOR) for _ in range(_ROWS * _VECTORS)]
        b_row = builder.gep(b, [builder.mul(k, b_step)])
        columns = [builder.load(vector(b_row, place), align=4) for place in range(_VECTORS)]
        later = []
        for row in range(_ROWS):
            entry = _splat(builder, builder.load(builder.gep(rows[row], [builder.mul(k, a_step)])))
            for place in range(_VECTORS):
                product = builder.fmul(entry, columns[place], flags=_FUSED)
                later.append(builder.fadd(sums[_VECTORS * row + place], product, flags=_FUSED))
        for total, next_total in zip(sums, later, strict=True):
            total.add_incoming(ir.Constant(_VECTOR, None), before)
            total.add_incoming(next_total, body)
        next_k = builder.add(k, _NUMBER(1))
        k.add_incoming(next_k, body)
        builder.cbranch(builder.icmp_signed("<", next_k, depth), body, end)
        builder.position_at_end(end)
        for row in range(_ROWS):
            out_here = builder.gep(out, [builder.mul(out_row, _NUMBER(row))])
            for place in range(_VECTORS):
                builder.store(later[_VECTORS * row + place], vector(out_here, place), align=4)
        return context.get_dummy_value()

    numbers = number, number, number
    return types.void(a, *numbers, b, *numbers, out, number, number), generate


def _splat(builder: Any, value: Any) -> Any:
    """A vector with the same value in all lanes."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None))


_tile: Any = intrinsic(_make_tile)


@compiled
def padded(n: int) -> int:
    """How many rows a table must have for tiles to be taken at any of the first n."""
    return n + _ROWS - 1


@compiled
def chunks(d: int) -> int:
    """How many tiles are as wide as a table."""
    return -(-d // WIDTH)


def small_blocks(blocks: Iterable[tuple[slice, slice]]) -> Int[np.ndarray, "k 4"]:
    """Start and stop of the earlier points and of the later ones, of all blocks cut into such of at most `BLOCK`."""
    places = [(early.start, early.stop, late.start, late.stop) for early, late in blocks]
    small: Int[np.ndarray, "k 4"] = cut(np.array(places, np.int64).reshape(-1, 4))
    return small


@compiled
def cut(blocks: Int[np.ndarray, "k 4"]) -> Int[np.ndarray, "m 4"]:
    """`small_blocks` of start and stop, of earlier and of later points."""
    count = 0
    for early, early_stop, late, late_stop in blocks:
        rows, columns = -(-(late_stop - late) // BLOCK), -(-(early_stop - early) // BLOCK)
        count += rows * (rows + 1) // 2 if early == late else rows * columns
    small, k = np.empty((count, 4), np.int32), 0
    for early, early_stop, late, late_stop in blocks:
        for i in range(early, early_stop, BLOCK):
            for j in range(i if early == late else late, late_stop, BLOCK):  # on the diagonal, each pair once
                small[k] = i, min(i + BLOCK, early_stop), j, min(j + BLOCK, late_stop)
                k += 1
    return small


@compiled
def pack(x: Matrix, start: int, count: int, panels: Panels) -> None:
    """Lay rows out for `products`, sixteen at a time: what the tiles read as one comes one after the other."""
    depth, width = panels.shape[1], panels.shape[2]
    for place in range(count):
        for k in range(depth):
            panels[place // width, k, place % width] = x[start + place, k]
    for place in range(count, -(-count // width) * width):
        for k in range(depth):
            panels[place // width, k, place % width] = 0


@compiled
def products(x: Matrix, start: int, count: int, panels: Panels, columns: int, triangle: bool, block: Matrix) -> None:
    """The inner products of rows of x, padded, with the first columns in the panels; of a triangle, those below it."""
    depth, width = panels.shape[1], panels.shape[2]
    for i in range(0, count, _ROWS):
        last = min(columns, i + _ROWS - 1) if triangle else columns
        for panel in range(-(-last // width)):
            out = i * block.shape[1] + panel * width
            b = panel * depth * width
            _tile(x, (start + i) * x.shape[1], x.shape[1], 1, panels, b, width, depth, block, out, block.shape[1])


@compiled
def times_rows(block: Matrix, count: int, x: Chunks, start: int, columns: int, triangle: bool, out: Matrix) -> None:
    """The block's rows times rows of x, laid out sixteen columns at a time; of a triangle, what is below it."""
    size = block.shape[1]
    for j in range(len(x)):
        for i in range(0, count, _ROWS):
            depth = min(columns, i + _ROWS - 1) if triangle else columns
            b, o = (j * x.shape[1] + start) * WIDTH, i * out.shape[1] + j * WIDTH
            _tile(block, i * size, size, 1, x, b, WIDTH, depth, out, o, out.shape[1])


@compiled
def columns_times(
    block: Matrix, column: int, columns: int, x: Chunks, start: int, count: int, triangle: bool, out: Matrix, row: int
) -> None:
    """The same of some of the block's columns: its transpose times rows of x, into rows of `out`."""
    size = block.shape[1]
    for j in range(len(x)):
        for i in range(0, columns, _ROWS):
            first = i if triangle else 0
            b, o = (j * x.shape[1] + start + first) * WIDTH, (row + i) * out.shape[1] + j * WIDTH
            _tile(block, first * size + column + i, 1, size, x, b, WIDTH, count - first, out, o, out.shape[1])
