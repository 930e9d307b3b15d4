"""Wall time from a clumped table to a spread one: ours beside the peer, the same objective and learning rate.

    python benchmarks/race.py [--steps 5000] [--rows "KoLeo" "Sliced (13 axes)" ...] [--output results/race.json]

20,000 points in 64 dimensions start from a power spherical distribution (kappa = 100), with dense Adam at lr 0.001 and,
where the row has them, batches of 512. Printed are the seconds until the spherical variance is 0.99, and until the
smallest angle is the one the peer ends with; ours may take half as many steps again, since the draws differ. Measuring
is not timed, nor is putting the peer's points back onto the sphere, which they leave by rounding. The peer runs with an
allocator that keeps its pages, where it is at its best; ours as it comes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from steps import KEEP_PAGES, ROWS, our_rows, peer_rows

import unclump as uc

N, D, KAPPA, LR = 20_000, 64, 100.0, 1e-3
LOOK, LOOK_AT_ANGLE = 25, 250  # steps between two looks
SPREAD = 0.99


def start():
    generator = torch.Generator().manual_seed(0)
    return uc.PowerSpherical(torch.eye(D)[0], KAPPA).sample((N,), generator=generator)


def worker(side, row, steps):
    """Print [seconds, spherical variance, smallest angle or None] along the way."""
    torch.manual_seed(0)
    rows = peer_rows if side == "peer" else our_rows
    evaluate, update, table = next(
        (evaluate, update, table)
        for name, how, evaluate, update, table in rows(start(), LR)
        if (name, how) == (row, "dense")
    )
    seconds, seen = 0.0, []
    for step in range(steps + 1):
        if step % LOOK == 0:
            x = table.detach()
            if side == "peer":  # whose steps leave the sphere in the end, by rounding, and POT refuses such points
                x /= x.norm(dim=-1, keepdim=True)
            angle = uc.min_angle(x) if step % LOOK_AT_ANGLE == 0 or step == steps else None
            seen.append([seconds, uc.spherical_variance(x), angle])
        begin = time.perf_counter()
        evaluate()
        update()
        seconds += time.perf_counter() - begin
    print(json.dumps(seen))


def run(side, row, steps):
    environment = {**os.environ, **(KEEP_PAGES if side == "peer" else {})}
    command = [sys.executable, __file__, "--worker", side, row, "--steps", str(steps)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def first(seen, reached):
    """The seconds at the first look where it is reached, or None."""
    return next((look[0] for look in seen if reached(look)), None)


def shown(seconds):
    return "never" if seconds is None else f"{seconds:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--output", type=Path, default=Path("results/race.json"))
    chosen = parser.parse_args()
    if chosen.worker:
        worker(*chosen.worker, chosen.steps)
        return
    found = {}
    print(f"{chosen.steps} steps; seconds to spherical variance {SPREAD}, and to the peer's last smallest angle")
    print(f"{'':<18}{'svar: peer':>12}{'ours':>8}{'angle':>12}{'peer':>9}{'ours':>8}{'ms a step: peer':>18}{'ours':>8}")
    for row in chosen.rows:
        peer, ours = run("peer", row, chosen.steps), run("ours", row, 3 * chosen.steps // 2)
        goal = peer[-1][2]
        times = {
            "spread": [first(seen, lambda look: look[1] >= SPREAD) for seen in (peer, ours)],
            "angle": [first(seen, lambda look, goal=goal: (look[2] or 0) >= goal) for seen in (peer, ours)],
            "step": [peer[-1][0] / chosen.steps, ours[-1][0] / (3 * chosen.steps // 2)],
        }
        found[row] = {"goal": goal, "times": times, "peer": peer, "ours": ours}
        spread, angle = (list(map(shown, times[name])) for name in ("spread", "angle"))
        step = [f"{1e3 * seconds:.1f}" for seconds in times["step"]]
        print(
            f"{row:<18}{spread[0]:>12}{spread[1]:>8}{math.degrees(goal):11.2f}°{angle[0]:>9}{angle[1]:>8}"
            f"{step[0]:>18}{step[1]:>8}",
            flush=True,
        )
    chosen.output.parent.mkdir(exist_ok=True)
    configuration = {"n": N, "d": D, "kappa": KAPPA, "lr": LR, "steps": chosen.steps}
    chosen.output.write_text(json.dumps({**configuration, "spread": SPREAD, "rows": found}) + "\n")


if __name__ == "__main__":
    main()
