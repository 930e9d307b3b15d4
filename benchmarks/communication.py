"""What each objective sends over the network in a step, measured on the loopback device, beside the formula.

    torchrun --nproc-per-node 3 benchmarks/communication.py [--n 3000] [--d 64]  # writes results/communication.json
    python benchmarks/communication.py --page  # and from it docs/communication.md

The counter is the kernel's: it holds
the headers of the packets too, and whatever else speaks on the device meanwhile; the least of some steps is kept.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist

import unclump as uc

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "results" / "communication.json", ROOT / "docs" / "communication.md"
CIRCLES, SAMPLES, STEPS, REFINED = 13, 512, 64, 8
REPEATS = 3


def formulas(n, d, ranks, number=4):
    """Bytes that a rank sends in a step, on average, for n rows in all."""
    away = (ranks - 1) / ranks
    around, total, first = n * d * number * away, 2 * away, away  # the table once around, a sum, the first rank's draw
    search = around + n / ranks * (d * number + 8) * away
    return {
        "Energy, Uniformity, MMD": around,
        "MaxMin, KoLeo": search,
        f"Sliced, SSW ({CIRCLES} circles)": CIRCLES * (n * number * away + 2 * d * number * first),
        f"Lloyd ({SAMPLES} samples)": SAMPLES * (d * number * first + (number + 8) * total),
        "Polarization": around + (SAMPLES + STEPS * REFINED) * (d + 1) * 8 * total + SAMPLES * d * number * first,
        "LogDet": around,
        "SphericalVariance": d * number * total,
    }


def objectives():
    shards = {"gather": uc.Shards()}
    made = [
        uc.Energy(**shards),
        uc.KoLeo(**shards),
        uc.Sliced(CIRCLES, **shards),
        uc.Lloyd(SAMPLES, **shards),
        uc.Polarization(samples=SAMPLES, steps=STEPS, **shards),
        uc.LogDet(**shards),
        uc.SphericalVariance(**shards),
    ]
    return dict(zip(formulas(1, 1, 1), made, strict=True))


def sent():
    """Bytes that the loopback device has sent since the machine started."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def measured(objective, x):
    found = []
    for _ in range(REPEATS):
        dist.barrier()
        before = sent()
        dist.barrier()
        objective(x).backward()
        dist.barrier()
        found.append(sent() - before)
    return min(found) / dist.get_world_size()


def cluster(n=10**9, d=1024, ranks=512, *, link=50e9, speed=1e14, sort=1e9):
    """Memory, traffic and time of a step on a cluster: bytes, bytes and seconds for each objective.

    Args:
        n: Rows.
        d: Columns, in float32.
        ranks: Processes, a GPU each.
        link: Bytes a second that a rank can send.
        speed: Operations a second of its products.
        sort: Numbers a second that it sorts.
    """
    rows = n / ranks
    held = 4 * rows * d * 4  # points on the sphere and as they were given, gradient, and a moment
    pairs = 4 * n * rows * d / speed  # a product for the distances, a product for the forces
    compute = {
        "Energy, Uniformity, MMD": pairs,
        "MaxMin, KoLeo": pairs / 2,
        f"Sliced, SSW ({CIRCLES} circles)": 8 * rows * CIRCLES * d / speed + CIRCLES * n / sort,
        f"Lloyd ({SAMPLES} samples)": 2 * SAMPLES * rows * d / speed,
        "Polarization": pairs / 2 + 4 * (SAMPLES + STEPS * REFINED) * rows * d / speed,
        "LogDet": n**3 / 3 / speed,
        "SphericalVariance": rows * d / speed,
    }
    more = {  # what arrives, both tables in double precision, and gradients or the nearest
        "Energy, Uniformity, MMD": 44 * rows * d,
        "MaxMin, KoLeo": 24 * rows * d,
        f"Sliced, SSW ({CIRCLES} circles)": 16 * CIRCLES * n,
        "Polarization": 24 * rows * d,
        "LogDet": 4 * n * d + 8 * n**2,
    }
    traffic = formulas(n, d, ranks)
    return {name: (held + more.get(name, 0), traffic[name], traffic[name] / link + compute[name]) for name in traffic}


def page(result):
    """The page of the documentation."""
    network = [
        [name, f"{result['measured'][name]:,.0f}", f"{result['formula'][name]:,.0f}"] for name in result["measured"]
    ]
    far = [[name, _size(memory), _size(sent), _time(time)] for name, (memory, sent, time) in cluster().items()]
    return f"""# Communication

How many bytes a rank sends in a step, for {result["n"]:,} rows in {result["d"]} dimensions on {result["ranks"]} ranks.
`torchrun --nproc-per-node 3 benchmarks/communication.py` measures it at the network device, including headers and
barriers; the formulas are in the same file, which also writes this page.

{_table(["objective", "measured", "formula"], network)}

With R ranks, numbers of 4 bytes, k circles, m samples:

- **Pairs** (`Energy`, `Uniformity`, `MMD`, `MaxMin`, `KoLeo`): the table goes once around, 4 n d (R − 1) / R; `MaxMin`
  and `KoLeo` send the gradients of nearest rows back as well, at most (4 d + 8) n / R.
- **`Sliced`, `SSW`**: 4 n k (R − 1) / R for the angles, and 8 k d for the circles; never the table.
- **`Lloyd`**: 4 m d for the samples, 24 m (R − 1) / R for the best distances and the rows they belong to;
  n does not matter.
- **`Polarization`**: the table once around to find rows that coincide, and a few numbers per step of its descent.
- **`LogDet`**: all rows to all ranks. **`SphericalVariance`**: d numbers.

## A billion rows

10⁹ rows in 1,024 dimensions, 4.1 TB in float32, on 512 GPUs. This is arithmetic, not a measurement: it assumes 50 GB/s
of network bandwidth and 10¹⁴ operations a second for each GPU, and that a GPU sorts 10⁹ numbers a second. Memory is
that of one GPU, with gradient and optimiser.

{_table(["objective", "memory", "sent in a step", "time of a step"], far)}

`Lloyd` and `SphericalVariance` are within reach, and so is `Sliced` with one circle per step, at a thirteenth of its
row. The pairwise objectives on the whole table are not; with `batch_size=` they cost what a batch costs. `LogDet` is
for some thousands of rows, on any number of ranks.
"""


def _table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _size(count):
    unit = next(unit for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB") if (count := count / 1000) < 1)
    return f"{1000 * count:.3g} {unit}"


def _time(seconds):
    unit, name = next(
        pair
        for pair in ((3.2e7, "years"), (86400, "days"), (3600, "h"), (1, "s"), (1e-3, "ms"), (0, "ms"))
        if seconds >= pair[0]
    )
    return f"{seconds / (unit or 1e-3):,.3g} {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(json.loads(RESULT.read_text())))
        return
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    rows = uc.uniform(options.n // ranks, options.d, generator=torch.Generator().manual_seed(dist.get_rank()))
    expected = formulas(options.n, options.d, ranks)
    found = {name: measured(objective, rows.clone().requires_grad_()) for name, objective in objectives().items()}
    if dist.get_rank() == 0:
        result = {"n": options.n, "d": options.d, "ranks": ranks, "measured": found, "formula": expected}
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        print(*(f"{name:28} {found[name]:12.0f} {expected[name]:12.0f}" for name in found), sep="\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
