"""Steps per second for every row of the paper's timing table, ours beside the peer, in one run.

    python benchmarks/steps.py [--rounds 5] [--steps 30] [--part all] [--output results/steps.json]

A step draws a batch where the row has one, evaluates the objective, goes backward, and updates a table of 20,000 points
in 64 dimensions. The peer is plain torch (POT for SSW) with geoopt's RiemannianAdam. Every side runs in a process
of its own, in turns; the best of all rounds counts. The peer is measured twice: as it comes, and with an allocator that
keeps its pages, where it is at its best. Ours is measured as it comes.

Rows of the kind "disperse" are a whole call of `uc.disperse` with its default records, divided by its steps (4,000 with
batches, 1,000 without), the best of all rounds again, beside the peer's best step. With `--part training` or
`--part disperse` the other part of the file stays as it is.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

N, D, BATCH = 20_000, 64, 512
ROWS = ["MHE (RBF)", "KoLeo", "MM (geodesic)", "Lloyd", "Sliced (13 axes)", "Sliced (1)", "SSW (13)", "SSW (1)"]
MINIBATCH = ROWS[:4]
DISPERSED = {"MHE (RBF)": 4000, "KoLeo": 4000, "Sliced (13 axes)": 1000, "SSW (1)": 1000}  # steps of a call
KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**28)}


def peer_rows(start, lr):
    import geoopt
    import peers
    import torch

    objectives = [
        peers.energy,
        peers.koleo,
        peers.max_min,
        peers.lloyd,
        peers.sliced_axes,
        peers.sliced_random,
        lambda x: peers.ssw(x, 13),
        lambda x: peers.ssw(x, 1),
    ]
    for name, objective in zip(ROWS, objectives, strict=True):
        table = geoopt.ManifoldParameter(start.clone(), manifold=geoopt.SphereExact())
        optimizer = geoopt.optim.RiemannianAdam([table], lr=lr)

        def evaluate(table=table, objective=objective, batched=name in MINIBATCH, optimizer=optimizer):
            optimizer.zero_grad()
            rows = table[torch.randint(N, (BATCH,))] if batched else table
            objective(rows).backward()

        yield name, "dense", evaluate, optimizer.step, table


def our_objectives():
    import unclump as uc

    objectives = [
        uc.Energy(uc.Gaussian()),
        uc.KoLeo(),
        uc.MaxMin(),
        uc.Lloyd(512),
        uc.Sliced(13, axis_aligned=True),
        uc.Sliced(1),
        uc.SSW(13),
        uc.SSW(1),
    ]
    return dict(zip(ROWS, objectives, strict=True))


def our_rows(start, lr):
    import torch

    import unclump as uc

    for name, objective in our_objectives().items():
        for kind in ("dense", "lazy") if name in MINIBATCH else ("dense",):
            table = torch.nn.Embedding(N, D, sparse=kind == "lazy", _weight=start.clone())
            optimizer = uc.SphereAdam(table.parameters(), lr=lr)

            def evaluate(table=table, objective=objective, batched=name in MINIBATCH, optimizer=optimizer):
                optimizer.zero_grad()
                objective(table(torch.randint(N, (BATCH,))) if batched else table.weight).backward()

            yield name, kind, evaluate, optimizer.step, table.weight


def worker(side, steps):
    """Print the best times, in milliseconds, of objective and optimiser for every row."""
    import torch

    times = {}
    rows = peer_rows if side.startswith("peer") else our_rows
    start = torch.nn.functional.normalize(torch.randn(N, D), dim=-1)
    for name, kind, evaluate, update, _ in rows(start, lr=1e-3):
        both = []
        for _ in range(steps + 3):  # the first ones warm up
            begin = time.perf_counter()
            evaluate()
            middle = time.perf_counter()
            update()
            both.append((middle - begin, time.perf_counter() - middle))
        both = sorted(both[3:], key=sum)[: max(1, steps // 3)]  # the quietest third
        times[f"{name}|{kind}"] = [1e3 * sum(column) / len(both) for column in zip(*both, strict=True)]
    print(json.dumps(times))


def dispersing_worker(name):
    """Print the time of a step, in milliseconds, of a whole call of `disperse`."""
    import torch

    import unclump as uc

    start = torch.nn.functional.normalize(torch.randn(N, D), dim=-1)
    objective, batch = our_objectives()[name], BATCH if name in MINIBATCH else None
    uc.disperse(start, objective, steps=20, batch_size=batch)  # warms up
    begin = time.perf_counter()
    uc.disperse(start, objective, steps=DISPERSED[name], batch_size=batch)
    print(json.dumps(1e3 * (time.perf_counter() - begin) / DISPERSED[name]))


def limits():
    """What the machine can do: the rate of a thin product, and of copying a table."""
    import torch

    def best(function):
        def once():
            begin = time.perf_counter()
            function()
            return time.perf_counter() - begin

        return min(once() for _ in range(30))

    a, table = torch.randn(2048, D), torch.randn(N, D)
    other = torch.empty_like(table)
    return {
        "sgemm_gflops": 2 * 2048 * 2048 * D / best(lambda: a @ a.mT) / 1e9,
        "copy_gbytes": 2 * table.nbytes / best(lambda: other.copy_(table)) / 1e9,
    }


def run(arguments, environment=None):
    """What a worker with these arguments prints last."""
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, **(environment or {})}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def measure_training(rounds, steps):
    """Milliseconds of objective and optimiser in the best round, and of the whole step in each: by side and row."""
    sides = {"peer": {}, "peer, pages kept": KEEP_PAGES, "ours": {}}
    best, every = ({side: {} for side in sides} for _ in range(2))
    for number in range(rounds):
        for side, environment in sides.items():
            print(f"round {number + 1} of {rounds}: {side}", file=sys.stderr)
            for row, parts in run(["--worker", side, "--steps", steps], environment).items():
                every[side].setdefault(row, []).append(sum(parts))
                if row not in best[side] or sum(parts) < sum(best[side][row]):
                    best[side][row] = parts
    return best, every


def least_traffic(name, kind):
    """(floating-point operations of the products, bytes that must move) in a step, at the least."""
    size = 4
    moved = (BATCH if kind == "lazy" else N) * D * size * 5  # read x, gradient, moment; write x, moment
    if name in MINIBATCH:
        products = {"MHE (RBF)": 2}.get(name, 1)  # the nearest-neighbour rows need no second product
        return products * 2 * BATCH * BATCH * D, moved
    return 0, moved + 2 * N * D * size  # read the table, write the gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker")
    parser.add_argument("--dispersing-worker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--part", choices=("all", "training", "disperse"), default="all")
    parser.add_argument("--output", type=Path, default=Path("results/steps.json"))
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.steps)
        return
    if arguments.dispersing_worker:
        dispersing_worker(arguments.dispersing_worker)
        return
    kept = arguments.part != "all" and arguments.output.exists()  # the other part, of an earlier run
    results = json.loads(arguments.output.read_text()) if kept else {}
    if arguments.part != "disperse":
        best, every = measure_training(arguments.rounds, arguments.steps)
        results |= {"n": N, "d": D, "batch": BATCH, "limits": limits(), "ms": best, "rounds": every}
    if arguments.part != "training":
        results["disperse"] = {
            name: {"steps": steps, "ms": min(run(["--dispersing-worker", name]) for _ in range(arguments.rounds))}
            for name, steps in DISPERSED.items()
        }
    report(results["ms"], results["limits"])
    report_dispersing(results)
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1))
    print(f"\nwritten to {arguments.output}")


def report_dispersing(results):
    print(f"\n{'disperse':<18}{'steps':>7}{'ms a step':>11}{'peer, pages kept':>18}{'ratio':>7}")
    for name, row in results.get("disperse", {}).items():
        kept = sum(results["ms"]["peer, pages kept"][f"{name}|dense"])
        print(f"{name:<18}{row['steps']:7}{row['ms']:11.2f}{kept:18.2f}{kept / row['ms']:7.1f}")


def report(best, machine):
    print(f"n = {N}, d = {D}, batches of {BATCH}; times in ms, objective + optimiser; ratio of whole steps")
    print(f"limits: {machine['sgemm_gflops']:.0f} GFLOP/s (thin sgemm), {machine['copy_gbytes']:.1f} GB/s (copy)\n")
    head = f"{'row':<18}{'ours':<7}{'ours, ms':>15}{'steps/s':>9}{'peer, pages kept':>18}{'ratio':>7}"
    print(head + f"{'peer, default':>15}{'ratio':>7}{'of limit':>10}")
    for row, parts in best["ours"].items():
        name, kind = row.split("|")
        ours = sum(parts)
        kept, default = (best[side][f"{name}|dense"] for side in ("peer, pages kept", "peer"))
        operations, moved = least_traffic(name, kind)
        least = 1e3 * (operations / machine["sgemm_gflops"] + moved / machine["copy_gbytes"]) / 1e9
        print(
            f"{name:<18}{kind:<7}{parts[0]:7.2f} +{parts[1]:6.2f}{1e3 / ours:9.0f}"
            f"{kept[0]:10.2f} +{kept[1]:6.2f}{sum(kept) / ours:7.1f}{sum(default):15.2f}{sum(default) / ours:7.1f}"
            f"{least / ours:10.0%}"
        )


if __name__ == "__main__":
    main()
