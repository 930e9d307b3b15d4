"""Compile the kernels in Triton for GPUs without one, and write what they need of a processor to results/triton.json.

    python tools/triton_table.py [--architectures 80 89 90] [--only nearest] [--output results/triton.json]

Registers and spills are what the assembler reports, instructions are read from the machine code; both tools come with
triton. How many programs a processor holds at once follows from these by NVIDIA's formula.
Nothing here runs on a GPU, or says how fast it would be.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)  # compiled, not interpreted

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unclump.ops.triton import add_rows, circles, kernel_sum, near_tiles, nearest, projection, rows
from unclump.ops.triton.formulas import GAUSSIAN, INVERSE, LAPLACE
from unclump.ops.triton.tiles import TENSOR_CORES

ROOT = Path(__file__).parent.parent
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

# Of a processor: warps, programs, bytes of shared memory, registers; CUDA C++ Programming Guide, compute capabilities.
LIMITS = {80: (64, 32, 164 * 1024), 89: (48, 24, 100 * 1024), 90: (64, 32, 228 * 1024)}
REGISTERS, REGISTER_UNIT, SHARED_UNIT, RESERVED = 65_536, 256, 128, 1024

INTEGERS = ["n", "m", "d", "width", "itself", "part_length", "words", "parts", "count", "total", "scales"]
POINTERS = {"index": "*i32", "candidates": "*i32", "near_tiles": "*i32", "order": "*i64", "starts": "*i64",
            "table": "*i64", "rows_of": "*i64", "mask": "*i1"}  # fmt: skip
FLOATS = ["parameter", "offset", "near", "high", "lr", "momentum", "decay", "decay_sq",
          "log_beta", "log_beta_sq", "eps"]  # fmt: skip


def cases():
    """Name, kernel, choices, number of warps and of stages."""
    for config in nearest._CONFIGS:
        for k, keep in ((1, 4), (8, 16)):
            tile = config.kwargs
            name = f"nearest, k = {k}, tile {tile['BLOCK_N']} x {tile['BLOCK_M']}"
            choices = {"KEEP": keep, "BLOCK_D": 32, **tile}
            yield name, nearest._select, choices, config.num_warps, config.num_stages
    yield "nearest, measuring", nearest._measure, {"K": 1, "KEEP": 4, "ROWS": 16, "BLOCK_D": 64}, 4, 3
    kernels = {"Gaussian": (GAUSSIAN, 0), "Riesz": (INVERSE, 0), "Laplace": (LAPLACE, 1)}
    tile = {"BLOCK_N": kernel_sum._ROWS, "BLOCK_M": kernel_sum._COLUMNS}
    for name, (form, distance) in kernels.items():
        choices = {"FORM": form.value, "METRIC": distance, "NEEDS_GRAD": True, **tile}
        for config in kernel_sum._CONFIGS:
            stages = config.num_stages
            far = {**choices, "BLOCK_D": kernel_sum._DEPTH}
            yield f"kernel_sum, {name}, {stages} stages", kernel_sum._add_far_tiles, far, config.num_warps, stages
        near = {**choices, "BLOCK_N": kernel_sum._ROWS // 2}
        yield f"kernel_sum, {name}, near tiles", near_tiles.add_near_tiles, near, kernel_sum._NEAR_WARPS, 3
    for d in (64, 768, 4096):
        tile = projection.whole_rows(1, d)[1]
        warps = tile.pop("num_warps")
        yield f"project, d = {d}", projection._project, tile, warps, 3
        yield f"project back, d = {d}", projection._project_back, tile, warps, 3
        common = {"HAS_ROWS": False, "READ_LR": False, "EXP": True, "COUNT": 1, **tile}
        for name, kind in (("float32", tl.float32), ("bfloat16", tl.bfloat16)):
            typed = {**common, "TYPE": kind, "GRAD_TYPE": kind, "IS_HALF": kind != tl.float32}
            yield f"Adam, {name}, d = {d}", rows._adam, {**typed, "AMSGRAD": False, "LAZY": False}, warps, 3
            yield f"SGD, {name}, d = {d}", rows._sgd, {**typed, "HAS_MOMENTUM": True}, warps, 3
    tile = {"BLOCK_N": circles._ROWS, "BLOCK_K": circles._CIRCLES, "BLOCK_D": circles._DEPTH}
    for name, axes in (("any", False), ("axes", True)):
        yield f"angles on circles, {name}", circles._find_angles, {"AXES": axes, "HAS_MASK": True, **tile}, 4, 3
        backward = {"AXES": axes, "BLOCK_N": circles._ROWS, "BLOCK_D": circles._WIDTH}
        yield f"gradient from circles, {name}", circles._combine, backward, 4, 3
    for name, in_place in (("rows added", True), ("sums of rows", False)):
        choices = {"IN_PLACE": in_place, "BLOCK_K": add_rows._VALUES, "BLOCK_D": add_rows._WIDTH}
        yield name, add_rows._sum_pieces, choices, 1, 3
    yield "ranks on circles", circles._find_coefficients, {"BLOCK": circles._RANKS}, 4, 3


def signature(kernel, choices):
    """The types of the arguments by their names."""
    types = dict.fromkeys(INTEGERS, "i32") | dict.fromkeys(FLOATS, "fp32") | POINTERS
    if kernel is nearest._measure:
        types["index"] = "*i64"
    if "AXES" in choices:
        types["circles"] = "*i64" if choices["AXES"] else "*fp32"
    return {name: "constexpr" if name in choices else types.get(name, "*fp32") for name in kernel.arg_names}


def compile_for(architecture, kernel, choices, warps, stages):
    """The code in all its forms, and the bytes of shared memory."""
    kernel = kernel.fn if hasattr(kernel, "configs") else kernel  # without the tuning
    if "PRECISION" in kernel.arg_names:
        fast = divmod(architecture, 10) in TENSOR_CORES
        choices = {**choices, "PRECISION": "tf32x3" if fast else "ieee"}
    types = signature(kernel, choices)
    aligned = [i for i, (name, kind) in enumerate(types.items()) if kind.startswith("*") or name == "width"]
    source = ASTSource(
        kernel, types, {(kernel.arg_names.index(name),): value for name, value in choices.items()},
        {(i,): [["tt.divisibility", 16]] for i in aligned},
    )  # fmt: skip
    compiled = triton.compile(
        source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": warps, "num_stages": stages}
    )
    return compiled.asm, compiled.metadata.shared


def inspect_code(code):
    """Registers, bytes spilled, atomic instructions, and the loop with most of the arithmetic."""
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text.write_text(code["ptx"])
        binary.write_bytes(code["cubin"])
        target = re.search(r"^\.target (\w+)", code["ptx"], re.MULTILINE)[1]
        report = run("ptxas", "-v", "--gpu-name", target, text, "-o", Path(folder) / "again").stderr
        listing = run("cuobjdump", "-sass", binary).stdout
    registers = int(re.search(r"Used (\d+) registers", report)[1])
    spilled = int(re.search(r"(\d+) bytes spill stores", report)[1])
    lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)([^;]*);", listing)
    atomics = sum(is_atomic(name) for _, name, _ in lines)
    return (
        registers,
        spilled,
        atomics,
        innermost_loop([(int(address, 16), name, rest) for address, name, rest in lines]),
    )


def run(tool, *arguments):
    return subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=True)


def is_atomic(name):
    """Whether an instruction reads and writes memory at once, which threads may do in any order."""
    kind = name.split(".")[0]
    return kind.startswith(("ATOM", "RED")) and kind != "REDUX"  # the last is within a warp


def innermost_loop(instructions):
    """How many instructions of each kind has the loop without others in it that has most products."""
    ranges = []
    for address, name, rest in instructions:
        target = re.search(r"0x([0-9a-f]+)", rest)
        if name.startswith("BRA") and target and int(target[1], 16) < address:
            ranges.append((int(target[1], 16), address))
    inner = [(a, b) for a, b in ranges if not any((c, d) != (a, b) and a <= c and d <= b for c, d in ranges)]
    counts = [count(name for address, name, _ in instructions if a <= address <= b) for a, b in inner]
    return max(counts, key=lambda one: (one["tensor"] * 1000 + one["FMA"], one["all"]), default=count([]))


def count(names):
    names = list(names)
    tensor = sum(name.startswith(("HMMA", "HGMMA")) for name in names)
    return {"tensor": tensor, "FMA": sum(name.startswith("FFMA") for name in names), "all": len(names)}


def programs_at_once(architecture, warps, registers, shared):
    """On one processor, by NVIDIA's formula; and the part of the warps that it could hold."""
    most_warps, most_programs, memory = LIMITS[architecture]
    a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // a_warp // 4 * 4 // warps  # warps are given registers in fours
    by_memory = memory // (-(-shared // SHARED_UNIT) * SHARED_UNIT + RESERVED)
    programs = min(most_programs, most_warps // warps, by_registers, by_memory)
    return programs, programs * warps / most_warps


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architectures", type=int, nargs="+", default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--only", default="", help="kernels whose names begin so")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "triton.json")
    options = parser.parse_args(arguments)
    found = []
    for name, kernel, choices, warps, stages in cases():
        if not name.startswith(options.only):
            continue
        for architecture in options.architectures:
            code, shared = compile_for(architecture, kernel, choices, warps, stages)
            registers, spilled, atomics, loop = inspect_code(code)
            programs, occupancy = programs_at_once(architecture, warps, registers, shared)
            found.append({
                "kernel": name, "architecture": architecture, "warps": warps, "registers": registers,
                "spilled": spilled, "atomics": atomics, "shared": shared, "programs": programs,
                "occupancy": occupancy, "loop": loop,
            })  # fmt: skip
            print(
                f"{name}, sm_{architecture}: {registers} registers, {spilled} bytes spilled, {atomics} atomics",
                flush=True,
            )
    options.output.write_text(json.dumps({"triton": triton.__version__, "kernels": found}, indent=1) + "\n")
    return max(one["spilled"] for one in found) > 0


if __name__ == "__main__":
    raise SystemExit(main())
