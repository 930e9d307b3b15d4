"""Exact pairwise objectives of a whole table, value and gradient: ours beside textbook autograd, time and memory.

    python benchmarks/full_table.py [--n 20000] [--rounds 3] [--output results/full_table.json]

Every side runs in a process of its own, in turns; the best time of all rounds counts. Memory is the peak of the process
less what it held when the table was there.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

D = 64
ROWS = ["MHE (RBF)", "KoLeo", "MM (geodesic)"]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB


def worker(side, row, n):
    import torch

    if side == "ours":
        import unclump as uc

        objective = {"MHE (RBF)": uc.Energy(uc.Gaussian()), "KoLeo": uc.KoLeo(), "MM (geodesic)": uc.MaxMin()}[row]
    else:
        import peers

        objective = {"MHE (RBF)": peers.energy, "KoLeo": peers.koleo, "MM (geodesic)": peers.max_min}[row]
    small = torch.nn.functional.normalize(torch.randn(300, D), dim=-1).requires_grad_()
    objective(small).backward()  # compiles, and starts the threads
    x = torch.nn.functional.normalize(torch.randn(n, D), dim=-1).requires_grad_()
    before, begin = peak(), time.perf_counter()
    objective(x).backward()
    print(json.dumps({"seconds": time.perf_counter() - begin, "mebibytes": peak() - before}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("results/full_table.json"))
    chosen = parser.parse_args()
    if chosen.worker:
        worker(*chosen.worker, chosen.n)
        return
    best = {}
    for _ in range(chosen.rounds):
        for row in ROWS:
            for side in ("ours", "textbook"):
                command = [sys.executable, __file__, "--worker", side, row, "--n", str(chosen.n)]
                found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                there = best.setdefault(f"{row}|{side}", found)
                best[f"{row}|{side}"] = {key: min(there[key], found[key]) for key in found}
    print(
        f"n = {chosen.n}, d = {D}\n"
        f"{'':<16}{'ours, s':>9}{'MiB':>8}{'textbook, s':>13}{'MiB':>8}{'faster':>9}{'smaller':>9}"
    )
    for row in ROWS:
        ours, textbook = best[f"{row}|ours"], best[f"{row}|textbook"]
        print(
            f"{row:<16}{ours['seconds']:9.2f}{ours['mebibytes']:8.0f}{textbook['seconds']:13.2f}{textbook['mebibytes']:8.0f}"
            f"{textbook['seconds'] / ours['seconds']:9.1f}{textbook['mebibytes'] / max(ours['mebibytes'], 1):9.0f}"
        )
    chosen.output.parent.mkdir(exist_ok=True)
    chosen.output.write_text(json.dumps({"n": chosen.n, "d": D, "best": best}, indent=1) + "\n")


if __name__ == "__main__":
    main()
