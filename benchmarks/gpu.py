"""Every objective and operation on a GPU: our kernels beside the reference in torch, textbook torch, DINOv2 and KeOps.

    python benchmarks/gpu.py [--sizes 4096x768 65536x1024] [--repeats 20] [--only KoLeo] [--output results/gpu.json]
    python benchmarks/gpu.py --dry        # a few rows on the CPU, to see that it runs

Who computes what is in `gpu_cases.py`. First all sides are compared in value and gradient: what differs is said, and
the exit code is 1. Then each is timed, in turns, by the median of its repeats; memory is the peak beside what was there
before. A side for which there is not enough memory is left out, and said to be. The limits are the card's own, measured
here: a product of float32, without TF32, and a copy. The part of a limit is the least that there is to do over what the
card could do in the time; of the product it may be more than one, where three products of TF32 are faster.
`python tools/gpu_page.py` puts the table into docs/gpu.md.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from gpu_cases import all_cases
from reference import check_same

from unclump.ops import triton as door

SIZES, DRY_SIZES = ["4096x768", "65536x1024"], ["40x8"]
LONGEST = 60.0  # seconds for the turns of a case: what is slow is repeated less often


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def differences(name, calls):
    """Side -> what is different, of those that do not have the result of the first; without memory there is none."""
    first, found = None, {}
    for side, call in calls.items():
        try:
            result = call()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            continue
        if first is None:
            first = result
            continue
        try:
            if isinstance(result, tuple):
                check_same(name, first, result)
            else:
                torch.testing.assert_close(first, result, rtol=1e-3, atol=1e-4)
        except AssertionError as error:
            found[side] = " ".join(str(error).split())
    return found


def timed(calls, device, repeats):
    """Name -> median milliseconds over turns, and peak megabytes; None where there is not enough memory."""
    times, memory = {name: [] for name in calls}, dict.fromkeys(calls)
    began = time.perf_counter()
    for turn in range(repeats + 1):  # the first turn compiles and tunes
        for name, call in calls.items():
            if times[name] is None:
                continue
            try:
                spent, memory[name] = once(call, device)
            except torch.OutOfMemoryError:
                times[name] = None
                torch.cuda.empty_cache()
                continue
            if turn > 0:
                times[name].append(1000 * spent)
        if turn > 0 and time.perf_counter() - began > LONGEST:
            break
    return {
        name: None if each is None else {"ms": statistics.median(each), "MB": memory[name]}
        for name, each in times.items()
    }


def once(call, device):
    """Seconds of a call, and its peak megabytes; None of these on the CPU."""
    wait(device)
    is_gpu = device.type == "cuda"
    if is_gpu:
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    start = time.perf_counter()
    call()
    wait(device)
    spent = time.perf_counter() - start
    return spent, (torch.cuda.max_memory_allocated(device) - before) / 1e6 if is_gpu else None


def limits(device, dry):
    """Floating-point operations and bytes per second of a product and of a copy."""
    n = 64 if dry else 8192
    x, target = torch.randn(n, n, device=device), torch.empty(n, n, device=device)
    sides = timed({"product": lambda: torch.mm(x, x, out=target), "copy": lambda: target.copy_(x)}, device, 10)
    return {"flops": 2 * n**3 / sides["product"]["ms"] * 1000, "bytes": 8 * n * n / sides["copy"]["ms"] * 1000}


def with_parts(side, case, known):
    """A side with the parts of both limits that it reaches."""
    if side is None:
        return None
    seconds = side["ms"] / 1000
    return side | {"product": case.flops / seconds / known["flops"], "copy": case.bytes / seconds / known["bytes"]}


def measure(n, d, device, *, repeats, known, only):
    """A row for each case: its name, its size, and name -> what a side took, None where there was no memory."""
    for name, case in all_cases(n, d, device):
        if only.lower() not in name.lower():
            continue
        differs = differences(name, case.sides if case.compared is None else case.compared)
        sides = timed(case.sides, device, repeats)
        sides = {side: with_parts(one, case, known) for side, one in sides.items()}
        yield {"name": name, "n": n, "d": d, "sides": sides, "differs": differs}


def line(row):
    cells = []
    for side, one in row["sides"].items():
        if one is None:
            cells.append(f"{side} no memory")
        else:
            memory = "" if one["MB"] is None else f", {one['MB']:.3g} MB"
            cells.append(f"{side} {one['ms']:.3g} ms{memory}")
    ours = row["sides"]["ours"]
    if ours is not None:
        cells.append(f"{ours['product']:.0%} of the product, {ours['copy']:.0%} of the copy")
    cells += [f"{side} differs: {how}" for side, how in row["differs"].items()]
    return "  ".join([f"{row['name']}, {row['n']:,} x {row['d']:,}", *cells])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=None, metavar="NxD")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default="", metavar="NAME", help="objectives and operations whose name contains this")
    parser.add_argument("--dry", action="store_true", help="on the CPU, a few rows")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results" / "gpu.json")
    options = parser.parse_args(arguments)
    if not options.dry and not torch.cuda.is_available():
        parser.error("expected a GPU, got none; --dry runs a few rows on the CPU")
    device = torch.device("cpu" if options.dry else "cuda")
    torch.backends.cuda.matmul.allow_tf32 = False  # for the textbook; ours and the reference look to it themselves
    name = "the CPU, dry" if options.dry else torch.cuda.get_device_name(device)
    known, rows = limits(device, options.dry), []
    result = {"device": name, "torch": torch.__version__, "kernels": door.ENABLED, "limits": known, "rows": rows}
    for size in options.sizes or (DRY_SIZES if options.dry else SIZES):
        n, d = map(int, size.split("x"))
        for row in measure(n, d, device, repeats=options.repeats, known=known, only=options.only):
            rows.append(row)
            print(line(row), flush=True)
            options.output.write_text(json.dumps(result, indent=1) + "\n")  # what is known, should it stop
    return any(row["differs"] for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
