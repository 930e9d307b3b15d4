"""The way from a loss to a step is short: few files, and few changes from one to the other."""

import subprocess
import sys

PROGRAM = """
import sys
import torch
import unclump as uc
from unclump.ops import native

native.ENABLED = {compiled}
x = torch.nn.Parameter(uc.project(torch.randn(8, 3)))
objective, optimizer = uc.KoLeo(), uc.SphereAdam([x], lr=0.1)
for _ in range(2):  # once for what is imported and compiled at the first call
    files = []

    def follow(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and "unclump" in name and "<" not in frame.f_code.co_name:
            files.append(name.rpartition("unclump/")[2])

    optimizer.zero_grad()
    sys.setprofile(follow)
    objective(x).backward()
    optimizer.step()
    sys.setprofile(None)
walk = [b for a, b in zip([None, *files], files) if a != b]
print(len(set(files)), len(walk) - 1, *walk)
"""


def walked(*, compiled):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(compiled=compiled)], capture_output=True, text=True, check=True
    )
    files, changes, *walk = result.stdout.split()
    return int(files), int(changes), walk


def test_from_a_loss_to_a_step_by_compiled_loops():
    files, changes, walk = walked(compiled=True)
    assert files <= 8, walk
    assert changes <= 10, walk
