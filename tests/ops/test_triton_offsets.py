"""Tables of ten million rows, or of so many numbers that 32 bits cannot count them: kernels touch what they should.

No such table is here: a program of a kernel is interpreted on the addresses of empty files, of which only pages that it
reads or writes exist. Every address must be one of a table, and those of a table the right ones from first to last.
"""

import mmap
from collections import defaultdict

import pytest
import torch

from tests.ops.triton_cases import (
    DEVICE,
    circle_kernels,
    nearest_kernels,
    projection_kernels,
    row_kernels,
    sum_kernels,
    sum_of_rows_kernels,
    triton,
)
from unclump.ops.triton.near_tiles import add_near_tiles

pytestmark = pytest.mark.skipif(DEVICE == "cuda", reason="what the interpreter touches is looked at")
MANY, WIDE = 10_000_001, 4096  # rows, the last of them alone in its tile; and coordinates


class Memory:
    """Tables in empty files of a folder, and which of their entries are touched."""

    def __init__(self, folder):
        self._folder, self._maps, self._tables, self._touched = folder, {}, {}, defaultdict(list)

    def __getitem__(self, key):
        """`memory[name, entries]`, or with a dtype as third: the address of a new table."""
        name, entries, dtype = key if len(key) == 3 else (*key, torch.float32)
        with (self._folder / name).open("w+b") as file:
            file.truncate(entries * dtype.itemsize)
            self._maps[name] = mmap.mmap(file.fileno(), 0)
        if hasattr(mmap, "MADV_RANDOM"):
            self._maps[name].madvise(mmap.MADV_RANDOM)  # no pages beside those that are touched
        start = torch.frombuffer(self._maps[name], dtype=dtype, count=1)  # all that the interpreter copies
        self._tables[name] = start.data_ptr(), entries, dtype
        return start

    def write(self, name, place, values):
        _, _, dtype = self._tables[name]
        count, offset = len(values), place * dtype.itemsize
        torch.frombuffer(self._maps[name], dtype=dtype, count=count, offset=offset)[:] = torch.tensor(values)

    def touch(self, addresses):
        """Refuse what is in no table, before it is read or written."""
        if len(addresses) == 0:
            return
        low, high = int(addresses.min()), int(addresses.max())
        for name, (start, entries, dtype) in self._tables.items():
            if start <= low and high < start + entries * dtype.itemsize:
                self._touched[name] += [(low - start) // dtype.itemsize, (high - start) // dtype.itemsize]
                return
        pytest.fail("an address outside of the table")

    def touched(self, name):
        """The first entry that was touched, and one after the last."""
        return min(self._touched[name]), max(self._touched[name]) + 1


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path)


@pytest.fixture
def launch(memory, monkeypatch):
    """Run one program of a grid, the last one unless another is named."""
    interpreter = triton.runtime.interpreter
    builder = interpreter.interpreter_builder
    load, store = type(builder).create_masked_load, type(builder).create_masked_store

    def masked_load(self, addresses, mask, *rest):
        memory.touch(addresses.data[mask.data])
        return load(self, addresses, mask, *rest)

    def masked_store(self, addresses, value, mask, *rest):
        memory.touch(addresses.data[mask.data])
        return store(self, addresses, value, mask, *rest)

    monkeypatch.setattr(type(builder), "create_masked_load", masked_load)
    monkeypatch.setattr(type(builder), "create_masked_store", masked_store)

    def run(kernel, grid, *arguments, **choices):
        grid = (*grid, *(3 - len(grid)) * (1,))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builder, "set_grid_dim", lambda *_: setattr(builder, "grid_dim", grid))
            last = tuple(size - 1 for size in grid)
            patch.setattr(builder, "set_grid_idx", lambda *_: setattr(builder, "grid_idx", last))
            (kernel.fn if hasattr(kernel, "configs") else kernel)[(1,)](*arguments, **choices)

    return run


def test_projection(memory, launch):
    x, y, inverse = memory["x", MANY * WIDE], memory["y", MANY * WIDE], memory["inverse", MANY]
    grid, choices = projection_kernels.whole_rows(MANY, WIDE)
    launch(projection_kernels._project, grid, x, y, inverse, MANY, WIDE, **choices)
    last = (MANY - 1) * WIDE, MANY * WIDE
    assert memory.touched("x") == memory.touched("y") == last
    result = memory["result", MANY * WIDE]
    launch(projection_kernels._project_back, grid, y, inverse, x, result, MANY, WIDE, **choices)
    assert memory.touched("result") == last
    assert memory.touched("inverse") == (MANY - 1, MANY)


@pytest.mark.parametrize(("sets", "n", "m"), [(1, MANY, 40), (1, 40, MANY), (2_000_000, 5, 6)])
def test_nearest(memory, launch, sets, n, m):
    parts, keep, tile = 3 if m == MANY else 1, 4, {"BLOCK_N": 32, "BLOCK_M": 32}
    part_length = (m - 1) // 2 if parts == 3 else m  # the last part is one column
    here, there = memory["here", sets * n * WIDE], memory["there", sets * m * WIDE]
    entries = sets * n * parts * keep
    tables = memory["halves", sets * m], memory["scores", entries], memory["candidates", entries, torch.int32]
    grid = sets * triton.cdiv(n, 32), parts
    sizes = n, m, WIDE, m, part_length
    launch(
        nearest_kernels._select, grid, here, there, *tables, *sizes,
        KEEP=keep, BLOCK_D=32, PRECISION="ieee", **tile,
    )  # fmt: skip
    rows = (sets * n - 1) // n * n + (n - 1) // 32 * 32  # the first of the last tile
    assert memory.touched("here") == (rows * WIDE, sets * n * WIDE)
    assert memory.touched("scores") == ((rows * parts + parts - 1) * keep, entries)
    columns = sets * m - (1 if parts == 3 else m)
    assert memory.touched("there") == (columns * WIDE, sets * m * WIDE)
    assert memory.touched("halves") == (columns, sets * m)


def test_measuring_the_nearest(memory, launch):
    keep, rows, tables = 4, 16, (memory["x", MANY * WIDE], memory["y", MANY * WIDE], memory["scores", MANY * 4])
    results = memory["candidates", MANY * keep, torch.int32], memory["index", MANY, torch.long], memory["r2", MANY]
    memory.write("candidates", MANY * keep - keep, [MANY - 1] * keep)
    choices = {"K": 1, "KEEP": keep, "ROWS": rows, "BLOCK_D": 64}
    launch(nearest_kernels._measure, (triton.cdiv(MANY, rows),), *tables, *results, MANY, MANY, WIDE, MANY, **choices)
    last = (MANY - 1) * WIDE, MANY * WIDE
    assert memory.touched("x") == memory.touched("y") == last
    assert memory.touched("index") == memory.touched("r2") == (MANY - 1, MANY)


@pytest.mark.parametrize(
    ("sets", "n", "m"), [(1, MANY, 8), pytest.param(1, 8, MANY, marks=pytest.mark.deep), (2_000_000, 5, 6)]
)
def test_kernel_sum(memory, launch, sets, n, m):
    width, rows, columns = 256, 16, 64
    parts = 3 if m == MANY else 1
    part_length = (m - 1) // 2 // columns * columns if parts == 3 else columns
    start = (parts - 1) * part_length
    words, tiles = triton.cdiv(part_length, 32 * columns), sets * triton.cdiv(n, rows)
    here, there = memory["here", sets * n * width], memory["there", sets * m * width]
    halves = memory["own halves", sets * n], memory["halves", sets * m]
    weights = memory["left", sets * n], memory["own", sets * n], memory["others", sets * m], memory["right", sets * m]
    near, sums = memory["near", tiles * parts * words, torch.int32], memory["sums", parts * sets * n]
    gradient, sizes = memory["gradient", parts * sets * n * width], (n, m, width)
    choices = {"FORM": 0, "METRIC": 0, "NEEDS_GRAD": True, "BLOCK_M": columns}
    launch(
        sum_kernels._add_far_tiles, (tiles, parts), here, there, *halves, *weights, near, sums, gradient,
        *sizes, width, m, part_length, words, 1.0, 0.0, -1.0, torch.inf,
        PRECISION="ieee", BLOCK_D=64, BLOCK_N=rows, **choices,
    )  # fmt: skip
    first = sets * n - ((n - 1) % rows + 1)  # of the rows of the last tile, and of the columns of the last part
    others = sets * m - (m - start)
    assert memory.touched("here") == (first * width, sets * n * width)
    assert memory.touched("there") == (others * width, sets * m * width)
    before = (parts - 1) * sets * n
    assert memory.touched("gradient") == ((before + first) * width, parts * sets * n * width)
    assert memory.touched("sums") == (before + first, parts * sets * n)
    assert memory.touched("near")[1] == tiles * parts * words - (parts == 3) * (
        words - triton.cdiv(m - start, 32 * columns)
    )
    # The same tile, as one of near pairs. The results of the parts are then one.
    total, forces = memory["total", sets * n], memory["forces", sets * n * width]
    memory.write("near", tiles * parts * words - words, [1])
    launch(
        add_near_tiles, (2 * tiles - 1,), here, there, *weights, near, total, forces,
        *sizes, m, part_length, words, parts, 1.0, 0.0, BLOCK_N=rows // 2, **choices,
    )  # fmt: skip
    assert memory.touched("total") == (first, sets * n)
    assert memory.touched("forces") == (first * width, sets * n * width)


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize(("sets", "n"), [(1, MANY), (2_000_000, 5)])
def test_circles(memory, launch, sets, n, axes):
    count, d, rows, block = 110, 512, 16, 16
    x, along = memory["x", sets * n * d], memory["along", sets * count * 2 * n]
    circles = memory["circles", 2 * count, torch.long] if axes else memory["circles", count * 2 * d]
    if axes:
        memory.write("circles", 0, [0, d - 1] * count)
    angles, mask = memory["angles", sets * count * n], memory["mask", sets * n, torch.bool]
    tiles, tile = sets * triton.cdiv(n, rows), {"AXES": axes, "BLOCK_N": rows, "BLOCK_D": 32}
    arguments = x, circles, mask, along, angles, n, d, count
    launch(
        circle_kernels._find_angles, (tiles, triton.cdiv(count, block)), *arguments,
        HAS_MASK=True, PRECISION="ieee", BLOCK_K=block, **tile,
    )  # fmt: skip
    first = sets * n - ((n - 1) % rows + 1)
    assert memory.touched("x") == (first * d, sets * n * d)
    assert memory.touched("mask") == (first, sets * n)
    assert memory.touched("along")[1] == sets * count * 2 * n
    assert memory.touched("angles")[1] == sets * count * n
    tables = memory["ordered", sets * count * n], memory["order", sets * count * n, torch.long]
    numbers = memory["means", sets * count], memory["present", sets], memory["largest", sets * n]
    blocks = triton.cdiv(n, 8)
    results = memory["coefficients", sets * count * 2 * n], memory["squares", sets * count * blocks]
    memory.write("present", sets - 1, [float(n)])
    memory.write("order", sets * count * n - 1, [n - 1])
    launch(
        circle_kernels._find_coefficients, (sets * count, blocks), along, *tables, *numbers, *results, n, count, BLOCK=8
    )
    rest = (n - 1) % 8 + 1
    for name in ("ordered", "order"):
        assert memory.touched(name) == (sets * count * n - rest, sets * count * n)
    assert memory.touched("coefficients")[1] == sets * count * 2 * n
    assert memory.touched("squares") == (sets * count * blocks - 1, sets * count * blocks)
    gradient, scale = memory["gradient", sets * n * d], memory["scale", sets]
    grid = tiles, triton.cdiv(d, 32)
    launch(circle_kernels._combine, grid, results[0], circles, scale, gradient, n, d, count, sets, **tile)
    assert memory.touched("gradient") == (first * d + d - 32, sets * n * d)
    assert memory.touched("scale") == (sets - 1, sets)


def test_steps_of_the_optimisers(memory, launch):
    kind, last = triton.language.float32, (MANY - 1) * WIDE
    starts = [memory[name, MANY * WIDE] for name in ("x", "grad", "moments")] + [memory["squares", MANY]]
    starts += [memory["counts", MANY, torch.long]]
    grid, choices = projection_kernels.whole_rows(MANY, WIDE)
    table = memory["table", 8, torch.long]
    memory.write("table", 0, [*(start.data_ptr() for start in starts), 0, 0, MANY])
    shared = {"HAS_ROWS": False, "READ_LR": False, "EXP": True, "TYPE": kind, "GRAD_TYPE": kind, "IS_HALF": False}
    shared |= {"COUNT": 1, **choices}
    common = table, table, 0.1, 1, MANY, WIDE
    launch(row_kernels._sgd, grid, *common, 0.9, HAS_MOMENTUM=True, **shared)
    launch(row_kernels._adam, grid, *common, 0.1, 0.1, -0.1, -0.1, 1e-8, AMSGRAD=False, LAZY=False, **shared)
    for name in ("x", "grad", "moments"):
        assert memory.touched(name) == (last, MANY * WIDE)
    for name in ("squares", "counts"):
        assert memory.touched(name) == (MANY - 1, MANY)


def test_sums_of_rows(memory, launch):
    values, table, order = memory["values", MANY * WIDE], memory["table", MANY * WIDE], memory["order", 1, torch.long]
    starts = memory["starts", MANY + 1, torch.long]
    memory.write("order", 0, [MANY - 1])
    memory.write("starts", MANY, [1])
    choices = {"IN_PLACE": False, "BLOCK_K": 8, "BLOCK_D": 128}
    launch(sum_of_rows_kernels._sum_pieces, (MANY, WIDE // 128), values, order, starts, table, WIDE, **choices)
    assert memory.touched("values") == memory.touched("table") == (MANY * WIDE - 128, MANY * WIDE)
