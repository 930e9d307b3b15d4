"""Every operation and objective on a GPU: our kernels beside the reference in torch, textbook torch, DINOv2 and KeOps.

    python benchmarks/gpu.py [--sizes 4096x768 65536x1024] [--repeats 20] [--output results/gpu.json]
    python benchmarks/gpu.py --dry        # a few rows on the CPU, to see that it runs

First all sides must agree in value and gradient. Then each is timed, in turns, by the median of its repeats; memory is
the peak beside what was there before; a side for which there is no memory is left out. The limits are the card's own,
measured here: a product of float32 and a copy. `python tools/gpu_page.py` puts the table into docs/gpu.md.
"""

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path

import torch
from reference import check_same, evaluate, objectives
from torch.nn.functional import normalize

import unclump as uc
from unclump.ops import triton as door
from unclump.ops.kernel_sum import kernel_sum
from unclump.ops.nearest import nearest
from unclump.ops.project import unit_rows

RANDOM = ("Lloyd", "Sliced", "SSW")  # they draw anew at every call: their values are compared in the tests
SIZES, DRY_SIZES = ["4096x768", "65536x1024"], ["40x8"]


def dinov2_koleo(embeddings):
    """The algorithm of DINOv2: the nearest by the largest cosine, and a distance with an epsilon inside and outside."""
    x = normalize(embeddings, eps=1e-8, p=2, dim=-1)
    with torch.no_grad():
        cosines = x @ x.mT
        cosines.view(-1)[:: len(x) + 1].fill_(-1)
        near = cosines.argmax(dim=1)
    return -torch.log(torch.nn.functional.pairwise_distance(x, x[near], 2, 1e-8) + 1e-8).mean()


def keops_energy(embeddings):
    """The mean of exp(<x, y>) over pairs by KeOps, where it is installed."""
    from pykeops.torch import LazyTensor

    x = normalize(embeddings, dim=-1)
    n = len(x)
    sums = (LazyTensor(x[:, None]) | LazyTensor(x[None])).exp().sum(dim=1)
    return (sums.sum() - n * torch.e) / (n * (n - 1))


def has_keops():
    try:
        import pykeops  # noqa: F401
    except ImportError:
        return False
    return True


def sides(name, ours, peer):
    """Who computes an objective: name -> function of embeddings."""
    result = {"ours": ours, "reference": partial(without_kernels, ours), "textbook": peer}
    if name == "KoLeo":
        result["DINOv2"] = dinov2_koleo
    if name == "Energy(Gaussian)" and has_keops():
        result["KeOps"] = keops_energy
    return result


def without_kernels(function, *args):
    before, door.ENABLED = door.ENABLED, False
    try:
        return function(*args)
    finally:
        door.ENABLED = before


def operations(x):
    """Name -> a call without arguments."""
    parameter = torch.nn.Parameter(x.clone())
    parameter.grad = torch.randn_like(x)
    adam = uc.SphereAdam([parameter], lr=1e-3)
    return {
        "nearest, k = 1": lambda: nearest(x),
        "nearest, k = 8": lambda: nearest(x, k=8),
        "kernel_sum, Riesz": lambda: kernel_sum(x, uc.Riesz(1.0)),
        "project": lambda: unit_rows(x),
        "step of SphereAdam": adam.step,
    }


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(calls, device, repeats):
    """Name -> milliseconds, the median over turns; and peak megabytes. None where there is not enough memory."""
    times, memory = {name: [] for name in calls}, {}
    for turn in range(repeats + 1):  # the first turn compiles and tunes
        for name, call in calls.items():
            if times[name] is None:
                continue
            try:
                wait(device)
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(device)
                    before = torch.cuda.memory_allocated(device)
                start = time.perf_counter()
                call()
                wait(device)
                if turn > 0:
                    times[name].append(1000 * (time.perf_counter() - start))
                if device.type == "cuda":
                    memory[name] = (torch.cuda.max_memory_allocated(device) - before) / 1e6
            except torch.OutOfMemoryError:
                times[name] = None
                torch.cuda.empty_cache()
    return {name: statistics.median(each) if each else None for name, each in times.items()}, memory


def limits(device, dry):
    """Floating-point operations and bytes per second of a product and of a copy."""
    n = 64 if dry else 8192
    x, target = torch.randn(n, n, device=device), torch.empty(n, n, device=device)
    (found, _) = timed({"product": lambda: torch.mm(x, x, out=target), "copy": lambda: target.copy_(x)}, device, 10)
    return {"flops": 2 * n**3 / found["product"] * 1000, "bytes": 8 * n * n / found["copy"] * 1000}


def part_of_limits(name, n, d, milliseconds, known):
    """The product that an objective cannot do without, or one look at the table there and back, over the time."""
    products = {"KoLeo": 2, "MaxMin": 2, "nearest": 2}.get(name.partition(",")[0], 4)
    if name.startswith(("Sliced", "SSW", "project", "step", "Lloyd")):
        return 8 * n * d / known["bytes"] / (milliseconds / 1000)
    return products * n * n * d / known["flops"] / (milliseconds / 1000)


def measure(n, d, device, repeats, known):
    """Name -> what was found at this size."""
    torch.manual_seed(0)
    embeddings = torch.randn(n, d, device=device).requires_grad_()
    rows = {}
    for name, (ours, peer) in objectives(uc).items():
        calls = {}
        for side, function in sides(name, ours, peer).items():
            calls[side] = partial(evaluate, function, embeddings, {})
        if name not in RANDOM:
            check_same(name, calls["ours"](), calls["reference"]())
        rows[name] = timed(calls, device, repeats)
    x = uc.project(embeddings.detach())
    for name, call in operations(x).items():
        rows[name] = timed({"ours": call, "reference": partial(without_kernels, call)}, device, repeats)
    return {
        f"{name}, {n:,} x {d:,}": {
            **{side: None if value is None else round(value, 4) for side, value in times.items()},
            "memory": memory.get("ours"),
            "textbook memory": memory.get("textbook"),
            "part of the limit": part_of_limits(name, n, d, times["ours"], known),
        }
        for name, (times, memory) in rows.items()
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=None, metavar="NxD")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--dry", action="store_true", help="on the CPU, a few rows")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results" / "gpu.json")
    options = parser.parse_args(arguments)
    if not options.dry and not torch.cuda.is_available():
        parser.error("expected a GPU, got none; --dry runs a few rows on the CPU")
    device = torch.device("cpu" if options.dry else "cuda")
    known = limits(device, options.dry)
    rows = {}
    for size in options.sizes or (DRY_SIZES if options.dry else SIZES):
        n, d = map(int, size.split("x"))
        rows |= measure(n, d, device, options.repeats, known)
    name = "the CPU, dry" if options.dry else torch.cuda.get_device_name(device)
    found = {"device": name, "torch": torch.__version__, "kernels": door.ENABLED, "limits": known, "rows": rows}
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    for name, row in rows.items():
        print(name, *(f"{key} {value:.3g}" for key, value in row.items() if value is not None), sep="  ")


if __name__ == "__main__":
    main()
