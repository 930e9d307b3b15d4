"""`torchrun -m tests.rank_out_of_memory RANK WORDS...`: a command, in which the process RANK runs out of memory.

It does so while the others wait for it; with RANK "killed" the last process is killed there, as the kernel would.
"""

import os
import signal
import sys

import torch

import unclump.tables.health as table_health
from unclump.cli import main


def fail(*_, **__):
    """Ask for more memory than any machine has."""
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.empty(2**50)


if __name__ == "__main__":
    last = str(int(os.environ["WORLD_SIZE"]) - 1)
    if os.environ["RANK"] == sys.argv[1].replace("killed", last):
        table_health.survey = fail
    sys.exit(main(sys.argv[2:]))
